//! The file that this process made last for a WAL segment and filled with zeros only.
//!
//! PostgreSQL fills a new segment under a name of its process, closes it, and renames it. No byte
//! of such a file depends on a key, so the rename need not store it anew; to see that, all 16 MB
//! would have to be read. What was written through the descriptor says the same for nothing.
//!
//! Invariant: a file is known here only if it was made (`O_EXCL`) by this process, if nothing but
//! zeros was written to it each time that it was open (`durable_rename` opens it once more, to sync
//! it), and if it is closed. One of this kind that is opened, or made, takes the place of the last.

use crate::disk;
use crate::files::{Protected, Stored};
use crate::habits;
use crate::watched::{Inode, ZeroFilled, WATCHED};
use libc::c_int;

/// A file of this kind was opened as `fd`, with these flags of `open`.
pub fn begin(fd: c_int, flags: c_int) {
    let last = &WATCHED.zero_filled;
    match last.state() {
        _ if habits::makes_new(flags) => last.watch(fd, ZeroFilled::New),
        ZeroFilled::Known(inode) => last.watch(fd, ZeroFilled::Again(inode)),
        _ => last.enter(ZeroFilled::Unknown),
    };
}

/// A protected descriptor is about to be closed.
#[inline]
pub fn end(file: Protected) {
    if let Some(state) = WATCHED.zero_filled.take(file.disk.0) {
        remember(file, state);
    }
}

fn remember(file: Protected, state: ZeroFilled) {
    let Stored::Sealed(sealed, _) = &file.file.stored else {
        return;
    };
    let Ok(stat) = disk::stat(file.disk.0) else {
        return;
    };
    let inode = inode(&stat);
    let is_it = state == ZeroFilled::New || state == ZeroFilled::Again(inode);
    if is_it && sealed.wrote_only_zeros() && file.file.is_last() {
        WATCHED.zero_filled.enter(ZeroFilled::Known(inode));
    }
}

/// Is it this file?
pub fn is(stat: &libc::stat) -> bool {
    WATCHED.zero_filled.state() == ZeroFilled::Known(inode(stat))
}

fn inode(stat: &libc::stat) -> Inode {
    Inode {
        device: stat.st_dev,
        number: stat.st_ino,
    }
}
