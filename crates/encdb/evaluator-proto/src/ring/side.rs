//! One direction of a ring: a head word that publishes, and the words of one message.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use super::{AtomicU64, RingError, MAX_MESSAGE};

/// The number of a message and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub number: u32,
    pub len: u32,
}

/// Head and bytes of one direction.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub head: &'a AtomicU64,
    words: &'a [AtomicU64],
}

impl<'a> Side<'a> {
    pub(super) fn new(words: &'a [AtomicU64]) -> Self {
        let (head, words) = words.split_first().expect("a side has a head");
        Self { head, words }
    }

    /// Returns the head that was published last; the bytes of its message may be read.
    #[inline]
    pub(super) fn published(&self) -> Head {
        split(self.head.load(Acquire))
    }

    /// As `published`, for a side that has said that it will sleep.
    pub(super) fn published_in_order(&self) -> Head {
        split(self.head.load(SeqCst))
    }

    /// Writes a message and publishes it.
    #[inline]
    pub(super) fn publish(&self, number: u32, message: &[u8]) -> Result<(), RingError> {
        let len = u32::try_from(message.len())
            .ok()
            .filter(|_| message.len() <= MAX_MESSAGE)
            .ok_or(RingError::TooLarge)?;
        store(message, self.words);
        // In one order with the sleeper's flag: either it sees the number, or we see the flag.
        let head = u64::from(number) | u64::from(len) << 32;
        self.head.store(head, SeqCst);
        Ok(())
    }

    /// Copies what was published in place of what `into` held.
    #[inline]
    pub(super) fn copy(&self, head: Head, into: &mut Vec<u8>) -> Result<(), RingError> {
        let len = usize::try_from(head.len)
            .ok()
            .filter(|len| *len <= MAX_MESSAGE)
            .ok_or(RingError::TooLarge)?;
        let words = &self.words[..len.div_ceil(8)];
        into.resize(len, 0);
        load(words, into);
        Ok(())
    }
}

/// Stores bytes in the first of the words; zeros fill the last.
#[inline]
fn store(bytes: &[u8], words: &[AtomicU64]) {
    let chunks = bytes.chunks_exact(8);
    let rest = chunks.remainder();
    for (chunk, word) in chunks.zip(words) {
        let chunk = chunk.try_into().expect("chunks of 8");
        word.store(u64::from_le_bytes(chunk), Relaxed);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        words[bytes.len() / 8].store(u64::from_le_bytes(last), Relaxed);
    }
}

/// Fills `out` from words.
#[inline]
fn load(words: &[AtomicU64], out: &mut [u8]) {
    let len = out.len();
    let mut chunks = out.chunks_exact_mut(8);
    for (chunk, word) in (&mut chunks).zip(words) {
        chunk.copy_from_slice(&word.load(Relaxed).to_le_bytes());
    }
    let rest = chunks.into_remainder();
    if !rest.is_empty() {
        let last = words[len / 8].load(Relaxed).to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

#[inline]
fn split(word: u64) -> Head {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    Head {
        number: u32::from_le_bytes([a, b, c, d]),
        len: u32::from_le_bytes([e, f, g, h]),
    }
}
