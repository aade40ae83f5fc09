//! Buffers of libc's callers as slices.

use libc::{c_void, size_t};

/// # Safety
/// `buf` is the caller's buffer of `len` bytes.
pub unsafe fn bytes_mut<'a>(buf: *mut c_void, len: size_t) -> &'a mut [u8] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: `buf` points to `len` bytes that the caller lets the call write until it returns.
    unsafe { std::slice::from_raw_parts_mut(buf.cast(), len) }
}

/// The bytes may change while they are read: PostgreSQL sets hint bits in a page that is being
/// written under a share lock. Each is read once, by the cipher, into our own memory.
///
/// # Safety
/// `buf` is the caller's buffer of `len` bytes.
pub unsafe fn bytes<'a>(buf: *const c_void, len: size_t) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: `buf` points to `len` bytes that stay the caller's until the call returns.
    unsafe { std::slice::from_raw_parts(buf.cast(), len) }
}
