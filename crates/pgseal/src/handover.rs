//! The handover record in a sealed memfd: how keys reach the library and the twins further down.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};

use nix::unistd::close;
use pgseal_format::handover::{decode, encode, Entry, HandoverError};
use zeroize::Zeroizing;

use crate::cluster::Root;
use crate::memfd;
use crate::unlock::Unlocked;

/// Why keys cannot be handed over.
#[derive(Debug, thiserror::Error)]
pub enum HandoverFdError {
    #[error("keys cannot be passed to the program ({0}): check the limit of open files")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Record(#[from] HandoverError),
}

/// The record of `clusters`, under each of their spellings, with the files that open them.
pub fn record(clusters: &[Unlocked]) -> Result<Zeroizing<Vec<u8>>, HandoverFdError> {
    let mut entries = Vec::new();
    for cluster in clusters {
        entries.push(entry(cluster, &cluster.root.path));
        for alias in &cluster.root.aliases {
            entries.push(entry(cluster, alias));
        }
    }
    let files = openers(clusters);
    let files: Vec<_> = { files.iter() }
        .map(|file| file.as_os_str().as_bytes())
        .collect();
    Ok(encode(&entries, &files)?)
}

/// As the kernel is to find them, each once. What is no path to a file for it is none for a spy.
fn openers(clusters: &[Unlocked]) -> BTreeSet<PathBuf> {
    const LONGEST: usize = 4096;
    let files = clusters.iter().flat_map(|cluster| &cluster.openers);
    let absolute = files.filter_map(|file| path::absolute(file).ok());
    let plain = absolute.map(|file| file.components().collect::<PathBuf>());
    let fits = |file: &PathBuf| {
        let bytes = file.as_os_str().as_bytes();
        bytes.len() <= LONGEST && !bytes.contains(&0)
    };
    plain.filter(fits).collect()
}

/// A memfd that holds `record`, can never change again, and stays open across exec.
pub fn memfd(record: &[u8]) -> Result<OwnedFd, HandoverFdError> {
    Ok(memfd::sealed(record)?)
}

/// What a twin further up left in the descriptor `fd`; it is closed.
pub fn read_from(fd: i32) -> Result<Zeroizing<Vec<u8>>, HandoverFdError> {
    let record = Zeroizing::new(fs::read(format!("/proc/self/fd/{fd}"))?);
    close(fd).map_err(io::Error::from)?;
    Ok(record)
}

/// The memfd or pipe that whoever started us left open as `fd`, so that no command that runs
/// meanwhile gets hold of it.
pub fn receiver(fd: i32) -> Result<File, HandoverFdError> {
    let path = format!("/proc/self/fd/{fd}");
    let file = OpenOptions::new().write(true).open(path)?;
    close(fd).map_err(io::Error::from)?;
    Ok(file)
}

/// Whether the record has a key for each root.
pub fn covers(record: &[u8], roots: &[Root]) -> bool {
    let Ok(entries) = decode(record) else {
        return false;
    };
    let listed: Vec<_> = entries.map(|entry| entry.root).collect();
    roots
        .iter()
        .all(|root| listed.contains(&root.path.as_os_str().as_bytes()))
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
