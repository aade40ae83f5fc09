//! The functions of `include/pgseal_client.h`.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;

use crate::options::Options;
use crate::running::Running;

/// The number of the interface in the header.
const INTERFACE: c_int = 2;

/// Version and commit, as a string of C.
const VERSION: &str = concat!(env!("PGSEAL_BUILD"), "\0");

/// Returns the number of the interface.
#[no_mangle]
pub extern "C" fn pgseal_client_interface() -> c_int {
    INTERFACE
}

/// Returns version and commit.
#[no_mangle]
pub extern "C" fn pgseal_client_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// Starts a client. A panic is an error too, for C has no unwinding.
///
/// # Safety
/// `keywords` and `values` are arrays of strings, of which the first ends with null, or null
/// themselves; `error` is null or can be written.
#[no_mangle]
pub unsafe extern "C" fn pgseal_client_start(
    keywords: *const *const c_char,
    values: *const *const c_char,
    error: *mut *mut c_char,
) -> *mut Running {
    // SAFETY: the header demands arrays of strings, of which that of keywords ends with null.
    let options = unsafe { options(keywords, values) };
    let start = || options.and_then(|it| Running::start(it).map_err(|error| error.to_string()));
    let started = catch_unwind(AssertUnwindSafe(start));
    match started.unwrap_or_else(|_| Err("pgseal has failed: this is a bug".to_owned())) {
        Ok(running) => Box::into_raw(Box::new(running)),
        Err(text) => {
            // SAFETY: the caller promises that a pointer which is not null can be written.
            if let Some(error) = unsafe { error.as_mut() } {
                *error = CString::new(text).unwrap_or_default().into_raw();
            }
            ptr::null_mut()
        }
    }
}

/// Reads two arrays of strings.
///
/// # Safety
/// The arguments are those of [`pgseal_client_start`].
unsafe fn options(
    mut keywords: *const *const c_char,
    mut values: *const *const c_char,
) -> Result<Options, String> {
    let mut options = Options::default();
    if keywords.is_null() || values.is_null() {
        return Ok(options);
    }
    // SAFETY: the array ends with a null keyword, which has not been met yet.
    while let Some(keyword) = unsafe { keywords.read().as_ref() } {
        // SAFETY: a keyword is a string, and the array of values is as long as that of keywords.
        let (keyword, value) = unsafe { (CStr::from_ptr(keyword), values.read()) };
        if !value.is_null() {
            // SAFETY: a value that is not null is a string.
            let value = unsafe { CStr::from_ptr(value) };
            let text = |it: &CStr| {
                it.to_str()
                    .map(str::to_owned)
                    .map_err(|_| "an option is not UTF-8".to_owned())
            };
            let set = options.set(&text(keyword)?, &text(value)?);
            set.map_err(|error| error.to_string())?;
        }
        // SAFETY: behind a keyword that is not null there is another one.
        (keywords, values) = unsafe { (keywords.add(1), values.add(1)) };
    }
    Ok(options)
}

/// Returns a connection string.
///
/// # Safety
/// `client` is of [`pgseal_client_start`], and was not stopped.
#[no_mangle]
pub unsafe extern "C" fn pgseal_client_conninfo(client: *const Running) -> *const c_char {
    // SAFETY: the header demands a client that was started and not stopped, so it is a live box.
    unsafe { &*client }.conninfo().as_ptr()
}

/// Returns what the connection string says of a keyword, or null.
///
/// # Safety
/// `client` is of [`pgseal_client_start`], and was not stopped; `keyword` is a string.
#[no_mangle]
pub unsafe extern "C" fn pgseal_client_parameter(
    client: *const Running,
    keyword: *const c_char,
) -> *const c_char {
    // SAFETY: the header demands a client that was started and not stopped, so it is a live box,
    // and a string that ends with zero.
    let (client, keyword) = unsafe { (&*client, CStr::from_ptr(keyword)) };
    let value = keyword.to_str().ok().and_then(|it| client.parameter(it));
    value.map_or(ptr::null(), |value| value.as_ptr())
}

/// Ends a client.
///
/// # Safety
/// `client` is null, or of [`pgseal_client_start`] and was not stopped.
#[no_mangle]
pub unsafe extern "C" fn pgseal_client_stop(client: *mut Running) {
    if !client.is_null() {
        // SAFETY: it was made by Box::into_raw, and is given back once.
        let client = unsafe { Box::from_raw(client) };
        // A panic has nobody to go to.
        let _ = catch_unwind(AssertUnwindSafe(|| client.stop()));
    }
}

/// Frees a sentence.
///
/// # Safety
/// `text` is null, or of [`pgseal_client_start`] and was not freed.
#[no_mangle]
pub unsafe extern "C" fn pgseal_client_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it was made by CString::into_raw, and is given back once.
        drop(unsafe { CString::from_raw(text) });
    }
}
