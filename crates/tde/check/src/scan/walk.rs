//! Finding every file of a data directory, under the names that the class table knows.
//!
//! A file's name is its path below the data directory; a tablespace's own location appears as
//! `pg_tblspc/<oid>/…`, and of that only its version directories: the rest is somebody else's.
//! Links are followed where PostgreSQL has them: directly below the data directory (a relocated
//! `pg_wal`) and in `pg_tblspc`. What vanishes meanwhile was never there.
//!
//! Invariant: no directory is gone through twice, whatever links, mounts and nested tablespaces
//! lead to it; if PostgreSQL has a name for it, that one counts.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use pgseal_keys::exit::{Code, Exit};
use pgseal_storage::classify::{version_directory, DIRECTORIES};

/// A regular file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Path below the data directory, as the class table takes it.
    pub name: Vec<u8>,
    /// Where it is.
    pub path: PathBuf,
    /// Bytes.
    pub len: u64,
    /// Which file it is, under whatever name.
    pub inode: Inode,
}

/// An entry that is neither a regular file nor a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
    /// As that of a file.
    pub name: Vec<u8>,
    /// Where it is.
    pub path: PathBuf,
    /// Can there be data behind it? Not in a socket, nor in a pipe.
    pub holds_data: bool,
}

/// A file or directory itself: device and inode.
pub type Inode = (u64, u64);

/// The content of a data directory.
#[derive(Debug, Default)]
pub struct Walk {
    /// The files, the largest first.
    pub files: Vec<Found>,
    /// All directories, empty ones too; an empty name for the root.
    pub directories: Vec<Vec<u8>>,
    /// Version directories of tablespaces, of this cluster and of others.
    pub versions: Vec<Vec<u8>>,
    /// Links in unusual places, devices, sockets: not looked into.
    pub others: Vec<Odd>,
    /// Links that lead nowhere: a tablespace that is not mounted.
    pub dangling: Vec<Odd>,
    /// Two names of one directory, which was gone through under the first.
    pub twice: Vec<(Vec<u8>, Vec<u8>)>,
    doors: HashMap<Inode, Vec<u8>>,
    entered: HashMap<Inode, Vec<u8>>,
}

/// A directory cannot be gone through.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read ({}): run pgseal as the server's user, and check that it is mounted", .0.display(), .1)]
pub struct WalkError(PathBuf, io::Error);

impl Exit for WalkError {
    fn code(&self) -> Code {
        Code::Io
    }
}

/// Where server logs are by default; they may be two names for one directory.
pub const LOGS: [&str; 2] = ["log", "pg_log"];

/// Does PostgreSQL make a directory of this name directly below the data directory?
pub fn is_place(name: &[u8]) -> bool {
    DIRECTORIES.iter().any(|place| place.as_bytes() == name)
}

/// The directories to which the names of PostgreSQL's lead, links too: what it makes directly below
/// the data directory `root`, and the locations of tablespaces.
pub fn places(root: &Path) -> HashSet<Inode> {
    let links = root.join("pg_tblspc");
    let tablespaces = names_in(&links).into_iter().map(|oid| links.join(oid));
    let places = DIRECTORIES
        .iter()
        .map(|name| root.join(name))
        .chain(tablespaces);
    let metadata = places.filter_map(|path| fs::metadata(path).ok());
    metadata.map(|metadata| inode(&metadata)).collect()
}

/// Is this the name of a tablespace: `pg_tblspc/16384`?
pub fn is_tablespace(name: &[u8]) -> bool {
    let oid = name.strip_prefix(b"pg_tblspc/").unwrap_or_default();
    !oid.is_empty() && oid.iter().all(u8::is_ascii_digit)
}

/// All files below `root`: a data directory, or the location of a tablespace.
pub fn walk(root: &Path) -> Result<Walk, WalkError> {
    let failed = |error| WalkError(root.to_owned(), error);
    let inode = inode(&fs::metadata(root).map_err(failed)?);
    let mut walk = Walk::default();
    if is_location(root) {
        // Of which one cannot be told, and makes no difference.
        walk.enter(root, b"pg_tblspc/1", |_| true)?;
    } else {
        walk.doors = doors(root);
        walk.directory(root, b"", inode)?;
    }
    walk.files
        .sort_by(|a, b| b.len.cmp(&a.len).then_with(|| a.name.cmp(&b.name)));
    Ok(walk)
}

