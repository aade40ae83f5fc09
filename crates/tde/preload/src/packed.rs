//! WAL that `pg_waldump` reads out of a tar, as it can from PostgreSQL 19 on. The segments in it
//! are sealed, where `pg_basebackup` made the tar for a sealed cluster, or somebody packed its
//! files.
//!
//! An uncompressed tar is read through the descriptor table ([`crate::files::Stored`]). What is
//! compressed is opened where the program decompresses it: its calls are led here
//! ([`crate::rebind`]).
//! `pg_waldump` writes segments that it needs later to files of its own, in a directory
//! `waldump_tmp-*`. Those have the names of segments, so they are sealed as any other segment that
//! this program writes ([`crate::place`]).
//!
//! Invariants:
//! 1. It applies where the program holds the key of one cluster.
//! 2. A tar is read from its beginning, in order, and one at a time. What is asked for in another
//!    way is refused.
//! 3. None of the libraries reads again what it has put into the caller's buffer: zlib and LZ4 keep
//!    the bytes that later ones refer to in memory of their own, and so does Zstandard, unless it
//!    decompresses all at once.

use crate::clusters::{self, Cluster};
use crate::disk::FdDisk;
use crate::memory::MEMORY;
use crate::received::RECEIVED;
use crate::{control, programs, rebind, report};
use libc::{c_int, c_uint, c_ulong, c_void, size_t};
use pgseal_storage::disk::read_full;
use pgseal_storage::layout::Spec;
use pgseal_storage::tar::HEADER;
use pgseal_storage::untar::{Keys, Untar};
use pgseal_storage::{Errno, SealedFile};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A reader of WAL in tars, and what it reads.
pub struct Packed {
    /// Is this `pg_waldump`?
    reads: AtomicBool,
    /// Has a tar been opened? What else the program decompresses stays as it is.
    is_open: AtomicBool,
    stream: Mutex<Option<Stream>>,
    /// The program's calls of decompressors.
    decompressors: Calls,
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
        lead_decompressors();
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
        stream.pass(keys, blocks)?;
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
unsafe fn decompressed(data: *mut u8, len: usize) -> Result<(), Errno> {
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
        stream.pass(keys, &mut all[..whole])?;
        stream.taken += len as u64;
        stream.end = data.addr() + len;
        Ok(())
    })
}

impl Stream {
    /// Opens what is sealed in the next blocks. Without a `pg_control` the cluster's segments have
    /// the size of those in the tar.
    fn pass(&mut self, keys: &Ours, blocks: &mut [u8]) -> Result<(), Errno> {
        let known = self.tar.segment_size();
        MEMORY.with_scratch(|scratch| self.tar.pass(keys, scratch, blocks))?;
        let new = self.tar.segment_size().filter(|_| known.is_none());
        if let (Some(size), None) = (new, keys.segment_size()) {
            let size = u32::try_from(size).map_err(|_| Errno::EIO)?;
            keys.0.remember_segment_size(size);
        }
        Ok(())
    }
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

/// A way to decompress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decompressor {
    /// zlib's `inflate`.
    Inflate,
    /// LZ4 frames.
    Lz4,
    /// Zstandard frames.
    Zstd,
}

impl Decompressor {
    /// Do all calls of the program by which it decompresses so lead here?
    pub fn leads_here(self) -> bool {
        packed().decompressors.led[self as usize].load(Ordering::Relaxed)
    }
}

/// The head of zlib's z_stream.
#[repr(C)]
struct ZStream {
    next_in: *const u8,
    avail_in: c_uint,
    total_in: c_ulong,
    next_out: *mut u8,
    avail_out: c_uint,
}

/// `ZSTD_outBuffer`.
#[repr(C)]
struct Output {
    to: *mut u8,
    size: size_t,
    filled: size_t,
}

type Inflate = unsafe extern "C" fn(*mut ZStream, c_int) -> c_int;
type Lz4 = unsafe extern "C" fn(
    *mut c_void,
    *mut u8,
    *mut size_t,
    *const c_void,
    *mut size_t,
    *const c_void,
) -> size_t;
type Zstd = unsafe extern "C" fn(*mut c_void, *mut Output, *mut c_void) -> size_t;

