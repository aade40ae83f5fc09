//! The C interface, `extension/encdb/src/pgext.h`. It is the only unsafe part of this crate, except
//! what `peers.rs` asks of the kernel.
//!
//! Every block here relies on what the header promises of arguments. Bytes are readable for their
//! length, strings end in zero, and memory for results is writable, all for the time of the call.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, CStr};
use std::slice;

use pgseal_evaluator_proto::{Collation, Matching, Parts, Refusal, Request};

use crate::shell::{Failure, Shell};

/// A function of the interface.
macro_rules! interface {
    ($(
        $(#[doc = $doc:literal])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $out:ty)? $body:block
    )*) => {
        $(
            $(#[doc = $doc])*
            ///
            /// # Safety
            /// Arguments are as `pgext.h` says.
            #[no_mangle]
            #[allow(unused_unsafe)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $out)? {
                // SAFETY: arguments are as `pgext.h` says, by this function's contract.
                unsafe { $body }
            }
        )*
    };
}

mod aggregates;
mod comparisons;
mod each;
mod grants;
mod operations;
mod session;

/// Bytes of C, and of the answers to it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PgsealBytes {
    data: *const u8,
    len: usize,
}

impl PgsealBytes {
    /// Returns the bytes, which stay valid as long as C lets them.
    ///
    /// # Safety
    /// They are readable during the call, as the header demands.
    unsafe fn get<'a>(self) -> &'a [u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `data` points to `len` bytes that are readable during the call, by this contract;
        // `len` is not 0, so `data` is not null.
        unsafe { slice::from_raw_parts(self.data, self.len) }
    }
}

impl From<&[u8]> for PgsealBytes {
    fn from(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr(),
            len: bytes.len(),
        }
    }
}

/// The one shell of the process.
struct Cupboard(UnsafeCell<Option<Shell>>);

// SAFETY: C calls from one thread of a backend, and no call comes while another is under way.
unsafe impl Sync for Cupboard {}

static SHELL: Cupboard = Cupboard(UnsafeCell::new(None));

fn shell() -> &'static mut Shell {
    // SAFETY: C calls from one thread, and calls do not nest: every function of the interface takes
    // the shell once, and the reference is gone when it returns.
    unsafe { &mut *SHELL.0.get() }.get_or_insert_with(Shell::new)
}

/// Returns 0, or the number of the refusal, which is kept for `pgseal_refusal`.
fn report(shell: &mut Shell, outcome: Result<(), Failure>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(failure) => {
            let code = c_int::from(failure.code);
            shell.failure = failure;
            code
        }
    }
}

/// Makes a request that is answered by a cell.
///
/// # Safety
/// `result` is writable.
unsafe fn answer_cell(request: &Request<'_>, result: *mut PgsealBytes) -> c_int {
    let shell = shell();
    let outcome = shell.cell(request).map(PgsealBytes::from);
    // SAFETY: `result` is writable, by this function's contract.
    unsafe { put(shell, outcome, result) }
}

/// Writes an outcome to its place.
///
/// # Safety
/// `place` is writable.
unsafe fn put<T>(shell: &mut Shell, outcome: Result<T, Failure>, place: *mut T) -> c_int {
    let outcome = outcome.map(|value| {
        // SAFETY: `place` is writable, by this function's contract.
        unsafe { place.write(value) }
    });
    report(shell, outcome)
}

/// # Safety
/// `name` is NULL or a string that is readable during the call.
unsafe fn locale<'a>(name: *const c_char) -> Result<Collation<'a>, Failure> {
    if name.is_null() {
        return Ok(Collation::C);
    }
    // SAFETY: `name` is not null, so it is a string that is readable during the call.
    let name = unsafe { CStr::from_ptr(name) };
    let name = name.to_str().map_err(|_| Refusal::UnknownCollation)?;
    Ok(Collation::Libc(name))
}

/// Returns what the numbers `PGSEAL_LIKE` and so on say.
///
/// # Safety
/// `name` is NULL or a string that is readable during the call.
unsafe fn matching<'a>(how: c_int, name: *const c_char) -> Result<Matching<'a>, Failure> {
    // SAFETY: `name` is NULL or a string that is readable during the call, by this contract.
    let collation = unsafe { locale(name) }?;
    match how {
        0 => Ok(Matching::Like),
        1 => Ok(Matching::Ilike(collation)),
        2 => Ok(Matching::Prefix),
        3 => Ok(Matching::Regex(collation)),
        4 => Ok(Matching::RegexInsensitive(collation)),
        5 => Ok(Matching::Similar(collation)),
        6 => Ok(Matching::Words(collation)),
        _ => Err(Refusal::MalformedRequest.into()),
    }
}

/// Returns what the numbers `PGSEAL_WORDS` and so on say.
///
/// # Safety
/// `name` is NULL or a string that is readable during the call.
unsafe fn parts<'a>(kind: c_int, name: *const c_char) -> Result<Parts<'a>, Failure> {
    // SAFETY: `name` is NULL or a string that is readable during the call, by this contract.
    let collation = unsafe { locale(name) }?;
    match kind {
        0 => Ok(Parts::Words(collation)),
        1 => Ok(Parts::Trigrams(collation)),
        2 => Ok(Parts::PatternTrigrams(collation)),
        _ => Err(Refusal::MalformedRequest.into()),
    }
}

/// # Safety
/// `text` is a string that is readable during the call.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: `text` is a string that is readable during the call, by this contract.
    let text = unsafe { CStr::from_ptr(text) };
    Ok(text.to_str().map_err(|_| Refusal::MalformedRequest)?)
}

/// # Safety
/// `cells` points to `n` cells; they and their bytes are readable during the call.
unsafe fn list<'a>(cells: *const PgsealBytes, n: usize) -> Result<Vec<&'a [u8]>, Failure> {
    let mut list = Vec::new();
    if n == 0 {
        return Ok(list);
    }
    list.try_reserve_exact(n)
        .map_err(|_| Refusal::OutOfMemory)?;
    // SAFETY: `cells` points to `n` cells, by this contract, and `n` is not 0.
    let cells = unsafe { slice::from_raw_parts(cells, n) };
    // SAFETY: each cell's bytes are readable during the call, by this contract.
    list.extend(cells.iter().map(|cell| unsafe { cell.get() }));
    Ok(list)
}
