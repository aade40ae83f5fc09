//! The connections that are served here, by descriptor.
//!
//! A call on any other descriptor, of whatever kind, costs one load of memory.
//!
//! A program forks while its other threads send and receive: the lock is taken for the time of a
//! fork, so that the child finds it free. A child of `vfork` shares this memory with its parent,
//! and closes descriptors of its own: what it does changes nothing here.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};

use crate::connection::Connection;
use crate::stack::Stack;

/// The connection behind a descriptor.
pub type Entry = Arc<Mutex<Served>>;

/// A connection, and the stack that it runs on.
pub struct Served {
    /// The connection
    pub connection: Connection,
    /// Its stack
    pub stack: Stack,
}

/// The descriptors that can be served: more than a process usually may have.
const MOST: usize = 1 << 16;
const BITS: usize = usize::BITS as usize;

type Entries = BTreeMap<i32, Entry>;

static SERVED: [AtomicUsize; MOST / BITS] = [const { AtomicUsize::new(0) }; MOST / BITS];
static ENTRIES: RwLock<Entries> = RwLock::new(BTreeMap::new());
/// The process whose memory this is
static OWNER: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static DURING_FORK: RefCell<Option<RwLockWriteGuard<'static, Entries>>> =
        const { RefCell::new(None) };
}

/// Before a fork.
pub fn prepare_fork() {
    let held = ENTRIES.write().unwrap_or_else(PoisonError::into_inner);
    DURING_FORK.with(|it| *it.borrow_mut() = Some(held));
}

/// After a fork, in parent and child, each of which has a memory of its own.
pub fn after_fork() {
    DURING_FORK.with(|it| *it.borrow_mut() = None);
    own();
}

/// Calls this memory that of the running process.
pub fn own() {
    OWNER.store(process::id(), Ordering::Relaxed);
}

fn word(fd: i32) -> Option<(&'static AtomicUsize, usize)> {
    let fd = usize::try_from(fd).ok()?;
    Some((SERVED.get(fd / BITS)?, 1 << (fd % BITS)))
}

/// Is a connection served at a descriptor?
pub fn is_served(fd: i32) -> bool {
    word(fd).is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
}

/// Returns the connection of a descriptor.
pub fn find(fd: i32) -> Option<Entry> {
    if !is_served(fd) {
        return None;
    }
    let entries = ENTRIES.read().unwrap_or_else(PoisonError::into_inner);
    entries.get(&fd).map(Arc::clone)
}

/// Serves a connection at a descriptor. Returns false if the number is too large.
pub fn insert(fd: i32, entry: Entry) -> bool {
    let Some((word, bit)) = word(fd) else {
        return false;
    };
    remove(fd);
    let mut entries = ENTRIES.write().unwrap_or_else(PoisonError::into_inner);
    entries.insert(fd, entry);
    word.fetch_or(bit, Ordering::Release);
    true
}

/// Forgets a descriptor, which is closed, or becomes another.
pub fn remove(fd: i32) {
    if !is_served(fd) || OWNER.load(Ordering::Relaxed) != process::id() {
        return;
    }
    if let Some((word, bit)) = word(fd) {
        let mut entries = ENTRIES.write().unwrap_or_else(PoisonError::into_inner);
        word.fetch_and(!bit, Ordering::Release);
        entries.remove(&fd);
    }
}

/// Forgets all descriptors from `first` to `last`.
pub fn remove_range(first: u32, last: u32) {
    if OWNER.load(Ordering::Relaxed) != process::id() {
        return;
    }
    let entries = ENTRIES.read().unwrap_or_else(PoisonError::into_inner);
    let within = |fd: &i32| u32::try_from(*fd).is_ok_and(|fd| (first..=last).contains(&fd));
    let all: Vec<i32> = entries.keys().copied().filter(within).collect();
    drop(entries);
    all.into_iter().for_each(remove);
}