/// Is there a version directory, and no cluster's own?
fn is_location(root: &Path) -> bool {
    !root.join("PG_VERSION").exists() && !version_directories(root).is_empty()
}

/// The directories that have a name of PostgreSQL's, wherever links lead: they are entered under
/// that name alone. What cannot be read here cannot be read by the walk either, which says so.
fn doors(root: &Path) -> HashMap<Inode, Vec<u8>> {
    let mut doors = HashMap::new();
    let mut add = |path: &Path, name: Vec<u8>| {
        if let Ok(metadata) = fs::metadata(path).and_then(directory_only) {
            doors.entry(inode(&metadata)).or_insert(name);
        }
    };
    for location in names_in(&root.join("pg_tblspc")) {
        let tablespace = joined(b"pg_tblspc", &location);
        if is_tablespace(&tablespace) {
            for path in version_directories(&root.join("pg_tblspc").join(location)) {
                let name = path.file_name().expect("it was read from a directory");
                add(&path, joined(&tablespace, name));
            }
        }
    }
    for name in DIRECTORIES.iter().chain(&LOGS) {
        add(&root.join(name), name.as_bytes().to_vec());
    }
    doors
}

fn directory_only(metadata: Metadata) -> io::Result<Metadata> {
    match metadata.is_dir() {
        true => Ok(metadata),
        false => Err(ErrorKind::NotADirectory.into()),
    }
}

fn version_directories(location: &Path) -> Vec<PathBuf> {
    let mut names = names_in(location);
    names.retain(|name| version_directory(name.as_bytes()).is_some());
    let paths = names.iter().map(|name| location.join(name));
    paths.filter(|path| !path.is_symlink()).collect()
}

fn names_in(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    names
}

impl Walk {
    /// Tablespaces without a directory of the cluster that has this version of the catalogs: CREATE
    /// TABLESPACE makes it, so what should be there is not mounted.
    pub fn unmounted(&self, catalog_version: u32) -> impl Iterator<Item = &[u8]> {
        let own = format!("_{catalog_version}");
        let is_mounted = move |tablespace: &[u8]| {
            self.versions.iter().any(|version| {
                version.starts_with(&[tablespace, b"/"].concat())
                    && version.ends_with(own.as_bytes())
            })
        };
        let directories = self.directories.iter().map(Vec::as_slice);
        directories.filter(move |name| is_tablespace(name) && !is_mounted(name))
    }

    fn directory(&mut self, path: &Path, name: &[u8], inode: Inode) -> Result<(), WalkError> {
        if is_tablespace(name) {
            let wanted = |entry: &OsStr| version_directory(entry.as_bytes()).is_some();
            return self.enter(path, name, wanted);
        }
        let door = self.doors.get(&inode).filter(|door| *door != name);
        if door.is_some() && !is_place(name) {
            return Ok(());
        }
        if let Some(before) = door.or_else(|| self.entered.get(&inode)) {
            self.twice.push((before.clone(), name.to_vec()));
            return Ok(());
        }
        self.entered.insert(inode, name.to_vec());
        self.enter(path, name, |_| true)
    }

    /// Goes through the entries that are `wanted`.
    fn enter(
        &mut self,
        path: &Path,
        name: &[u8],
        wanted: impl Fn(&OsStr) -> bool,
    ) -> Result<(), WalkError> {
        let failed = |error| WalkError(path.to_owned(), error);
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == ErrorKind::NotFound && !name.is_empty() => return Ok(()),
            entries => entries.map_err(failed)?,
        };
        self.directories.push(name.to_vec());
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if wanted(&entry.file_name()) {
                self.entry(&entry, name)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &DirEntry, dir: &[u8]) -> Result<(), WalkError> {
        let (path, name) = (entry.path(), joined(dir, &entry.file_name()));
        let metadata = match metadata(&path, &name, dir) {
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
            if is_tablespace(dir) {
                self.versions.push(name.clone());
            }
            self.directory(&path, &name, inode(&metadata))?;
        } else if metadata.is_file() {
            self.files.push(Found {
                name,
                path,
                len: metadata.len(),
                inode: inode(&metadata),
            });
        } else {
            self.odd(path, name, &metadata);
        }
        Ok(())
    }

