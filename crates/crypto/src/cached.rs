//! A value that is made at first use and kept, without ever waiting for it.
//!
//! If it is in use (by another thread, or by the code that a signal handler interrupted) the caller
//! gets a temporary one. A fork while another thread holds it leaves it held for good in the child:
//! slower there, never wrong. Used for cipher contexts, which carry state while they run.

use std::sync::{Mutex, TryLockError};

pub struct Cached<T>(Mutex<Option<T>>);

impl<T> Cached<T> {
    pub const fn empty() -> Self {
        Self(Mutex::new(None))
    }

    /// Runs `act` on the kept value, or on a temporary one if that is in use.
    #[inline]
    pub fn with<R>(&self, make: impl FnOnce() -> T, act: impl FnOnce(&mut T) -> R) -> R {
        match self.0.try_lock() {
            Ok(mut kept) => act(kept.get_or_insert_with(make)),
            // A panic may have left the value in the middle of a unit: do not touch it again.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => act(&mut make()),
        }
    }
}
