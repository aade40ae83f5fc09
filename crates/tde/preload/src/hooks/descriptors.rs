//! Closing and copying descriptors, so that no entry outlives its descriptor.

use super::{fail, withdrawn};
use crate::files::{self, Protected};
use crate::process::PROCESS;
use crate::real::{self, libc_call};
use crate::{two_phase, zero_fill};
use libc::{c_int, c_uint, c_ulong};
use pgseal_storage::Errno;

#[inline]
pub unsafe fn close(fd: c_int) -> c_int {
    match files::get(fd) {
        Some(file) => close_protected(file),
        None => libc_call!(close(fd)),
    }
}

fn close_protected(file: Protected) -> c_int {
    let fd = file.disk.0;
    zero_fill::end(file);
    let named = two_phase::end(file);
    // Before libc's: afterwards another thread may have the number.
    files::remove(fd);
    let closed = libc_call!(close(fd));
    named.map_or_else(|Errno(errno)| fail(errno), |()| closed)
}

/// Closes a descriptor of our own after a failure whose errno the caller must see.
pub fn close_keeping_errno(fd: c_int) {
    let errno = real::errno();
    files::remove(fd);
    libc_call!(close(fd));
    real::set_errno(errno);
}

pub unsafe fn dup(fd: c_int) -> c_int {
    copied(fd, libc_call!(dup(fd)))
}

pub unsafe fn dup2(fd: c_int, copy: c_int) -> c_int {
    if fd == copy {
        return libc_call!(dup2(fd, copy));
    }
    copied(fd, libc_call!(dup2(fd, copy)))
}

pub unsafe fn dup3(fd: c_int, copy: c_int, flags: c_int) -> c_int {
    copied(fd, libc_call!(dup3(fd, copy, flags)))
}

pub unsafe fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            copied(fd, libc_call!(fcntl(fd, command, argument)))
        }
        libc::F_GETFL | libc::F_SETFL => match files::get(fd) {
            Some(protected) => status_flags(protected, command, argument),
            None => libc_call!(fcntl(fd, command, argument)),
        },
        libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW
            if files::get(fd).is_some() =>
        {
            withdrawn::record_lock()
        }
        _ => libc_call!(fcntl(fd, command, argument)),
    }
}

/// The flags that the caller asked for, not those that the descriptor has.
fn status_flags(protected: Protected, command: c_int, argument: c_ulong) -> c_int {
    let (fd, file) = (protected.disk.0, protected.file);
    let append = libc::O_APPEND as c_ulong;
    let answer = libc_call!(fcntl(fd, command, argument & !append));
    match command {
        _ if answer < 0 => answer,
        libc::F_GETFL => answer & !files::KEPT_FLAGS | file.flags(),
        _ => {
            file.set_appends(argument & append != 0);
            answer
        }
    }
}

/// Where the call fails, what stays open stays protected: libc's closes what is not, and so says
/// whether it works here, before anything else is closed. A thread with descriptors of its own
/// (CLOSE_RANGE_UNSHARE) is refused like an unknown flag: the table is one for all threads.
pub unsafe fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const CLOSE_RANGE_CLOEXEC: c_int = 4;
    if !PROCESS.acts() || first > last || flags == CLOSE_RANGE_CLOEXEC {
        return libc_call!(close_range(first, last, flags));
    }
    if flags != 0 {
        return fail(libc::EINVAL);
    }
    let number = |fd: c_uint| c_int::try_from(fd).unwrap_or(c_int::MAX);
    let protected = || files::within(number(first), number(last));
    let mut from = first;
    for fd in protected().filter_map(|fd| c_uint::try_from(fd).ok()) {
        if from < fd && libc_call!(close_range(from, fd - 1, 0)) < 0 {
            return -1;
        }
        from = fd + 1;
    }
    if from <= last && libc_call!(close_range(from, last, 0)) < 0 {
        return -1;
    }
    for fd in protected() {
        // SAFETY: the call takes no pointer.
        unsafe { close(fd) };
    }
    0
}

pub unsafe fn closefrom(first: c_int) {
    files::within(first, c_int::MAX).for_each(files::remove);
    libc_call!(closefrom(first));
}

fn copied(fd: c_int, copy: c_int) -> c_int {
    if copy >= 0 && files::duplicate(fd, copy).is_err() {
        libc_call!(close(copy));
        return fail(libc::EMFILE);
    }
    copy
}
