//! stdio. Calls inside libc are not seen by a preload, so a protected file's stream is a cookie
//! whose reads and writes are ours; `fileno` still finds its descriptor, which PostgreSQL hands to
//! `ftruncate` and `fstat`.

use super::facts::Unprotectable;
use super::{descriptors, fail, opening, transfers};
use crate::disk::Owned;
use crate::files::{self, Protected, Slot};
use crate::process::PROCESS;
use crate::real::{self, libc_call};
use crate::report;
use libc::{c_char, c_int, c_void, off64_t, off_t, size_t, ssize_t, FILE};
use std::ffi::{CStr, CString};

/// Why no stream is made where all slots are taken.
const NO_SLOT: Unprotectable = Unprotectable {
    errno: libc::EMFILE,
    line: "too many protected streams are open",
};

/// Why `freopen` opens no protected file.
const IN_PLACE: Unprotectable = Unprotectable {
    errno: libc::EOPNOTSUPP,
    line: "a protected file's stream cannot be opened in place of another: use fopen",
};

pub unsafe fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    if !PROCESS.acts() || path.is_null() || mode.is_null() {
        return libc_call!(fopen(path, mode));
    }
    // SAFETY: neither is null, so both are C strings that fopen(3)'s caller owns.
    let (name, mode_name) = unsafe { (CStr::from_ptr(path), CStr::from_ptr(mode)) };
    let Some(flags) = flags_of(mode_name) else {
        return libc_call!(fopen(path, mode));
    };
    let slot = files::streams().reserve();
    let fd = opening::open_for_stream(name, flags, slot.is_none().then_some(NO_SLOT));
    if fd < 0 {
        return std::ptr::null_mut();
    }
    if flags & (libc::O_ACCMODE | libc::O_APPEND) == libc::O_WRONLY | libc::O_APPEND {
        // As fopen does, and fdopen does not.
        // SAFETY: lseek(2) takes no pointer; the descriptor is our own.
        unsafe { libc::lseek(fd, 0, libc::SEEK_END) };
    }
    // SAFETY: `mode` is a C string that fopen(3)'s caller owns; the descriptor is our own.
    let stream = unsafe { stream_over(fd, mode, slot) };
    if stream.is_null() {
        descriptors::close_keeping_errno(fd);
    }
    stream
}

pub unsafe fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    let slot = files::get(fd).and_then(|_| files::streams().reserve());
    // SAFETY: `mode` is a C string that fdopen(3)'s caller owns.
    unsafe { stream_over(fd, mode, slot) }
}

/// Makes a stream over a descriptor: libc's, or ours if the file is protected, for which there is
/// a slot. `mode` is a C string.
unsafe fn stream_over(fd: c_int, mode: *const c_char, slot: Option<Slot<'_>>) -> *mut FILE {
    let Some(protected) = files::get(fd) else {
        return libc_call!(fdopen(fd, mode));
    };
    // SAFETY: `mode` is a C string, as the caller says.
    if !adopt_mode(protected, unsafe { CStr::from_ptr(mode) }) {
        real::set_errno(libc::EINVAL);
        return std::ptr::null_mut();
    }
    let Some(slot) = slot else {
        report::line(NO_SLOT.line);
        real::set_errno(NO_SLOT.errno);
        return std::ptr::null_mut();
    };
    let calls = Cookie {
        read: Some(read),
        write: Some(write),
        seek: Some(seek),
        close: Some(close),
    };
    let cookie = std::ptr::without_provenance_mut(usize::try_from(fd).unwrap_or(usize::MAX));
    // SAFETY: the four functions below take the descriptor as their cookie.
    let stream = unsafe { fopencookie(cookie, mode, calls) };
    if !stream.is_null() {
        slot.set(fd, stream);
    }
    stream
}

/// May a stream of this mode stand on the descriptor? Then it appends from now on if the mode does,
/// and begins at the end if it only writes.
fn adopt_mode(protected: Protected, mode: &CStr) -> bool {
    let Some(asked) = flags_of(mode) else {
        return false;
    };
    let access = asked & libc::O_ACCMODE;
    let given = protected.file.flags() & libc::O_ACCMODE;
    if given != libc::O_RDWR && given != access {
        return false;
    }
    if asked & libc::O_APPEND != 0 {
        protected.file.set_appends(true);
        if access == libc::O_WRONLY {
            // SAFETY: lseek(2) takes no pointer.
            unsafe { libc::lseek(protected.disk.0, 0, libc::SEEK_END) };
        }
    }
    true
}

/// A protected stream can neither replace another nor be replaced: libc offers no call for it.
pub unsafe fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
    if descriptor_of(stream).is_some() {
        report::line(IN_PLACE.line);
        // freopen closes the stream, whatever becomes of the rest.
        libc_call!(fclose(stream));
        real::set_errno(IN_PLACE.errno);
        return std::ptr::null_mut();
    }
    if PROCESS.acts() && !path.is_null() && !mode.is_null() {
        // SAFETY: neither is null, so both are C strings that freopen(3)'s caller owns.
        let (name, mode_name) = unsafe { (CStr::from_ptr(path), CStr::from_ptr(mode)) };
        if let Some(flags) = flags_of(mode_name) {
            return reopen(name, flags, mode_name, stream);
        }
    }
    // As in `fclose`: the number stays, what it means does not.
    files::remove(libc_call!(fileno(stream)));
    libc_call!(freopen(path, mode, stream))
}

