//! Opening without links: the kernel opens a file only if no name on the way is a symbolic link,
//! and says so if one is (`openat2`, since Linux 5.6). Then the path as it is spelled is the real
//! one.
//!
//! glibc has no function for it, so a library behind ours does not see these calls. Where the
//! kernel does not know the call, or a container forbids it, nothing is opened here: the caller
//! looks at links by itself, as it must where there is one.

use crate::real;
use libc::{c_int, c_long, mode_t};
use std::ffi::CStr;

/// Linux's `struct open_how`.
#[repr(C)]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

const RESOLVE_NO_SYMLINKS: u64 = 4;

/// Opens a path without links, and returns what `openat` would: a descriptor, or -1 with ENOENT, or
/// with EINTR, which the caller must see (a signal ended the wait for a FIFO's other end). None if
/// there is a link on the way, or if it cannot be known.
pub fn open(directory: c_int, path: &CStr, flags: c_int, mode: mode_t) -> Option<c_int> {
    let errno = real::errno();
    let fd = openat2(directory, path, flags, mode);
    // It walked up to the name that is missing, and met no link.
    if fd >= 0 || matches!(real::errno(), libc::ENOENT | libc::EINTR) {
        return Some(fd);
    }
    real::set_errno(errno);
    None
}

/// Does an absolute path lead through no link, as far as it exists?
pub fn is_direct(path: &CStr) -> bool {
    let errno = real::errno();
    let fd = open(libc::AT_FDCWD, path, libc::O_PATH | libc::O_CLOEXEC, 0);
    let direct = fd.is_some_and(|fd| fd >= 0 || real::errno() == libc::ENOENT);
    if let Some(fd @ 0..) = fd {
        // SAFETY: the descriptor is ours and just opened: no entry of ours names it.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }
    real::set_errno(errno);
    direct
}

fn openat2(directory: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    let creates = flags & libc::O_CREAT != 0;
    let how = How {
        flags: u64::try_from(flags).unwrap_or(u64::MAX),
        mode: if creates { u64::from(mode & 0o7777) } else { 0 },
        resolve: RESOLVE_NO_SYMLINKS,
    };
    let size = size_of::<How>();
    // SAFETY: the path is terminated; the structure has the kernel's layout and goes with its size.
    let fd: c_long = unsafe {
        let how = &raw const how;
        libc::syscall(libc::SYS_openat2, directory, path.as_ptr(), how, size)
    };
    c_int::try_from(fd).unwrap_or(-1)
}
