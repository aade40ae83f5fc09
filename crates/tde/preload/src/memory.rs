//! Memory that the library has for itself, so that a transfer allocates nothing.

use crate::arena::Arena;
use crate::rings::Rings;
use pgseal_storage::scratch::Scratch;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// The memory of this process.
pub static MEMORY: Memory = Memory {
    scratches: [const {
        Slot {
            busy: AtomicBool::new(false),
            scratch: UnsafeCell::new(Scratch::new()),
        }
    }; POOL],
    contexts: Arena::new(),
    rings: Rings::new(),
};

/// Bytes for AWS-LC's largest context: that of XTS.
pub const CONTEXT_SIZE: usize = 640;

/// Threads and handlers that can transfer at once before one has to allocate.
const POOL: usize = 4;

/// The memory that transfers and ciphers work on.
pub struct Memory {
    /// A small pool, so that a signal handler that interrupts a transfer finds another scratch.
    scratches: [Slot; POOL],
    /// The expanded keys of AWS-LC ([`crate::contexts`]).
    pub contexts: Arena<CONTEXT_SIZE>,
    /// The rings of io_uring, and the tables of their requests.
    pub rings: Rings,
}

struct Slot {
    busy: AtomicBool,
    scratch: UnsafeCell<Scratch>,
}

// SAFETY: only the caller that set `busy` touches the scratch, until it clears `busy`.
unsafe impl Sync for Slot {}

impl Memory {
    /// Runs `work` with a scratch of its own.
    pub fn with_scratch<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        for slot in &self.scratches {
            if !slot.busy.swap(true, Ordering::Acquire) {
                // SAFETY: `busy` was clear, so nobody else holds this one.
                let result = work(unsafe { &mut *slot.scratch.get() });
                slot.busy.store(false, Ordering::Release);
                return result;
            }
        }
        work(&mut Box::default())
    }
}
