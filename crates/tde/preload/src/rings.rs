//! io_uring's rings that this process knows, by the address of their `struct io_uring`, each with
//! the table of its requests that are under way.
//!
//! PostgreSQL 18 makes all rings in the postmaster, one for each of its later processes, in shared
//! memory, and any process may take the answers of any ring (method_io_uring.c). So what a request
//! leaves to be done is kept in memory that the process which makes the ring shares with all that
//! it forks. This memory holds no key.
//!
//! A ring that a process makes where it made another, as after a restart that follows a crash, gets
//! that one's memory: nothing is lost by restarts. What another process made there stays that
//! one's: processes that were forked each find what they made themselves, or what they inherited.
//!
//! Callers keep liburing's rule: one thread at a time submits to a ring, and one at a time takes
//! answers. PostgreSQL holds a lock for the second.

#[forbid(unsafe_code)]
pub mod plan;
pub mod table;

use crate::liburing::{Liburing, Ring};
use crate::memory::MEMORY;
use crate::real::libc_call;
use libc::pid_t;
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use table::{Slot, Table};

/// More than a server has processes.
const MAX: usize = 1 << 15;
/// Bytes that are mapped at once, for the tables of many rings: a mapping for each would slow down
/// every fork and exit.
const CHUNK: usize = 1 << 20;
const LINE: usize = 64;

/// The rings of this process, in [`MEMORY`].
pub struct Rings {
    liburing: Liburing,
    /// A hash table. Entries stay.
    by_address: [AtomicPtr<Head>; MAX],
    /// The mapping that new tables lie in.
    chunk: AtomicPtr<Chunk>,
    /// Start and end of the last anonymous memory that was mapped to be shared.
    memory: (AtomicUsize, AtomicUsize),
}

impl Rings {
    /// Makes the table of a process that knows no ring.
    pub const fn new() -> Self {
        Self {
            liburing: Liburing::new(),
            by_address: [const { AtomicPtr::new(null_mut()) }; MAX],
            chunk: AtomicPtr::new(null_mut()),
            memory: (AtomicUsize::new(0), AtomicUsize::new(0)),
        }
    }
}

/// The head of a mapping. Processes that were forked share it.
#[repr(C, align(64))]
struct Chunk {
    size: usize,
    used: AtomicUsize,
}

/// A ring that is known. It leads to shared memory that stays mapped, and that its entries follow.
#[derive(Clone, Copy)]
pub struct Known(NonNull<Head>);

/// The state of a ring, in shared memory before the entries of its table.
#[repr(C, align(64))]
struct Head {
    /// The address of the ring's structure.
    address: usize,
    /// The process that made it. No other one changes what all processes share of it.
    maker: pid_t,
    /// The entries that there is memory for.
    room: usize,
    /// The entries that the ring has; none: it is closed.
    entries: AtomicUsize,
    /// Start and end of the memory that its processes share.
    memory: (AtomicUsize, AtomicUsize),
    /// The place after the last answer that was given.
    answered: AtomicU32,
    /// Was a refusal reported?
    reported: AtomicBool,
}

impl Known {
    /// Returns the ring at this entry of the hash table, if there is one.
    fn at(place: &AtomicPtr<Head>) -> Option<Self> {
        NonNull::new(place.load(Ordering::Acquire)).map(Self)
    }

    fn head(self) -> &'static Head {
        // SAFETY: entries lead to memory that stays mapped.
        unsafe { self.0.as_ref() }
    }

    /// Returns the table of its requests.
    pub fn table(self) -> Table<'static> {
        let first = self.0.as_ptr().wrapping_add(1).cast::<Slot>();
        let entries = self.head().entries.load(Ordering::Acquire);
        // SAFETY: so many entries follow, of zeros at first, in a mapping that stays.
        Table(unsafe { std::slice::from_raw_parts(first, entries) })
    }

    /// Returns start and end of the memory that all processes share which may take its answers.
    pub fn memory(self) -> (usize, usize) {
        let (start, end) = &self.head().memory;
        (start.load(Ordering::Relaxed), end.load(Ordering::Relaxed))
    }

    /// Is the answer at this place given for the first time? Then it counts as given.
    pub fn answers_first(self, place: u32) -> bool {
        let answered = &self.head().answered;
        let is_new = place.wrapping_sub(answered.load(Ordering::Relaxed)) < 1 << 31;
        if is_new {
            answered.store(place.wrapping_add(1), Ordering::Relaxed);
        }
        is_new
    }

    /// Is this the first refusal? Later ones are likely the same.
    pub fn reports_first(self) -> bool {
        !self.head().reported.swap(true, Ordering::Relaxed)
    }

    fn reset(self, entries: usize, memory: (usize, usize)) {
        let head = self.head();
        head.entries.store(head.room, Ordering::Relaxed);
        self.table().clear();
        head.memory.0.store(memory.0, Ordering::Relaxed);
        head.memory.1.store(memory.1, Ordering::Relaxed);
        head.answered.store(0, Ordering::Relaxed);
        head.reported.store(false, Ordering::Relaxed);
        head.entries.store(entries, Ordering::Release);
    }
}

/// Returns liburing's own functions.
pub fn liburing() -> &'static Liburing {
    &MEMORY.rings.liburing
}

/// Anonymous memory was mapped, which forked processes share. PostgreSQL maps its own just before
/// it makes its rings there.
pub fn note_memory(start: usize, len: usize) {
    MEMORY.rings.memory.0.store(start, Ordering::Relaxed);
    MEMORY.rings.memory.1.store(start + len, Ordering::Relaxed);
}

/// Returns the known ring of this structure.
pub fn find(ring: *const Ring) -> Option<Known> {
    let known = Known::at(place_of(ring.addr())?)?;
    (known.head().entries.load(Ordering::Acquire) > 0).then_some(known)
}

