//! WAL that `pg_waldump` reads out of a tar, as it can from PostgreSQL 19 on. The segments in it
//! are sealed, where `pg_basebackup` made the tar for a sealed cluster, or somebody packed its
//! files.
//!
//! An uncompressed tar is read through the descriptor table ([`crate::files::Stored`]). What is
//! compressed is opened where the program decompresses it ([`crate::hooks::decompressors`]).
//! `pg_waldump` writes segments that it needs later to files of its own, in a directory
//! `waldump_tmp-*`. Those have the names of segments, so they are sealed as any other segment that
//! this program writes ([`crate::place`]).
//!
//! Invariants:
//! 1. It applies where the program holds the key of one cluster.
//! 2. A tar is read from its beginning, in order, and one at a time. What is asked for in another
//!    way is refused.

use crate::clusters::{self, Cluster};
use crate::disk::FdDisk;
use crate::hooks::decompressors::{self, Calls, Decompressor};
use crate::memory::MEMORY;
use crate::received::RECEIVED;
use crate::{control, programs};
use libc::c_int;
use pgseal_storage::disk::read_full;
use pgseal_storage::layout::Spec;
use pgseal_storage::tar::HEADER;
use pgseal_storage::untar::{Keys, Untar};
use pgseal_storage::{Errno, SealedFile};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A reader of WAL in tars, and what it reads.
pub struct Packed {
    /// Is this `pg_waldump`?
    reads: AtomicBool,
    /// Has a tar been opened? What else the program decompresses stays as it is.
    is_open: AtomicBool,
    stream: Mutex<Option<Stream>>,
    /// The program's calls of decompressors.
    pub decompressors: Calls,
}

impl Packed {
    /// Returns the state of a program that reads no tar.
    pub const fn new() -> Self {
        Self {
            reads: AtomicBool::new(false),
            is_open: AtomicBool::new(false),
            stream: Mutex::new(None),
            decompressors: Calls::new(),
        }
    }
}

/// This program's state.
fn packed() -> &'static Packed {
    &RECEIVED.packed
}

/// The tar, as far as it came.
struct Stream {
    tar: Untar<'static>,
    /// Bytes that came.
    taken: u64,
    /// The address behind the byte that was decompressed last.
    end: usize,
}

/// Called once, before `main`.
pub fn start() {
    if programs::is("pg_waldump") {
        packed().reads.store(true, Ordering::Relaxed);
        decompressors::take();
    }
}

/// Returns whether a file that is about to be opened is a tar of WAL, and by what it is
/// decompressed: by its name, as the program itself decides (parse_tar_compress_algorithm,
/// src/common/compression.c).
pub fn form(path: &CStr, flags: c_int) -> Option<Option<Decompressor>> {
    const ENDINGS: [(&[u8], Option<Decompressor>); 5] = [
        (b".tar", None),
        (b".tgz", Some(Decompressor::Inflate)),
        (b".tar.gz", Some(Decompressor::Inflate)),
        (b".tar.lz4", Some(Decompressor::Lz4)),
        (b".tar.zst", Some(Decompressor::Zstd)),
    ];
    let reads = flags & (libc::O_ACCMODE | libc::O_CREAT) == libc::O_RDONLY;
    if !reads || !packed().reads.load(Ordering::Relaxed) || clusters::sole().is_none() {
        return None;
    }
    let named = |(ending, _): &&(&[u8], _)| path.to_bytes().ends_with(ending);
    ENDINGS.iter().find(named).map(|(_, by)| *by)
}

/// The tar is next.
pub fn begin(by: Option<Decompressor>) -> Result<(), &'static str> {
    if by.is_some_and(|by| !by.leads_here()) {
        return Err("this program decompresses WAL before it can be decrypted");
    }
    packed().is_open.store(true, Ordering::Relaxed);
    put(Some(Stream {
        tar: Untar::default(),
        taken: 0,
        end: 0,
    }));
    Ok(())
}

/// Reads from the tar, which is not compressed.
pub fn read(disk: &FdDisk, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let whole = buf.len() - buf.len() % HEADER;
    if whole == 0 {
        return Err(Errno::EINVAL);
    }
    with(|keys, stream| {
        if stream.taken != offset {
            return Err(Errno::EIO);
        }
        let done = read_full(disk, &mut buf[..whole], offset)?;
        // A tar that was cut ends in the middle of a block.
        let blocks = &mut buf[..done - done % HEADER];
        MEMORY.with_scratch(|scratch| stream.tar.pass(keys, scratch, blocks))?;
        stream.taken += done as u64;
        Ok(done)
    })
}

/// Opens what the program has decompressed: `len` bytes at `data`, and before them the block that
/// the last ones left unfinished.
///
/// # Safety
/// `data` points to `len` bytes that may be written, in the same buffer behind those that were
/// given last, if they ended there.
pub unsafe fn decompressed(data: *mut u8, len: usize) -> Result<(), Errno> {
    if !packed().is_open.load(Ordering::Relaxed) {
        return Ok(());
    }
    with(|keys, stream| {
        let held = usize::try_from(stream.taken % HEADER as u64).unwrap_or(0);
        if held > 0 && data.addr() != stream.end {
            return Err(Errno::EIO);
        }
        // SAFETY: `data` points to `len` bytes, by this function's contract; those that are held
        // are right before them, because the last ones ended there.
        let all = unsafe { std::slice::from_raw_parts_mut(data.sub(held), held + len) };
        let whole = all.len() - all.len() % HEADER;
        MEMORY.with_scratch(|scratch| stream.tar.pass(keys, scratch, &mut all[..whole]))?;
        stream.taken += len as u64;
        stream.end = data.addr() + len;
        Ok(())
    })
}

/// Returns the size in bytes of the segments in the tar, if any came.
pub fn segment_size() -> Option<u64> {
    with(|_, stream| stream.tar.segment_size().ok_or(Errno::EIO)).ok()
}

/// The lock is not held while `work` runs, because that may call libc.
fn with<T>(work: impl FnOnce(&Ours, &mut Stream) -> Result<T, Errno>) -> Result<T, Errno> {
    let keys = Ours(clusters::sole().ok_or(Errno::EIO)?);
    let stream = packed()
        .stream
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let mut stream = stream.ok_or(Errno::EIO)?;
    let result = work(&keys, &mut stream);
    put(Some(stream));
    result
}

fn put(stream: Option<Stream>) {
    *packed()
        .stream
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = stream;
}

/// The cluster's key.
struct Ours(&'static Cluster);

impl Keys<'static> for Ours {
    fn segment_size(&self) -> Option<u64> {
        control::wal_segment_size(self.0).ok().flatten()
    }

    fn open(&self, spec: &Spec) -> SealedFile<'static> {
        self.0.open(spec)
    }
}
