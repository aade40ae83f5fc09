//! WAL that `restore_command` brought to pg_rewind. A server has it written to RECOVERYXLOG, and
//! looks at it when it is renamed; pg_rewind lets it be written under the segment's own name, and
//! opens that next (`RestoreArchivedFile`, src/fe_utils/archive.c). So it is looked at there: a
//! clear one, a plain primary's, is sealed before it is read, and does not stay in clear.

use super::names::moving::{self, Name};
use crate::watched::WATCHED;
use libc::c_int;
use pgseal_storage::classify::Class;
use pgseal_storage::Errno;
use std::ffi::CStr;
use std::sync::atomic::Ordering;

/// The segment that is opened next may be a command's.
pub fn expect() {
    WATCHED.restored.store(true, Ordering::Relaxed);
}

/// Seals a restored segment before it is opened. An error is the errno for refusing to open it.
pub fn settle(class: &Class, directory: c_int, path: &CStr, flags: c_int) -> Result<(), c_int> {
    let reads = flags & libc::O_ACCMODE == libc::O_RDONLY;
    let is_segment = reads && matches!(class, Class::WalSegment(_));
    if !is_segment || !WATCHED.restored.swap(false, Ordering::Relaxed) {
        return Ok(());
    }
    match moving::seal_restored(&Name::at(directory, path)) {
        // It is opened all the same, and libc says so.
        Err(Errno(libc::ENOENT)) => Ok(()),
        settled => settled.map_err(|Errno(errno)| errno),
    }
}