/// A ring was made, with so many entries for requests. False: there is no memory for another one.
pub fn add(ring: *const Ring, entries: usize) -> bool {
    let address = ring.addr();
    let (start, end) = &MEMORY.rings.memory;
    let memory = (start.load(Ordering::Relaxed), end.load(Ordering::Relaxed));
    // A ring outside that memory has answers that no other process takes, and so has it none there.
    let is_shared = (memory.0..memory.1).contains(&address);
    let memory = if is_shared { memory } else { (0, 0) };
    let Some(place) = place_of(address) else {
        return false;
    };
    let fits = |old: &Head| old.maker == me() && old.room >= entries;
    let Some(known) = Known::at(place)
        .filter(|old| fits(old.head()))
        .or_else(|| make(address, entries))
    else {
        return false;
    };
    known.reset(entries, memory);
    place.store(known.0.as_ptr(), Ordering::Release);
    true
}

/// A ring is being closed. In a process that did not make it, that says nothing to the others.
pub fn remove(ring: *const Ring) {
    if let Some(known) = find(ring).filter(|known| known.head().maker == me()) {
        known.head().entries.store(0, Ordering::Release);
    }
}

fn me() -> pid_t {
    // SAFETY: getpid(2) takes no arguments.
    unsafe { libc::getpid() }
}

/// Returns the entry for a ring at this address: its own, or the first free one.
fn place_of(address: usize) -> Option<&'static AtomicPtr<Head>> {
    let start = (address / LINE).wrapping_mul(0x9e37_79b9) % MAX;
    let places = (0..MAX).map(|n| &MEMORY.rings.by_address[(start + n) % MAX]);
    places
        .take(MAX)
        .find(|place| Known::at(place).is_none_or(|known| known.head().address == address))
}

/// Makes a table with room for so many entries.
fn make(address: usize, room: usize) -> Option<Known> {
    let size = size_of::<Head>() + room.checked_mul(size_of::<Slot>())?;
    let head = NonNull::new(take(size)?.cast::<Head>())?;
    // SAFETY: the memory is ours alone, aligned, large enough, and stays. Zeros are free entries.
    unsafe {
        head.write(Head {
            address,
            maker: me(),
            room,
            entries: AtomicUsize::new(0),
            memory: (AtomicUsize::new(0), AtomicUsize::new(0)),
            answered: AtomicU32::new(0),
            reported: AtomicBool::new(false),
        });
    }
    Some(Known(head))
}

/// Takes memory of zeros for good, aligned for a [`Chunk`].
fn take(size: usize) -> Option<*mut u8> {
    let size = size.next_multiple_of(LINE);
    let current = MEMORY.rings.chunk.load(Ordering::Acquire);
    take_from(current, size).or_else(|| {
        let new = map(size_of::<Chunk>() + size)?;
        MEMORY.rings.chunk.store(new, Ordering::Release);
        take_from(new, size)
    })
}

fn take_from(chunk: *mut Chunk, size: usize) -> Option<*mut u8> {
    // SAFETY: the pointer is null, or leads to a mapping that stays.
    let head = unsafe { chunk.as_ref() }?;
    let take = |used: usize| used.checked_add(size).filter(|&after| after <= head.size);
    let at = head
        .used
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
    Some(chunk.cast::<u8>().wrapping_add(at.ok()?))
}

/// Maps memory that forked processes share.
fn map(least: usize) -> Option<*mut Chunk> {
    let size = least.max(CHUNK);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let map = libc_call!(mmap(null_mut(), size, access, flags, -1, 0));
    if map == libc::MAP_FAILED {
        return None;
    }
    let chunk = map.cast::<Chunk>();
    let used = AtomicUsize::new(size_of::<Chunk>());
    // SAFETY: the mapping is new and our own, and large enough.
    unsafe { chunk.write(Chunk { size, used }) };
    Some(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: usize) -> *const Ring {
        std::ptr::without_provenance(address)
    }

    #[test]
    fn a_ring_where_another_was_has_its_memory() {
        let first = at(0x10_0000);
        assert!(find(first).is_none());
        assert!(add(first, 8));
        let known = find(first).expect("it was added");
        known.answers_first(4);
        assert!(add(first, 4));
        let again = find(first).expect("it was added");
        assert_eq!(known.0, again.0);
        assert_eq!((again.table().0.len(), again.memory()), (4, (0, 0)));
        assert!(again.answers_first(0));
        assert!(add(first, 9));
        assert_eq!(find(first).map(|known| known.table().0.len()), Some(9));
        remove(first);
        assert!(find(first).is_none());
    }

    #[test]
    fn many_rings() {
        let rings = || (1..500).map(|n| at(0x20_0000 + n * 320));
        assert!(rings().all(|ring| add(ring, 64)));
        let known: Vec<_> = rings().filter_map(find).collect();
        assert_eq!(known.len(), 499);
        for pair in known.windows(2) {
            assert_ne!(pair[0].table().0.as_ptr(), pair[1].table().0.as_ptr());
        }
    }

    #[test]
    fn an_answer_is_given_once() {
        let ring = at(0x30_0000);
        assert!(add(ring, 4));
        let known = find(ring).expect("it was added");
        for (place, first) in [(0, true), (1, true), (0, false), (1, false), (2, true)] {
            assert_eq!(known.answers_first(place), first, "{place}");
        }
        known.head().answered.store(u32::MAX, Ordering::Relaxed);
        for (place, first) in [(u32::MAX, true), (u32::MAX, false), (0, true), (0, false)] {
            assert_eq!(known.answers_first(place), first, "{place}");
        }
    }
}
