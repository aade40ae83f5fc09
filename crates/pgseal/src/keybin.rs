//! Reading `pg_encryption/key.bin`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pgseal_format::{KeyFileError, KeyImage, MAX_FILE};
use zeroize::Zeroizing;

use crate::cluster::KEY_FILE;

/// Why a key file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KeyBinError {
    #[error("{0} is missing: restore it from a copy")]
    Missing(PathBuf),
    #[error("{0} cannot be read ({1}): check its owner and mode")]
    Read(PathBuf, io::Error),
    #[error(transparent)]
    Format(#[from] KeyFileError),
}

/// The key file of the cluster at `root`.
pub fn read(root: &Path) -> Result<KeyImage, KeyBinError> {
    Ok(KeyImage::decode(&bytes(&root.join(KEY_FILE))?)?)
}

/// The bytes of a key file; one byte more than the largest is enough to refuse it.
pub fn bytes(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyBinError> {
    let mut bytes = Zeroizing::new(Vec::new());
    let limit = u64::try_from(MAX_FILE).map_or(u64::MAX, |limit| limit + 1);
    match File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)) {
        Ok(_) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(KeyBinError::Missing(path.to_owned()))
        }
        Err(error) => Err(KeyBinError::Read(path.to_owned(), error)),
    }
}
