//! The calls by which pg_basebackup and pg_receivewal compress WAL, led here ([`crate::rebind`]):
//! what they compress is sealed first ([`crate::received`]).
//!
//! zlib and LZ4 then see fewer or more bytes than the program gave, never others: a block that is
//! cut waits for its rest. The programs count what they gave.

use crate::received::{self, RECEIVED};
use crate::{real, rebind, report};
use libc::{c_int, c_uint, c_void, size_t};
use pgseal_storage::Errno;
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A way to compress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compressor {
    /// zlib's `deflate`, by which tars are compressed.
    Deflate,
    /// zlib's `gzwrite`.
    Gzip,
    /// LZ4 frames.
    Lz4,
}

impl Compressor {
    /// Do all calls of the program by which it compresses so lead here?
    pub fn leads_here(self) -> bool {
        program().led[self as usize].load(Ordering::Relaxed)
    }
}

/// The head of zlib's z_stream.
#[repr(C)]
pub struct Stream {
    next_in: *const u8,
    avail_in: c_uint,
}

type Deflate = unsafe extern "C" fn(*mut Stream, c_int) -> c_int;
type GzWrite = unsafe extern "C" fn(*mut c_void, *const c_void, c_uint) -> c_int;
type GzClose = unsafe extern "C" fn(*mut c_void) -> c_int;
type Lz4Update = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    size_t,
    *const c_void,
    size_t,
    *const c_void,
) -> size_t;
type Lz4End = unsafe extern "C" fn(*mut c_void, *mut c_void, size_t, *const c_void) -> size_t;

/// The program's calls of compressors.
pub struct Calls {
    /// Which lead here, by the number of the compressor.
    led: [AtomicBool; 3],
    deflate: OnceLock<Deflate>,
    gzip: OnceLock<(GzWrite, GzClose)>,
    lz4: OnceLock<(Lz4Update, Lz4End)>,
    /// The bytes that were sealed last: zlib reads from here until it has taken all.
    sealed: Mutex<Vec<u8>>,
}

impl Calls {
    /// Returns the state of a program none of whose calls leads here.
    pub const fn new() -> Self {
        Self {
            led: [const { AtomicBool::new(false) }; 3],
            deflate: OnceLock::new(),
            gzip: OnceLock::new(),
            lz4: OnceLock::new(),
            sealed: Mutex::new(Vec::new()),
        }
    }

    fn last(&self) -> MutexGuard<'_, Vec<u8>> {
        self.sealed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// This program's calls.
fn program() -> &'static Calls {
    &RECEIVED.compressors
}

/// Leads the program's calls of `deflate` to this module. Called before `main`.
pub fn take_deflate() {
    // SAFETY: the type of zlib.h, for the original and for our function.
    unsafe {
        if let Some(original) = rebind::original(c"deflate") {
            let _ = program().deflate.set(original);
            take(
                Compressor::Deflate,
                &[(c"deflate", deflate as *const c_void)],
            );
        }
    }
}

/// Leads the program's calls of `gzwrite` and `gzclose` to this module. Called before `main`.
pub fn take_gzip() {
    // SAFETY: the types of zlib.h, for the originals and for our functions.
    unsafe {
        let write = rebind::original(c"gzwrite");
        if let Some(originals) = write.zip(rebind::original(c"gzclose")) {
            let _ = program().gzip.set(originals);
            let calls: [(&CStr, *const c_void); 2] = [
                (c"gzwrite", gzwrite as *const c_void),
                (c"gzclose", gzclose as *const c_void),
            ];
            take(Compressor::Gzip, &calls);
        }
    }
}

/// Leads the program's calls that make LZ4 frames to this module. Called before `main`.
pub fn take_lz4() {
    // SAFETY: the types of lz4frame.h, for the originals and for our functions.
    unsafe {
        let update = rebind::original(c"LZ4F_compressUpdate");
        if let Some(originals) = update.zip(rebind::original(c"LZ4F_compressEnd")) {
            let _ = program().lz4.set(originals);
            let calls: [(&CStr, *const c_void); 2] = [
                (c"LZ4F_compressUpdate", lz4_update as *const c_void),
                (c"LZ4F_compressEnd", lz4_end as *const c_void),
            ];
            take(Compressor::Lz4, &calls);
        }
    }
}

/// # Safety
/// The contract is that of [`rebind::lead`].
unsafe fn take(compressor: Compressor, calls: &[(&CStr, *const c_void)]) {
    // SAFETY: no other thread runs, and each hook has its function's type, by this contract.
    let all = calls
        .iter()
        .all(|(name, hook)| unsafe { rebind::lead(name, *hook) });
    program().led[compressor as usize].store(all, Ordering::Relaxed);
}

fn sealed() -> Vec<u8> {
    std::mem::take(&mut *program().last())
}

fn keep(bytes: Vec<u8>) {
    *program().last() = bytes;
}

/// Seals `len` bytes at `data` into a buffer of ours.
///
/// # Safety
/// `data` points to `len` bytes that the caller owns until this returns.
unsafe fn seal(data: *const c_void, len: usize) -> Result<Vec<u8>, Errno> {
    let mut out = sealed();
    out.clear();
    // SAFETY: `data` points to `len` bytes that live until this returns, by this contract.
    let data = unsafe { super::buffers::bytes(data, len) };
    match received::pass(data, &mut out) {
        Ok(()) => Ok(out),
        Err(errno) => Err(refused(errno)),
    }
}

