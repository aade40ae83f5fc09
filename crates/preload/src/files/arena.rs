//! Memory for open files, which hold keys: locked, kept out of core dumps, wiped when given back.
//!
//! One reserved range of fixed slots with a bitmap over it: taking and giving back are a few atomic
//! operations, safe in a signal handler and in a forked child. Memory is locked chunk by chunk as
//! slots come into use; a forked child locks again, because locks are not inherited. Where the
//! limit on locked memory is too low the arena goes on without (`pgseal doctor` says so).

use super::OpenFile;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

const SLOTS: usize = 1 << 15;
const SLOT_SIZE: usize = size_of::<MaybeUninit<OpenFile>>().next_multiple_of(64);
const ARENA_SIZE: usize = SLOTS * SLOT_SIZE;
/// Slots are taken from the lowest free one, so used memory stays at the front.
static USED: [AtomicU64; SLOTS / 64] = [const { AtomicU64::new(0) }; SLOTS / 64];
static BASE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// Bytes from the base that are locked in this process.
static LOCKED: AtomicUsize = AtomicUsize::new(0);
const CHUNK: usize = 64 << 10;

/// One slot, just filled.
pub struct Slot(*mut OpenFile);

impl Slot {
    /// Moves `file` into a free slot; none if all are taken.
    pub fn take(file: OpenFile) -> Option<Self> {
        let base = base()?;
        let index = claim()?;
        lock_to((index + 1) * SLOT_SIZE);
        // SAFETY: within the mapping; the claimed bit makes the slot ours alone.
        let slot = unsafe { base.add(index * SLOT_SIZE).cast::<OpenFile>() };
        // SAFETY: as above, and aligned: the base is a page, slots are multiples of 64 bytes.
        unsafe { slot.write(file) };
        Some(Self(slot))
    }

    /// The slot's file, now owned by the caller.
    pub fn into_raw(self) -> *mut OpenFile {
        self.0
    }

    /// Drops the file, wipes the slot, gives it back.
    ///
    /// # Safety
    /// `file` came from [`Slot::into_raw`], and nobody uses it any more.
    pub unsafe fn release(file: *mut OpenFile) {
        // SAFETY: by the contract above; the bytes stay mapped and are overwritten whole.
        unsafe {
            std::ptr::drop_in_place(file);
            libc::explicit_bzero(file.cast(), size_of::<OpenFile>());
        }
        let base = BASE.load(Ordering::Acquire);
        let index = (file.addr() - base.addr()) / SLOT_SIZE;
        USED[index / 64].fetch_and(!(1 << (index % 64)), Ordering::AcqRel);
    }
}

/// Sets the lowest clear bit.
fn claim() -> Option<usize> {
    for (word_index, word) in USED.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != u64::MAX {
            let bit = bits.trailing_ones() as usize;
            let new = bits | 1 << bit;
            match word.compare_exchange(bits, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(word_index * 64 + bit),
                Err(now) => bits = now,
            }
        }
    }
    None
}

/// The arena's first byte; mapped at first use.
fn base() -> Option<*mut u8> {
    let base = BASE.load(Ordering::Acquire);
    if !base.is_null() {
        return Some(base);
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh anonymous mapping; advice on it; a handler that only calls mlock.
    unsafe {
        let map = libc::mmap(std::ptr::null_mut(), ARENA_SIZE, access, flags, -1, 0);
        if map == libc::MAP_FAILED {
            return None;
        }
        libc::madvise(map, ARENA_SIZE, libc::MADV_DONTDUMP);
        match BASE.compare_exchange(
            std::ptr::null_mut(),
            map.cast(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => {
                libc::pthread_atfork(None, None, Some(relock));
                Some(map.cast())
            }
            Err(first) => {
                libc::munmap(map, ARENA_SIZE);
                Some(first)
            }
        }
    }
}

/// Locks the arena up to `end` bytes, in whole chunks.
fn lock_to(end: usize) {
    let locked = LOCKED.load(Ordering::Acquire);
    if end <= locked {
        return;
    }
    let end = end.next_multiple_of(CHUNK).min(ARENA_SIZE);
    let base = BASE.load(Ordering::Acquire);
    // SAFETY: within our mapping; a refusal changes nothing.
    unsafe { libc::mlock(base.add(locked).cast(), end - locked) };
    LOCKED.fetch_max(end, Ordering::AcqRel);
}

/// In a forked child: the mapping is inherited, its locks are not.
extern "C" fn relock() {
    let locked = LOCKED.load(Ordering::Acquire);
    let base = BASE.load(Ordering::Acquire);
    // SAFETY: as in `lock_to`.
    unsafe { libc::mlock(base.cast(), locked) };
}
