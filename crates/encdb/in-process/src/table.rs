//! The connections that are served here, by descriptor.
//!
//! A call on any other descriptor, of whatever kind, costs one load of memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::connection::Connection;
use crate::stack::Stack;

/// What stands behind a descriptor.
pub type Entry = Arc<Mutex<Served>>;

/// A connection, and the stack that it runs on.
pub struct Served {
    /// The connection
    pub connection: Connection,
    /// Its stack
    pub stack: Stack,
}

/// Descriptors below this number are found without a lock where nothing is served.
const QUICK: usize = 1 << 16;
const BITS: usize = usize::BITS as usize;

static SERVED: [AtomicUsize; QUICK / BITS] = [const { AtomicUsize::new(0) }; QUICK / BITS];
static ENTRIES: RwLock<Vec<(i32, Entry)>> = RwLock::new(Vec::new());

fn word(fd: i32) -> Option<(&'static AtomicUsize, usize)> {
    let fd = usize::try_from(fd).ok()?;
    Some((SERVED.get(fd / BITS)?, 1 << (fd % BITS)))
}

/// Returns the connection of a descriptor.
pub fn find(fd: i32) -> Option<Entry> {
    let (word, bit) = word(fd)?;
    if word.load(Ordering::Acquire) & bit == 0 {
        return None;
    }
    let entries = ENTRIES.read().unwrap_or_else(PoisonError::into_inner);
    let found = entries.iter().find(|(known, _)| *known == fd);
    found.map(|(_, entry)| Arc::clone(entry))
}

/// Serves a connection at a descriptor. Returns false if the number is too large.
pub fn insert(fd: i32, served: Served) -> bool {
    let Some((word, bit)) = word(fd) else {
        return false;
    };
    remove(fd);
    let mut entries = ENTRIES.write().unwrap_or_else(PoisonError::into_inner);
    entries.push((fd, Arc::new(Mutex::new(served))));
    word.fetch_or(bit, Ordering::Release);
    true
}

/// Forgets a descriptor, which is closed, or becomes another.
pub fn remove(fd: i32) {
    if let Some((word, bit)) = word(fd) {
        if word.load(Ordering::Acquire) & bit != 0 {
            let mut entries = ENTRIES.write().unwrap_or_else(PoisonError::into_inner);
            word.fetch_and(!bit, Ordering::Release);
            entries.retain(|(known, _)| *known != fd);
        }
    }
}

/// Forgets all descriptors from `first` to `last`.
pub fn remove_range(first: u32, last: u32) {
    let entries = ENTRIES.read().unwrap_or_else(PoisonError::into_inner);
    let within = |fd: &i32| u32::try_from(*fd).is_ok_and(|fd| (first..=last).contains(&fd));
    let all: Vec<i32> = entries.iter().map(|(fd, _)| *fd).filter(within).collect();
    drop(entries);
    all.into_iter().for_each(remove);
}