    /// A top-level link to a place of PostgreSQL's is nothing odd: what it leads to is found there.
    fn odd(&mut self, path: PathBuf, name: Vec<u8>, metadata: &Metadata) {
        let target = fs::metadata(&path).map(|target| inode(&target));
        let is_top = !name.contains(&b'/');
        if is_top && target.is_ok_and(|target| self.doors.contains_key(&target)) {
            return;
        }
        let kind = metadata.file_type();
        self.others.push(Odd {
            name,
            path,
            holds_data: !kind.is_socket() && !kind.is_fifo(),
        });
    }
}

/// Follows a link where PostgreSQL has one: to a file of any name directly below the data
/// directory, to a directory by the names that it gives directories.
fn metadata(path: &Path, name: &[u8], dir: &[u8]) -> io::Result<Metadata> {
    let is_log = || LOGS.iter().any(|log| log.as_bytes() == name);
    let followed = match dir {
        b"" if is_place(name) || is_log() => true,
        b"" => !path.is_dir(),
        _ => is_tablespace(name),
    };
    match followed {
        true => fs::metadata(path),
        false => fs::symlink_metadata(path),
    }
}

/// Returns the device and inode of a file or directory.
pub fn inode(metadata: &Metadata) -> Inode {
    (metadata.dev(), metadata.ino())
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
    fn a_directory_is_gone_through_once_and_by_the_name_of_postgresql() {
        let tmp = tempfile::tempdir().expect("a directory");
        let at = |path: &str| tmp.path().join(path);
        let version = "PG_15_202209061/5/16384";
        for place in ["data/base/ts", "data/spaces/ts", "space", "space/nested"] {
            file(at(place).join(version), 1);
        }
        file(at("data/PG_VERSION"), 1);
        file(at("data/base/5/1259"), 1);
        file(at("data/pg_xact/0000"), 1);
        file(at("data/wal/000000010000000000000001"), 1);
        file(at("data/base/ts/note"), 1);
        file(at("space/photos.tar"), 1);
        fs::create_dir(at("data/pg_tblspc")).expect("a directory");
        for (link, to) in [
            ("pg_tblspc/1", "data/base/ts"),
            ("pg_tblspc/2", "data/spaces/ts"),
            ("pg_tblspc/3", "space"),
            ("pg_tblspc/4", "space/nested"),
            ("pg_tblspc/5", "space"),
            ("pg_clog", "data/pg_xact"),
            ("pg_wal", "data/wal"),
            ("elsewhere", "space"),
        ] {
            symlink(at(to), at("data").join(link)).expect("a link");
        }
        let mut expected = vec![
            "PG_VERSION".to_owned(),
            "base/5/1259".to_owned(),
            "base/ts/note".to_owned(),
        ];
        expected.extend((1..5).map(|oid| format!("pg_tblspc/{oid}/{version}")));
        expected.push("pg_wal/000000010000000000000001".to_owned());
        expected.push("pg_xact/0000".to_owned());
        let found: Vec<_> = names(&at("data"))
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(found, expected);
        let found = walk(&at("data")).expect("it can be read");
        let others: Vec<_> = found.others.iter().map(|odd| odd.name.clone()).collect();
        assert_eq!(others, [b"elsewhere"]);
        assert_eq!((found.twice, found.versions.len()), (vec![], 5));
    }

    #[test]
    fn two_places_that_are_one_are_told() {
        let tmp = tempfile::tempdir().expect("a directory");
        let at = |path: &str| tmp.path().join(path);
        file(at("pg_stat/pgstat.stat"), 1);
        symlink(at("pg_stat"), at("pg_stat_tmp")).expect("a link");
        let found = walk(tmp.path()).expect("it can be read");
        assert_eq!(found.files.len(), 1);
        assert_eq!(
            found.twice,
            [(b"pg_stat".to_vec(), b"pg_stat_tmp".to_vec())]
        );
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let error = walk(Path::new("/nonexistent")).expect_err("it is missing");
        assert!(error.to_string().starts_with("/nonexistent cannot be read"));
    }
}
