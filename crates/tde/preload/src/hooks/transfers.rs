//! Reads and writes on descriptors.

use super::buffers::{bytes, bytes_mut};
use super::racing::{make_all_resident, make_resident, reads_alone};
use super::{count, page_runs};
use crate::counters;
use crate::files::{self, Protected, Stored};
use crate::packed;
use crate::real::libc_call;
use crate::received;
use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};
use pgseal_crypto::UNIT;
use pgseal_storage::{Disk, Errno, Lock};

#[inline]
pub unsafe fn pread(fd: c_int, buf: *mut c_void, len: size_t, offset: off_t) -> ssize_t {
    let Some(file) = files::get(fd) else {
        return libc_call!(pread(fd, buf, len, offset));
    };
    // SAFETY: `buf` is `len` bytes that pread(2)'s caller lets us write until this returns.
    let buf = unsafe { bytes_mut(buf, len) };
    count(position(offset).and_then(|offset| file.read_at(buf, offset)))
}

#[inline]
pub unsafe fn pwrite(fd: c_int, buf: *const c_void, len: size_t, offset: off_t) -> ssize_t {
    let Some(file) = files::get(fd) else {
        return libc_call!(pwrite(fd, buf, len, offset));
    };
    // SAFETY: `buf` is `len` bytes that pwrite(2)'s caller lets us read until this returns.
    let data = unsafe { bytes(buf, len) };
    let write = |at| file.write_at(data, at);
    count(position(offset).and_then(|offset| file.write_there(write, offset)))
}

#[inline]
pub unsafe fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t {
    let Some(file) = files::get(fd) else {
        return libc_call!(read(fd, buf, len));
    };
    if file.file.hides_from(len) {
        return libc_call!(read(fd, buf, len));
    }
    // SAFETY: `buf` is `len` bytes that read(2)'s caller lets us write until this returns.
    let buf = unsafe { bytes_mut(buf, len) };
    count(file.advance(|offset| file.read_at(buf, offset)))
}

#[inline]
pub unsafe fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
    let Some(file) = files::get(fd) else {
        return libc_call!(write(fd, buf, len));
    };
    // SAFETY: `buf` is `len` bytes that write(2)'s caller lets us read until this returns.
    let data = unsafe { bytes(buf, len) };
    count(file.write_on(|offset| file.write_at(data, offset)))
}

pub unsafe fn readv(fd: c_int, parts: *const iovec, parts_len: c_int) -> ssize_t {
    let Some(file) = files::get(fd) else {
        return libc_call!(readv(fd, parts, parts_len));
    };
    // SAFETY: `parts` is an array of `parts_len` vectors that readv(2)'s caller owns.
    let parts = unsafe { vectors(parts, parts_len) };
    // SAFETY: each vector names a buffer that readv(2)'s caller lets us write until this returns.
    count(file.advance(|offset| unsafe { read_parts(file, parts?, offset) }))
}

pub unsafe fn preadv(fd: c_int, parts: *const iovec, parts_len: c_int, at: off_t) -> ssize_t {
    let Some(file) = files::get(fd) else {
        return libc_call!(preadv(fd, parts, parts_len, at));
    };
    // SAFETY: `parts` is an array of `parts_len` vectors; preadv(2)'s caller owns it and lets us
    // write the buffers that they name until this returns.
    count(position(at).and_then(|at| unsafe { read_parts(file, vectors(parts, parts_len)?, at) }))
}

/// The flags are hints (RWF_HIPRI, RWF_NOWAIT) or durability, which a protected file does not take.
pub unsafe fn preadv2(
    fd: c_int,
    parts: *const iovec,
    parts_len: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    if files::get(fd).is_none() {
        return libc_call!(preadv2(fd, parts, parts_len, at, flags));
    }
    match (flags, at) {
        // SAFETY: without flags, and with -1 for the descriptor's position, preadv2's contract is
        // that of `readv`.
        (0, -1) => unsafe { readv(fd, parts, parts_len) },
        // SAFETY: without flags preadv2's contract is that of `preadv`.
        (0, _) => unsafe { preadv(fd, parts, parts_len, at) },
        _ => count(Err(Errno(libc::EOPNOTSUPP))),
    }
}

