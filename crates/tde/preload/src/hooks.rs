//! The functions behind the interposed symbols, with a file for each theme. Every function first
//! lets libc have what is not protected.

mod buffers;
pub mod commands;
pub mod commit_logs;
pub mod compressors;
pub mod connections;
pub mod copies;
pub mod descriptors;
mod facts;
mod foreign;
pub mod names;
pub mod opening;
mod page_runs;
mod racing;
pub mod restored;
pub mod rings;
pub mod sizes;
pub mod streams;
pub mod transfers;
pub mod withdrawn;

use crate::real;
use libc::{c_int, ssize_t};
use pgseal_storage::Errno;

/// Returns a count or errno, as libc does.
fn count(result: Result<usize, Errno>) -> ssize_t {
    match result {
        Ok(count) => ssize_t::try_from(count).unwrap_or(ssize_t::MAX),
        Err(Errno(errno)) => {
            real::set_errno(errno);
            -1
        }
    }
}

/// Returns success or errno, as libc does.
fn status(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Errno(errno)) => fail(errno),
    }
}

/// Sets errno, and returns -1.
fn fail(errno: c_int) -> c_int {
    real::set_errno(errno);
    -1
}
