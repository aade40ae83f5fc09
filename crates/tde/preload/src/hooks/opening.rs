//! `open` and its kin.
//!
//! A protected file is always open for reading too, because a write may have to read the rest of a
//! block; O_APPEND is kept up by hand, because Linux ignores `pwrite`'s offset under it.

use super::facts::{who, Opening, Unprotectable};
use super::{foreign, restored};
use crate::clusters::Cluster;
use crate::counters::{self, Area};
use crate::disk::{check, stat};
use crate::files::Stored;
use crate::place::direct;
use crate::policy::{self, Check, Protection, Reason, Verdict};
use crate::process::PROCESS;
use crate::real::libc_call;
use crate::received::{self, Form};
use crate::{control, files, report, server, two_phase, wal, zero_fill};
use libc::{c_char, c_int, mode_t};
use pgseal_storage::classify::Class;
use pgseal_storage::layout::Layout;
use pgseal_storage::Errno;
use std::ffi::CStr;

pub unsafe fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if !PROCESS.acts() || path.is_null() {
        return libc_call!(open(path, flags, mode));
    }
    // SAFETY: `path` is not null, so it is a C string that open(2)'s caller owns.
    let name = unsafe { CStr::from_ptr(path) };
    open_at(libc::AT_FDCWD, name, flags, mode)
}