pub unsafe fn pwritev2(
    fd: c_int,
    parts: *const iovec,
    parts_len: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    if files::get(fd).is_none() {
        return libc_call!(pwritev2(fd, parts, parts_len, at, flags));
    }
    match (flags, at) {
        // SAFETY: without flags, and with -1 for the descriptor's position, pwritev2's contract is
        // that of `writev`.
        (0, -1) => unsafe { writev(fd, parts, parts_len) },
        // SAFETY: without flags pwritev2's contract is that of `pwritev`.
        (0, _) => unsafe { pwritev(fd, parts, parts_len, at) },
        _ => count(Err(Errno(libc::EOPNOTSUPP))),
    }
}

pub unsafe fn writev(fd: c_int, parts: *const iovec, parts_len: c_int) -> ssize_t {
    let Some(file) = files::get(fd) else {
        return libc_call!(writev(fd, parts, parts_len));
    };
    // SAFETY: `parts` is an array of `parts_len` vectors that writev(2)'s caller owns.
    let parts = unsafe { vectors(parts, parts_len) };
    // SAFETY: each vector names bytes that writev(2)'s caller lets us read until this returns.
    let write = |offset| unsafe { write_parts(file, parts?, offset) };
    count(file.write_on(write))
}

pub unsafe fn pwritev(fd: c_int, parts: *const iovec, parts_len: c_int, at: off_t) -> ssize_t {
    let Some(file) = files::get(fd) else {
        return libc_call!(pwritev(fd, parts, parts_len, at));
    };
    // SAFETY: `parts` is an array of `parts_len` vectors; pwritev(2)'s caller owns it and lets us
    // read the bytes that they name until this returns.
    let write = |at| unsafe { write_parts(file, vectors(parts, parts_len)?, at) };
    count(position(at).and_then(|at| file.write_there(write, at)))
}

pub unsafe fn read_chk(fd: c_int, buf: *mut c_void, len: size_t, room: size_t) -> ssize_t {
    if len > room {
        return libc_call!(__read_chk(fd, buf, len, room));
    }
    // SAFETY: `buf` has `room` bytes, at least `len`; otherwise the contract is that of `read`.
    unsafe { read(fd, buf, len) }
}

pub unsafe fn pread_chk(
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    offset: off_t,
    room: size_t,
) -> ssize_t {
    if len > room {
        return libc_call!(__pread_chk(fd, buf, len, offset, room));
    }
    // SAFETY: `buf` has `room` bytes, at least `len`; otherwise the contract is that of `pread`.
    unsafe { pread(fd, buf, len, offset) }
}

impl Protected {
    pub fn read_at(self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.file.readable()?;
        match self.file.stored {
            Stored::Pages => {
                return self.disk.transfer(|transfer| {
                    make_all_resident(transfer.scratch);
                    transfer.read_stored(buf, offset)
                });
            }
            Stored::ReadTar => return packed::read(&self.disk, buf, offset),
            Stored::Sealed(..) | Stored::WalTar => {}
        }
        let sealed = self.file.sealed()?;
        let read = || {
            self.disk.transfer(|transfer| {
                if reads_alone() && !sealed.is_raced() {
                    return sealed.read_at(transfer, buf, offset);
                }
                make_resident(buf);
                make_all_resident(transfer.scratch);
                sealed.read_beside(transfer, buf, offset)
            })
        };
        counters::read(self.file.area, read)
    }

    pub fn write_at(self, data: &[u8], offset: u64) -> Result<usize, Errno> {
        self.file.writable()?;
        match &self.file.stored {
            Stored::Sealed(sealed, _) => {
                let area = self.file.area;
                counters::written(area, sealed, data.chunks(UNIT));
                counters::writing(area, || {
                    self.disk
                        .transfer(|transfer| sealed.write_at(transfer, data, offset))
                })
            }
            Stored::WalTar => received::write_tar(&self.disk, data, offset),
            Stored::ReadTar | Stored::Pages => Err(Errno(libc::EBADF)),
        }
    }

