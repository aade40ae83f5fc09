//! The heap of secrets: all that is allocated is in locked pages that no core dump shows, and is
//! wiped before it is given back.
//!
//! [`LockedHeap`] is the global allocator of `pgseal-evaluator`, so that no value of any type can
//! lie elsewhere; [`route_crypto`] brings AWS-LC's expanded keys into it as well. Anyone who runs
//! the engine inside another process names it as the global allocator of that library.
//!
//! Blocks are powers of two, cut from chunks, and kept in one list for each size; what is larger
//! than [`MAX_BLOCK`] has a mapping of its own. Where pages cannot be locked the heap goes on and
//! counts them ([`unlocked_bytes`]): anyone who starts the process sees to the limit.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::reserve;

const MIN_BLOCK: usize = 16;
const MAX_BLOCK: usize = 32 << 10;
const CLASSES: usize = (MAX_BLOCK / MIN_BLOCK).trailing_zeros() as usize + 1;
const CHUNK: usize = 256 << 10;
const PAGE: usize = 4096;
/// The bytes in front of a block of AWS-LC, which hold its size.
const HEADER: usize = 16;

static UNLOCKED: AtomicUsize = AtomicUsize::new(0);

/// Bytes of this heap that the kernel did not lock.
pub fn unlocked_bytes() -> usize {
    UNLOCKED.load(Ordering::Relaxed)
}

/// The allocator; one for a process.
pub struct LockedHeap {
    classes: [Mutex<Class>; CLASSES],
}

/// Free blocks of one size, and what is left of the chunk that new ones are cut from.
struct Class {
    free: *mut u8,
    next: *mut u8,
    left: usize,
}

// SAFETY: pointers to memory that the lists own; the mutex around them lets one thread in.
unsafe impl Send for Class {}

impl LockedHeap {
    /// An empty heap.
    pub const fn new() -> Self {
        const EMPTY: Class = Class {
            free: null_mut(),
            next: null_mut(),
            left: 0,
        };
        Self {
            classes: [const { Mutex::new(EMPTY) }; CLASSES],
        }
    }

    fn class(&self, size: usize) -> MutexGuard<'_, Class> {
        let index = (size / MIN_BLOCK).trailing_zeros() as usize;
        self.classes[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for LockedHeap {
    fn default() -> Self {
        Self::new()
    }
}

/// The size of the block for a layout: at least its alignment, because blocks are aligned to their
/// size.
fn block(layout: Layout) -> usize {
    let size = layout.size().max(layout.align()).max(MIN_BLOCK);
    size.checked_next_power_of_two().unwrap_or(usize::MAX)
}

// SAFETY: blocks are disjoint, at least as large as the layout says and aligned to their size (or
// to a page); each has no user until it is given out, and stays where it is until it is given
// back.
unsafe impl GlobalAlloc for LockedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Chunks begin with a page, so no block is aligned to more.
        if layout.align() > PAGE {
            return null_mut();
        }
        match block(layout) {
            size if size > MAX_BLOCK => map(layout.size()),
            size => self.class(size).take(size),
        }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the block is the caller's, and given up by this call; `layout` is the one that it
        // was made with.
        unsafe {
            wipe(start, layout.size());
            let size = block(layout);
            if size > MAX_BLOCK {
                unmap(start, layout.size());
            } else {
                self.class(size).give_back(start);
            }
        }
    }
}

impl Class {
    fn take(&mut self, size: usize) -> *mut u8 {
        if !self.free.is_null() {
            let start = self.free;
            // SAFETY: a free block begins with the address of the next, written by `give_back`.
            unsafe {
                self.free = start.cast::<*mut u8>().read();
                start.cast::<*mut u8>().write(null_mut());
            }
            return start;
        }
        if self.left < size {
            self.next = map(CHUNK);
            if self.next.is_null() {
                self.left = 0;
                return null_mut();
            }
            self.left = CHUNK;
        }
        let start = self.next;
        self.left -= size;
        // SAFETY: `size` bytes are left of the chunk, which is a multiple of every size.
        self.next = unsafe { start.add(size) };
        start
    }

    /// # Safety
    /// `start` is a block of this class that is not in use.
    unsafe fn give_back(&mut self, start: *mut u8) {
        // SAFETY: the smallest block has room for an address and is aligned for it.
        unsafe { start.cast::<*mut u8>().write(self.free) };
        self.free = start;
    }
}

/// # Safety
/// `start` points to `len` bytes that no other code uses.
unsafe fn wipe(start: *mut u8, len: usize) {
    // SAFETY: by the contract; unlike an assignment the call is not optimised away.
    unsafe { libc::explicit_bzero(start.cast(), len) }
}

