//! The PostgreSQL version of a data directory, and whether it may be sealed
//! (pgseal_storage::version).

use std::fs;
use std::path::Path;

use pgseal_storage::version::{self, Unsupported};

use crate::exit::{Code, Exit};

impl Exit for Unsupported {
    fn code(&self) -> Code {
        Code::NotGuaranteed
    }
}

/// May the cluster at `data` be sealed, by its `PG_VERSION`? A directory without one is no
/// cluster, which PostgreSQL reports.
pub fn check_cluster(data: &Path) -> Result<(), Unsupported> {
    match fs::read_to_string(data.join("PG_VERSION")) {
        Ok(version) => version::check(version.trim()),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_directory_counts() {
        let data = tempfile::tempdir().expect("a directory");
        let check = || check_cluster(data.path());
        assert!(check().is_ok(), "no cluster");
        for (text, expected) in [
            ("15\n", true),
            ("18\n", true),
            ("9.6\n", false),
            ("x\n", false),
        ] {
            fs::write(data.path().join("PG_VERSION"), text).expect("a file");
            assert_eq!(check().is_ok(), expected, "{text}");
        }
    }
}
