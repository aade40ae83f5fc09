//! How long it pays to spin: as long as the other side has lately taken, and not at all while
//! others wait for a core.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// About what sleeping and being woken costs: who spins longer had better slept at once. A model
/// has no clock: it is eager, then sleeps.
const MAX_PATIENCE: Duration = Duration::from_micros(if cfg!(loom) { 0 } else { 40 });
const MIN_PATIENCE: Duration = Duration::from_micros(if cfg!(loom) { 0 } else { 1 });

/// A sleep that ends so soon was longer than a spin would have been: waking alone takes about half
/// of it.
const SHORT_SLEEP: Duration = MAX_PATIENCE.saturating_mul(2);

/// Turns before the first pause: a fraction of a microsecond.
const EAGER: u32 = if cfg!(loom) { 2 } else { 100 };

/// Turns between two looks at the clock.
const TURNS: u32 = 32;

/// The pace of the other side, as far as one side has learned it.
pub(super) struct Adaptive {
    patience: Duration,
    /// When the spin began that came to nothing.
    gave_up: Option<Instant>,
}

impl Adaptive {
    pub(super) fn new() -> Self {
        Self {
            patience: MAX_PATIENCE,
            gave_up: None,
        }
    }

    /// Learns from the sleep behind a spin that came to nothing. One that was short makes up for
    /// the halving and more: patience that has become shorter than the other side takes would
    /// never succeed again, and each call would cost two wake-ups.
    pub(super) fn woke(&mut self) {
        let begun = self.gave_up.take();
        if begun.is_some_and(|begun| begun.elapsed() < SHORT_SLEEP) {
            self.patience = (self.patience * 4).min(MAX_PATIENCE);
        }
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
        let begun = Instant::now();
        let found = self.spin_on(begun, ready);
        self.gave_up = found.is_none().then_some(begun);
        self.patience = match found {
            Some(_) => (self.patience * 2).min(MAX_PATIENCE),
            None => (self.patience / 2).max(MIN_PATIENCE),
        };
        found
    }

    fn spin_on<T>(&self, begun: Instant, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        while begun.elapsed() < self.patience {
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NOTHING: fn() -> Option<()> = || None;

    #[test]
    fn patience_that_became_too_short_comes_back_after_short_sleeps() {
        let mut pace = Adaptive::new();
        for _ in 0..10 {
            assert_eq!(pace.spin(NOTHING), None);
            // A long sleep.
            pace.gave_up = Instant::now().checked_sub(Duration::from_secs(1));
            pace.woke();
        }
        assert_eq!(pace.patience, MIN_PATIENCE);
        for _ in 0..10 {
            assert_eq!(pace.spin(NOTHING), None);
            // As if the spin had begun just now: this thread may have been put aside.
            pace.gave_up = Some(Instant::now());
            pace.woke();
        }
        assert!(pace.patience >= MAX_PATIENCE / 2, "{:?}", pace.patience);
    }
}

/// How long a connection counts as in use after a request, at least.
const WINDOW: Duration = Duration::from_millis(16);

/// Requests without a sleep between them that share a look at the clock.
const SAME_MOMENT: u32 = 16;

/// The connections of a server that are in use, against the cores that there are. Each has a client
/// that runs, whether or not it asks just now, and a server: two cores. A guess at the load, on
/// which no order depends.
pub struct Crowd {
    cores: u32,
    start: OnceLock<Instant>,
    /// The window of time that is counted.
    window: AtomicU64,
    /// The connections that asked in it, and in the one before.
    now: AtomicU32,
    before: AtomicU32,
}

impl Crowd {
    /// Returns the crowd of a machine with so many cores.
    pub const fn new(cores: u32) -> Self {
        Self {
            cores,
            start: OnceLock::new(),
            window: AtomicU64::new(0),
            now: AtomicU32::new(0),
            before: AtomicU32::new(0),
        }
    }

    /// Whether all that are in use have a core for both sides.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        let used = self.now.load(Relaxed).max(self.before.load(Relaxed));
        used.max(1).saturating_mul(2) <= self.cores
    }

    /// A connection that is a member of no window yet.
    pub(super) const fn member() -> Member {
        Member {
            window: 0,
            hurried: 0,
        }
    }

    fn this_window(&self) -> u64 {
        // A model has no clock.
        if cfg!(loom) {
            return 0;
        }
        let since = self.start.get_or_init(Instant::now).elapsed();
        // The first is 1, which nobody is a member of.
        1 + u64::try_from(since.as_micros() / WINDOW.as_micros()).unwrap_or(0)
    }

    fn count(&self, window: u64) {
        let last = self.window.swap(window, Relaxed);
        if last == window {
            self.now.fetch_add(1, Relaxed);
            return;
        }
        let now = self.now.swap(1, Relaxed);
        self.before
            .store(if last + 1 == window { now } else { 0 }, Relaxed);
    }
}

/// A connection, and when it was counted last.
pub(super) struct Member {
    window: u64,
    hurried: u32,
}

impl Member {
    /// Counts a request. Those that come one upon the other are of one moment.
    #[inline]
    pub(super) fn asks(&mut self, crowd: &Crowd, slept: bool) {
        self.hurried = if slept {
            0
        } else {
            (self.hurried + 1) % SAME_MOMENT
        };
        if self.hurried != 0 {
            return;
        }
        let window = crowd.this_window();
        if window != self.window {
            self.window = window;
            crowd.count(window);
        }
    }
}
