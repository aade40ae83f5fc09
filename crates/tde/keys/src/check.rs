//! Whether a key opens a cluster, and whether the cluster can be sealed.

use std::path::{Path, PathBuf};

use pgseal_crypto::{KeyLength, MasterKey};
use pgseal_storage::control::ControlError;

use crate::control_file;
use crate::exit::{Code, Exit, Failure};
use crate::keybin::DIR;
use crate::postgres;

/// Why a server would not start.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(
        "{0} is damaged, or the key in {1} is another cluster's: restore this cluster's own {DIR}"
    )]
    WrongKey(PathBuf, PathBuf),
    #[error("{0} is not encrypted, as a backup tool leaves it: restore again, through pgseal exec --view=backup")]
    InClear(PathBuf),
}

impl Exit for CheckError {
    fn code(&self) -> Code {
        match self {
            Self::WrongKey(..) => Code::WrongKey,
            Self::InClear(_) => Code::NotGuaranteed,
        }
    }
}

/// Checks that the key opens this cluster, and that its version and its blocks can be sealed. A
/// new cluster has nothing to open yet.
pub fn check_key(root: &Path, master: &MasterKey, length: KeyLength) -> Result<(), Failure> {
    postgres::check_cluster(root)?;
    let path = control_file::path(root);
    if !path.exists() || opens(root, master, length)? {
        return Ok(());
    }
    Err(match control_file::is_sealed(root) {
        Ok(false) => CheckError::InClear(path),
        _ => CheckError::WrongKey(path, root.join(DIR)),
    }
    .into())
}

fn opens(root: &Path, master: &MasterKey, length: KeyLength) -> Result<bool, Failure> {
    let read = control_file::read(root, master, length)?;
    if let Ok(control) = &read.said {
        control.check_blocks()?;
    }
    Ok(read.said != Err(ControlError::Checksum))
}
