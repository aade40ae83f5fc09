//! Names: rename, link, unlink, and what a directory shows.
//!
//! A rename that changes identity re-stores the content (`pgseal_storage::restore`). It writes a
//! new file, syncs it, renames it over the target, and unlinks the source. Recycling a WAL segment
//! re-stores its first page only.

pub mod moving;

use super::fail;
use crate::files;
use crate::openers;
use crate::place::{self, Place};
use crate::programs;
use crate::real::libc_call;
use crate::receivers::guard;
use crate::server;
use libc::{c_char, c_int, c_uint, dirent, DIR};
use pgseal_contract::file;
use std::ffi::CStr;

pub unsafe fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: `from` and `to` are null or C strings that rename(2)'s caller owns.
    unsafe { renameat2(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

pub unsafe fn renameat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: `from` and `to` are null or C strings that renameat(2)'s caller owns.
    unsafe { renameat2(from_directory, from, to_directory, to, 0) }
}

pub unsafe fn renameat2(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    if !programs::acts() || from.is_null() || to.is_null() {
        return libc_call!(renameat2(from_directory, from, to_directory, to, flags));
    }
    // SAFETY: neither is null, so both are C strings that renameat2(2)'s caller owns.
    let (from, to) = unsafe { (CStr::from_ptr(from), CStr::from_ptr(to)) };
    if openers::lie_at(from_directory, from)
        || openers::lie_at(to_directory, to)
        || server::lies_in_key_directory(from_directory, from)
        || server::lies_in_key_directory(to_directory, to)
    {
        return fail(libc::EACCES);
    }
    moving::rename(
        &moving::Name(from_directory, from),
        &moving::Name(to_directory, to),
        flags,
    )
}

pub unsafe fn link(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: `from` and `to` are null or C strings that link(2)'s caller owns.
    unsafe { linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

/// One file under two names is one set of stored bytes: both names must give them one meaning. A
/// link from an encrypted file to a name of another key, or to one that is in clear, is refused.
pub unsafe fn linkat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    if !programs::acts() || from.is_null() || to.is_null() {
        return libc_call!(linkat(from_directory, from, to_directory, to, flags));
    }
    // SAFETY: neither is null, so both are C strings that linkat(2)'s caller owns.
    let (from, to) = unsafe { (CStr::from_ptr(from), CStr::from_ptr(to)) };
    if server::lies_in_key_directory(from_directory, from)
        || server::lies_in_key_directory(to_directory, to)
    {
        return fail(libc::EACCES);
    }
    moving::link(
        &moving::Name(from_directory, from),
        &moving::Name(to_directory, to),
        flags,
    )
}

pub unsafe fn unlink(path: *const c_char) -> c_int {
    // SAFETY: `path` is null or a C string that unlink(2)'s caller owns.
    match unsafe { denied(path) } {
        Some(errno) => fail(errno),
        None => {
            // SAFETY: unlink's argument is null, which libc refuses, or a terminated path.
            moving::forget_unfinished(unsafe { path.as_ref().map(|path| CStr::from_ptr(path)) });
            libc_call!(unlink(path))
        }
    }
}

pub unsafe fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: `path` is null or a C string that rmdir(2)'s caller owns.
    match unsafe { denied(path) } {
        Some(errno) => fail(errno),
        None => libc_call!(rmdir(path)),
    }
}

pub unsafe fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: `path` is null or a C string that unlinkat(2)'s caller owns.
    match unsafe { denied_at(directory, path) } {
        Some(errno) => fail(errno),
        None => libc_call!(unlinkat(directory, path, flags)),
    }
}

pub unsafe fn remove(path: *const c_char) -> c_int {
    // SAFETY: `path` is null or a C string that remove(3)'s caller owns.
    match unsafe { denied(path) } {
        Some(errno) => fail(errno),
        None => libc_call!(remove(path)),
    }
}

unsafe fn denied(path: *const c_char) -> Option<c_int> {
    // SAFETY: `path` is null or a C string: `unlink`, `rmdir` and `remove` pass on what they get.
    unsafe { denied_at(libc::AT_FDCWD, path) }
}

/// Refuses what lies in the key directory, which belongs to pgseal alone: pg_rewind removes
/// whatever its source lacks. Only names that can be below it are looked up. Nor may a program that
/// the server serves remove a server's key material files.
unsafe fn denied_at(directory: c_int, path: *const c_char) -> Option<c_int> {
    if !programs::acts() || path.is_null() {
        return None;
    }
    // SAFETY: `path` is not null, so it is a C string that the removing call's caller owns.
    let name = unsafe { CStr::from_ptr(path) };
    if openers::are_named(directory, name) || server::lies_in_key_directory(directory, name) {
        return Some(libc::EACCES);
    }
    let needle = file::KEY_DIRECTORY.as_str().as_bytes();
    if !name
        .to_bytes()
        .windows(needle.len())
        .any(|window| window == needle)
    {
        return None;
    }
    match place::at(directory, name) {
        Place::Denied(errno) => Some(errno),
        _ => None,
    }
}

/// libc closes the directory's descriptor inside itself.
pub unsafe fn closedir(directory: *mut DIR) -> c_int {
    // SAFETY: `directory` is an open stream that closedir(3)'s caller gives up.
    files::remove(unsafe { libc::dirfd(directory) });
    libc_call!(closedir(directory))
}

/// Returns the next entry that is not the key directory. A raw base backup and a backup tool see
/// that too, without what is unfinished in it.
pub unsafe fn readdir(directory: *mut DIR) -> *mut dirent {
    loop {
        let entry = libc_call!(readdir(directory));
        if entry.is_null() || !programs::acts() || programs::is_viewer() {
            return entry;
        }
        // SAFETY: `entry` is libc's, with a terminated name.
        let name = unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) };
        let is_hidden = match place::is_key_directory(name) {
            true => !guard::shows_key_directory(),
            false => place::is_unfinished_key_file(name) && guard::shows_key_directory(),
        };
        if !is_hidden {
            return entry;
        }
    }
}
