//! Calls that cannot be honoured on a protected file. They fail with the errno that says so, and
//! never give stored bytes in place of clear ones.

use super::fail;
use crate::files;
use crate::real::libc_call;
use crate::report;
use crate::rings;
use libc::{c_int, c_uint, c_void, off_t, size_t, ssize_t};

/// Refuses to map a protected file, because a mapping would show what is stored.
pub unsafe fn mmap(
    address: *mut c_void,
    len: size_t,
    access: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    if flags & libc::MAP_ANONYMOUS == 0 && files::get(fd).is_some() {
        report::line("a protected file cannot be mapped into memory: it is read and written only");
        fail(libc::ENODEV);
        return libc::MAP_FAILED;
    }
    let map = libc_call!(mmap(address, len, access, flags, fd, offset));
    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    if flags & shared == shared && map != libc::MAP_FAILED {
        rings::note_memory(map.addr(), len);
    }
    map
}

/// A transfer locks the whole file where others may write it ([`crate::disk`]). It would wait for
/// ever if its own process, or one that waits for it, had a part of it locked.
pub fn record_lock() -> c_int {
    report::line("a protected file cannot be locked by its user: transfers lock it");
    fail(libc::EINVAL)
}

pub unsafe fn lockf(fd: c_int, command: c_int, len: off_t) -> c_int {
    if command != libc::F_TEST && files::get(fd).is_some() {
        return record_lock();
    }
    libc_call!(lockf(fd, command, len))
}

pub unsafe fn sendfile(to: c_int, from: c_int, offset: *mut off_t, len: size_t) -> ssize_t {
    if files::get(to).is_some() || files::get(from).is_some() {
        return fail(libc::EINVAL) as ssize_t;
    }
    libc_call!(sendfile(to, from, offset, len))
}

pub unsafe fn splice(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if files::get(to).is_some() || files::get(from).is_some() {
        return fail(libc::EINVAL) as ssize_t;
    }
    libc_call!(splice(from, from_offset, to, to_offset, len, flags))
}
