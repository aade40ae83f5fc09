//! Files in an archive that have not got their names yet. They lie in a directory of their own, so
//! that they are found without going through all that is archived; it goes when it is empty.
//!
//! Their writer has them locked: of whatever is not, the writer was killed, and who comes next
//! removes it. Where locks do not reach another machine, one there may remove what is written here:
//! it gets no name then, and PostgreSQL archives it again.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};
use pgseal_keys::keybin::set_mode;
use tempfile::{Builder, NamedTempFile};

const DIR: &str = ".pgseal";

/// How often others may remove the directory before it is used.
const ATTEMPTS: usize = 100;

/// A file for what is to be archived.
pub fn create(archive: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let directory = archive.join(DIR);
    let mut attempts = 0..ATTEMPTS;
    loop {
        make(&directory, archive)?;
        remove_leftovers(&directory);
        match Builder::new().make_in(&directory, |path| locked(path, mode)) {
            // It was empty, and another run has just removed it.
            Err(error) if error.kind() == ErrorKind::NotFound && attempts.next().is_some() => {}
            made => return made,
        }
    }
}

/// Removes the directory if it is empty; a process that needs it again makes it again.
pub fn end(archive: &Path) {
    let _ = fs::remove_dir(archive.join(DIR));
}

fn make(directory: &Path, archive: &Path) -> io::Result<()> {
    let mode = fs::metadata(archive)?.permissions().mode() & 0o777;
    match DirBuilder::new().mode(mode).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        // The server's umask is narrower than an archive that two users share.
        made => made.and_then(|()| set_mode(directory, mode)),
    }
}

/// Removes leftovers. One that cannot be removed stays: the archive is not to wait for it.
fn remove_leftovers(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let free = |file| Flock::lock(file, FlockArg::LockExclusiveNonblock).ok();
        if let Some(_lock) = opened.ok().and_then(free) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The lock ends with the process. On a file system without locks nothing is removed.
fn locked(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let new = options.read(true).write(true).create_new(true).mode(mode);
    let file = new.open(path)?;
    if let Ok(lock) = Flock::lock(file.try_clone()?, FlockArg::LockExclusive) {
        std::mem::forget(lock);
    }
    match file.metadata()?.nlink() {
        // Another run found it before it was locked: the next name.
        0 => Err(ErrorKind::AlreadyExists.into()),
        _ => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn its_directory_is_as_open_as_the_archive_whatever_the_umask() {
        let archive = tempfile::tempdir().unwrap();
        for mode in [0o700, 0o770, 0o777] {
            set_mode(archive.path(), mode).unwrap();
            let file = create(archive.path(), 0o600).unwrap();
            let made = fs::metadata(archive.path().join(DIR)).unwrap();
            assert_eq!(made.permissions().mode() & 0o777, mode);
            drop(file);
            end(archive.path());
        }
    }
}
