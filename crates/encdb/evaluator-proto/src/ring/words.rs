//! The words of a ring, which two processes use at once, and how many there are.
//!
//! Under `--cfg loom` (`loom/` of this crate) they are the model checker's, and few, so that every
//! interleaving of both sides can be tried; no other build sees those.

#[cfg(not(loom))]
pub use std::sync::atomic::AtomicU64;

#[cfg(loom)]
pub use model::AtomicU64;

/// Words of a request or a response with its head.
pub(super) const SIDE: usize = if cfg!(loom) { 3 } else { 1 << 20 };

#[cfg(loom)]
mod model {
    use std::cell::Cell;

    use loom::sync::atomic::{self, fence, Ordering};

    loom::thread_local! {
        /// Whether this thread's last word in the one order was a store.
        static STORED: Cell<bool> = Cell::new(false);
    }

    /// loom takes SeqCst of a store or a load for no more than Release or Acquire, and would find
    /// lost wake-ups that are none. Its fences are whole: one between such a store and the next
    /// such load of a thread keeps their order, and none is there if either is weaker.
    #[derive(Debug)]
    pub struct AtomicU64(atomic::AtomicU64);

    #[allow(missing_docs)]
    impl AtomicU64 {
        pub fn new(value: u64) -> Self {
            Self(atomic::AtomicU64::new(value))
        }

        pub fn load(&self, order: Ordering) -> u64 {
            if order == Ordering::SeqCst && STORED.with(|stored| stored.replace(false)) {
                fence(order);
            }
            self.0.load(order)
        }

        pub fn store(&self, value: u64, order: Ordering) {
            self.0.store(value, order);
            if order == Ordering::SeqCst {
                STORED.with(|stored| stored.set(true));
            }
        }
    }
}
