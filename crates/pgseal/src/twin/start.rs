//! Before a server starts: does its key open the cluster, and can it stay sealed? Asked here,
//! because PostgreSQL itself would say only that the checksum of `pg_control` is wrong: after a
//! restore without the key directory, with another cluster's key file, or by a backup tool that was
//! not in its view.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pgseal_crypto::{KeyLength, MasterKey};
use pgseal_format::handover;
use pgseal_storage::control::ControlError;
use zeroize::Zeroizing;

use crate::cluster::{ClusterError, Root};
use crate::control_file;
use crate::exit::Failure;
use crate::handover::HandoverFdError;
use crate::keybin::DIR;
use crate::postgres;

/// Why the server would not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "{0} is damaged, or the key in {1} is another cluster's: restore this cluster's own {DIR}"
    )]
    WrongKey(PathBuf, PathBuf),
    #[error("{0} is not encrypted, as a backup tool leaves it: restore again, through pgseal exec --view=backup")]
    InClear(PathBuf),
}

/// Looks at the clusters that the server has keys for, or without any at those of its command line.
pub fn check(record: Option<&[u8]>, paths: &[PathBuf]) -> Result<(), Failure> {
    match record {
        Some(record) => check_sealed(record),
        None => check_plain(paths),
    }
}

/// Tries the keys of `record` on their clusters.
fn check_sealed(record: &[u8]) -> Result<(), Failure> {
    for entry in handover::decode(record).map_err(HandoverFdError::from)? {
        let mut bytes = Zeroizing::new(*entry.master);
        let master = MasterKey::from_bytes(&mut bytes);
        check_key(
            Path::new(OsStr::from_bytes(entry.root)),
            &master,
            entry.length,
        )?;
    }
    Ok(())
}

/// Does the key open this cluster, and are its version and its blocks such as can be sealed? A new
/// one has nothing yet to be opened.
pub fn check_key(root: &Path, master: &MasterKey, length: KeyLength) -> Result<(), Failure> {
    postgres::check_cluster(root)?;
    let path = control_file::path(root);
    if !path.exists() || opens(root, master, length)? {
        return Ok(());
    }
    Err(match control_file::is_sealed(root) {
        Ok(false) => StartError::InClear(path),
        _ => StartError::WrongKey(path, root.join(DIR)),
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

fn check_plain(paths: &[PathBuf]) -> Result<(), Failure> {
    for path in paths {
        // What cannot be read is PostgreSQL's to refuse.
        if Root::around(path)?.is_none() && control_file::is_sealed(path).unwrap_or(false) {
            return Err(ClusterError::NoKeyDirectory(path.clone()).into());
        }
    }
    Ok(())
}
