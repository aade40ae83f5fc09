//! The list of receiver tokens on disk, `pg_encryption/receivers.bin` (docs/format/receiver.md).

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pgseal_contract::file;
use pgseal_crypto::MasterKey;
use pgseal_format::{BesideError, ReceiverList, MAX_LIST};

use crate::exit::{Code, Exit};
use crate::keybin::{write_durably, Locked, DIR};

/// The name of the list beside the key file.
pub const NAME: &str = file::RECEIVER_LIST.as_str();

const ASIDE: &str = file::NEW_RECEIVER_LIST.as_str();

/// Why the list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReceiversError {
    #[error("{0} cannot be read ({1}): check its owner and mode")]
    Read(PathBuf, io::Error),
    #[error("{0} cannot be written ({1}): check the owner, mode and free space of its directory")]
    Write(PathBuf, io::Error),
    #[error("{0} {1}, and the server accepts no token meanwhile: restore it from a copy, or remove it, which takes all revocations back")]
    List(PathBuf, BesideError),
}

impl Exit for ReceiversError {
    fn code(&self) -> Code {
        match self {
            Self::Read(..) | Self::Write(..) => Code::Io,
            Self::List(..) => Code::KeyFile,
        }
    }
}

/// Reads the list of the cluster at `data`. No list is an empty one, and so is one of another key,
/// whose tokens are foreign here.
pub fn read(data: &Path, master: &MasterKey) -> Result<ReceiverList, ReceiversError> {
    let path = data.join(DIR).join(NAME);
    let limit = u64::try_from(MAX_LIST).map_or(u64::MAX, |limit| limit + 1);
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ReceiverList::default()),
        Err(error) => return Err(ReceiversError::Read(path, error)),
        Ok(_) => {}
    }
    match ReceiverList::decode(&bytes, master) {
        Err(BesideError::OtherKey) => Ok(ReceiverList::default()),
        list => list.map_err(|error| ReceiversError::List(path, error)),
    }
}

/// Writes the list. The caller holds the lock since before it was read.
pub fn write(
    _locked: &Locked<'_>,
    data: &Path,
    list: &mut ReceiverList,
    master: &MasterKey,
) -> Result<(), ReceiversError> {
    let dir = data.join(DIR);
    let (aside, path) = (dir.join(ASIDE), dir.join(NAME));
    write_durably(&aside, &list.write(master))
        .and_then(|()| fs::rename(&aside, &path))
        .and_then(|()| File::open(&dir)?.sync_all())
        .map_err(|error| ReceiversError::Write(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keybin::KeyDir;
    use pgseal_format::{ListedToken, TokenId};

    fn master(byte: u8) -> MasterKey {
        MasterKey::from_bytes(&mut [byte; 32])
    }

    /// A list that is lost takes all revocations back, so only a missing one is an empty one.
    #[test]
    fn a_list_reads_back_and_is_not_passed_over() {
        let data = tempfile::tempdir().expect("a directory");
        let path = data.path().join(DIR).join(NAME);
        fs::create_dir(data.path().join(DIR)).expect("a directory");
        let read = |byte| read(data.path(), &master(byte));
        let token = ListedToken {
            id: TokenId([7; 8]),
            expiry: 0,
            granted: 1,
            revoked: 2,
            role: Vec::new(),
        };
        let mut list = read(1).expect("no list");
        assert!(list.add(token));
        let dir = KeyDir::of(data.path());
        let locked = dir.lock().expect("nobody else changes it");
        write(&locked, data.path(), &mut list, &master(1)).expect("room");
        let revokes = |byte| read(byte).expect("a list").revokes(TokenId([7; 8]));
        assert_eq!([revokes(1), revokes(2)], [true, false], "of another key");
        fs::write(&path, vec![0; MAX_LIST + 9]).expect("a file");
        assert!(matches!(read(1), Err(ReceiversError::List(..))));
        fs::remove_file(&path).expect("a file");
        fs::create_dir(&path).expect("a directory");
        assert!(matches!(read(1), Err(ReceiversError::Read(..))));
    }
}
