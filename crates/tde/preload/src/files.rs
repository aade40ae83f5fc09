//! Open sealed files by descriptor.
//!
//! A table of atomic pointers, so that a call on an unprotected descriptor costs two loads. It has
//! two levels: what every process could write counts in each (`vm.overcommit_memory=2`), so a chunk
//! of entries is mapped when one of its descriptors is first protected, and stays. The files
//! themselves lie in an arena of locked memory ([`Arena`]) that is never unmapped: a thread that
//! races a `close` of the descriptor it is reading sees a wrong key at worst, not freed memory.
//!
//! Invariant: an entry exists exactly while its descriptor is open in this process through one of
//! our hooks; `dup` copies it, `close` and the target of `dup2` drop it. A `vfork` child changes
//! nothing here: the table is its parent's.

mod streams;

use crate::arena::Arena;
use crate::clusters::Cluster;
use crate::counters::Area;
use crate::disk::FdDisk;
use crate::habits;
use crate::process::PROCESS;
use libc::c_int;
use pgseal_storage::{Errno, SealedFile};
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use streams::Streams;

pub use streams::Slot;

/// Descriptors that can be protected: more than any limit PostgreSQL is run with.
const MAX_FD: usize = 1 << 20;

/// Descriptors in a row; null where none is protected.
type Chunk = [AtomicPtr<OpenFile>; CHUNK];
const CHUNK: usize = 1024;

static FILES: Files = Files {
    table: [const { AtomicPtr::new(null_mut()) }; MAX_FD / CHUNK],
    open: Arena::new(),
    streams: Streams::new(),
};

struct Files {
    table: [AtomicPtr<Chunk>; MAX_FD / CHUNK],
    open: Arena<{ size_of::<OpenFile>().next_multiple_of(64) }>,
    streams: Streams,
}

extern "C" fn relock() {
    FILES.open.relock();
}

/// Returns the streams over protected descriptors.
pub fn streams() -> &'static Streams {
    &FILES.streams
}

/// How the bytes of an open file are stored.
#[allow(clippy::large_enum_variant)] // in the arena, in slots of one size
pub enum Stored {
    /// As those of a sealed file of this cluster.
    Sealed(SealedFile<'static>, &'static Cluster),
    /// As a tar of sealed segments, which this process makes ([`crate::received`]).
    WalTar,
    /// As a tar of sealed segments, which this process reads ([`crate::packed`]).
    ReadTar,
    /// As those of a sealed file, and so they are read: by a raw base backup, or by a program that
    /// copies files, beside the server that writes pages of which WAL has no images.
    Pages,
}

/// A sealed file that is open, under one or more descriptors.
pub struct OpenFile {
    /// How its bytes are stored.
    pub stored: Stored,
    /// The area that its transfers count for.
    pub area: Area,
    /// Access mode and O_APPEND as the caller asked for them: the descriptor itself is open for
    /// reading too, and never with O_APPEND, under which the kernel ignores our offsets.
    flags: AtomicI32,
    descriptors: AtomicU32,
    /// Is it given as it is stored to who imports it as a large object?
    hidden_from_import: bool,
}

impl OpenFile {
    /// The sealed file; a tar that is being made is only written, and stored pages are only read.
    pub fn sealed(&self) -> Result<&SealedFile<'static>, Errno> {
        match &self.stored {
            Stored::Sealed(sealed, _) => Ok(sealed),
            Stored::WalTar | Stored::ReadTar | Stored::Pages => Err(Errno(libc::EBADF)),
        }
    }

    /// Does the caller see other bytes than the kernel has?
    pub fn is_ciphered(&self) -> bool {
        !matches!(self.stored, Stored::Pages)
    }

    /// May the caller read? Not through a descriptor that only this library made readable.
    pub fn readable(&self) -> Result<(), Errno> {
        match self.flags() & libc::O_ACCMODE {
            libc::O_RDONLY | libc::O_RDWR => Ok(()),
            _ => Err(Errno(libc::EBADF)),
        }
    }

    /// May the caller write?
    pub fn writable(&self) -> Result<(), Errno> {
        match self.flags() & libc::O_ACCMODE {
            libc::O_WRONLY | libc::O_RDWR => Ok(()),
            _ => Err(Errno(libc::EBADF)),
        }
    }

    /// Do writes go to the end?
    pub fn appends(&self) -> bool {
        self.flags() & libc::O_APPEND != 0
    }

    /// Is this read one of `lo_import`, which may not see clear bytes?
    pub fn hides_from(&self, len: usize) -> bool {
        self.hidden_from_import && len == habits::LARGE_OBJECT_CHUNK
    }

    /// Does one descriptor alone lead here?
    pub fn is_last(&self) -> bool {
        self.descriptors.load(Ordering::Relaxed) == 1
    }

    /// Access mode and O_APPEND, as the caller knows them.
    pub fn flags(&self) -> c_int {
        self.flags.load(Ordering::Relaxed)
    }

    /// Turns appending on or off.
    pub fn set_appends(&self, appends: bool) {
        if appends {
            self.flags.fetch_or(libc::O_APPEND, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!libc::O_APPEND, Ordering::Relaxed);
        }
    }
}

