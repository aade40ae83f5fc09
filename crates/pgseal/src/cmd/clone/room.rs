//! Whether a copy has its place, before the server begins to send it: each directory is empty or
//! can be made, and each file system has the room that the server's files take.
//!
//! The server counts temporary files and unlogged tables, too, which a copy leaves out: who knows
//! better says so by pg_basebackup's `--no-estimate-size`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{eaccess, AccessFlags};
use pgseal_keys::exit::{Code, Exit};
use pgseal_wrapper::getopt::Given;

use crate::free_space::free_space;

/// The size is shown to who may use the tablespace, or see all statistics.
pub const QUESTION: &str = "
    SELECT spcname, pg_tablespace_location(oid),
        CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE')
                OR has_tablespace_privilege(oid, 'CREATE')
                OR oid = (SELECT dattablespace FROM pg_database
                    WHERE datname = current_database())
            THEN pg_tablespace_size(oid) END
    FROM pg_tablespace ORDER BY oid";

/// A tablespace of the server.
#[derive(Debug, PartialEq, Eq)]
pub struct Tablespace {
    pub name: String,
    /// Its directory; none in the data directory.
    pub location: Option<PathBuf>,
    /// The bytes that its files take, if the role may see that.
    pub bytes: Option<u64>,
}

impl Tablespace {
    /// Reads psql's answer, in which each field ends with a zero byte.
    pub fn parse(answer: &[u8]) -> Option<Vec<Self>> {
        let ended = answer.strip_suffix(b"\0")?;
        let fields: Vec<&[u8]> = ended.split(|&byte| byte == 0).collect();
        fields.chunks(3).map(Self::of_row).collect()
    }

    /// Its name, where it is, and its size, if the role may see that.
    fn of_row(row: &[&[u8]]) -> Option<Self> {
        let [name, location, bytes] = row else {
            return None;
        };
        let location = PathBuf::from(OsStr::from_bytes(location));
        Some(Self {
            name: String::from_utf8_lossy(name).into_owned(),
            location: Some(location).filter(|path| path.is_absolute()),
            bytes: match bytes {
                [] => None,
                digits => Some(std::str::from_utf8(digits).ok()?.parse().ok()?),
            },
        })
    }
}

/// Why there is no place for the copy.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    #[error("{}, where tablespace {name} would come to lie, is not empty: give it another directory by `-T {}=NEW`", .place.display(), .old.display())]
    NotEmpty {
        place: PathBuf,
        name: String,
        old: PathBuf,
    },
    #[error("{}, which --waldir names, is not empty: name another directory, or empty this one", .0.display())]
    WalNotEmpty(PathBuf),
    #[error("{} cannot be used ({}): check its owner and mode, and those of the directory above it; a tablespace gets another directory by `-T OLD=NEW`", .0.display(), .1)]
    Unusable(PathBuf, io::Error),
    #[error("the server has no tablespace in {}, which -T names: {}", .0.display(), .1)]
    NoTablespace(PathBuf, String),
    #[error("the file system of {} has {} bytes free, and the server's files there are of {} bytes: make room, map tablespaces elsewhere by `-T OLD=NEW`, or add --no-estimate-size after `--` to try it", .0.display(), .1, .2)]
    Space(PathBuf, u64, u64),
}

impl Exit for RoomError {
    fn code(&self) -> Code {
        match self {
            Self::Unusable(..) | Self::Space(..) => Code::Io,
            Self::NotEmpty { .. } | Self::WalNotEmpty(_) | Self::NoTablespace(..) => Code::Usage,
        }
    }
}

/// Looks at the directories of WAL, of `target` and of the tablespaces, as `given` maps them. How
/// much WAL will come nobody knows.
pub fn check(target: &Path, given: &Given, tablespaces: &[Tablespace]) -> Result<(), RoomError> {
    let mappings: Vec<_> = given.values("T").filter_map(mapping).collect();
    refuse_unknown(&mappings, tablespaces)?;
    given
        .value("waldir")
        .map(Path::new)
        .map_or(Ok(()), check_wal)?;
    let mut systems = BTreeMap::<u64, (PathBuf, u64)>::new();
    for tablespace in tablespaces {
        let place = match &tablespace.location {
            None => target,
            Some(location) => mapped(location, &mappings),
        };
        let above = usable(place).map_err(|error| RoomError::Unusable(place.to_owned(), error))?;
        if let Some(old) = tablespace.location.clone().filter(|_| holds_files(place)) {
            let (place, name) = (place.to_owned(), tablespace.name.clone());
            return Err(RoomError::NotEmpty { place, name, old });
        }
        let system = systems.entry(above.1.dev());
        system.or_insert((above.0, 0)).1 += tablespace.bytes.unwrap_or(0);
    }
    if given.has("no-estimate-size") {
        return Ok(());
    }
    systems.into_values().try_for_each(has_room)
}

/// pg_basebackup looks at it too, after the key was asked for.
fn check_wal(directory: &Path) -> Result<(), RoomError> {
    usable(directory).map_err(|error| RoomError::Unusable(directory.to_owned(), error))?;
    match holds_files(directory) {
        true => Err(RoomError::WalNotEmpty(directory.to_owned())),
        false => Ok(()),
    }
}