/// Locked pages outside of core dumps; null if there are none.
fn map(len: usize) -> *mut u8 {
    let (access, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a fresh mapping, at no fixed address; advice and a lock on it alone.
    unsafe {
        let mut start = libc::mmap(null_mut(), len, access, flags, -1, 0);
        if start == libc::MAP_FAILED && reserve::give_up() {
            start = libc::mmap(null_mut(), len, access, flags, -1, 0);
        }
        if start == libc::MAP_FAILED {
            return null_mut();
        }
        libc::madvise(start, len, libc::MADV_DONTDUMP);
        if libc::mlock(start, len) != 0 {
            UNLOCKED.fetch_add(len, Ordering::Relaxed);
        }
        start.cast()
    }
}

/// # Safety
/// `start` is a mapping of `len` bytes from [`map`] that is not in use.
unsafe fn unmap(start: *mut u8, len: usize) {
    // SAFETY: by the contract.
    unsafe { libc::munmap(start.cast(), len) };
}

/// Puts AWS-LC's memory into the global allocator, which is to be a [`LockedHeap`]. False if it
/// was done before. To be called before any key is made, at the start of the process.
pub fn route_crypto() -> bool {
    // SAFETY: the functions keep their contracts. What AWS-LC allocated before is nothing: the
    // caller has used no cryptography yet.
    unsafe { pgseal_crypto::route_allocations(allocate, reallocate, release) }
}

fn with_header(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(HEADER)?, HEADER).ok()
}

unsafe extern "C" fn allocate(size: usize, _: *const c_char, _: c_int) -> *mut c_void {
    let Some(layout) = with_header(size) else {
        return null_mut();
    };
    // SAFETY: the layout is not empty; its first bytes hold the size for `release`.
    unsafe {
        let start = std::alloc::alloc(layout);
        if start.is_null() {
            return null_mut();
        }
        start.cast::<usize>().write(size);
        start.add(HEADER).cast()
    }
}

unsafe extern "C" fn reallocate(
    old: *mut c_void,
    size: usize,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    // SAFETY: `old` came from `allocate`, which wrote its size in front of it.
    unsafe {
        let new = allocate(size, file, line);
        if !old.is_null() && !new.is_null() {
            let had = old.cast::<u8>().sub(HEADER).cast::<usize>().read();
            ptr::copy_nonoverlapping(old.cast::<u8>(), new.cast::<u8>(), had.min(size));
            release(old, file, line);
        }
        new
    }
}

unsafe extern "C" fn release(memory: *mut c_void, _: *const c_char, _: c_int) {
    // SAFETY: made by `allocate`, which wrote the size in front; the allocator wipes it.
    unsafe {
        let start = memory.cast::<u8>().sub(HEADER);
        let size = start.cast::<usize>().read();
        if let Some(layout) = with_header(size) {
            std::alloc::dealloc(start, layout);
        }
    }
}

#[cfg(test)]
mod tests {
    //! The heap by itself: blocks that do not overlap, that are wiped, and that come again.

    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("a layout")
    }

    /// Returns the byte that fills a block: not zero, and not its neighbour's.
    fn mark(index: usize) -> u8 {
        u8::try_from(index % 251).expect("a byte") + 1
    }

    #[test]
    fn blocks_are_disjoint_aligned_and_wiped() {
        let heap = LockedHeap::new();
        let layouts: Vec<Layout> = (0..2000)
            .map(|i| layout(1 + (i * 37) % 5000, 1 << (i % 8)))
            .chain([layout(1 << 20, 8), layout(MAX_BLOCK, 4096)])
            .collect();
        for _ in 0..3 {
            let blocks: Vec<*mut u8> = layouts
                .iter()
                // SAFETY: no layout is empty.
                .map(|layout| unsafe { heap.alloc(*layout) })
                .collect();
            for (index, (start, layout)) in blocks.iter().zip(&layouts).enumerate() {
                assert_eq!(start.addr() % layout.align(), 0);
                // SAFETY: the block is ours and has this size.
                let bytes = unsafe { std::slice::from_raw_parts_mut(*start, layout.size()) };
                assert!(bytes.iter().all(|byte| *byte == 0), "wiped, block {index}");
                bytes.fill(mark(index));
            }
            for (index, (start, layout)) in blocks.iter().zip(&layouts).enumerate() {
                // SAFETY: `start` is a live block of `heap` with `layout.size()` bytes, all
                // written above.
                let bytes = unsafe { std::slice::from_raw_parts(*start, layout.size()) };
                assert!(bytes.iter().all(|byte| *byte == mark(index)));
                // SAFETY: given back once.
                unsafe { heap.dealloc(*start, *layout) };
            }
        }
    }

    #[test]
    fn a_block_that_was_given_back_comes_again() {
        let heap = LockedHeap::new();
        // SAFETY: not empty, given back once each.
        unsafe {
            let first = heap.alloc(layout(100, 8));
            heap.dealloc(first, layout(100, 8));
            let again = heap.alloc(layout(128, 8));
            assert_eq!(first, again);
            heap.dealloc(again, layout(128, 8));
        }
    }
}
