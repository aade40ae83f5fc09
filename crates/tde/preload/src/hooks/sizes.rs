//! Truncation and reservation.

use super::{fail, status};
use crate::files::{self, Protected, Stored};
use crate::place::{self, Place};
use crate::process::PROCESS;
use crate::real::libc_call;
use crate::received;
use libc::{c_char, c_int, off_t};
use pgseal_storage::Errno;
use std::ffi::CStr;

pub unsafe fn ftruncate(fd: c_int, size: off_t) -> c_int {
    let Some(file) = files::get(fd) else {
        return libc_call!(ftruncate(fd, size));
    };
    status(set_size(file, size))
}

/// Truncation by name goes through a descriptor of its own.
pub unsafe fn truncate(path: *const c_char, size: off_t) -> c_int {
    if !PROCESS.acts() || path.is_null() {
        return libc_call!(truncate(path, size));
    }
    // SAFETY: `path` is not null, so it is a C string that truncate(2)'s caller owns.
    let name = unsafe { CStr::from_ptr(path) };
    match place::of(name) {
        Place::Clear if !PROCESS.is_server() => libc_call!(truncate(path, size)),
        Place::Denied(errno) => fail(errno),
        // A server may not open each file, and the name may lead elsewhere by now.
        Place::Clear | Place::Sealed(..) => {
            const FLAGS: c_int = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
            let fd = super::opening::open_at(libc::AT_FDCWD, name, FLAGS, 0);
            if fd < 0 {
                return fd;
            }
            // SAFETY: ftruncate takes no pointer; the descriptor is our own.
            let answer = unsafe { ftruncate(fd, size) };
            super::descriptors::close_keeping_errno(fd);
            answer
        }
    }
}

/// Returns the error as its value, as libc's `posix_fallocate` does.
pub unsafe fn posix_fallocate(fd: c_int, offset: off_t, len: off_t) -> c_int {
    let Some(file) = files::get(fd) else {
        return libc_call!(posix_fallocate(fd, offset, len));
    };
    match allocate(file, offset, len) {
        Ok(()) => 0,
        Err(Errno(errno)) => errno,
    }
}

/// Reservation is kept; modes that would change stored bytes behind the cipher are withdrawn.
pub unsafe fn fallocate(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int {
    let Some(file) = files::get(fd) else {
        return libc_call!(fallocate(fd, mode, offset, len));
    };
    match mode {
        0 => status(allocate(file, offset, len)),
        libc::FALLOC_FL_KEEP_SIZE if file.file.writable().is_ok() => {
            libc_call!(fallocate(fd, mode, offset, len))
        }
        libc::FALLOC_FL_KEEP_SIZE => fail(libc::EBADF),
        _ => fail(libc::EOPNOTSUPP),
    }
}

fn set_size(file: Protected, size: off_t) -> Result<(), Errno> {
    file.file.writable().map_err(|_| Errno::EINVAL)?;
    let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
    match &file.file.stored {
        Stored::Sealed(sealed, _) => file
            .disk
            .transfer(|transfer| sealed.set_size(transfer, size)),
        Stored::WalTar => received::cut_tar(&file.disk, size),
        Stored::ReadTar | Stored::Pages => Err(Errno::EINVAL),
    }
}

fn allocate(file: Protected, offset: off_t, len: off_t) -> Result<(), Errno> {
    let offset = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
    let len = u64::try_from(len)
        .ok()
        .filter(|&len| len > 0)
        .ok_or(Errno::EINVAL)?;
    file.file.writable()?;
    let sealed = file.file.sealed()?;
    file.disk
        .transfer(|transfer| sealed.allocate(transfer, offset, len))
}
