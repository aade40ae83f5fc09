//! The memory that a backend shares with an isolated evaluator, and how the two take turns in it.
//!
//! Each connection has a ring of its own: the client posts one request, the server answers it, and
//! nothing is posted before that. What is in it was written by the other side, or is being
//! written: it is copied out before it is looked at, and every length is checked.
//!
//! | words | what | who writes it |
//! | --- | --- | --- |
//! | 0 | magic and version | server, before it hands the memory over |
//! | 8 | 1 while the server sleeps, or is about to | server |
//! | 9 | 1 if a spinning client takes no core from others | server |
//! | 16 | 1 while the client sleeps, or is about to | client |
//! | 17 | one more than the number of the client's core, 0 if that is not known | client |
//! | 64… | request: `number u32 \| length u32`, then its bytes | client |
//! | 64 + SIDE… | response: likewise | server |
//!
//! States, by the two numbers: equal, the ring is **idle**; the request's ahead, it is **posted**;
//! equal again, it is **answered**. Anyone who changes a number wakes the other if it sleeps. A
//! client may give up on an answer and post its next request: an answer of another number is not
//! its own.
//!
//! All but [`host`] is safe code over atomic words, and runs on any memory.

mod adaptive;
mod client;
#[cfg(not(loom))]
mod host;
mod server;
mod side;
mod words;

pub use adaptive::Crowd;
pub use client::RingClient;
#[cfg(not(loom))]
pub use host::{Futex, Mapping};
pub use server::RingServer;
pub use words::AtomicU64;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use side::Side;
use words::SIDE;

/// The longest request or response, in bytes: eight texts of 1 MB.
pub const MAX_MESSAGE: usize = (SIDE - 1) * size_of::<u64>();

/// Buffers of messages above this are given back: connections live for days.
const KEPT: usize = 1 << 20;

/// Words before them.
const FRONT: usize = 64;
/// Words of a ring.
pub const WORDS: usize = FRONT + 2 * SIDE;

const SERVER_SLEEPS: usize = 8;
const SPARE_CORE: usize = 9;
const CLIENT_SLEEPS: usize = 16;
const CLIENT_CPU: usize = 17;

/// `"pgsring"` and the version of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"pgsring\x01");

/// How long a client sleeps before it looks whether the server still lives.
const LOOK: Duration = Duration::from_millis(100);

/// Sleeping and waking, by the low half of a word.
pub trait Wait {
    /// Sleeps while the low half of `word` is `value`, at most so long; may return at any time.
    fn wait(&self, word: &AtomicU64, value: u32, at_most: Duration);
    /// Wakes who waits for the word.
    fn wake(&self, word: &AtomicU64);
    /// The core that this thread runs on, if that is known.
    fn core(&self) -> Option<u32>;
}

/// Why a call came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// More than [`MAX_MESSAGE`] bytes.
    #[error("a message of more than 8 MB does not fit into the ring")]
    TooLarge,
    /// The other side is gone, or the caller gave up.
    #[error("the other side of the ring is gone")]
    Gone,
}

/// The words of a ring, cut into their parts.
#[derive(Clone, Copy)]
struct Ring<'a> {
    front: &'a [AtomicU64],
    request: Side<'a>,
    response: Side<'a>,
}

impl<'a> Ring<'a> {
    /// # Panics
    /// If there are not [`WORDS`] words.
    fn new(words: &'a [AtomicU64]) -> Self {
        assert_eq!(words.len(), WORDS, "a ring has one size");
        let (front, sides) = words.split_at(FRONT);
        let (request, response) = sides.split_at(SIDE);
        Self {
            front,
            request: Side::new(request),
            response: Side::new(response),
        }
    }
}

/// Makes zeroed words a ring, before they are handed over.
pub fn format(words: &[AtomicU64]) {
    Ring::new(words).front[0].store(MAGIC, Relaxed);
}

/// Lets a server that sleeps ask whether it should go on.
pub fn wake_server(words: &[AtomicU64], waiter: &impl Wait) {
    waiter.wake(Ring::new(words).request.head);
}

/// Gives a large buffer of a message back.
pub fn shrink(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT {
        *buffer = Vec::new();
    }
}

/// Whether words are a ring of this version.
pub fn is_ring(words: &[AtomicU64]) -> bool {
    words.len() == WORDS && words[0].load(Relaxed) == MAGIC
}
