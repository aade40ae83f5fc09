//! The calls by which `pg_waldump` decompresses a tar of WAL, led here ([`crate::rebind`]): what
//! comes out is opened where it is ([`crate::packed`]).
//!
//! None of the libraries reads again what it has put into the caller's buffer: zlib and LZ4 keep
//! the bytes that later ones refer to in memory of their own, and so does Zstandard, unless it
//! decompresses all at once.

use crate::packed;
use crate::received::RECEIVED;
use crate::{rebind, report};
use libc::{c_int, c_uint, c_ulong, c_void, size_t};
use pgseal_storage::Errno;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

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
        calls().led[self as usize].load(Ordering::Relaxed)
    }
}

/// The head of zlib's z_stream.
#[repr(C)]
pub struct Stream {
    next_in: *const u8,
    avail_in: c_uint,
    total_in: c_ulong,
    next_out: *mut u8,
    avail_out: c_uint,
}

/// `ZSTD_outBuffer`.
#[repr(C)]
pub struct Output {
    to: *mut u8,
    size: size_t,
    filled: size_t,
}

type Inflate = unsafe extern "C" fn(*mut Stream, c_int) -> c_int;
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
pub struct Calls {
    /// Which lead here, by the number of the decompressor.
    led: [AtomicBool; 3],
    inflate: OnceLock<Inflate>,
    lz4: OnceLock<Lz4>,
    zstd: OnceLock<Zstd>,
}

impl Calls {
    /// Returns the state of a program none of whose calls leads here.
    pub const fn new() -> Self {
        Self {
            led: [const { AtomicBool::new(false) }; 3],
            inflate: OnceLock::new(),
            lz4: OnceLock::new(),
            zstd: OnceLock::new(),
        }
    }
}

fn calls() -> &'static Calls {
    &RECEIVED.packed.decompressors
}

/// Leads the program's calls to this module. Called before `main`.
pub fn take() {
    // SAFETY: the types of zlib.h, lz4frame.h and zstd.h, for the originals and for our functions.
    unsafe {
        let hook = inflate as *const c_void;
        lead(Decompressor::Inflate, c"inflate", &calls().inflate, hook);
        let hook = lz4 as *const c_void;
        lead(Decompressor::Lz4, c"LZ4F_decompress", &calls().lz4, hook);
        let hook = zstd as *const c_void;
        lead(
            Decompressor::Zstd,
            c"ZSTD_decompressStream",
            &calls().zstd,
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
    calls().led[by as usize].store(led, Ordering::Relaxed);
}

/// Opens what was decompressed.
///
/// # Safety
/// The contract is that of [`packed::decompressed`].
unsafe fn open(data: *mut u8, len: usize) -> Result<(), Errno> {
    if len == 0 {
        return Ok(());
    }
    // SAFETY: the contract is this function's.
    unsafe { packed::decompressed(data, len) }.inspect_err(|_| {
        report::line("what was decompressed is no tar that can be decrypted");
    })
}

unsafe extern "C" fn inflate(stream: *mut Stream, flush: c_int) -> c_int {
    const Z_STREAM_ERROR: c_int = -2;
    let Some(original) = calls().inflate.get() else {
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
    let Some(original) = calls().lz4.get() else {
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
    let Some(original) = calls().zstd.get() else {
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
