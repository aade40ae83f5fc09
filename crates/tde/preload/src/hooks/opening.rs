//! `open` and its kin.
//!
//! A protected file is always open for reading too, because a write may have to read the rest of a
//! block; O_APPEND is kept up by hand, because Linux ignores `pwrite`'s offset under it.

use super::{foreign, restored};
use crate::clusters::Cluster;
use crate::counters::{self, Count};
use crate::disk::{check, stat};
use crate::files::Stored;
use crate::place::{self, direct, Place};
use crate::real::libc_call;
use crate::received::{self, Form};
use crate::receivers::guard::{self, Opens};
use crate::{control, files, programs, receivers, report, server, two_phase, wal, zero_fill};
use libc::{c_char, c_int, mode_t};
use pgseal_storage::classify::Class;
use pgseal_storage::layout::{Layout, Spec, PAGE};
use pgseal_storage::Errno;
use std::ffi::CStr;

pub unsafe fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if !programs::acts() || path.is_null() {
        return libc_call!(open(path, flags, mode));
    }
    // SAFETY: `path` is not null, so it is a C string that open(2)'s caller owns.
    let name = unsafe { CStr::from_ptr(path) };
    open_at(libc::AT_FDCWD, name, flags, mode)
}

pub unsafe fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if !programs::acts() || path.is_null() {
        return libc_call!(openat(directory, path, flags, mode));
    }
    // SAFETY: `path` is not null, so it is a C string that openat(2)'s caller owns.
    let name = unsafe { CStr::from_ptr(path) };
    open_at(directory, name, flags, mode)
}

/// The fortified names: no mode, because O_CREAT is not among the flags.
pub unsafe fn open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: `path` is null or a C string: `__open_2` takes it as `open` does.
    unsafe { open(path, flags, 0) }
}

pub unsafe fn openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: `path` is null or a C string: `__openat_2` takes it as `openat` does.
    unsafe { openat(directory, path, flags, 0) }
}

