//! The handover record in a sealed memfd: how keys reach the library and the twins further down.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::fcntl::{fcntl, FcntlArg, SealFlag};
use nix::sys::memfd::{memfd_create, MFdFlags};
use pgseal_format::handover::{encode, Entry, HandoverError};
use zeroize::Zeroizing;

use crate::unlock::Unlocked;

/// Why keys cannot be handed over.
#[derive(Debug, thiserror::Error)]
pub enum HandoverFdError {
    #[error("keys cannot be handed over ({0}): check the limit of open files")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Record(#[from] HandoverError),
}

/// The record of `clusters`, under each of their spellings.
pub fn record(clusters: &[Unlocked]) -> Result<Zeroizing<Vec<u8>>, HandoverFdError> {
    let mut entries = Vec::new();
    for cluster in clusters {
        entries.push(entry(cluster, &cluster.root.path));
        for alias in &cluster.root.aliases {
            entries.push(entry(cluster, alias));
        }
    }
    Ok(encode(&entries)?)
}

/// A memfd that holds `record`, can never change again, and stays open across exec.
pub fn memfd(record: &[u8]) -> Result<OwnedFd, HandoverFdError> {
    let name = CString::new("pgseal keys").map_err(io::Error::from)?;
    let fd = memfd_create(name.as_c_str(), MFdFlags::MFD_ALLOW_SEALING).map_err(io::Error::from)?;
    let mut file = File::from(fd);
    file.write_all(record)?;
    let seals = SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).map_err(io::Error::from)?;
    Ok(file.into())
}

/// Writes `record` into a descriptor that the caller of the process left open.
pub fn write_to(fd: i32, record: &[u8]) -> Result<(), HandoverFdError> {
    let mut file = OpenOptions::new()
        .write(true)
        .open(format!("/proc/self/fd/{fd}"))?;
    Ok(file.write_all(record)?)
}

/// Reads what a twin further up left in a descriptor.
pub fn read_from(fd: i32) -> Result<Zeroizing<Vec<u8>>, HandoverFdError> {
    Ok(Zeroizing::new(fs::read(format!("/proc/self/fd/{fd}"))?))
}

fn entry<'a>(cluster: &'a Unlocked, root: &'a Path) -> Entry<'a> {
    Entry {
        root: root.as_os_str().as_bytes(),
        suite: cluster.header.suite,
        length: cluster.header.length,
        cluster: cluster.header.cluster,
        key_id: cluster.header.key_id,
        master: cluster.master.expose(),
    }
}
