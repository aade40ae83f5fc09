//! Memory that is asked for before it is needed.
//!
//! An allocation that fails ends the process, and a backend that ends so ends all backends. So
//! a request is made and answered only if the kernel would give what that takes at most
//! ([`has_room`]). Beside that a reserve is held: pages that nobody touches, which the heap gives
//! back when the kernel gives it no more. What was begun goes on with them, and nothing else is
//! begun until the reserve is held again.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Twice the longest message of a ring, and what small things take beside that.
const RESERVE: usize = 32 << 20;

static HELD: AtomicPtr<libc::c_void> = AtomicPtr::new(null_mut());

/// Whether the kernel would give so many bytes, and the reserve is there.
#[inline]
pub fn has_room(bytes: usize) -> bool {
    (!HELD.load(Ordering::Relaxed).is_null() || hold())
        && (bytes <= RESERVE / 2 || would_give(bytes))
}

/// Takes the reserve from the kernel.
#[cold]
fn hold() -> bool {
    let start = map(RESERVE);
    if start.is_null() {
        return false;
    }
    let held = HELD.compare_exchange(null_mut(), start, Ordering::AcqRel, Ordering::Relaxed);
    if held.is_err() {
        // Another thread was faster.
        unmap(start, RESERVE);
    }
    true
}

/// Gives the reserve back to the kernel, for an allocation that it refused. False if there is none.
pub(super) fn give_up() -> bool {
    let start = HELD.swap(null_mut(), Ordering::AcqRel);
    if !start.is_null() {
        unmap(start, RESERVE);
    }
    !start.is_null()
}

#[cold]
fn would_give(bytes: usize) -> bool {
    let start = map(bytes);
    if !start.is_null() {
        unmap(start, bytes);
    }
    !start.is_null()
}

/// Pages of no use but to be had.
fn map(len: usize) -> *mut libc::c_void {
    let (access, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a fresh mapping, at no fixed address.
    let start = unsafe { libc::mmap(null_mut(), len, access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        null_mut()
    } else {
        start
    }
}

fn unmap(start: *mut libc::c_void, len: usize) {
    // SAFETY: a mapping of this length from `map`, which nobody uses.
    unsafe { libc::munmap(start, len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_refused_and_the_reserve_is_held_again() {
        assert!(has_room(0) && has_room(64 << 20));
        assert!(!has_room(1 << 60) && !has_room(usize::MAX));
        assert!(give_up() && !give_up());
        assert!(has_room(0) && give_up());
    }
}