pub unsafe fn creat(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: `path` is null or a C string: creat(2) is `open` with these flags.
    unsafe { open(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
}

/// Opens what `path` leads to, protected if its place says so.
pub fn open_at(directory: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        return open_nameless(directory, path, flags, mode);
    }
    if flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 {
        return libc_call!(openat(directory, path.as_ptr(), flags, mode));
    }
    match guard::opens(path, flags) {
        Opens::Usual => {}
        Opens::Raw => return open_raw(directory, path, flags),
        Opens::Refused => return super::fail(libc::EACCES),
    }
    let place = match place::by_spelling(directory, path) {
        Some(place) => place,
        None => match open_direct(directory, path, flags, mode) {
            Some(fd) => return fd,
            None => place::at(directory, path),
        },
    };
    match place {
        Place::Clear if copies_pages(directory, path, flags) => open_pages(directory, path, flags),
        Place::Clear => match (
            foreign::allowed(directory, path, flags),
            received::form(path, flags),
        ) {
            (None, _) => super::fail(libc::EPERM),
            (Some(flags), None) => open_clear(directory, path, flags, mode),
            (Some(flags), Some(form)) => open_received(form, directory, path, flags, mode),
        },
        Place::Denied(errno) => super::fail(errno),
        Place::Sealed(_, Class::WalRestored | Class::Clear | Class::KeyDirectory) => {
            open_clear(directory, path, flags, mode)
        }
        Place::Sealed(_, Class::Refused(advice)) => {
            report::line(&format!(
                "{} cannot be sealed: {advice}",
                report::shown(path)
            ));
            super::fail(libc::ENOTSUP)
        }
        Place::Sealed(_, Class::WalSegment(_))
            if flags & libc::O_ACCMODE == libc::O_RDONLY && server::is_archiver() =>
        {
            libc_call!(openat(directory, path.as_ptr(), flags, mode))
        }
        Place::Sealed(cluster, class)
            if comes_first(&class) && !control::allows_server(cluster) =>
        {
            super::fail(libc::EPERM)
        }
        Place::Sealed(cluster, class) => match restored::settle(&class, directory, path, flags) {
            Ok(()) => open_sealed(cluster, &class, directory, path, flags, mode),
            Err(errno) => super::fail(errno),
        },
    }
}

/// Opens what is clear if no link leads elsewhere; the last name is the file's own then.
fn open_direct(directory: c_int, path: &CStr, flags: c_int, mode: mode_t) -> Option<c_int> {
    if received::form(path, flags).is_some() {
        return None;
    }
    let Some(flags) = foreign::allowed(directory, path, flags) else {
        return Some(super::fail(libc::EPERM));
    };
    let fd = direct::open(directory, path, untruncated(flags), mode)?;
    Some(unless(|| server::withholds_from_sql(fd, flags), fd, flags))
}

/// Opens a file for a raw base backup: as stored, except `pg_control`, because the server refuses
/// its stored page.
#[inline(never)] // holds pages of a file, on the stack
fn open_raw(directory: c_int, path: &CStr, flags: c_int) -> c_int {
    match place::at(directory, path) {
        Place::Sealed(cluster, class) if is_control(&class) => {
            control::open_carried(cluster).unwrap_or_else(|| super::fail(libc::EIO))
        }
        Place::Sealed(_, class) if lacks_images(&class) => open_pages(directory, path, flags),
        _ => unless_withheld(
            libc_call!(openat(directory, path.as_ptr(), flags, 0)),
            flags,
        ),
    }
}

/// Opens what is stored for reading beside the server that writes it.
fn open_pages(directory: c_int, path: &CStr, flags: c_int) -> c_int {
    let fd = open_clear(directory, path, flags, 0);
    if fd >= 0 && files::insert(fd, Stored::Pages, flags, false).is_err() {
        libc_call!(close(fd));
        return super::fail(libc::EMFILE);
    }
    fd
}

/// Opens a file without a name where files are in clear, and refuses it in a sealed cluster: it has
/// no class, and a link may give it a name later.
fn open_nameless(directory: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    match place::at(directory, path) {
        // A server would keep in clear what an extension links into a directory of its own later.
        Place::Clear
            if programs::is_server() && !matches!(place::owner(directory, path), Ok(None)) =>
        {
            super::fail(libc::EOPNOTSUPP)
        }
        Place::Clear => libc_call!(openat(directory, path.as_ptr(), flags, mode)),
        Place::Denied(errno) => super::fail(errno),
        Place::Sealed(..) => super::fail(libc::EOPNOTSUPP),
    }
}

/// Opens what is there, as it is stored. Whether a server may have it is decided on the descriptor:
/// a path may lead elsewhere each time that it is looked at.
pub fn open_clear(directory: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    let fd = libc_call!(openat(directory, path.as_ptr(), untruncated(flags), mode));
    unless(|| server::withholds_from_sql(fd, flags), fd, flags)
}

/// Does a server ask to have a file emptied that it opens? Not before it is known that it may.
fn empties(flags: c_int) -> bool {
    flags & libc::O_TRUNC != 0 && programs::is_server()
}

fn untruncated(flags: c_int) -> c_int {
    match empties(flags) {
        true => flags & !libc::O_TRUNC,
        false => flags,
    }
}

/// Returns `fd` unless a server must not open it. Empties the file if `flags` ask for that.
fn unless_withheld(fd: c_int, flags: c_int) -> c_int {
    unless(|| server::withholds(fd, flags), fd, flags)
}

fn unless(withheld: impl FnOnce() -> bool, fd: c_int, flags: c_int) -> c_int {
    if fd < 0 {
        return fd;
    }
    if withheld() {
        libc_call!(close(fd));
        return super::fail(libc::EACCES);
    }
    if empties(flags) && empty(fd).is_err() {
        super::descriptors::close_keeping_errno(fd);
        return -1;
    }
    fd
}

/// As O_TRUNC does: what is no regular file stays as it is. A new one is empty already.
fn empty(fd: c_int) -> Result<(), Errno> {
    let file = stat(fd)?;
    if file.st_mode & libc::S_IFMT != libc::S_IFREG || file.st_size == 0 {
        return Ok(());
    }
    check(libc_call!(ftruncate(fd, 0))).map(|_| ())
}

/// A tar of WAL is written over where it is cut, and so read; what is compressed is sealed already
/// when it gets to the file.
fn open_received(form: Form, directory: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    if let Err(reason) = received::begin(form) {
        report::line(&format!("{}: {reason}", report::shown(path)));
        return super::fail(libc::EIO);
    }
    if form != Form::Tar {
        return libc_call!(openat(directory, path.as_ptr(), flags, mode));
    }
    let below = flags & !(libc::O_ACCMODE | libc::O_TRUNC) | libc::O_RDWR;
    let fd = libc_call!(openat(directory, path.as_ptr(), below, mode));
    if fd < 0 {
        return fd;
    }
    if files::insert(fd, Stored::WalTar, flags, false).is_err() {
        libc_call!(close(fd));
        return super::fail(libc::EMFILE);
    }
    emptied(fd, flags)
}

fn open_sealed(
    cluster: &'static Cluster,
    class: &Class,
    directory: c_int,
    path: &CStr,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    let fd = two_phase::open(path, flags, mode)
        .unwrap_or_else(|| open_stored(class, directory, path, flags, mode));
    if fd < 0 {
        return fd;
    }
    let errno = match protect(cluster, class, fd, flags) {
        Ok(()) => return emptied(fd, flags),
        Err(Unprotected::TooMany) => libc::EMFILE,
        Err(Unprotected::Withheld) => libc::EACCES,
        Err(Unprotected::NoSegmentSize) => {
            let path = report::shown(path);
            report::line(&format!("{path}: the size of WAL segments is not known"));
            libc::EIO
        }
    };
    two_phase::forget(fd);
    libc_call!(close(fd));
    // A caller that closes another file and tries again must find no file that was made here.
    let makes = libc::O_CREAT | libc::O_EXCL;
    if flags & makes == makes {
        libc_call!(unlinkat(directory, path.as_ptr(), 0));
    }
    super::fail(errno)
}

/// Empties a protected file if `flags` ask for that. It does so last: a caller that is told EMFILE
/// must find the file as it was.
fn emptied(fd: c_int, flags: c_int) -> c_int {
    if flags & libc::O_TRUNC != 0 && empty(fd).is_err() {
        files::remove(fd);
        super::descriptors::close_keeping_errno(fd);
        return -1;
    }
    fd
}

/// May a path of SQL's have led to this file? A name can lead elsewhere when it is opened than when
/// its class was found: to the cluster's key file, above all. PostgreSQL itself opens pages for
/// reading and writing, neither empties nor appends to their files, and never only writes.
fn may_come_from_sql(class: &Class, flags: c_int) -> bool {
    let only_writes = flags & libc::O_ACCMODE == libc::O_WRONLY;
    only_writes || flags & (libc::O_TRUNC | libc::O_APPEND) != 0 || !holds_pages(class)
}

/// Opens what is stored, for what the library does with it. It is not emptied yet.
fn open_stored(class: &Class, directory: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    let mut below = flags & !(libc::O_APPEND | libc::O_TRUNC);
    if flags & libc::O_ACCMODE == libc::O_WRONLY || flags & libc::O_TRUNC != 0 {
        below = below & !libc::O_ACCMODE | libc::O_RDWR;
    }
    let fd = libc_call!(openat(directory, path.as_ptr(), below, mode));
    if fd >= 0 && may_come_from_sql(class, flags) && server::withholds_from_sql(fd, flags) {
        libc_call!(close(fd));
        return super::fail(libc::EACCES);
    }
    fd
}

/// The reason why an open file is given to no caller.
enum Unprotected {
    /// PostgreSQL closes others and tries again, as at its own limit.
    TooMany,
    NoSegmentSize,
    /// A session asked for a page, and the name led elsewhere when it was opened.
    Withheld,
}

fn protect(
    cluster: &'static Cluster,
    class: &Class,
    fd: c_int,
    flags: c_int,
) -> Result<(), Unprotected> {
    let spec = match flags & libc::O_TRUNC {
        0 => spec_of(cluster, class, fd),
        _ => spec_of_new(cluster, class),
    };
    let spec = spec.ok_or(Unprotected::NoSegmentSize)?;
    counters::add(Count::Files, 1);
    if spec.layout == Layout::WAL_SCRATCH {
        zero_fill::begin(fd, flags);
    }
    let reads = flags & libc::O_ACCMODE == libc::O_RDONLY;
    let hidden = reads && holds_pages(class) && receivers::hides_from_import();
    if hidden && server::withholds_from_sql(fd, flags) {
        return Err(Unprotected::Withheld);
    }
    files::insert(fd, Stored::Sealed(cluster.open(&spec)), flags, hidden)
        .map_err(|files::TooMany| Unprotected::TooMany)
}

/// Returns the key and layout for an open file.
pub fn spec_of(cluster: &Cluster, class: &Class, fd: c_int) -> Option<Spec> {
    match class {
        Class::Sealed(spec) => Some(spec.clone()),
        Class::WalSegment(name) => name.spec(wal::segment_size(cluster, *name, fd)?),
        _ => None,
    }
}

/// Returns the key and layout for a file without content.
fn spec_of_new(cluster: &Cluster, class: &Class) -> Option<Spec> {
    match class {
        Class::Sealed(spec) => Some(spec.clone()),
        Class::WalSegment(name) => name.spec(wal::new_segment_size(cluster)?),
        _ => None,
    }
}

/// Relations, SLRUs, WAL, under the name that it is made by too, and pg_control.
pub fn holds_pages(class: &Class) -> bool {
    let others = [Layout::CONTROL, Layout::WAL_SCRATCH];
    let pages = |spec: &Spec| spec.layout.granule() == PAGE || others.contains(&spec.layout);
    matches!(class, Class::Sealed(spec) if pages(spec)) || matches!(class, Class::WalSegment(_))
}

/// SLRUs and maps: WAL has no images of their pages.
pub fn lacks_images(class: &Class) -> bool {
    matches!(class, Class::Sealed(spec) if spec.layout.lacks_images())
}

/// Does a program that sees what is stored copy a file of pages without images?
fn copies_pages(directory: c_int, path: &CStr, flags: c_int) -> bool {
    let reads = flags & libc::O_ACCMODE == libc::O_RDONLY;
    reads && programs::is_viewer() && place::is_class(directory, path, lacks_images)
}

fn is_control(class: &Class) -> bool {
    matches!(class, Class::Sealed(spec) if spec.layout == Layout::CONTROL)
}

/// Returns whether a server opens this first of a cluster: `pg_control`, or, if it makes the
/// cluster, new WAL.
fn comes_first(class: &Class) -> bool {
    let first = [Layout::CONTROL, Layout::WAL_SCRATCH];
    matches!(class, Class::Sealed(spec) if first.contains(&spec.layout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clusters, real};
    use pgseal_crypto::{KeyLength, MasterKey};
    use pgseal_storage::classify::classify;

    /// Descriptors that no test has open.
    const FIRST: c_int = 100_000;

    #[test]
    fn with_no_room_left_the_caller_may_close_a_file_and_try_again() {
        let master = MasterKey::generate().expect("random bytes for a key");
        let cluster = clusters::add(b"/nowhere", true, KeyLength::Bits256, master);
        let cluster = cluster.expect("room for one cluster");
        let class = classify(b"base/5/16384").class;
        let open = || open_sealed(cluster, &class, libc::AT_FDCWD, c"/dev/null", 0, 0);
        let fill = |fd: &c_int| files::insert(*fd, Stored::WalTar, 0, false).is_ok();
        let filled: Vec<c_int> = (FIRST..).take_while(fill).collect();
        assert_eq!((open(), real::errno()), (-1, libc::EMFILE));
        // Nothing is left in the way of the next attempt.
        let made = format!("/tmp/pgseal-opening-{}\0", std::process::id());
        let made = CStr::from_bytes_with_nul(made.as_bytes()).expect("a C string");
        let new = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
        for _ in 0..2 {
            let fd = open_sealed(cluster, &class, libc::AT_FDCWD, made, new, 0o600);
            assert_eq!((fd, real::errno()), (-1, libc::EMFILE));
        }
        // A file that was to be emptied is as it was.
        let path = made.to_str().expect("a path in UTF-8");
        std::fs::write(path, b"kept").expect("a file of the test's own");
        let emptying = libc::O_TRUNC | libc::O_WRONLY;
        let fd = open_sealed(cluster, &class, libc::AT_FDCWD, made, emptying, 0);
        assert_eq!((fd, real::errno()), (-1, libc::EMFILE));
        assert_eq!(std::fs::read(path).expect("the test's file"), b"kept");
        std::fs::remove_file(path).expect("the test's file");
        files::remove(FIRST);
        let fd = open();
        assert!(files::get(fd).is_some());
        filled.into_iter().chain([fd]).for_each(files::remove);
    }
}