/// The part of `open`'s flags that is kept up by hand.
pub const KEPT_FLAGS: c_int = libc::O_ACCMODE | libc::O_APPEND;

/// A protected descriptor, looked up for one call.
#[derive(Clone, Copy)]
pub struct Protected {
    /// The file behind it.
    pub file: &'static OpenFile,
    /// The descriptor as a disk.
    pub disk: FdDisk,
}

/// Returns the sealed file behind `fd`, if it is one.
#[inline]
pub fn get(fd: c_int) -> Option<Protected> {
    let file = entry(fd)?.load(Ordering::Acquire);
    if file.is_null() {
        return None;
    }
    // SAFETY: entries point into the arena, which is never unmapped.
    let file = unsafe { &*file };
    let disk = FdDisk(fd);
    Some(Protected { file, disk })
}

/// Why a descriptor cannot be protected.
#[derive(Clone, Copy, Debug)]
pub struct TooMany;

/// Protects `fd`, which was asked for with `flags`. Its transfers count as those of the area.
pub fn insert(
    fd: c_int,
    (stored, area): (Stored, Area),
    flags: c_int,
    hidden_from_import: bool,
) -> Result<(), TooMany> {
    let flags = AtomicI32::new(flags & KEPT_FLAGS);
    let file = OpenFile {
        stored,
        area,
        flags,
        descriptors: AtomicU32::new(1),
        hidden_from_import,
    };
    if !PROCESS.owns_memory() {
        return Err(TooMany);
    }
    let entry = made_entry(fd).ok_or(TooMany)?;
    let slot = FILES.open.take(relock).ok_or(TooMany)?.cast::<OpenFile>();
    // SAFETY: the slot is ours alone, large enough and aligned.
    unsafe { slot.write(file) };
    drop_entry(entry.swap(slot.as_ptr(), Ordering::AcqRel));
    Ok(())
}

/// Makes `copy` name the same open file as `fd`, protected or not.
pub fn duplicate(fd: c_int, copy: c_int) -> Result<(), TooMany> {
    let Some(Protected { file, .. }) = get(fd) else {
        remove(copy);
        return Ok(());
    };
    if !PROCESS.owns_memory() {
        return Ok(());
    }
    let entry = made_entry(copy).ok_or(TooMany)?;
    file.descriptors.fetch_add(1, Ordering::Relaxed);
    let file = std::ptr::from_ref(file).cast_mut();
    drop_entry(entry.swap(file, Ordering::AcqRel));
    Ok(())
}

/// Removes the entry of `fd`, which is being closed.
#[inline]
pub fn remove(fd: c_int) {
    let Some(entry) = entry(fd) else {
        return;
    };
    if !entry.load(Ordering::Acquire).is_null() && PROCESS.owns_memory() {
        drop_entry(entry.swap(null_mut(), Ordering::AcqRel));
    }
}

fn drop_entry(file: *mut OpenFile) {
    let Some(slot) = NonNull::new(file) else {
        return;
    };
    // SAFETY: the pointer came out of the table, by a swap: this is its only owner.
    let last = unsafe { (*file).descriptors.fetch_sub(1, Ordering::AcqRel) == 1 };
    if last {
        // SAFETY: no entry names it any more.
        unsafe {
            std::ptr::drop_in_place(file);
            FILES.open.give_back(slot.cast());
        }
    }
}

/// Returns the protected descriptors from `first` to `last`.
pub fn within(first: c_int, last: c_int) -> impl Iterator<Item = c_int> {
    let limit = c_int::try_from(MAX_FD - 1).unwrap_or(c_int::MAX);
    (first.max(0)..=last.min(limit)).filter(|&fd| get(fd).is_some())
}

/// Returns the entry for a descriptor's file, if one of its chunk was ever protected.
#[inline]
fn entry(fd: c_int) -> Option<&'static AtomicPtr<OpenFile>> {
    let fd = usize::try_from(fd).ok()?;
    let chunk = FILES.table.get(fd / CHUNK)?.load(Ordering::Acquire);
    // SAFETY: the pointer is null, or leads to a chunk that stays mapped.
    let chunk = unsafe { chunk.as_ref() }?;
    Some(&chunk[fd % CHUNK])
}

/// Returns the entry for a descriptor's file, and maps its chunk if there is none yet. None if the
/// number is too high, or if the kernel gives no memory.
fn made_entry(fd: c_int) -> Option<&'static AtomicPtr<OpenFile>> {
    if let Some(entry) = entry(fd) {
        return Some(entry);
    }
    let place = FILES.table.get(usize::try_from(fd).ok()? / CHUNK)?;
    let new = map_chunk()?;
    let first = place.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        // SAFETY: the mapping is our own, and no other thread has seen it.
        unsafe { libc::munmap(new.cast(), size_of::<Chunk>()) };
    }
    entry(fd)
}

fn map_chunk() -> Option<*mut Chunk> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the mapping is new; its zeros are null pointers.
    let map = unsafe { libc::mmap(null_mut(), size_of::<Chunk>(), access, flags, -1, 0) };
    (map != libc::MAP_FAILED).then_some(map.cast())
}
