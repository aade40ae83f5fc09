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
/// opens any.
pub fn close_inherited() {
    // SAFETY: no descriptor has an owner yet, so that none is closed under its owner.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
}

/// Takes the descriptor that came with a message: it has no other owner, since the kernel just
/// made it.
pub(crate) fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the caller received it in a control message, which names it once.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
