//! The calls that a conversion makes to the file system. Names are paths below the data directory.

use crate::Journal;
use pgseal_storage::{Disk, Errno};

/// The files of a cluster. Several threads use it, each on its own directories or files.
pub trait Files: Sync {
    /// An open file.
    type File: Disk;

    /// Opens a file for reading.
    fn open(&self, name: &[u8]) -> Result<Self::File, Errno>;
    /// Makes an empty file with the owner, group and mode of `like`; a file of that name is
    /// replaced.
    fn create(&self, name: &[u8], like: &Self::File) -> Result<Self::File, Errno>;
    /// Has the file fewer blocks than its size needs?
    fn is_sparse(&self, file: &Self::File) -> Result<bool, Errno>;
    /// The file's bytes may begin their way to the medium. A hint: the syncs of a batch then meet
    /// the same transaction of the file system, and are many times cheaper.
    fn begin_sync(&self, file: &Self::File);
    /// Returns when bytes and size of the file are on the medium.
    fn sync(&self, file: &Self::File) -> Result<(), Errno>;
    /// Is there a file of this name?
    fn exists(&self, name: &[u8]) -> Result<bool, Errno>;
    /// Gives a file another name in its directory.
    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Errno>;
    /// Removes a name.
    fn remove(&self, name: &[u8]) -> Result<(), Errno>;
    /// Returns when the names in the directory `name` are on the medium.
    fn sync_directory(&self, name: &[u8]) -> Result<(), Errno>;
}

/// The files in `pg_encryption/`. Every change is on the medium when the call returns.
pub trait KeyDirectory {
    /// Replaces the journal, whole.
    fn write_journal(&self, journal: &Journal) -> Result<(), Errno>;
    /// Replaces the key file by the new one and keeps the old one under another name; does nothing
    /// if that was done before.
    fn publish_key(&self, journal: &Journal) -> Result<(), Errno>;
    /// Ends the conversion: no journal any more, and after unseal no key directory, but its key
    /// files elsewhere.
    fn end(&self, journal: &Journal) -> Result<(), Errno>;
}

/// The name of the directory that `name` is in; empty for the data directory.
#[must_use]
pub fn directory_of(name: &[u8]) -> &[u8] {
    let slash = name.iter().rposition(|&byte| byte == b'/');
    &name[..slash.unwrap_or(0)]
}
