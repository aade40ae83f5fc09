//! A file of the raw data directory as the disk below a sealed file: it is read, and never written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno as Name;
use pgseal_storage::{Disk, Errno, Lock};

/// An open file of a data directory that is not written meanwhile, so it needs no locks.
pub struct Raw(pub File);

const READ_ONLY: Errno = Errno(Name::EROFS as i32);

impl Disk for Raw {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        loop {
            match self.0.read_at(buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map_err(|error| errno(&error)),
            }
        }
    }

    fn size(&self) -> Result<u64, Errno> {
        let metadata = self.0.metadata().map_err(|error| errno(&error))?;
        Ok(metadata.len())
    }

    fn write_at(&self, _: &[u8], _: u64) -> Result<usize, Errno> {
        Err(READ_ONLY)
    }

    fn set_size(&self, _: u64) -> Result<(), Errno> {
        Err(READ_ONLY)
    }

    fn allocate(&self, _: u64, _: u64) -> Result<(), Errno> {
        Err(READ_ONLY)
    }

    fn lock(&self, _: Lock) -> Result<(), Errno> {
        Ok(())
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno)
}

/// Returns the system's words for an error.
pub fn words(errno: Errno) -> &'static str {
    Name::from_raw(errno.0).desc()
}