    /// Transfers at the descriptor's position, which the kernel keeps, and moves it on.
    pub fn advance(
        self,
        transfer: impl FnOnce(u64) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let offset = position(self.seek(0, libc::SEEK_CUR)?)?;
        let done = transfer(offset)?;
        if done > 0 {
            self.seek(position_of(offset, done)?, libc::SEEK_SET)?;
        }
        Ok(done)
    }

    /// `write`: at the position, or at the end of a file that is open for appending.
    fn write_on(self, write: impl FnOnce(u64) -> Result<usize, Errno>) -> Result<usize, Errno> {
        if !self.file.appends() {
            return self.advance(write);
        }
        self.append(|end| {
            let done = write(end)?;
            if done > 0 {
                self.seek(position_of(end, done)?, libc::SEEK_SET)?;
            }
            Ok(done)
        })
    }

    /// `pwrite`: at its offset, or at the end too: Linux ignores the offset (pwrite(2), BUGS).
    fn write_there(
        self,
        write: impl FnOnce(u64) -> Result<usize, Errno>,
        offset: u64,
    ) -> Result<usize, Errno> {
        if self.file.appends() {
            self.append(write)
        } else {
            write(offset)
        }
    }

    /// Two processes that append must not meet at one end. Streams lock themselves when they are
    /// shared; one more lock on the same open file changes nothing.
    fn append(self, write: impl FnOnce(u64) -> Result<usize, Errno>) -> Result<usize, Errno> {
        self.file.writable()?;
        self.disk.lock(Lock::Exclusive)?;
        let result = self.disk.size().and_then(write);
        self.disk.lock(Lock::None)?;
        result
    }

    fn seek(self, offset: off_t, whence: c_int) -> Result<off_t, Errno> {
        // SAFETY: a descriptor and two numbers.
        let at = unsafe { libc::lseek(self.disk.0, offset, whence) };
        crate::disk::check(at).map(|_| at)
    }
}

fn position(offset: off_t) -> Result<u64, Errno> {
    u64::try_from(offset).map_err(|_| Errno::EINVAL)
}

fn position_of(offset: u64, done: usize) -> Result<off_t, Errno> {
    off_t::try_from(offset + done as u64).map_err(|_| Errno::EFBIG)
}

/// # Safety
/// `parts` points to `len` vectors that the caller owns for `'a`, if `len` is in range.
unsafe fn vectors<'a>(parts: *const iovec, len: c_int) -> Result<&'a [iovec], Errno> {
    const IOV_MAX: usize = 1024;
    match usize::try_from(len) {
        Ok(0) => Ok(&[]),
        // SAFETY: `parts` points to `len` vectors that live for `'a`, by this function's contract.
        Ok(len) if len <= IOV_MAX => Ok(unsafe { std::slice::from_raw_parts(parts, len) }),
        _ => Err(Errno::EINVAL),
    }
}

/// # Safety
/// Each vector names a buffer that may be written until this returns.
unsafe fn read_parts(file: Protected, parts: &[iovec], at: u64) -> Result<usize, Errno> {
    file.file.readable()?;
    // SAFETY: each vector names a buffer that may be written, by this function's contract.
    if let Some(done) = unsafe { page_runs::read_pages(file, parts, at) } {
        return done;
    }
    let mut done = 0;
    for part in parts {
        // SAFETY: `iov_base` is `iov_len` bytes that may be written, by this function's contract.
        let buf = unsafe { bytes_mut(part.iov_base, part.iov_len) };
        match file.read_at(buf, at + done as u64) {
            Ok(n) if n < buf.len() => return Ok(done + n),
            Ok(n) => done += n,
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// # Safety
/// Each vector names bytes that may be read until this returns.
unsafe fn write_parts(file: Protected, parts: &[iovec], at: u64) -> Result<usize, Errno> {
    file.file.writable()?;
    // SAFETY: each vector names bytes that may be read, by this function's contract.
    if let Some(done) = unsafe { page_runs::write_pages(file, parts, at) } {
        return done;
    }
    let mut done = 0;
    for part in parts {
        // SAFETY: `iov_base` is `iov_len` bytes that may be read, by this function's contract.
        let data = unsafe { bytes(part.iov_base, part.iov_len) };
        match file.write_at(data, at + done as u64) {
            Ok(n) if n < data.len() => return Ok(done + n),
            Ok(n) => done += n,
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}
