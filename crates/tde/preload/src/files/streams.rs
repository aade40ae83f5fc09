//! The streams over protected descriptors.

use libc::{c_int, FILE};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

/// Protected streams that can be open at once in a process.
const MAX: usize = 1024;

/// The streams of a process.
pub struct Streams {
    open: [Stream; MAX],
    /// Slots below this one may be in use; most processes never have any.
    high: AtomicUsize,
}

/// A slot for a stream.
pub struct Stream {
    stream: AtomicPtr<FILE>,
    /// The descriptor, and one; 0 while the slot is free.
    number: AtomicI32,
}

impl Streams {
    /// Returns a table without streams.
    pub const fn new() -> Self {
        Self {
            open: [const {
                Stream {
                    stream: AtomicPtr::new(null_mut()),
                    number: AtomicI32::new(0),
                }
            }; MAX],
            high: AtomicUsize::new(0),
        }
    }

    /// Returns the descriptor behind a stream that is in the table.
    pub fn descriptor_of(&self, stream: *mut FILE) -> Option<c_int> {
        let mut open = self.in_use();
        let found = open.find(|open| open.stream.load(Ordering::Acquire) == stream)?;
        Some(found.number.load(Ordering::Acquire) - 1)
    }

    /// Takes a free slot for a stream over `fd`; the stream itself follows ([`Stream::set`]).
    pub fn reserve(&self, fd: c_int) -> Option<&Stream> {
        let free = |open: &Stream| {
            open.number
                .compare_exchange(0, fd + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let index = self.open.iter().position(free)?;
        self.high.fetch_max(index + 1, Ordering::AcqRel);
        self.open.get(index)
    }

    /// Forgets the streams over `fd`, which are closed.
    pub fn forget(&self, fd: c_int) {
        let over = |open: &&Stream| open.number.load(Ordering::Acquire) == fd + 1;
        for open in self.in_use().filter(over) {
            open.set(null_mut());
        }
    }

    fn in_use(&self) -> impl Iterator<Item = &Stream> {
        self.open.iter().take(self.high.load(Ordering::Acquire))
    }
}

impl Stream {
    /// Sets the stream of a reserved slot. One that is null gives the slot back.
    pub fn set(&self, stream: *mut FILE) {
        self.stream.store(stream, Ordering::Release);
        if stream.is_null() {
            self.number.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_again_when_its_descriptor_is_forgotten() {
        let streams = Box::new(Streams::new());
        let [one, other] = [8, 16].map(std::ptr::without_provenance_mut::<FILE>);
        streams.reserve(0).expect("a slot").set(one);
        streams.reserve(5).expect("a slot").set(other);
        assert_eq!(streams.descriptor_of(one), Some(0));
        assert_eq!(streams.descriptor_of(other), Some(5));
        streams.forget(0);
        assert_eq!(streams.descriptor_of(one), None);
        assert_eq!(streams.descriptor_of(other), Some(5));
        streams.reserve(7).expect("a slot").set(one);
        assert_eq!(streams.descriptor_of(one), Some(7));
        assert_eq!(streams.high.load(Ordering::Relaxed), 2);
    }
}