/// The program's calls of decompressors.
struct Calls {
    /// Which lead here, by the number of the decompressor.
    led: [AtomicBool; 3],
    inflate: OnceLock<Inflate>,
    lz4: OnceLock<Lz4>,
    zstd: OnceLock<Zstd>,
}

impl Calls {
    /// Returns the state of a program none of whose calls leads here.
    const fn new() -> Self {
        Self {
            led: [const { AtomicBool::new(false) }; 3],
            inflate: OnceLock::new(),
            lz4: OnceLock::new(),
            zstd: OnceLock::new(),
        }
    }
}

/// Leads the program's calls to this module. Called before `main`.
fn lead_decompressors() {
    // SAFETY: the types of zlib.h, lz4frame.h and zstd.h, for the originals and for our functions.
    unsafe {
        let hook = inflate as *const c_void;
        lead(
            Decompressor::Inflate,
            c"inflate",
            &packed().decompressors.inflate,
            hook,
        );
        let hook = lz4 as *const c_void;
        lead(
            Decompressor::Lz4,
            c"LZ4F_decompress",
            &packed().decompressors.lz4,
            hook,
        );
        let hook = zstd as *const c_void;
        lead(
            Decompressor::Zstd,
            c"ZSTD_decompressStream",
            &packed().decompressors.zstd,
            hook,
        );
    }
}

/// # Safety
/// `F` is the type of the function of this name, and of `hook`; no other thread runs.
unsafe fn lead<F: Copy>(by: Decompressor, name: &CStr, place: &OnceLock<F>, hook: *const c_void) {
    // SAFETY: the types are right, and no other thread runs, by this contract.
    let led = unsafe {
        rebind::original(name).is_some_and(|original| {
            let _ = place.set(original);
            rebind::lead(name, hook)
        })
    };
    packed().decompressors.led[by as usize].store(led, Ordering::Relaxed);
}

/// Opens what was decompressed.
///
/// # Safety
/// The contract is that of [`decompressed`].
unsafe fn open(data: *mut u8, len: usize) -> Result<(), Errno> {
    if len == 0 {
        return Ok(());
    }
    // SAFETY: the contract is this function's.
    unsafe { decompressed(data, len) }.inspect_err(|_| {
        report::line("what was decompressed is no tar that can be decrypted");
    })
}

unsafe extern "C" fn inflate(stream: *mut ZStream, flush: c_int) -> c_int {
    const Z_STREAM_ERROR: c_int = -2;
    let Some(original) = packed().decompressors.inflate.get() else {
        return Z_STREAM_ERROR;
    };
    // SAFETY: `stream` is inflate's caller's. The bytes between its two positions are new, and lie
    // in the caller's buffer behind those of the call before.
    unsafe {
        let to = (*stream).next_out;
        let answer = original(stream, flush);
        let len = (*stream).next_out.addr() - to.addr();
        match open(to, len) {
            Ok(()) => answer,
            Err(_) => Z_STREAM_ERROR,
        }
    }
}

unsafe extern "C" fn lz4(
    context: *mut c_void,
    to: *mut u8,
    len: *mut size_t,
    from: *const c_void,
    from_len: *mut size_t,
    options: *const c_void,
) -> size_t {
    let Some(original) = packed().decompressors.lz4.get() else {
        return size_t::MAX;
    };
    // SAFETY: the arguments are those of LZ4F_decompress's caller. It has put `len` bytes at `to`,
    // which lie behind those of the call before.
    unsafe {
        let answer = original(context, to, len, from, from_len, options);
        match open(to, *len) {
            Ok(()) => answer,
            Err(_) => size_t::MAX,
        }
    }
}

unsafe extern "C" fn zstd(context: *mut c_void, output: *mut Output, input: *mut c_void) -> size_t {
    let Some(original) = packed().decompressors.zstd.get() else {
        return size_t::MAX;
    };
    // SAFETY: the arguments are those of ZSTD_decompressStream's caller. The bytes between the two
    // positions are new, and lie behind those of the call before.
    unsafe {
        let filled = (*output).filled;
        let answer = original(context, output, input);
        match open((*output).to.byte_add(filled), (*output).filled - filled) {
            Ok(()) => answer,
            Err(_) => size_t::MAX,
        }
    }
}
