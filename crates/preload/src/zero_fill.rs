//! The file that this process made last for a WAL segment and filled with zeros only.
//!
//! PostgreSQL fills a new segment under a name of its process, closes it, and renames it. No byte
//! of such a file depends on a key, so the rename need not store it anew; to see that, all 16 MB
//! would have to be read. What was written through the descriptor says the same for nothing.
//!
//! Invariant: a file is named here only if it was made (`O_EXCL`) and closed by this process, held
//! nothing but zeros then, and no other such file was opened since.

use crate::disk;
use crate::files::{Protected, Stored};
use libc::c_int;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The descriptor of one that is being made.
static MADE: AtomicI32 = AtomicI32::new(NONE);
const NONE: c_int = -1;

/// Device and inode of the one that was closed; no inode is 0.
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);

/// A file of this kind was opened as `fd`, with these flags of `open`.
pub fn begin(fd: c_int, flags: c_int) {
    const NEW: c_int = libc::O_CREAT | libc::O_EXCL;
    INODE.store(0, Ordering::Relaxed);
    MADE.store(
        if flags & NEW == NEW { fd } else { NONE },
        Ordering::Relaxed,
    );
}

/// A protected descriptor is about to be closed.
#[inline]
pub fn end(file: Protected) {
    if file.disk.0 == MADE.load(Ordering::Relaxed) {
        MADE.store(NONE, Ordering::Relaxed);
        remember(file);
    }
}

fn remember(file: Protected) {
    let Stored::Sealed(sealed) = &file.file.stored else {
        return;
    };
    let Ok(stat) = disk::stat(file.disk.0) else {
        return;
    };
    if sealed.wrote_only_zeros() && file.file.is_last() {
        DEVICE.store(stat.st_dev, Ordering::Relaxed);
        INODE.store(stat.st_ino, Ordering::Relaxed);
    }
}

/// Is it this file?
pub fn is(stat: &libc::stat) -> bool {
    let inode = INODE.load(Ordering::Relaxed);
    inode != 0 && inode == stat.st_ino && DEVICE.load(Ordering::Relaxed) == stat.st_dev
}
