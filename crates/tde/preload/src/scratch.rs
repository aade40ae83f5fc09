//! A small pool of scratch memory, so that a transfer allocates nothing and a signal handler that
//! interrupts one finds another.

use pgseal_storage::scratch::Scratch;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Threads and handlers that can transfer at once before one has to allocate.
const POOL: usize = 4;

struct Slot {
    busy: AtomicBool,
    scratch: UnsafeCell<Scratch>,
}

// SAFETY: the scratch is touched only by whoever set `busy`.
unsafe impl Sync for Slot {}

static SLOTS: [Slot; POOL] = [const {
    Slot {
        busy: AtomicBool::new(false),
        scratch: UnsafeCell::new(Scratch::new()),
    }
}; POOL];

/// Runs `work` with a scratch of its own.
pub fn with<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    for slot in &SLOTS {
        if !slot.busy.swap(true, Ordering::Acquire) {
            // SAFETY: `busy` was clear, so nobody else holds this one.
            let result = work(unsafe { &mut *slot.scratch.get() });
            slot.busy.store(false, Ordering::Release);
            return result;
        }
    }
    work(&mut Box::default())
}
