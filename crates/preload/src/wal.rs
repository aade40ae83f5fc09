//! What the first page of a WAL segment says about who can read it.

use crate::disk::FdDisk;
use crate::real::libc_call;
use pgseal_storage::disk::read_full;
use pgseal_storage::wal::{LongHeader, LONG_HEADER};
use std::ffi::CStr;

/// Does the file begin with a segment's header in clear?
pub fn is_clear(path: &CStr) -> bool {
    let fd = libc_call!(open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0));
    if fd < 0 {
        return false;
    }
    let mut head = [0; LONG_HEADER];
    let read = read_full(&FdDisk(fd), &mut head, 0);
    libc_call!(close(fd));
    read == Ok(LONG_HEADER) && LongHeader::parse(&head).is_some()
}