/// Opens a file in place of libc's own stream. The policy decides on the descriptor, which libc
/// then opens once more: by the path it could get another file. libc empties it, because its open
/// may fail.
fn reopen(name: &CStr, flags: c_int, mode: &CStr, stream: *mut FILE) -> *mut FILE {
    let flags = flags & !libc::O_TRUNC | libc::O_CLOEXEC;
    let opened = Owned(opening::open_for_stream(name, flags, Some(IN_PLACE)));
    let errno = real::errno();
    files::remove(libc_call!(fileno(stream)));
    if opened.0 < 0 {
        libc_call!(fclose(stream));
        real::set_errno(errno);
        return std::ptr::null_mut();
    }
    let path = format!("/proc/self/fd/{}\0", opened.0);
    let mode = without_exclusive(mode);
    libc_call!(freopen(path.as_ptr().cast(), mode.as_ptr(), stream))
}

/// Returns the mode for a file that exists by now (glibc's `x`, which may precede a comma).
fn without_exclusive(mode: &CStr) -> CString {
    let mode = mode.to_bytes();
    let comma = mode.iter().position(|&byte| byte == b',');
    let (letters, rest) = mode.split_at(comma.unwrap_or(mode.len()));
    let letters = letters.iter().filter(|&&letter| letter != b'x');
    CString::new(letters.chain(rest).copied().collect::<Vec<u8>>()).unwrap_or_default()
}

pub unsafe fn fileno(stream: *mut FILE) -> c_int {
    descriptor_of(stream).unwrap_or_else(|| libc_call!(fileno(stream)))
}

/// libc closes the descriptor of a stream of its own inside itself: if `dup2` put a protected file
/// there, its entry must not outlive it.
pub unsafe fn fclose(stream: *mut FILE) -> c_int {
    if descriptor_of(stream).is_none() {
        files::remove(libc_call!(fileno(stream)));
    }
    libc_call!(fclose(stream))
}

/// Seeks by way of the position. glibc seeks a cookie's stream wrongly from the current position
/// after a write: the next write lands on it. So the position is looked up first. `off_t` is
/// `fseek`'s `long` too.
pub unsafe fn fseek(stream: *mut FILE, offset: off_t, whence: c_int) -> c_int {
    if whence != libc::SEEK_CUR || descriptor_of(stream).is_none() {
        return libc_call!(fseeko(stream, offset, whence));
    }
    // SAFETY: `stream` is an open stream that fseek(3)'s caller owns.
    let at = unsafe { libc::ftello(stream) };
    if at < 0 {
        return -1;
    }
    match at.checked_add(offset) {
        Some(to) => libc_call!(fseeko(stream, to, libc::SEEK_SET)),
        None => fail(libc::EINVAL),
    }
}

/// Returns the descriptor behind a stream of ours.
fn descriptor_of(stream: *mut FILE) -> Option<c_int> {
    files::streams().descriptor_of(stream)
}

/// Returns `fopen`'s mode as `open`'s flags (POSIX fopen, glibc's `e` and `x`).
fn flags_of(mode: &CStr) -> Option<c_int> {
    let mode = mode.to_bytes();
    let update = mode.contains(&b'+');
    let access = |alone| if update { libc::O_RDWR } else { alone };
    let flags = match mode.first()? {
        b'r' => access(libc::O_RDONLY),
        b'w' => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_TRUNC,
        b'a' => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_APPEND,
        _ => return None,
    };
    let when = |letter, flag| if mode.contains(&letter) { flag } else { 0 };
    Some(flags | when(b'e', libc::O_CLOEXEC) | when(b'x', libc::O_EXCL))
}

/// glibc's `cookie_io_functions_t`.
#[repr(C)]
struct Cookie {
    read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t>,
    write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t>,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int>,
    close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, calls: Cookie) -> *mut FILE;
}

/// Returns the descriptor that the cookie is.
fn descriptor(cookie: *mut c_void) -> c_int {
    c_int::try_from(cookie.addr()).unwrap_or(-1)
}

unsafe extern "C" fn read(cookie: *mut c_void, buf: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: stdio passes a buffer of this length, which it owns until this returns.
    unsafe { transfers::read(descriptor(cookie), buf.cast(), len) }
}

/// glibc takes 0 for an error here, and sets no errno of its own.
unsafe extern "C" fn write(cookie: *mut c_void, buf: *const c_char, len: size_t) -> ssize_t {
    // SAFETY: stdio passes a buffer of this length, which it owns until this returns.
    unsafe { transfers::write(descriptor(cookie), buf.cast(), len) }.max(0)
}

unsafe extern "C" fn seek(cookie: *mut c_void, offset: *mut off64_t, whence: c_int) -> c_int {
    // SAFETY: the offset is stdio's own, and valid until this returns.
    unsafe {
        let at = libc::lseek64(descriptor(cookie), *offset, whence);
        if at < 0 {
            return -1;
        }
        *offset = at;
    }
    0
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    let fd = descriptor(cookie);
    files::streams().forget(fd);
    // SAFETY: close(2) takes no pointer; the stream owned the descriptor.
    unsafe { descriptors::close(fd) }
}
