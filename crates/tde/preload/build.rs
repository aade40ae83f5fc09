//! Declares the version that the library says and shows.

fn main() -> Result<(), pgseal_version::NotACommit> {
    pgseal_version::declare()
}
