//! Files that this process made or opened, and of which it remembers something until they are
//! closed, or until the next one of their kind: [`crate::zero_fill`] and [`crate::two_phase`] say
//! what for.
//!
//! Each file has one state with a name. A lock keeps the parts of the state together. No caller
//! waits for the lock, and it is held for a copy only, never across a libc call. A signal handler
//! or another thread that finds the lock taken goes on as if nothing was remembered.

use libc::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::Mutex;

/// The file of each kind.
pub static WATCHED: Watched = Watched {
    zero_filled: File::new(ZeroFilled::Unknown),
    two_phase: File::new(TwoPhase::Named),
    restored: AtomicBool::new(false),
};

/// The states of the last file of each kind.
pub struct Watched {
    /// The file that was made last for a WAL segment.
    pub zero_filled: File<ZeroFilled>,
    /// The two-phase state that was made last.
    pub two_phase: File<TwoPhase>,
    /// A command has ended that may have restored a WAL segment, and none was opened since.
    pub restored: AtomicBool,
}

/// The state of the file that was made last for a WAL segment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ZeroFilled {
    /// Nothing.
    #[default]
    Unknown,
    /// A new file is open.
    New,
    /// A file is open that had nothing but zeros in it, if it is this one.
    Again(Inode),
    /// It is closed, and has nothing but zeros in it.
    Known(Inode),
}

/// The number of a file in its file system, and that of the file system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inode {
    /// The device's number.
    pub device: u64,
    /// The file's number there.
    pub number: u64,
}

/// The fate of the two-phase state that was made last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TwoPhase {
    /// It has its name, or there was none.
    #[default]
    Named,
    /// Its file is open, and gets this name when it is closed.
    Unnamed(TwoPhaseName),
    /// It could not be given its name, so that the next one is made with it.
    Refused,
}

/// A server's own name for the file of a two-phase state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoPhaseName {
    /// The transaction.
    pub transaction: u64,
    /// The digits that the name has: 8, or 16 from PostgreSQL 17 on.
    pub digits: usize,
}

/// A file, open or not, and its state.
pub struct File<State> {
    /// Its descriptor while it is open. Every close of a protected descriptor asks for this alone.
    fd: AtomicI32,
    state: Mutex<State>,
}

const NONE: c_int = -1;

impl<State: Copy + Default> File<State> {
    const fn new(state: State) -> Self {
        Self {
            fd: AtomicI32::new(NONE),
            state: Mutex::new(state),
        }
    }

    /// Returns the state, or the default one if it cannot be had now.
    pub fn state(&self) -> State {
        self.state
            .try_lock()
            .map(|state| *state)
            .unwrap_or_default()
    }

    /// Enters a state of a file that is not open. False: the state cannot be had now.
    pub fn enter(&self, state: State) -> bool {
        self.watch(NONE, state)
    }

    /// Enters the state of a file that is open as `fd`. False: the state cannot be had now.
    pub fn watch(&self, fd: c_int, state: State) -> bool {
        let Ok(mut place) = self.state.try_lock() else {
            return false;
        };
        *place = state;
        self.fd.store(fd, Ordering::Release);
        true
    }

    /// Returns the state of the file that is open as `fd`, which is not watched any more. None:
    /// this is another descriptor.
    #[inline]
    pub fn take(&self, fd: c_int) -> Option<State> {
        if self.fd.load(Ordering::Relaxed) != fd {
            return None;
        }
        self.fd.store(NONE, Ordering::Relaxed);
        let state = self.state();
        self.enter(State::default());
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_taken_once_by_its_own_descriptor() {
        let file = File::new(ZeroFilled::Unknown);
        assert!(file.watch(5, ZeroFilled::New));
        assert_eq!(file.take(4), None);
        assert_eq!(file.take(5), Some(ZeroFilled::New));
        assert_eq!((file.take(5), file.state()), (None, ZeroFilled::Unknown));
    }

    #[test]
    fn who_finds_the_state_taken_does_not_wait() {
        let file = File::new(TwoPhase::Named);
        let name = TwoPhaseName {
            transaction: 1,
            digits: 8,
        };
        assert!(file.watch(5, TwoPhase::Unnamed(name)));
        let taken = file.state.lock().expect("a lock that nobody has");
        assert!(!file.watch(6, TwoPhase::Refused));
        assert_eq!(file.take(5), Some(TwoPhase::Named));
        drop(taken);
        assert_eq!(file.state(), TwoPhase::Unnamed(name));
    }
}
