//! Open sealed files by descriptor.
//!
//! A flat table of atomic pointers, so that a call on an unprotected descriptor costs one load. The
//! files themselves lie in an arena of locked memory ([`arena`]) that is never unmapped: a thread
//! that races a `close` of the descriptor it is reading sees a wrong key at worst, not freed memory.
//!
//! Invariant: an entry exists exactly while its descriptor is open in this process through one of
//! our hooks; `dup` copies it, `close` and the target of `dup2` drop it. A `vfork` child changes
//! nothing here: the table is its parent's.

mod arena;

use crate::disk::FdDisk;
use crate::process;
use arena::Slot;
use libc::c_int;
use pgseal_storage::SealedFile;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Descriptors that can be protected: more than any limit PostgreSQL is run with.
const MAX_FD: usize = 1 << 20;

static TABLE: [AtomicPtr<OpenFile>; MAX_FD] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_FD];

/// A sealed file that is open, under one or more descriptors.
pub struct OpenFile {
    /// How its bytes are stored.
    pub sealed: SealedFile<'static>,
    /// Writes go to the end. The kernel's own O_APPEND is never set: it would ignore our offsets.
    pub append: bool,
    descriptors: AtomicU32,
}

/// A protected descriptor, looked up for one call.
#[derive(Clone, Copy)]
pub struct Protected {
    /// The file behind it.
    pub file: &'static OpenFile,
    /// The descriptor as a disk.
    pub disk: FdDisk,
}

/// The sealed file behind `fd`, if it is one.
#[inline]
pub fn get(fd: c_int) -> Option<Protected> {
    let slot = TABLE.get(usize::try_from(fd).ok()?)?;
    let file = slot.load(Ordering::Acquire);
    if file.is_null() {
        return None;
    }
    // SAFETY: entries point into the arena, which is never unmapped.
    Some(Protected {
        file: unsafe { &*file },
        disk: FdDisk(fd),
    })
}

/// Why a descriptor cannot be protected.
#[derive(Clone, Copy, Debug)]
pub struct TooMany;

/// Protects `fd`.
pub fn insert(fd: c_int, sealed: SealedFile<'static>, append: bool) -> Result<(), TooMany> {
    let entry = usize::try_from(fd)
        .ok()
        .and_then(|fd| TABLE.get(fd))
        .ok_or(TooMany)?;
    let file = OpenFile {
        sealed,
        append,
        descriptors: AtomicU32::new(1),
    };
    if !process::owns_memory() {
        return Err(TooMany);
    }
    let slot = Slot::take(file).ok_or(TooMany)?;
    drop_entry(entry.swap(slot.into_raw(), Ordering::AcqRel));
    Ok(())
}

/// `copy` now names the same open file as `fd`, protected or not.
pub fn duplicate(fd: c_int, copy: c_int) -> Result<(), TooMany> {
    let Some(entry) = usize::try_from(copy).ok().and_then(|copy| TABLE.get(copy)) else {
        return if get(fd).is_some() {
            Err(TooMany)
        } else {
            Ok(())
        };
    };
    let unprotected = get(fd).is_none() && entry.load(Ordering::Acquire).is_null();
    if unprotected || !process::owns_memory() {
        return Ok(());
    }
    let file = get(fd).map_or(std::ptr::null_mut(), |protected| {
        protected.file.descriptors.fetch_add(1, Ordering::Relaxed);
        std::ptr::from_ref(protected.file).cast_mut()
    });
    drop_entry(entry.swap(file, Ordering::AcqRel));
    Ok(())
}

/// `fd` is being closed.
#[inline]
pub fn remove(fd: c_int) {
    let Some(entry) = usize::try_from(fd).ok().and_then(|fd| TABLE.get(fd)) else {
        return;
    };
    if !entry.load(Ordering::Acquire).is_null() && process::owns_memory() {
        drop_entry(entry.swap(std::ptr::null_mut(), Ordering::AcqRel));
    }
}

fn drop_entry(file: *mut OpenFile) {
    if file.is_null() {
        return;
    }
    // SAFETY: the pointer came out of the table, by a swap: this is its only owner.
    let last = unsafe { (*file).descriptors.fetch_sub(1, Ordering::AcqRel) == 1 };
    if last {
        // SAFETY: no entry names it any more.
        unsafe { Slot::release(file) };
    }
}

/// The descriptors from `first` to `last` are being closed.
pub fn remove_range(first: c_int, last: c_int) {
    let limit = c_int::try_from(MAX_FD - 1).unwrap_or(c_int::MAX);
    (first.max(0)..=last.min(limit)).for_each(remove);
}
