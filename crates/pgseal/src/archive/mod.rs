//! WAL between an archive and a cluster that may have another key: what `wal-get` and `wal-put`
//! share (docs/operations/archive-and-pitr.md).
//!
//! A segment is in clear or sealed with some cluster's key. Its first page says which: read under
//! the right key it has the magic number, the segment's own address and a system identifier,
//! which cannot come about by chance. A segment that no key reads is an error, never the end of
//! the archive.

pub mod aside;
mod on_disk;
mod segment;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use pgseal_keys::exit::{Code, Exit};
use pgseal_storage::wal::{WalName, NAME_LEN};

pub use segment::{Form, Segment};

/// Why a file is not brought or stored.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("{0} cannot be read ({1}): check that the archive is mounted, and its owner and mode")]
    Read(PathBuf, io::Error),
    #[error("{0} cannot be copied to {1} ({2}): check owners, modes and free space")]
    Copy(PathBuf, PathBuf, io::Error),
    #[error("{0} is not the name of a WAL, history or backup file: give %f here")]
    Name(PathBuf),
    #[error("{0} is not in a sealed cluster: give %p here, and use cp for a plain cluster")]
    NotSealed(PathBuf),
    #[error(
        "{0} is neither unencrypted nor encrypted with the key of this cluster or of \
        --key-file-name: give the key file of the cluster that archived it with --key-file-name"
    )]
    NoKey(PathBuf),
    #[error("{0} belongs to cluster {1}, and this is cluster {2}: use this cluster's archive")]
    Foreign(PathBuf, u64, u64),
    #[error(
        "WAL segment {0} came in clear, and is refused, because anyone who can write such an archive \
         can become superuser: if a plain cluster wrote it, give --accept-clear, or \
         --accept-clear=TIMELINE:LSN, up to where its WAL is in clear"
    )]
    ClearRefused(PathBuf),
    #[error("{0} is not encrypted, and would not be in the archive: give its key file with --key-file-name")]
    Clear(PathBuf),
    #[error("{0} is there already and holds something else: give each cluster its own archive")]
    Exists(PathBuf),
}

impl Exit for ArchiveError {
    fn code(&self) -> Code {
        match self {
            Self::Read(..) | Self::Copy(..) | Self::Exists(_) => Code::Io,
            Self::Name(_) => Code::Usage,
            Self::NotSealed(_) | Self::Clear(_) => Code::NotSealed,
            Self::NoKey(_) | Self::Foreign(..) | Self::ClearRefused(_) => Code::WrongKey,
        }
    }
}

/// The files that PostgreSQL archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archived {
    /// A segment, whole or `.partial`.
    Segment(WalName),
    /// Timeline history and backup labels: clear everywhere.
    Clear,
}

impl Archived {
    /// Reads the name that `%f` gives.
    pub fn parse(name: &OsStr) -> Result<Self, ArchiveError> {
        let bytes = name.as_bytes();
        let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
        let segment = bytes.strip_suffix(b".partial").unwrap_or(bytes);
        if let Some(segment) = WalName::parse(segment) {
            return Ok(Self::Segment(segment));
        }
        let history = bytes.strip_suffix(b".history");
        let backup = bytes.strip_suffix(b".backup").and_then(|stem| {
            let (segment, offset) = stem.split_at_checked(NAME_LEN)?;
            WalName::parse(segment)?;
            offset.strip_prefix(b".")
        });
        match history.or(backup) {
            Some(digits) if digits.len() == 8 && is_hex(digits) => Ok(Self::Clear),
            _ => Err(ArchiveError::Name(name.into())),
        }
    }
}

/// A file that is brought or stored.
pub struct Source {
    pub path: PathBuf,
    pub file: File,
    pub size: u64,
    /// Its mode, without others, and writable.
    pub mode: u32,
}

impl Source {
    /// Opens it.
    pub fn open(path: PathBuf) -> Result<Self, ArchiveError> {
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?, file)));
        match opened {
            Ok((metadata, file)) => Ok(Self {
                path,
                file,
                size: metadata.len(),
                mode: metadata.permissions().mode() & 0o660 | 0o600,
            }),
            Err(error) => Err(ArchiveError::Read(path, error)),
        }
    }

    /// Copies its bytes as they are.
    pub fn copy(&self, mut target: &File) -> io::Result<()> {
        io::copy(&mut &self.file, &mut target).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let kind = |name: &str| Archived::parse(OsStr::new(name)).ok();
        let segment = WalName::parse(b"00000001000000000000000A").map(Archived::Segment);
        assert_eq!(kind("00000001000000000000000A"), segment);
        assert_eq!(kind("00000001000000000000000A.partial"), segment);
        assert_eq!(kind("0000000A.history"), Some(Archived::Clear));
        let label = "00000001000000000000000A.00000028.backup";
        assert_eq!(kind(label), Some(Archived::Clear));
        for other in [
            "",
            "pg_wal/00000001000000000000000A",
            "../0000000A.history",
            "0000000A",
            "0000000g.history",
            "00000001000000000000000A.gz",
            "00000001000000000000000A00000028.backup",
            "00000001.backup",
            "RECOVERYXLOG",
        ] {
            assert_eq!(kind(other), None, "{other}");
        }
    }
}