pub unsafe fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if !PROCESS.acts() || path.is_null() {
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

/// Opens what `path` leads to, as [`policy`] says.
pub fn open_at(directory: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    let opening = Opening::new(directory, path, flags);
    let verdict = policy::decide(who(), flags, &opening);
    carry_out(verdict, &opening, mode)
}

/// Opens what `path` leads to for a stream, as [`policy`] says. `unprotectable` says why the stream
/// cannot be one of a protected file.
pub fn open_for_stream(path: &CStr, flags: c_int, unprotectable: Option<Unprotectable>) -> c_int {
    /// The mode in which `fopen` makes files.
    const MODE: mode_t = 0o666;
    let mut opening = Opening::new(libc::AT_FDCWD, path, flags);
    opening.unprotectable = unprotectable;
    let verdict = policy::decide_stream(who(), flags, &opening);
    carry_out(verdict, &opening, MODE)
}

fn carry_out(verdict: Verdict, opening: &Opening, mode: mode_t) -> c_int {
    let &Opening {
        directory,
        path,
        flags,
        ..
    } = opening;
    if let (true, Some(why)) = (verdict.protects(), opening.unprotectable) {
        report::line(why.line);
        return super::fail(why.errno);
    }
    match verdict {
        Verdict::Untouched | Verdict::AsStored(Check::None) => {
            libc_call!(openat(directory, path.as_ptr(), flags, mode))
        }
        Verdict::AsStored(Check::FromAll) => {
            let fd = libc_call!(openat(directory, path.as_ptr(), flags, 0));
            unless(|| server::withholds(fd, flags), fd, flags)
        }
        Verdict::AsStored(Check::FromSql) => open_clear(directory, path, flags, mode),
        Verdict::Clear(flags) => open_clear(directory, path, flags, mode),
        Verdict::ClearUnlessLinked(flags) => open_unless_linked(opening, flags, mode),
        Verdict::Pages => open_pages(directory, path, flags),
        Verdict::CarriedControl => open_carried(opening),
        Verdict::ReceivedWal(flags) => open_received(opening, flags, mode),
        Verdict::Protected(protection) => open_protected(opening, protection, mode),
        Verdict::Refused(errno, reason) => {
            report_refused(path, reason);
            super::fail(errno)
        }
    }
}

fn report_refused(path: &CStr, reason: Reason) {
    match reason {
        Reason::Denied => {}
        Reason::Foreign => foreign::report_refused(path),
        Reason::CannotBeSealed(advice) => {
            let path = report::shown(path);
            report::line(&format!("{path} cannot be sealed: {advice}"));
        }
    }
}

/// Opens what is clear if no link leads elsewhere; the last name is the file's own then.
fn open_unless_linked(opening: &Opening, flags: c_int, mode: mode_t) -> c_int {
    match direct::open(opening.directory, opening.path, untruncated(flags), mode) {
        Some(fd) => unless(|| server::withholds_from_sql(fd, flags), fd, flags),
        None => {
            let verdict = policy::decide_followed(who(), opening.flags, opening);
            carry_out(verdict, opening, mode)
        }
    }
}

#[inline(never)] // holds pages of a file, on the stack
fn open_carried(opening: &Opening) -> c_int {
    let sealed = opening.sealed();
    let carried = sealed.and_then(|(cluster, _)| control::open_carried(cluster));
    carried.unwrap_or_else(|| super::fail(libc::EIO))
}

fn open_protected(opening: &Opening, protection: Protection, mode: mode_t) -> c_int {
    let Some((cluster, class)) = opening.sealed() else {
        return super::fail(libc::EIO);
    };
    match restored::settle(class, opening.directory, opening.path, opening.flags) {
        Ok(()) => open_sealed(cluster, class, opening, protection, mode),
        Err(errno) => super::fail(errno),
    }
}

/// Opens what is stored for reading beside the server that writes it.
fn open_pages(directory: c_int, path: &CStr, flags: c_int) -> c_int {
    let fd = open_clear(directory, path, flags, 0);
    if fd >= 0 && files::insert(fd, (Stored::Pages, Area::Other), flags, false).is_err() {
        libc_call!(close(fd));
        return super::fail(libc::EMFILE);
    }
    fd
}

/// Opens what is there, as it is stored. Whether a server may have it is decided on the descriptor:
/// a path may lead elsewhere each time that it is looked at.
fn open_clear(directory: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    let fd = libc_call!(openat(directory, path.as_ptr(), untruncated(flags), mode));
    unless(|| server::withholds_from_sql(fd, flags), fd, flags)
}

/// Does a server ask to have a file emptied that it opens? Not before it is known that it may.
fn empties(flags: c_int) -> bool {
    flags & libc::O_TRUNC != 0 && PROCESS.is_server()
}

fn untruncated(flags: c_int) -> c_int {
    match empties(flags) {
        true => flags & !libc::O_TRUNC,
        false => flags,
    }
}

/// Returns `fd` unless a server must not open it. Empties the file if `flags` ask for that.
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
/// when it gets to the file, and opened only when it is decompressed.
fn open_received(opening: &Opening, flags: c_int, mode: mode_t) -> c_int {
    let &Opening {
        directory, path, ..
    } = opening;
    let Some(form) = opening.form() else {
        return super::fail(libc::EIO);
    };
    if let Err(reason) = received::begin(form) {
        report::line(&format!("{}: {reason}", report::shown(path)));
        return super::fail(libc::EIO);
    }
    let (stored, below) = match form {
        Form::Tar => {
            let read_too = flags & !(libc::O_ACCMODE | libc::O_TRUNC) | libc::O_RDWR;
            (Stored::WalTar, read_too)
        }
        Form::Packed(None) => (Stored::ReadTar, flags),
        _ => return libc_call!(openat(directory, path.as_ptr(), flags, mode)),
    };
    let fd = libc_call!(openat(directory, path.as_ptr(), below, mode));
    if fd < 0 {
        return fd;
    }
    if files::insert(fd, (stored, Area::Wal), flags, false).is_err() {
        libc_call!(close(fd));
        return super::fail(libc::EMFILE);
    }
    emptied(fd, flags)
}

fn open_sealed(
    cluster: &'static Cluster,
    class: &Class,
    opening: &Opening,
    protection: Protection,
    mode: mode_t,
) -> c_int {
    let &Opening {
        directory,
        path,
        flags,
        ..
    } = opening;
    let stored = || open_stored(opening, protection, mode);
    let fd = two_phase::open(path, flags, mode).unwrap_or_else(stored);
    if fd < 0 {
        return fd;
    }
    let hidden = protection.hidden_from_import;
    let errno = match protect(cluster, class, fd, flags, hidden) {
        Ok(()) => return emptied(fd, flags),
        Err(Unprotected::TooMany(errno)) => errno,
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

/// Opens what is stored, for what the library does with it. It is not emptied yet.
fn open_stored(opening: &Opening, protection: Protection, mode: mode_t) -> c_int {
    let &Opening {
        directory,
        path,
        flags,
        ..
    } = opening;
    let mut below = flags & !(libc::O_APPEND | libc::O_TRUNC);
    if flags & libc::O_ACCMODE == libc::O_WRONLY || flags & libc::O_TRUNC != 0 {
        below = below & !libc::O_ACCMODE | libc::O_RDWR;
    }
    let fd = libc_call!(openat(directory, path.as_ptr(), below, mode));
    if fd >= 0 && protection.may_come_from_sql && server::withholds_from_sql(fd, flags) {
        libc_call!(close(fd));
        return super::fail(libc::EACCES);
    }
    fd
}

/// The reason why an open file is given to no caller.
enum Unprotected {
    /// PostgreSQL closes others and tries again, as at its own limit: EMFILE or ENFILE.
    TooMany(c_int),
    NoSegmentSize,
    /// A session asked for a page, and the name led elsewhere when it was opened.
    Withheld,
}

fn protect(
    cluster: &'static Cluster,
    class: &Class,
    fd: c_int,
    flags: c_int,
    hidden: bool,
) -> Result<(), Unprotected> {
    let spec = match flags & libc::O_TRUNC {
        0 => wal::spec_of(cluster, class, fd),
        _ => wal::spec_of_new(cluster, class),
    };
    let spec = spec.map_err(|Errno(errno)| match errno {
        libc::EMFILE | libc::ENFILE => Unprotected::TooMany(errno),
        _ => Unprotected::NoSegmentSize,
    })?;
    let area = Area::of(&spec);
    counters::opened(area);
    if spec.layout == Layout::WAL_SCRATCH {
        zero_fill::begin(fd, flags);
    }
    if hidden && server::withholds_from_sql(fd, flags) {
        return Err(Unprotected::Withheld);
    }
    let stored = Stored::Sealed(cluster.open(&spec), cluster);
    files::insert(fd, (stored, area), flags, hidden)
        .map_err(|files::TooMany| Unprotected::TooMany(libc::EMFILE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clusters, real};
    use pgseal_crypto::{KeyLength, MasterKey};
    use pgseal_format::ClusterId;
    use pgseal_storage::classify::classify;

    /// Descriptors that no test has open.
    const FIRST: c_int = 100_000;

    #[test]
    fn with_no_room_left_the_caller_may_close_a_file_and_try_again() {
        let master = MasterKey::generate().expect("random bytes for a key");
        let facts = clusters::Facts {
            cluster: ClusterId([1; 16]),
            length: KeyLength::Bits256,
            opened_by: None,
        };
        let cluster = clusters::add(b"/nowhere", true, facts, master);
        let cluster = cluster.expect("room for one cluster");
        let class = classify(b"base/5/16384").class;
        let protection = Protection {
            may_come_from_sql: false,
            hidden_from_import: false,
        };
        let open_new = |path, flags| {
            let opening = Opening::new(libc::AT_FDCWD, path, flags);
            open_sealed(cluster, &class, &opening, protection, 0o600)
        };
        let open = || open_new(c"/dev/null", 0);
        let fill = |fd: &c_int| files::insert(*fd, (Stored::WalTar, Area::Wal), 0, false).is_ok();
        let filled: Vec<c_int> = (FIRST..).take_while(fill).collect();
        assert_eq!((open(), real::errno()), (-1, libc::EMFILE));
        // Nothing is left in the way of the next attempt.
        let made = format!("/tmp/pgseal-opening-{}\0", std::process::id());
        let made = CStr::from_bytes_with_nul(made.as_bytes()).expect("a C string");
        let new = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
        for _ in 0..2 {
            let fd = open_new(made, new);
            assert_eq!((fd, real::errno()), (-1, libc::EMFILE));
        }
        // A file that was to be emptied is as it was.
        let path = made.to_str().expect("a path in UTF-8");
        std::fs::write(path, b"kept").expect("a file of the test's own");
        let emptying = libc::O_TRUNC | libc::O_WRONLY;
        let fd = open_new(made, emptying);
        assert_eq!((fd, real::errno()), (-1, libc::EMFILE));
        assert_eq!(std::fs::read(path).expect("the test's file"), b"kept");
        std::fs::remove_file(path).expect("the test's file");
        files::remove(FIRST);
        let fd = open();
        assert!(files::get(fd).is_some());
        filled.into_iter().chain([fd]).for_each(files::remove);
    }
}
