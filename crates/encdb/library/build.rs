//! Declares version and commit, and the library's name for the loader.

fn main() -> Result<(), pgseal_version::NotACommit> {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpgseal_client.so.0");
    pgseal_version::declare()
}
