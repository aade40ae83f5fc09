//! Declares the version that `--version` shows.

fn main() -> Result<(), pgseal_version::NotACommit> {
    pgseal_version::declare()
}
