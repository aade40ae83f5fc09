//! How long it pays to spin: as long as the other side has lately taken, and not at all while
//! others wait for a core.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// About what sleeping and being woken costs: who spins longer had better slept at once. A model
/// has no clock: it is eager, then sleeps.
const MOST: Duration = Duration::from_micros(if cfg!(loom) { 0 } else { 40 });
const LEAST: Duration = Duration::from_micros(if cfg!(loom) { 0 } else { 1 });

/// Turns before the first pause: a fraction of a microsecond.
const EAGER: u32 = if cfg!(loom) { 2 } else { 100 };

/// Turns between two looks at the clock.
const TURNS: u32 = 32;

/// What one side has learned of the other's pace.
pub(super) struct Adaptive {
    patience: Duration,
}

impl Adaptive {
    pub(super) fn new() -> Self {
        Self { patience: MOST }
    }

    /// Spins until `ready` gives something, or patience ends. Each success doubles patience, each
    /// failure halves it.
    #[inline]
    pub(super) fn spin<T>(&mut self, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        // A pause of the processor is as long as half an answer takes: at first without.
        for _ in 0..EAGER {
            if let Some(found) = ready() {
                return Some(found);
            }
        }
        let found = self.spin_on(ready);
        self.patience = match found {
            Some(_) => (self.patience * 2).min(MOST),
            None => (self.patience / 2).max(LEAST),
        };
        found
    }

    fn spin_on<T>(&self, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        let start = Instant::now();
        while start.elapsed() < self.patience {
            for _ in 0..TURNS {
                if let Some(found) = ready() {
                    return Some(found);
                }
                std::hint::spin_loop();
            }
        }
        None
    }
}

/// The connections of a server that are awake, against the cores that there are. A connection that
/// is awake has a client that runs or spins: two cores each. A guess at the load, on which no order
/// depends.
pub struct Crowd {
    cores: u32,
    awake: AtomicU32,
}

impl Crowd {
    /// Of a machine with so many cores.
    pub const fn new(cores: u32) -> Self {
        Self {
            cores,
            awake: AtomicU32::new(0),
        }
    }

    /// Whether all that are awake have a core for both sides.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.awake.load(Relaxed).saturating_mul(2) <= self.cores
    }

    pub(super) fn wakes(&self) {
        self.awake.fetch_add(1, Relaxed);
    }

    pub(super) fn sleeps(&self) {
        self.awake.fetch_sub(1, Relaxed);
    }
}
