//! Checks of the tree that no compiler makes: `cargo xtask tidy`, `cargo xtask shape`,
//! `cargo xtask surface`.
//!
//! Each prints one line a finding and exits 1 if there is one. `.ci/run` calls all.

mod interface;
mod lock;
mod prose;
mod shape;
mod source;
mod surface;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | shape | surface";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is in the workspace");
    let findings = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::check(root).and_then(|mut findings| {
            findings.extend(interface::check(root)?);
            Ok(findings)
        }),
        ["shape"] => shape::check(root),
        ["surface"] => surface::check(root),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match findings {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            findings.iter().for_each(|finding| println!("{finding}"));
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(3)
        }
    }
}
