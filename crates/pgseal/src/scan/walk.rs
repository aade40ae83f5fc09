//! Finding every file of a data directory, under the names that the class table knows.
//!
//! A file's name is its path below the data directory; a tablespace's own location appears as
//! `pg_tblspc/<oid>/…`. Links are followed where PostgreSQL has them: directly below the data
//! directory (a relocated `pg_wal`) and in `pg_tblspc`. What vanishes meanwhile was never there.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use pgseal_storage::classify::version_directory;

/// A regular file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Path below the data directory, as the class table takes it.
    pub name: Vec<u8>,
    /// Where it is.
    pub path: PathBuf,
    /// Bytes.
    pub len: u64,
}

/// What is neither a regular file nor a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
    /// As that of a file.
    pub name: Vec<u8>,
    /// Where it is.
    pub path: PathBuf,
    /// Can there be data behind it? Not in a socket, nor in a pipe.
    pub holds_data: bool,
}

/// What lies in a data directory.
#[derive(Debug, Default)]
pub struct Walk {
    /// The files, the largest first.
    pub files: Vec<Found>,
    /// All directories, empty ones too; an empty name for the root.
    pub directories: Vec<Vec<u8>>,
    /// Links in unusual places, devices, sockets: not looked into.
    pub others: Vec<Odd>,
    /// Links that lead nowhere: a tablespace that is not mounted.
    pub dangling: Vec<Odd>,
}

/// A directory cannot be gone through.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read ({}): run pgseal as the server's user, and check that it is mounted", .0.display(), .1)]
pub struct WalkError(PathBuf, io::Error);

/// All files below `root`: a data directory, or the directory of a tablespace.
pub fn walk(root: &Path) -> Result<Walk, WalkError> {
    let mut walk = Walk::default();
    let prefix = if is_tablespace(root) {
        // Which one cannot be told from its location, and makes no difference.
        b"pg_tblspc/1".as_slice()
    } else {
        b""
    };
    walk.directory(root, prefix)?;
    walk.files
        .sort_by(|a, b| b.len.cmp(&a.len).then_with(|| a.name.cmp(&b.name)));
    Ok(walk)
}

/// Is there a version directory, and no cluster's own?
fn is_tablespace(root: &Path) -> bool {
    let versioned = |entry: DirEntry| version_directory(entry.file_name().as_bytes()).is_some();
    !root.join("PG_VERSION").exists()
        && fs::read_dir(root).is_ok_and(|entries| entries.flatten().any(versioned))
}

impl Walk {
    fn directory(&mut self, path: &Path, name: &[u8]) -> Result<(), WalkError> {
        let failed = |error| WalkError(path.to_owned(), error);
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == ErrorKind::NotFound && !name.is_empty() => return Ok(()),
            entries => entries.map_err(failed)?,
        };
        self.directories.push(name.to_vec());
        for entry in entries {
            self.entry(&entry.map_err(failed)?, name)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: &DirEntry, dir: &[u8]) -> Result<(), WalkError> {
        let (path, name) = (entry.path(), joined(dir, &entry.file_name()));
        let metadata = match metadata(&path, dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if path.is_symlink() {
                    self.dangling.push(Odd {
                        name,
                        path,
                        holds_data: true,
                    });
                }
                return Ok(());
            }
            metadata => metadata.map_err(|error| WalkError(path.clone(), error))?,
        };
        if metadata.is_dir() {
            self.directory(&path, &name)?;
        } else if metadata.is_file() {
            let len = metadata.len();
            self.files.push(Found { name, path, len });
        } else {
            let kind = metadata.file_type();
            self.others.push(Odd {
                name,
                path,
                holds_data: !kind.is_socket() && !kind.is_fifo(),
            });
        }
        Ok(())
    }
}

fn metadata(path: &Path, dir: &[u8]) -> io::Result<Metadata> {
    if dir.is_empty() || dir == b"pg_tblspc" {
        fs::metadata(path)
    } else {
        fs::symlink_metadata(path)
    }
}

fn joined(dir: &[u8], name: &OsStr) -> Vec<u8> {
    let path = Path::new(OsStr::from_bytes(dir)).join(name);
    path.into_os_string().into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn file(path: PathBuf, len: usize) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, vec![1; len]).expect("a file");
    }

    fn names(root: &Path) -> Vec<(String, u64)> {
        let files = walk(root).expect("it can be read").files;
        let name = |file: Found| (String::from_utf8(file.name).expect("UTF-8"), file.len);
        files.into_iter().map(name).collect()
    }

    #[test]
    fn links_of_postgresql_are_followed_and_others_are_not() {
        let tmp = tempfile::tempdir().expect("a directory");
        let at = |path: &str| tmp.path().join(path);
        file(at("data/PG_VERSION"), 3);
        file(at("data/base/5/1259"), 20);
        file(at("wal/000000010000000000000001"), 10);
        file(at("space/PG_15_202209061/5/16384"), 5);
        fs::create_dir(at("data/pg_tblspc")).expect("a directory");
        symlink(at("wal"), at("data/pg_wal")).expect("a link");
        symlink(at("space"), at("data/pg_tblspc/16385")).expect("a link");
        symlink(at("wal"), at("data/base/5/odd")).expect("a link");
        symlink(at("nowhere"), at("data/pg_tblspc/16386")).expect("a link");
        UnixListener::bind(at("data/base/socket")).expect("a socket");
        let expected = [
            ("base/5/1259".to_owned(), 20),
            ("pg_wal/000000010000000000000001".to_owned(), 10),
            ("pg_tblspc/16385/PG_15_202209061/5/16384".to_owned(), 5),
            ("PG_VERSION".to_owned(), 3),
        ];
        assert_eq!(names(&at("data")), expected);
        let found = walk(&at("data")).expect("it can be read");
        let odd = |name: &str, holds_data| Odd {
            name: name.into(),
            path: at("data").join(name),
            holds_data,
        };
        let mut others = found.others;
        others.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(others, [odd("base/5/odd", true), odd("base/socket", false)]);
        assert_eq!(found.dangling, [odd("pg_tblspc/16386", true)]);
        for name in ["", "base", "pg_tblspc/16385/PG_15_202209061/5"] {
            assert!(found.directories.contains(&name.into()), "{name}");
        }
        let alone = [("pg_tblspc/1/PG_15_202209061/5/16384".to_owned(), 5)];
        assert_eq!(names(&at("space")), alone);
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let error = walk(Path::new("/nonexistent")).expect_err("it is missing");
        assert!(error.to_string().starts_with("/nonexistent cannot be read"));
    }
}
