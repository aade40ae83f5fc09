//! Declares the version that the library says and shows. In a FIPS build, makes the library's own
//! initialiser the last one.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The FIPS module tests itself in an initialiser, and must have done so before it is used. What
/// the linker sees last is run last.
const LAST: &str = "\
.section .init_array,\"aw\",%init_array
.balign 8
.quad pgseal_start
.section .note.GNU-stack,\"\",%progbits
";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    pgseal_version::declare().map_err(|error| error.to_string())?;
    match env::var_os("CARGO_FEATURE_FIPS") {
        Some(_) => link_last(),
        None => Ok(()),
    }
}

fn link_last() -> Result<(), Box<dyn Error>> {
    let out = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    let [source, object] = ["last.s", "last.o"].map(|name| Path::new(&out).join(name));
    fs::write(&source, LAST)?;
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let mut assemble = Command::new(linker);
    assemble.arg("-c").arg(&source).arg("-o").arg(&object);
    if !assemble.status()?.success() {
        return Err(format!("{} cannot be assembled", source.display()).into());
    }
    println!("cargo:rustc-cdylib-link-arg={}", object.display());
    Ok(())
}
