//! The journal in `pg_encryption/`: whether a cluster is being converted, so that its files are
//! under two keys (docs/format/conversion.md).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use pgseal_storage::journal::{Journal, JournalError, Kind};

use crate::exit::{Code, Exit};
use crate::keybin::DIR;

/// The journal's name, below the key directory.
pub const JOURNAL: &str = "conversion";

/// The cluster is being converted, so nothing else can be done with it.
#[derive(Debug, thiserror::Error)]
pub enum Converting {
    #[error("{} is only partly converted: run `pgseal {}` on it again, which goes on where it was interrupted", .0.display(), .1.command())]
    Begun(PathBuf, Kind),
    #[error("{} {}", .0.display(), .1)]
    Journal(PathBuf, JournalError),
    #[error("{} cannot be read ({}): check its owner and mode", .0.display(), .1)]
    Read(PathBuf, io::Error),
}

impl Exit for Converting {
    fn code(&self) -> Code {
        match self {
            Self::Begun(..) => Code::Busy,
            Self::Journal(..) => Code::KeyFile,
            Self::Read(..) => Code::Io,
        }
    }
}

/// The journal of the cluster at `data`, if it is being converted.
pub fn journal(data: &Path) -> Result<Option<Journal>, Converting> {
    let path = data.join(DIR).join(JOURNAL);
    match fs::read(&path) {
        Ok(bytes) => match Journal::decode(&bytes) {
            Ok(journal) => Ok(Some(journal)),
            Err(error) => Err(Converting::Journal(path, error)),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Converting::Read(path, error)),
    }
}

/// Refuses a cluster that is being converted.
pub fn refuse_converting(data: &Path) -> Result<(), Converting> {
    match journal(data)? {
        Some(journal) => Err(Converting::Begun(data.to_owned(), journal.kind)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgseal_crypto::KeyId;
    use pgseal_storage::journal::Phase;

    /// A journal that cannot be read may be one, so it is refused as well.
    #[test]
    fn a_cluster_that_is_being_converted_is_refused() {
        let data = tempfile::tempdir().expect("a directory");
        let path = data.path().join(DIR).join(JOURNAL);
        assert!(refuse_converting(data.path()).is_ok(), "a plain cluster");
        fs::create_dir(data.path().join(DIR)).expect("a directory");
        assert!(refuse_converting(data.path()).is_ok(), "a sealed cluster");
        let begun = Journal {
            kind: Kind::Seal,
            phase: Phase::Storing,
            wal_segment_size: 1 << 20,
            catalog_version: 202_209_061,
            system_id: 7,
            from: None,
            to: Some(KeyId([1; 16])),
        };
        fs::write(&path, begun.encode()).expect("a file");
        assert_eq!(journal(data.path()).expect("a journal"), Some(begun));
        let refused = || refuse_converting(data.path()).expect_err("it is being converted");
        assert!(matches!(refused(), Converting::Begun(_, Kind::Seal)));
        assert_eq!(refused().code(), Code::Busy);
        fs::write(&path, "half").expect("a file");
        assert!(matches!(refused(), Converting::Journal(..)));
        fs::remove_file(&path).expect("a file");
        fs::create_dir(&path).expect("a directory");
        assert!(matches!(refused(), Converting::Read(..)));
    }
}
