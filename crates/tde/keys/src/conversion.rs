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