fn has_room((directory, needed): (PathBuf, u64)) -> Result<(), RoomError> {
    match free_space(&directory) {
        Ok(free) if free < needed => Err(RoomError::Space(directory, free, needed)),
        Ok(_) => Ok(()),
        Err(error) => Err(RoomError::Unusable(directory, error)),
    }
}

/// `OLD=NEW`, with `\=` for `=` in either. What is none pg_basebackup refuses.
fn mapping(text: &OsStr) -> Option<(PathBuf, PathBuf)> {
    let (mut parts, mut bytes) = (vec![Vec::new()], text.as_bytes().iter().peekable());
    while let Some(&byte) = bytes.next() {
        let part = parts.last_mut()?;
        match (byte, bytes.peek()) {
            (b'\\', Some(b'=')) => part.extend(bytes.next()),
            (b'=', _) => parts.push(Vec::new()),
            _ => part.push(byte),
        }
    }
    let mut paths = parts
        .into_iter()
        .map(|part| PathBuf::from(OsString::from_vec(part)));
    Some((paths.next()?, paths.next()?))
}

fn mapped<'a>(location: &'a Path, mappings: &'a [(PathBuf, PathBuf)]) -> &'a Path {
    let mut found = mappings.iter().filter(|(old, _)| old == location);
    found.next().map_or(location, |(_, new)| new)
}

/// pg_basebackup passes over a mapping of nothing, and copies to the directory that was not meant.
fn refuse_unknown(
    mappings: &[(PathBuf, PathBuf)],
    tablespaces: &[Tablespace],
) -> Result<(), RoomError> {
    let locations = || {
        tablespaces
            .iter()
            .filter_map(|tablespace| tablespace.location.as_ref())
    };
    let unknown = mappings
        .iter()
        .find(|(old, _)| locations().all(|location| location != old));
    let Some((old, _)) = unknown else {
        return Ok(());
    };
    let known: Vec<_> = locations().map(|path| path.display().to_string()).collect();
    let known = match known.is_empty() {
        true => "all it has lie in its data directory".to_owned(),
        false => format!("it has them in {}", known.join(", ")),
    };
    Err(RoomError::NoTablespace(old.clone(), known))
}

/// The place itself, or what is nearest above it: a directory that we may write.
fn usable(place: &Path) -> io::Result<(PathBuf, fs::Metadata)> {
    let place = std::path::absolute(place)?;
    for directory in place.ancestors() {
        match fs::metadata(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(found) if !found.is_dir() => return Err(ErrorKind::NotADirectory.into()),
            Ok(found) => {
                eaccess(directory, AccessFlags::W_OK | AccessFlags::X_OK)?;
                return Ok((directory.to_owned(), found));
            }
        }
    }
    Err(ErrorKind::NotFound.into())
}

/// Returns whether a directory holds files. One that cannot be read counts as one that does.
fn holds_files(place: &Path) -> bool {
    match fs::read_dir(place) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings() {
        let read = |text: &str| {
            mapping(OsStr::new(text))
                .map(|(old, new)| (old.display().to_string(), new.display().to_string()))
        };
        let pair = |old: &str, new: &str| Some((old.to_owned(), new.to_owned()));
        assert_eq!(read("/a=/b"), pair("/a", "/b"));
        assert_eq!(read(r"/a\=b=/c\=\d"), pair("/a=b", r"/c=\d"));
        assert_eq!(read("/a"), None);
    }

    #[test]
    fn a_place_is_found_whatever_slashes_it_is_spelt_with() {
        let mappings = [(PathBuf::from("/a/b/"), PathBuf::from("/c"))];
        assert_eq!(mapped(Path::new("/a//b"), &mappings), Path::new("/c"));
        assert_eq!(mapped(Path::new("/a"), &mappings), Path::new("/a"));
    }

    fn answer(fields: &[&str]) -> Option<Vec<Tablespace>> {
        let ended = fields.iter().map(|field| format!("{field}\0"));
        Tablespace::parse(ended.collect::<String>().as_bytes())
    }

    #[test]
    fn answers() {
        let tablespace = |name: &str, location: Option<&str>, bytes| Tablespace {
            name: name.to_owned(),
            location: location.map(PathBuf::from),
            bytes,
        };
        let rows = [
            ["pg_default", "", "1024"],
            ["pg_global", "", ""],
            ["a", "/a b\n", "17"],
            ["in", "pg_tblspc/16384", "17"],
        ];
        let expected = vec![
            tablespace("pg_default", None, Some(1024)),
            tablespace("pg_global", None, None),
            tablespace("a", Some("/a b\n"), Some(17)),
            tablespace("in", None, Some(17)),
        ];
        assert_eq!(answer(rows.as_flattened()), Some(expected));
        for bad in [
            &[][..],
            &[""],
            &["a", ""],
            &["a", "", "x"],
            &["a", "", "1", "b"],
        ] {
            assert_eq!(answer(bad), None, "{bad:?}");
        }
        assert_eq!(Tablespace::parse(b"a\0x"), None);
    }
}
