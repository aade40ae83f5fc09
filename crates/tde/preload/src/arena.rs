//! Memory for objects that hold keys: locked, kept out of core dumps, wiped when given back.
//!
//! One reserved range of equal slots with a bitmap over it: taking and giving back are a few atomic
//! operations, safe in a signal handler and in a forked child. The range is made accessible and
//! locked chunk by chunk as slots come into use: a kernel that counts what each process could write
//! (`vm.overcommit_memory=2`) counts those chunks alone. A forked child locks again, because locks
//! are not inherited. Where the limit on locked memory is too low the arena goes on without.
//!
//! Used by [`crate::files`] for open files and by [`crate::contexts`] for expanded keys.

use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

const SLOTS: usize = 1 << 15;
const CHUNK: usize = 64 << 10;

/// Slots of `SIZE` bytes, a multiple of 64, which they are aligned to.
pub struct Arena<const SIZE: usize> {
    /// Slots are taken from the lowest free one, so used memory stays at the front.
    used: [AtomicU64; SLOTS / 64],
    base: AtomicPtr<u8>,
    /// Bytes from the base that are accessible, and locked in this process.
    opened: AtomicUsize,
}

impl<const SIZE: usize> Arena<SIZE> {
    const BYTES: usize = SLOTS * SIZE;

    /// Returns an empty arena, of which nothing is mapped yet.
    pub const fn new() -> Self {
        const { assert!(SIZE % 64 == 0) };
        Self {
            used: [const { AtomicU64::new(0) }; SLOTS / 64],
            base: AtomicPtr::new(null_mut()),
            opened: AtomicUsize::new(0),
        }
    }

    /// Returns a free slot, now the caller's alone; its bytes are zeros. None if all are taken, or
    /// if the kernel gives no more memory. `after_fork` calls [`Arena::relock`]; it runs in a
    /// forked child.
    pub fn take(&self, after_fork: unsafe extern "C" fn()) -> Option<NonNull<u8>> {
        let base = self.base(after_fork)?;
        let index = self.claim()?;
        if !self.open_to(base, (index + 1) * SIZE) {
            self.release(index);
            return None;
        }
        // SAFETY: the slot is within the mapping.
        NonNull::new(unsafe { base.add(index * SIZE) })
    }

    /// Wipes a slot and gives it back.
    ///
    /// # Safety
    /// `slot` came from [`Arena::take`], and no other code uses it any more.
    pub unsafe fn give_back(&self, slot: NonNull<u8>) {
        // SAFETY: `slot` is ours by the contract above; its bytes stay mapped.
        unsafe { libc::explicit_bzero(slot.as_ptr().cast(), SIZE) };
        let base = self.base.load(Ordering::Acquire);
        self.release((slot.addr().get() - base.addr()) / SIZE);
    }

    /// Does this address lie in a slot?
    pub fn holds(&self, address: usize) -> bool {
        let base = self.base.load(Ordering::Acquire).addr();
        base != 0 && (base..base + Self::BYTES).contains(&address)
    }

    /// Locks the memory again in a forked child, which inherits the mapping but not its locks.
    pub fn relock(&self) {
        lock(
            self.base.load(Ordering::Acquire),
            self.opened.load(Ordering::Acquire),
        );
    }

    /// Sets the lowest clear bit.
    fn claim(&self) -> Option<usize> {
        for (word_index, word) in self.used.iter().enumerate() {
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

    /// Clears the bit.
    fn release(&self, index: usize) {
        self.used[index / 64].fetch_and(!(1 << (index % 64)), Ordering::AcqRel);
    }

    /// The first byte; mapped at first use.
    fn base(&self, after_fork: unsafe extern "C" fn()) -> Option<*mut u8> {
        let base = self.base.load(Ordering::Acquire);
        if !base.is_null() {
            return Some(base);
        }
        let map = map(Self::BYTES)?;
        let first =
            self.base
                .compare_exchange(null_mut(), map, Ordering::AcqRel, Ordering::Acquire);
        if let Err(first) = first {
            // SAFETY: the mapping is our own, and no other thread has seen it.
            unsafe { libc::munmap(map.cast(), Self::BYTES) };
            return Some(first);
        }
        // SAFETY: the handler only calls mlock, which a forked child may call.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
        Some(map)
    }

    /// Makes up to `end` bytes accessible and locks them, in whole chunks. Who comes second does
    /// the same once more. False: the kernel refuses.
    fn open_to(&self, base: *mut u8, end: usize) -> bool {
        let opened = self.opened.load(Ordering::Acquire);
        if end <= opened {
            return true;
        }
        let end = end.next_multiple_of(CHUNK).min(Self::BYTES);
        let (start, len) = (base.wrapping_add(opened), end - opened);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is within our own mapping.
        if unsafe { libc::mprotect(start.cast(), len, access) } != 0 {
            return false;
        }
        lock(start, len);
        self.opened.fetch_max(end, Ordering::AcqRel);
        true
    }
}

/// Locks pages as they come into use: a forked child shares most of its parent's, and must not copy
/// them all only to lock them. A refusal changes nothing.
fn lock(start: *mut u8, len: usize) {
    // SAFETY: the range is within our own mapping, or is empty.
    unsafe { libc::mlock2(start.cast(), len, libc::MLOCK_ONFAULT) };
}

/// Reserves addresses, nothing of them accessible.
fn map(len: usize) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the anonymous mapping is new, at no fixed address; the advice is on it alone.
    unsafe {
        let map = libc::mmap(null_mut(), len, libc::PROT_NONE, flags, -1, 0);
        if map == libc::MAP_FAILED {
            return None;
        }
        libc::madvise(map, len, libc::MADV_DONTDUMP);
        Some(map.cast())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SLOTS_OF_64: Arena<64> = Arena::new();

    extern "C" fn nothing() {}

    /// Runs in a child, which keeps its limit to itself.
    #[test]
    fn a_slot_without_memory_is_refused_and_stays_free() {
        // SAFETY: the child only makes system calls before it ends.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(!refuses_and_gives()));
            }
            let mut status = -1;
            libc::waitpid(child, &raw mut status, 0);
            status
        };
        assert_eq!(status, 0);
    }

    fn refuses_and_gives() -> bool {
        let first = SLOTS_OF_64.take(nothing);
        let limit = data_limit(None);
        data_limit(Some(4096));
        let rest_of_chunk = (1..CHUNK / 64).all(|_| SLOTS_OF_64.take(nothing).is_some());
        let refused = SLOTS_OF_64.take(nothing).is_none();
        data_limit(Some(limit));
        let next = SLOTS_OF_64.take(nothing);
        let follows = first.zip(next).is_some_and(|(first, next)| {
            // SAFETY: a slot of ours alone.
            unsafe { next.write_bytes(1, 64) };
            next.addr().get() - first.addr().get() == CHUNK
        });
        rest_of_chunk && refused && follows
    }

    /// The process's limit on what it could write, before a new one is set.
    fn data_limit(new: Option<libc::rlim_t>) -> libc::rlim_t {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: a structure of our own.
        unsafe { libc::getrlimit(libc::RLIMIT_DATA, &raw mut limit) };
        let old = limit.rlim_cur;
        if let Some(new) = new {
            limit.rlim_cur = new;
            // SAFETY: `limit` is a structure of our own, which the call only reads.
            unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) };
        }
        old
    }
}
