//! The disk of `pgseal_storage`, over libc's own calls on one descriptor.

use crate::counters::in_kernel;
use crate::memory::MEMORY;
use crate::real::{errno, libc_call, set_errno};
use libc::{c_int, c_short};
use pgseal_storage::{Disk, Errno, Lock, Transfer};
use std::ffi::CStr;

/// An open descriptor, borrowed for one call.
#[derive(Clone, Copy)]
pub struct FdDisk(pub c_int);

impl FdDisk {
    /// Runs `work`, which transfers to or from the file, with a scratch of its own.
    pub fn transfer<T>(&self, work: impl FnOnce(&mut Transfer<Self>) -> T) -> T {
        MEMORY.with_scratch(|scratch| work(&mut Transfer::new(self, scratch)))
    }
}

/// libc's answer as a result: a negative one means errno.
pub fn check(answer: impl TryInto<usize>) -> Result<usize, Errno> {
    answer.try_into().map_err(|_| Errno(errno()))
}

fn offset(value: u64) -> Result<i64, Errno> {
    i64::try_from(value).map_err(|_| Errno::EFBIG)
}

/// A descriptor of our own, closed when dropped.
pub struct Owned(pub c_int);

impl Owned {
    /// The disk over it.
    pub fn disk(&self) -> FdDisk {
        FdDisk(self.0)
    }

    /// Does one name alone lead to the file?
    pub fn has_one_name(&self) -> Result<bool, Errno> {
        Ok(stat(self.0)?.st_nlink == 1)
    }

    /// Makes the file's content safe on disk.
    pub fn sync(&self) -> Result<(), Errno> {
        // SAFETY: fsync(2) takes no pointer.
        check(unsafe { libc::fsync(self.0) }).map(|_| ())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let kept = errno();
        libc_call!(close(self.0));
        set_errno(kept);
    }
}

impl Disk for FdDisk {
    fn read_at(&self, buf: &mut [u8], at: u64) -> Result<usize, Errno> {
        let (at, len) = (offset(at)?, buf.len());
        let buf = buf.as_mut_ptr().cast();
        check(in_kernel(|| libc_call!(pread(self.0, buf, len, at))))
    }

    fn write_at(&self, buf: &[u8], at: u64) -> Result<usize, Errno> {
        let (at, len, buf) = (offset(at)?, buf.len(), buf.as_ptr().cast());
        check(in_kernel(|| libc_call!(pwrite(self.0, buf, len, at))))
    }

    fn size(&self) -> Result<u64, Errno> {
        Ok(u64::try_from(stat(self.0)?.st_size).unwrap_or(0))
    }

    fn set_size(&self, size: u64) -> Result<(), Errno> {
        check(libc_call!(ftruncate(self.0, offset(size)?))).map(|_| ())
    }

    fn allocate(&self, at: u64, len: u64) -> Result<(), Errno> {
        match libc_call!(posix_fallocate(self.0, offset(at)?, offset(len)?)) {
            0 => Ok(()),
            code => Err(Errno(code)),
        }
    }

    fn lock(&self, lock: Lock) -> Result<(), Errno> {
        let kind = match lock {
            Lock::Shared => libc::F_RDLCK,
            Lock::Exclusive => libc::F_WRLCK,
            Lock::None => libc::F_UNLCK,
        };
        // SAFETY: plain data for which all zeros is a value: the whole file, from its start.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = c_short::try_from(kind).map_err(|_| Errno::EINVAL)?;
        loop {
            let pointer = &raw mut range as u64;
            match check(libc_call!(fcntl(self.0, libc::F_OFD_SETLKW, pointer))) {
                Ok(_) => return Ok(()),
                Err(Errno(libc::EINTR)) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// Returns the status of an open file (`fstat`).
pub fn stat(fd: c_int) -> Result<libc::stat, Errno> {
    let mut stat = std::mem::MaybeUninit::uninit();
    // SAFETY: fstat fills the whole structure when it returns 0.
    unsafe {
        check(libc::fstat(fd, stat.as_mut_ptr()))?;
        Ok(stat.assume_init())
    }
}

/// Returns the status of a name, without following a link that it names (`fstatat`).
pub fn lstat(directory: c_int, path: &CStr) -> Result<libc::stat, Errno> {
    let mut stat = std::mem::MaybeUninit::uninit();
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: fstatat fills the whole structure when it returns 0.
    unsafe {
        check(libc::fstatat(
            directory,
            path.as_ptr(),
            stat.as_mut_ptr(),
            flags,
        ))?;
        Ok(stat.assume_init())
    }
}

/// Reads a file as it is stored, at most one byte more than `most`.
pub fn stored(path: &CStr, most: usize) -> std::io::Result<Vec<u8>> {
    let fd = libc_call!(open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0));
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let (mut bytes, mut chunk, mut read) = (Vec::new(), [0u8; 4096], 1);
    while read > 0 && bytes.len() <= most {
        read = libc_call!(read(fd, chunk.as_mut_ptr().cast(), chunk.len()));
        let len = usize::try_from(read).unwrap_or(0);
        bytes.extend_from_slice(chunk.get(..len).unwrap_or_default());
    }
    let error = std::io::Error::last_os_error();
    libc_call!(close(fd));
    match read < 0 {
        true => Err(error),
        false => Ok(bytes),
    }
}
