//! Names: rename, link, unlink, and what a directory shows.
//!
//! A rename that changes identity re-stores the content (`pgseal_storage::restore`). It writes a
//! new file, syncs it, renames it over the target, and unlinks the source. Recycling a WAL segment
//! re-stores its first page only.

pub mod moving;
mod pinned;

use super::status;
use crate::disk::check;
use crate::files;
use crate::key_material;
use crate::place::{self, Place};
use crate::process::PROCESS;
use crate::real::libc_call;
use crate::receivers::guard;
use crate::server;
use libc::{c_char, c_int, c_uint, dirent, DIR};
use moving::Name;
use pgseal_contract::file;
use pgseal_storage::Errno;
use pinned::Pinned;
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
    if !PROCESS.acts() || from.is_null() || to.is_null() {
        return libc_call!(renameat2(from_directory, from, to_directory, to, flags));
    }
    // SAFETY: neither is null, so both are C strings that renameat2(2)'s caller owns.
    let (from, to) = unsafe { (CStr::from_ptr(from), CStr::from_ptr(to)) };
    status(
        pin_both((from_directory, from), (to_directory, to)).and_then(|(from, to)| {
            let (from, to) = (from.name(), to.name());
            if [from, to]
                .into_iter()
                .any(|name| key_material::lie_at(name.directory, name.path))
            {
                return Err(Errno(libc::EACCES));
            }
            moving::rename(from, to, flags)
        }),
    )
}

/// Two names, outside the key directory: a server renames and links nothing there.
fn pin_both<'a>(
    (from_directory, from): (c_int, &'a CStr),
    (to_directory, to): (c_int, &'a CStr),
) -> Result<(Pinned<'a>, Pinned<'a>), Errno> {
    let names = (
        Pinned::new(from_directory, from)?,
        Pinned::new(to_directory, to)?,
    );
    let lies_there = |name: &Name| server::lies_in_key_directory(name.directory, name.path);
    match lies_there(names.0.name()) || lies_there(names.1.name()) {
        true => Err(Errno(libc::EACCES)),
        false => Ok(names),
    }
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
    if !PROCESS.acts() || from.is_null() || to.is_null() {
        return libc_call!(linkat(from_directory, from, to_directory, to, flags));
    }
    // SAFETY: neither is null, so both are C strings that linkat(2)'s caller owns.
    let (from, to) = unsafe { (CStr::from_ptr(from), CStr::from_ptr(to)) };
    status(
        pin_both((from_directory, from), (to_directory, to))
            .and_then(|(from, to)| moving::link(from.name(), to.name(), flags)),
    )
}

pub unsafe fn unlink(path: *const c_char) -> c_int {
    // SAFETY: `path` is null or a C string that unlink(2)'s caller owns.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

pub unsafe fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: `path` is null or a C string that rmdir(2)'s caller owns.
    unsafe { unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

pub unsafe fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    if !PROCESS.acts() || path.is_null() {
        return libc_call!(unlinkat(directory, path, flags));
    }
    // SAFETY: `path` is not null, so it is a C string that unlinkat(2)'s caller owns.
    let path = unsafe { CStr::from_ptr(path) };
    status(removable(directory, path).and_then(|pinned| {
        if flags & libc::AT_REMOVEDIR == 0 {
            moving::forget_unfinished(path);
        }
        remove_name(pinned.name(), flags)
    }))
}

/// Removes a file or an empty directory, as remove(3) does.
pub unsafe fn remove(path: *const c_char) -> c_int {
    if !PROCESS.acts() || path.is_null() {
        return libc_call!(remove(path));
    }
    // SAFETY: `path` is not null, so it is a C string that remove(3)'s caller owns.
    let path = unsafe { CStr::from_ptr(path) };
    status(
        removable(libc::AT_FDCWD, path).and_then(|pinned| match remove_name(pinned.name(), 0) {
            Err(Errno(libc::EISDIR)) => remove_name(pinned.name(), libc::AT_REMOVEDIR),
            removed => removed,
        }),
    )
}

fn remove_name(name: &Name, flags: c_int) -> Result<(), Errno> {
    let path = name.path.as_ptr();
    check(libc_call!(unlinkat(name.directory, path, flags))).map(|_| ())
}

/// A name that may be removed. What is in the key directory belongs to pgseal alone: pg_rewind
/// removes all that its source lacks. Only names that can be below it are looked up. Nor may a
/// program that the server serves remove a server's key material files.
fn removable(directory: c_int, path: &CStr) -> Result<Pinned<'_>, Errno> {
    let pinned = Pinned::new(directory, path)?;
    let name = pinned.name();
    if key_material::are_named(name.directory, name.path)
        || server::lies_in_key_directory(name.directory, name.path)
    {
        return Err(Errno(libc::EACCES));
    }
    let needle = file::KEY_DIRECTORY.as_str().as_bytes();
    let may_lie_there = path
        .to_bytes()
        .windows(needle.len())
        .any(|part| part == needle);
    match may_lie_there.then(|| place::at(name.directory, name.path)) {
        Some(Place::Denied(errno)) => Err(Errno(errno)),
        _ => Ok(pinned),
    }
}

/// libc closes the directory's descriptor inside itself.
pub unsafe fn closedir(directory: *mut DIR) -> c_int {
    // SAFETY: `directory` is an open stream that closedir(3)'s caller gives up.
    files::remove(unsafe { libc::dirfd(directory) });
    libc_call!(closedir(directory))
}

/// Returns the next entry that is neither the key directory nor the notice beside it. A raw base
/// backup and a backup tool see those too, without what is unfinished.
pub unsafe fn readdir(directory: *mut DIR) -> *mut dirent {
    loop {
        let entry = libc_call!(readdir(directory));
        if entry.is_null() || !PROCESS.acts() || PROCESS.is_viewer() {
            return entry;
        }
        // SAFETY: `entry` is libc's, with a terminated name.
        let name = unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) };
        let is_hidden = match place::is_own(name) {
            true => !guard::shows_key_directory(),
            false => place::is_unfinished_key_file(name) && guard::shows_key_directory(),
        };
        if !is_hidden {
            return entry;
        }
    }
}
