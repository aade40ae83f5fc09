//! An archived segment, or a new one, as the disk below a sealed file: no other process writes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use pgseal_storage::{Disk, Errno, Lock};

/// An open file.
pub struct OnDisk<'a>(pub &'a File);

impl Disk for OnDisk<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        retried(|| self.0.read_at(buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Errno> {
        retried(|| self.0.write_at(buf, offset))
    }

    fn size(&self) -> Result<u64, Errno> {
        retried(|| self.0.metadata()).map(|metadata| metadata.len())
    }

    fn set_size(&self, size: u64) -> Result<(), Errno> {
        retried(|| self.0.set_len(size))
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.set_size(self.size()?.max(offset + len))
    }

    fn lock(&self, _: Lock) -> Result<(), Errno> {
        Ok(())
    }
}

fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.raw_os_error().map_or(Errno::EIO, Errno)),
            Ok(value) => return Ok(value),
        }
    }
}
