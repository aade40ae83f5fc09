//! Calls that cannot be honoured on a protected file. They fail with the errno that says so, and
//! never give stored bytes in place of clear ones.

use super::fail;
use crate::files;
use crate::process::PROCESS;
use crate::real::libc_call;
use crate::report;
use libc::{c_int, c_uint, c_void, off_t, size_t, ssize_t};
use std::ffi::CStr;

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
    libc_call!(mmap(address, len, access, flags, fd, offset))
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

/// io_uring transfers go past libc: PostgreSQL 18 with `io_method=io_uring` stops at its start.
/// liburing is no part of libc, so in other programs its own function is looked for at the call.
pub unsafe fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int {
    type Init = unsafe extern "C" fn(c_uint, *mut c_void, c_uint) -> c_int;
    match liburing(c"io_uring_queue_init") {
        // SAFETY: liburing's function of this name has this type (liburing.h).
        Some(init) => unsafe {
            std::mem::transmute::<*mut c_void, Init>(init)(entries, ring, flags)
        },
        None => -libc::ENOSYS,
    }
}

pub unsafe fn io_uring_queue_init_mem(
    entries: c_uint,
    ring: *mut c_void,
    params: *mut c_void,
    buf: *mut c_void,
    len: size_t,
) -> c_int {
    type Init =
        unsafe extern "C" fn(c_uint, *mut c_void, *mut c_void, *mut c_void, size_t) -> c_int;
    match liburing(c"io_uring_queue_init_mem") {
        // SAFETY: liburing's function of this name has this type (liburing.h).
        Some(init) => unsafe {
            std::mem::transmute::<*mut c_void, Init>(init)(entries, ring, params, buf, len)
        },
        None => -libc::ENOSYS,
    }
}

fn liburing(name: &CStr) -> Option<*mut c_void> {
    if PROCESS.acts() {
        report::line(
            "io_method=io_uring goes past the encryption: set io_method to worker or sync",
        );
        return None;
    }
    // SAFETY: all names are terminated; the handle's library stays loaded as long as its user. A
    // library that was loaded for a module only is not in line.
    unsafe {
        let mut init = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if init.is_null() {
            let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY;
            let handle = libc::dlopen(c"liburing.so.2".as_ptr(), flags);
            if !handle.is_null() {
                init = libc::dlsym(handle, name.as_ptr());
                libc::dlclose(handle);
            }
        }
        (!init.is_null()).then_some(init)
    }
}
