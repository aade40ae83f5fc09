//! Memory that is asked for before it is needed.
//!
//! An allocation that fails ends the process, and a backend that ends so ends all backends. So a
//! request is made and answered only if the kernel gives what that takes at most, [`has_room`],
//! and [`promise`] where many threads answer. Beside that a reserve is held: pages that nothing
//! touches, which the heap gives back when the kernel gives it no more. What was begun goes on with
//! them, and nothing else is begun until the reserve is held again.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Twice the longest message of a ring, and what small things take beside that.
const RESERVE: usize = 32 << 20;

/// The most bytes of a request that is not counted: what one of 64 KiB takes, which the share of a
/// role leaves out too. Seventy of them fit into the reserve, and none is refused because another
/// role's large request is counted.
const SMALL: usize = 448 << 10;

/// Bytes that requests of all threads have been promised.
static PROMISED: AtomicUsize = AtomicUsize::new(0);
static HELD: AtomicPtr<libc::c_void> = AtomicPtr::new(null_mut());

/// Whether the kernel would give so many bytes, and the reserve is there. Another thread may be
/// promised the same bytes: this is for processes in which one thread computes.
#[inline]
pub fn has_room(bytes: usize) -> bool {
    is_held() && (bytes <= RESERVE / 2 || would_give(bytes))
}

/// Bytes that one request may take until this is dropped.
#[must_use]
pub struct Promise(usize);

/// Promises memory to a request, if the kernel would give it beside all that is promised already.
/// Bytes that a promised request has taken already count twice, so this refuses rather too early.
#[inline]
pub fn promise(bytes: usize) -> Option<Promise> {
    match bytes {
        0..=SMALL => is_held().then_some(Promise(0)),
        _ if is_held() => promise_counted(bytes),
        _ => None,
    }
}

#[cold]
fn promise_counted(bytes: usize) -> Option<Promise> {
    let add = |promised: usize| promised.checked_add(bytes);
    let before = PROMISED.fetch_update(Ordering::AcqRel, Ordering::Relaxed, add);
    let before = before.ok()?;
    let promise = Promise(bytes);
    let all = add(before)?;
    (all <= RESERVE / 2 || would_give(all)).then_some(promise)
}

impl Drop for Promise {
    fn drop(&mut self) {
        if self.0 > 0 {
            PROMISED.fetch_sub(self.0, Ordering::AcqRel);
        }
    }
}

#[inline]
fn is_held() -> bool {
    !HELD.load(Ordering::Relaxed).is_null() || hold()
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

/// Maps pages that are never touched: the kernel commits to give them.
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
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Both tests move what the process has once.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn what_no_machine_has_is_refused_and_the_reserve_is_held_again() {
        let _alone = alone();
        assert!(has_room(0) && has_room(64 << 20));
        assert!(!has_room(1 << 60) && !has_room(usize::MAX));
        assert!(give_up() && !give_up());
        assert!(has_room(0) && give_up());
    }

    /// The most that the kernel gives at once.
    fn largest() -> usize {
        (20..47)
            .map(|bit| 1 << bit)
            .rfind(|&size| would_give(size))
            .expect("a megabyte")
    }

    #[test]
    fn what_is_promised_is_promised_once() {
        let _alone = alone();
        let (most, none) = (largest(), PROMISED.load(Ordering::Acquire));
        let first = promise(most).expect("the kernel gives it");
        // The next power of two is refused, and so are twice the bytes.
        assert!(has_room(most) && promise(most).is_none());
        assert!(promise(usize::MAX).is_none() && promise(SMALL).is_some());
        drop(first);
        assert!(promise(most).is_some());
        assert_eq!(PROMISED.load(Ordering::Acquire), none);
    }
}
