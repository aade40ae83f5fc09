//! What can be known of a WAL segment before it is opened: its size, and who can read its first
//! page.

use crate::disk::FdDisk;
use crate::programs;
use crate::real::libc_call;
use pgseal_storage::disk::read_full;
use pgseal_storage::wal::{is_segment_size, LongHeader, LONG_HEADER};
use std::ffi::CStr;

/// Where a twin says how long the segments are that its program will receive.
const SEGMENT_SIZE: &str = "PGSEAL_WAL_SEGMENT_SIZE";

/// The size of segments that are received before there is any `pg_control`.
pub fn announced_segment_size() -> Option<u64> {
    if programs::is_server() {
        return None;
    }
    let size = std::env::var(SEGMENT_SIZE).ok()?.parse().ok()?;
    is_segment_size(size).then_some(size)
}

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