fn refused(errno: Errno) -> Errno {
    report::line("what is to be compressed is no WAL that can be sealed: nothing is written");
    errno
}

const Z_OK: c_int = 0;
const Z_ERRNO: c_int = -1;
const Z_STREAM_ERROR: c_int = -2;

/// Replaces the caller's input by ours, once; the caller goes on until zlib has taken that.
unsafe extern "C" fn deflate(stream: *mut Stream, flush: c_int) -> c_int {
    const Z_NO_FLUSH: c_int = 0;
    let Some(original) = program().deflate.get() else {
        return Z_STREAM_ERROR;
    };
    // SAFETY: `stream` is deflate's caller's, with `avail_in` bytes at `next_in`. Our bytes stay in
    // `sealed` until the next input.
    unsafe {
        let (input, len) = ((*stream).next_in, (*stream).avail_in);
        if len > 0 && !is_ours(input) {
            let Ok(out) = seal(input.cast(), usize::try_from(len).unwrap_or(0)) else {
                return Z_STREAM_ERROR;
            };
            (*stream).next_in = out.as_ptr();
            (*stream).avail_in = c_uint::try_from(out.len()).unwrap_or(0);
            keep(out);
        }
        if (*stream).avail_in == 0 && flush == Z_NO_FLUSH {
            return Z_OK;
        }
        original(stream, flush)
    }
}

fn is_ours(input: *const u8) -> bool {
    let sealed = program().last();
    sealed.as_ptr_range().contains(&input)
}

unsafe extern "C" fn gzwrite(file: *mut c_void, data: *const c_void, len: c_uint) -> c_int {
    // SAFETY: gzwrite's caller passes an open gzFile, and `len` bytes at `data`.
    unsafe {
        match seal(data, usize::try_from(len).unwrap_or(0)) {
            Ok(out) => match write_sealed(file, out) {
                true => c_int::try_from(len).unwrap_or(0),
                false => 0,
            },
            Err(Errno(errno)) => {
                real::set_errno(errno);
                0
            }
        }
    }
}

unsafe extern "C" fn gzclose(file: *mut c_void) -> c_int {
    let Some((_, close)) = program().gzip.get() else {
        return Z_ERRNO;
    };
    // SAFETY: `file` is an open gzFile that gzclose's caller gives up.
    unsafe {
        let last = held_back();
        let written = last.is_ok_and(|out| write_sealed(file, out));
        match (close(file), written) {
            (Z_OK, false) => Z_ERRNO,
            (answer, _) => answer,
        }
    }
}

/// # Safety
/// `file` is an open `gzFile`.
unsafe fn write_sealed(file: *mut c_void, out: Vec<u8>) -> bool {
    let (data, len) = (out.as_ptr(), c_uint::try_from(out.len()).unwrap_or(0));
    let done = len == 0
        || program().gzip.get().is_some_and(|(write, _)| {
            // SAFETY: `data` and `len` are those of `out`, and `file` is an open gzFile, by this
            // contract; zlib takes all bytes or fails.
            let written = unsafe { write(file, data.cast(), len) };
            c_uint::try_from(written) == Ok(len)
        });
    keep(out);
    done
}

fn held_back() -> Result<Vec<u8>, Errno> {
    let mut out = sealed();
    out.clear();
    received::finish(&mut out).map(|()| out)
}

/// LZ4F_isError says yes.
const LZ4_ERROR: size_t = size_t::MAX;

unsafe extern "C" fn lz4_update(
    context: *mut c_void,
    to: *mut c_void,
    room: size_t,
    data: *const c_void,
    len: size_t,
    options: *const c_void,
) -> size_t {
    // SAFETY: `data` points to `len` bytes that LZ4F_compressUpdate's caller owns.
    let Ok(out) = (unsafe { seal(data, len) }) else {
        return LZ4_ERROR;
    };
    // SAFETY: LZ4F_compressUpdate's caller passes its context, `room` bytes at `to`, and options.
    unsafe { update_sealed(context, to, room, out, options) }
}

/// Compresses what was held back, and ends the frame. The rest is less than a block that LZ4 works
/// on, so that `room` is enough for both.
unsafe extern "C" fn lz4_end(
    context: *mut c_void,
    to: *mut c_void,
    room: size_t,
    options: *const c_void,
) -> size_t {
    let (Ok(out), Some((_, end))) = (held_back(), program().lz4.get()) else {
        return LZ4_ERROR;
    };
    // SAFETY: LZ4F_compressEnd's caller passes its context, `room` bytes at `to`, and options. The
    // first part fits in `room`, so that the second one starts within it.
    unsafe {
        let first = update_sealed(context, to, room, out, ptr::null());
        if first > room {
            return first;
        }
        let last = end(context, to.byte_add(first), room - first, options);
        if last > room {
            return last;
        }
        first + last
    }
}

/// # Safety
/// The contract is that of `LZ4F_compressUpdate`, except for its input.
unsafe fn update_sealed(
    context: *mut c_void,
    to: *mut c_void,
    room: size_t,
    out: Vec<u8>,
    options: *const c_void,
) -> size_t {
    let Some((update, _)) = program().lz4.get() else {
        return LZ4_ERROR;
    };
    let (data, len) = (out.as_ptr(), out.len());
    let done = match len {
        0 => 0,
        // SAFETY: `data` and `len` are those of `out`; the rest is valid by this contract.
        _ => unsafe { update(context, to, room, data.cast(), len, options) },
    };
    keep(out);
    done
}
