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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_file_is_read_and_never_written() {
        let path = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&path, b"stored").expect("a file");
        // Open for writing too, so that nothing else refuses it.
        let file = File::options().read(true).write(true).open(&path);
        let raw = Raw(file.expect("it is there"));
        let mut bytes = [0; 8];
        assert_eq!(raw.read_at(&mut bytes, 2), Ok(4));
        assert_eq!(&bytes[..4], b"ored");
        assert_eq!(raw.size(), Ok(6));
        assert_eq!(raw.write_at(b"x", 0), Err(READ_ONLY));
        assert_eq!(raw.set_size(0), Err(READ_ONLY));
        assert_eq!(raw.allocate(0, 100), Err(READ_ONLY));
        assert_eq!(std::fs::read(&path).expect("it is there"), b"stored");
        let directory = Raw(File::open("/").expect("it is there"));
        let failed = directory.read_at(&mut bytes, 0);
        assert_eq!(failed, Err(Errno(Name::EISDIR as i32)));
        assert_eq!(words(READ_ONLY), "Read-only file system");
    }
}
