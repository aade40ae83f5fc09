//! Runs of whole pages in several buffers, which PostgreSQL moves by one call.

use super::buffers::{bytes, bytes_mut};
use super::racing::{make_resident, reads_alone};
use crate::counters::{self, Area};
use crate::disk::check;
use crate::files::Protected;
use crate::real::libc_call;
use libc::{c_int, iovec, off_t};
use pgseal_crypto::UNIT;
use pgseal_storage::{Errno, SealedFile};

/// PostgreSQL 17 and 18 read runs of pages into scattered buffers with one call; so do we. None if
/// the parts are not whole, aligned pages: then they are read one by one.
///
/// # Safety
/// Each vector names a buffer that may be written until this returns.
pub unsafe fn read_pages(
    file: Protected,
    parts: &[iovec],
    at: u64,
) -> Option<Result<usize, Errno>> {
    let sealed = whole_pages(file, parts, at)?;
    if sealed.lacks_images() && !reads_alone() {
        return None;
    }
    let offset = off_t::try_from(at).ok()?;
    let parts_len = c_int::try_from(parts.len()).ok()?;
    for part in parts.iter().filter(|_| !reads_alone()) {
        // SAFETY: `iov_base` is `iov_len` bytes that may be written, by this function's contract.
        make_resident(unsafe { bytes_mut(part.iov_base, part.iov_len) });
    }
    let got = check(libc_call!(preadv(
        file.disk.0,
        parts.as_ptr(),
        parts_len,
        offset
    )));
    let Ok(got) = got else { return Some(got) };
    if got % UNIT != 0 {
        return None;
    }
    // SAFETY: each vector names a buffer that may be written, and preadv(2) filled `got` bytes.
    Some(unsafe { open_pages(sealed, file.file.area, parts, got, at) })
}

/// Returns the sealed file if these parts, from the offset `at` on, are whole pages of it that can
/// be decrypted where they are.
pub fn whole_pages(
    file: Protected,
    parts: &[iovec],
    at: u64,
) -> Option<&'static SealedFile<'static>> {
    let whole =
        |part: &iovec| part.iov_len % UNIT == 0 && SealedFile::may_read_into(part.iov_base.addr());
    let sealed = file.file.sealed().ok()?;
    let are_whole = at % UNIT as u64 == 0 && parts.iter().all(whole) && sealed.opens_in_place();
    are_whole.then_some(sealed)
}

/// Decrypts the `got` bytes that were read into these parts from the offset `at`, whole pages, and
/// counts them as those of the area.
///
/// # Safety
/// Each vector names a buffer that may be written until this returns; the first `got` bytes are
/// filled.
pub unsafe fn open_pages(
    sealed: &SealedFile,
    area: Area,
    parts: &[iovec],
    got: usize,
    at: u64,
) -> Result<usize, Errno> {
    counters::read(area, || {
        let mut done = 0;
        for part in parts {
            let len = part.iov_len.min(got - done);
            // SAFETY: `iov_base` is at least `len` bytes, which are filled.
            let buf = unsafe { bytes_mut(part.iov_base, len) };
            sealed.open_in_place(buf, at + done as u64);
            done += len;
        }
        Ok(got)
    })
}

/// A new WAL segment is filled by calls with 32 pages each. None if the parts are not whole pages,
/// or cannot be written as such: then they are written one by one.
///
/// # Safety
/// Each vector names bytes that may be read until this returns.
pub unsafe fn write_pages(
    file: Protected,
    parts: &[iovec],
    at: u64,
) -> Option<Result<usize, Errno>> {
    if parts.len() < 2 || parts.iter().any(|part| part.iov_len % UNIT != 0) {
        return None;
    }
    let sealed = file.file.sealed().ok()?;
    // SAFETY: `iov_base` is `iov_len` bytes that may be read, by this function's contract.
    let part = |part: &iovec| unsafe { bytes(part.iov_base, part.iov_len) };
    let pages = || parts.iter().flat_map(|one| part(one).chunks(UNIT));
    let area = file.file.area;
    let write = || {
        file.disk
            .transfer(|transfer| sealed.write_gathered(transfer, pages(), at))
    };
    let written = counters::writing(area, write).transpose();
    if matches!(written, Some(Ok(_))) {
        counters::written(area, sealed, pages());
    }
    written
}
