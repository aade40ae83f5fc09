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
    /// The descriptor, and one; 0 while the slot is free, [`RESERVED`] until there is one.
    number: AtomicI32,
}

/// What a slot holds that was taken before its descriptor is open. No descriptor has this number.
const RESERVED: i32 = i32::MIN;

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

    /// Takes a free slot, before a file is opened or emptied: one that finds no slot afterwards
    /// would be lost. The stream follows ([`Slot::set`]).
    pub fn reserve(&self) -> Option<Slot<'_>> {
        let free = |open: &Stream| {
            open.number
                .compare_exchange(0, RESERVED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let index = self.open.iter().position(free)?;
        self.high.fetch_max(index + 1, Ordering::AcqRel);
        self.open.get(index).map(Slot)
    }

    /// Forgets the streams over `fd`, which are closed.
    pub fn forget(&self, fd: c_int) {
        let over = |open: &&Stream| open.number.load(Ordering::Acquire) == fd + 1;
        for open in self.in_use().filter(over) {
            open.stream.store(null_mut(), Ordering::Release);
            open.number.store(0, Ordering::Release);
        }
    }

    fn in_use(&self) -> impl Iterator<Item = &Stream> {
        self.open.iter().take(self.high.load(Ordering::Acquire))
    }
}

/// A slot that is taken, and free again if it is dropped without a stream.
pub struct Slot<'a>(&'a Stream);

impl Slot<'_> {
    /// Sets the slot's stream, which is not null, and the descriptor below it.
    pub fn set(self, fd: c_int, stream: *mut FILE) {
        self.0.stream.store(stream, Ordering::Release);
        self.0.number.store(fd + 1, Ordering::Release);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let number = &self.0.number;
        let _ = number.compare_exchange(RESERVED, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_again_when_its_descriptor_is_forgotten() {
        let streams = Box::new(Streams::new());
        let [one, other] = [8, 16].map(std::ptr::without_provenance_mut::<FILE>);
        streams.reserve().expect("a slot").set(0, one);
        streams.reserve().expect("a slot").set(5, other);
        assert_eq!(streams.descriptor_of(one), Some(0));
        assert_eq!(streams.descriptor_of(other), Some(5));
        streams.forget(0);
        assert_eq!(streams.descriptor_of(one), None);
        assert_eq!(streams.descriptor_of(other), Some(5));
        drop(streams.reserve().expect("a slot"));
        streams.reserve().expect("a slot").set(7, one);
        assert_eq!(streams.descriptor_of(one), Some(7));
        assert_eq!(streams.high.load(Ordering::Relaxed), 2);
    }
}
