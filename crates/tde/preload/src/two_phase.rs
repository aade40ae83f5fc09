//! A two-phase state gets its name when it is whole.
//!
//! PostgreSQL makes `pg_twophase/XXXXXXXX` empty, and then writes, syncs and closes it
//! (`RecreateTwoPhaseFile`, twophase.c). A base backup that copies it in between has a file that is
//! empty or cut, and no server starts with that. So a new file of this kind has no name until it is
//! closed. A crash before that leaves nothing behind. The server syncs the directory itself, after
//! it has closed all of a checkpoint's files.
//!
//! Invariant: a file gets a name here only if it is as long as its head says. What a failed write
//! has cut is gone when it is closed.
//!
//! The file is made as the server asks where the name is taken, or where the file system has no
//! files without a name, or has once refused one its name.

use crate::disk::{check, lstat, FdDisk};
use crate::files::{OpenFile, Protected};
use crate::habits;
use crate::process::PROCESS;
use crate::real::{self, libc_call};
use crate::watched::{TwoPhase, TwoPhaseName, WATCHED};
use libc::{c_int, mode_t};
use pgseal_storage::{Disk, Errno};
use std::ffi::{CStr, CString};

const DIRECTORY: &CStr = c"pg_twophase";

/// The working directory of a server is its data directory.
impl TwoPhaseName {
    fn parse(path: &CStr) -> Option<Self> {
        let number = path.to_str().ok()?.strip_prefix("pg_twophase/")?;
        let name = Self {
            transaction: u64::from_str_radix(number, 16).ok()?,
            digits: number.len(),
        };
        (name.path()?.as_c_str() == path).then_some(name)
    }

    fn path(&self) -> Option<CString> {
        let (transaction, digits) = (self.transaction, self.digits);
        CString::new(format!("pg_twophase/{transaction:0digits$X}")).ok()
    }
}

/// Opens what a server makes and empties under such a name. None: it is no such file, or it has to
/// have its name from the start.
pub fn open(path: &CStr, flags: c_int, mode: mode_t) -> Option<c_int> {
    if !habits::makes_two_phase_state(flags) || !PROCESS.is_server() {
        return None;
    }
    let name = TwoPhaseName::parse(path)?;
    if WATCHED.two_phase.state() == TwoPhase::Refused {
        return None;
    }
    let errno = real::errno();
    let fd = open_nameless(path, flags & !habits::MAKES_EMPTY, mode).filter(|fd| {
        let watched = WATCHED.two_phase.watch(*fd, TwoPhase::Unnamed(name));
        if !watched {
            libc_call!(close(*fd));
        }
        watched
    });
    real::set_errno(errno);
    fd
}

fn open_nameless(path: &CStr, flags: c_int, mode: mode_t) -> Option<c_int> {
    if lstat(libc::AT_FDCWD, path).err() != Some(Errno(libc::ENOENT)) {
        return None;
    }
    let below = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_TMPFILE;
    let fd = libc_call!(openat(libc::AT_FDCWD, DIRECTORY.as_ptr(), below, mode));
    (fd >= 0).then_some(fd)
}

/// Forgets the file that was opened as `fd`, which its caller does not get.
pub fn forget(fd: c_int) {
    let _ = WATCHED.two_phase.take(fd);
}

/// A protected descriptor is about to be closed. The errno says that the file is lost.
#[inline]
pub fn end(file: Protected) -> Result<(), Errno> {
    match WATCHED.two_phase.take(file.disk.0) {
        None => Ok(()),
        Some(TwoPhase::Unnamed(name)) => settle(file, &name),
        Some(TwoPhase::Named | TwoPhase::Refused) => Err(Errno::EIO),
    }
}

#[inline(never)] // a buffer of its own, for these files alone
fn settle(Protected { file, disk }: Protected, name: &TwoPhaseName) -> Result<(), Errno> {
    if !is_whole(file, &disk)? {
        return Err(Errno::EIO);
    }
    link(disk.0, name).inspect_err(|_| {
        WATCHED.two_phase.enter(TwoPhase::Refused);
    })
}

fn link(fd: c_int, name: &TwoPhaseName) -> Result<(), Errno> {
    let nameless = CString::new(format!("/proc/self/fd/{fd}")).map_err(|_| Errno::EINVAL)?;
    let path = name.path().ok_or(Errno::EINVAL)?;
    check(libc_call!(linkat(
        libc::AT_FDCWD,
        nameless.as_ptr(),
        libc::AT_FDCWD,
        path.as_ptr(),
        libc::AT_SYMLINK_FOLLOW
    )))
    .map(|_| ())
}

/// Is it as long as its head says?
fn is_whole(file: &OpenFile, disk: &FdDisk) -> Result<bool, Errno> {
    let mut head = [0; 8];
    let sealed = file.sealed()?;
    let read = disk.transfer(|transfer| sealed.read_at(transfer, &mut head, 0))?;
    Ok(read == head.len() && disk.size()? == habits::two_phase_len(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_a_server_spells() {
        for path in [c"pg_twophase/000002EA", c"pg_twophase/00000001000002EA"] {
            let name = TwoPhaseName::parse(path).expect("a server's own name");
            assert_eq!(name.path().as_deref(), Some(path));
        }
        for path in [
            c"pg_twophase/000002ea",
            c"pg_twophase/+00002EA",
            c"pg_twophase/000002EA.tmp",
            c"pg_twophase/",
            c"./pg_twophase/000002EA",
            c"/data/pg_twophase/000002EA",
            c"pg_xact/0000",
        ] {
            assert!(TwoPhaseName::parse(path).is_none(), "{path:?}");
        }
    }
}
