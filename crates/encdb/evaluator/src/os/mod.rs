//! Tasks that only the kernel and libc can do. All `unsafe` code of this crate is below this
//! directory.
#![allow(unsafe_code)]

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

mod capability;
mod locale;
mod memory;
mod reserve;

pub use capability::{keep_lock_alone, may_lock};
pub use locale::{collation, Locale};
pub use memory::{route_crypto, unlocked_bytes, LockedHeap};
pub use reserve::{has_room, promise};

/// Closes what the process inherited beside its three standard descriptors. To be called before it
/// opens any. Older glibc has no function for the system call, and older kernels no such call:
/// there each descriptor that the process may have is closed.
pub fn close_inherited() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: no descriptor has an owner yet, so that none is closed under its owner.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    if done == 0 {
        return;
    }
    // SAFETY: sysconf takes any name.
    let end = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    for descriptor in i64::from(FIRST)..end {
        // SAFETY: no descriptor has an owner yet.
        unsafe { libc::syscall(libc::SYS_close, descriptor) };
    }
}

/// Takes the descriptor that came with a message: it has no other owner, since the kernel just
/// made it.
pub(crate) fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the caller received it in a control message, which names it once.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
