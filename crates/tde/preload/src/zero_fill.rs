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
use libc::c_int;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The descriptor of one that may come to be known when it is closed.
static OPEN: AtomicI32 = AtomicI32::new(NONE);
const NONE: c_int = -1;

/// The inode that it must have for that, because it was known before; 0 for a file that is new.
static EXPECTED: AtomicU64 = AtomicU64::new(0);

/// Device and inode of the known one; no inode is 0.
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);

/// A file of this kind was opened as `fd`, with these flags of `open`.
pub fn begin(fd: c_int, flags: c_int) {
    const NEW: c_int = libc::O_CREAT | libc::O_EXCL;
    let is_new = flags & NEW == NEW;
    let known = INODE.swap(0, Ordering::Relaxed);
    EXPECTED.store(if is_new { 0 } else { known }, Ordering::Relaxed);
    let may_be_known = is_new || known != 0;
    OPEN.store(if may_be_known { fd } else { NONE }, Ordering::Relaxed);
}

/// A protected descriptor is about to be closed.
#[inline]
pub fn end(file: Protected) {
    if file.disk.0 == OPEN.load(Ordering::Relaxed) {
        OPEN.store(NONE, Ordering::Relaxed);
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
    let expected = EXPECTED.load(Ordering::Relaxed);
    let is_it = expected == 0 || (expected, DEVICE.load(Ordering::Relaxed)) == place(&stat);
    if is_it && sealed.wrote_only_zeros() && file.file.is_last() {
        DEVICE.store(stat.st_dev, Ordering::Relaxed);
        INODE.store(stat.st_ino, Ordering::Relaxed);
    }
}

/// Is it this file?
pub fn is(stat: &libc::stat) -> bool {
    let known = INODE.load(Ordering::Relaxed);
    known != 0 && (known, DEVICE.load(Ordering::Relaxed)) == place(stat)
}

fn place(stat: &libc::stat) -> (u64, u64) {
    (stat.st_ino, stat.st_dev)
}
