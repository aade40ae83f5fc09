//! Unlocking a cluster: from its key file to an authenticated master key.

use pgseal_crypto::MasterKey;
use pgseal_format::{Altered, Header, KeyFile, KeyImage, PayloadError, SlotKind};
use pgseal_keyring::open_text;

use crate::cluster::Root;
use crate::keybin::{self, KeyBinError};

/// Why a cluster stays locked.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum UnlockError {
    KeyBin(#[from] KeyBinError),
    Altered(#[from] Altered),
    Payload(#[from] PayloadError),
}

/// A cluster whose key is at hand.
pub struct Unlocked {
    pub root: Root,
    pub header: Header,
    pub master: MasterKey,
}

/// Opens the key file of `root`.
pub fn unlock(root: Root) -> Result<Unlocked, UnlockError> {
    let KeyImage::File(file) = keybin::read(&root.path)? else {
        return Err(PayloadError::NotAKey.into());
    };
    let (file, master) = open(file)?;
    Ok(Unlocked {
        root,
        header: file.header().clone(),
        master,
    })
}

fn open(file: pgseal_format::UnverifiedKeyFile) -> Result<(KeyFile, MasterKey), UnlockError> {
    for slot in file.slots() {
        if let SlotKind::Plain { payload } = &slot.kind {
            let master = open_text(payload, file.header())?;
            return Ok((file.authenticate(&master)?, master));
        }
    }
    Err(PayloadError::NotAKey.into())
}
