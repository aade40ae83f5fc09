//! The clusters of a machine: where Debian and the builds of PGDG keep their data directories.
//!
//! A directory that may not be looked into can be a cluster, and is one of them: its metrics then
//! say that it cannot be read.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::configuration::DataDirectory;

/// The clusters, and what could not be read while they were looked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub clusters: BTreeSet<PathBuf>,
    pub errors: BTreeSet<String>,
}

/// Looks for clusters below the root directory `root`, which is `/` but in tests.
pub fn discover(root: &Path) -> Found {
    let mut found = Found::default();
    for version in found.directories(&root.join("etc/postgresql")) {
        for cluster in found.directories(&version) {
            found.configured(&cluster.join("postgresql.conf"));
        }
    }
    for version in found.directories(&root.join("var/lib/postgresql")) {
        for cluster in found.directories(&version) {
            found.add(&cluster);
        }
    }
    for version in found.directories(&root.join("var/lib/pgsql")) {
        found.add(&version.join("data"));
    }
    found.add(&root.join("var/lib/pgsql/data"));
    found
}

/// Returns a data directory without symbolic links, if it can be followed.
pub fn real(data: &Path) -> PathBuf {
    data.canonicalize().unwrap_or_else(|_| data.to_owned())
}

impl Found {
    /// Returns the directories in one, which need not exist.
    fn directories(&mut self, dir: &Path) -> Vec<PathBuf> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()),
            Err(error) => {
                self.failed(dir, &error);
                return Vec::new();
            }
        };
        let mut directories: Vec<_> = entries.filter(|path| path.is_dir()).collect();
        directories.sort();
        directories
    }

    /// Adds a directory if it is a cluster, or may be one.
    fn add(&mut self, dir: &Path) {
        match fs::metadata(dir.join("PG_VERSION")) {
            Err(error) if error.kind() != ErrorKind::PermissionDenied => {}
            _ => drop(self.clusters.insert(real(dir))),
        }
    }

    /// Adds the data directory that a file of Debian's, or a file that it includes, names.
    fn configured(&mut self, file: &Path) {
        let mut named = DataDirectory::default();
        for (file, error) in named.read(file) {
            self.failed(&file, &error);
        }
        self.clusters.extend(named.path().map(real));
    }

    fn failed(&mut self, path: &Path, error: &io::Error) {
        if error.kind() != ErrorKind::NotFound {
            let path = path.display();
            self.errors.insert(format!(
                "{path} cannot be read ({error}), so clusters may be missing: name them with -D"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_of_debian_and_of_pgdg() {
        let root = tempfile::tempdir().expect("a directory");
        let at = |path: &str| root.path().join(path);
        for dir in [
            "var/lib/postgresql/15/main",
            "var/lib/postgresql/15/empty",
            "var/lib/pgsql/17/data",
            "etc/postgresql/15/other",
            "srv/other",
        ] {
            fs::create_dir_all(at(dir)).expect("it is new");
        }
        fs::write(at("var/lib/postgresql/15/main/PG_VERSION"), "15\n").expect("it is new");
        fs::write(at("var/lib/pgsql/17/data/PG_VERSION"), "17\n").expect("it is new");
        let conf = format!("data_directory = '{}'\n", at("srv/other").display());
        let included = at("etc/postgresql/15/other/where.conf");
        fs::write(included, conf).expect("it is new");
        let conf = "include 'where.conf'\n";
        fs::write(at("etc/postgresql/15/other/postgresql.conf"), conf).expect("it is new");
        let found = discover(root.path());
        let expected = [
            "srv/other",
            "var/lib/pgsql/17/data",
            "var/lib/postgresql/15/main",
        ];
        assert_eq!(found.clusters, expected.map(|path| real(&at(path))).into());
        assert!(found.errors.is_empty());
    }
}
