//! Copies that the kernel makes by itself between two files, in place of which pages go through the
//! cipher.

use super::names::moving::{self, Name};
use crate::disk::check;
use crate::files;
use crate::process::PROCESS;
use crate::real::libc_call;
use libc::{c_int, c_uint, c_ulong, off_t, size_t, ssize_t};
use pgseal_crypto::UNIT;
use pgseal_storage::Errno;
use zeroize::Zeroizing;

pub unsafe fn copy_file_range(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if files::get(from).is_none() && files::get(to).is_none() {
        return libc_call!(copy_file_range(
            from,
            from_offset,
            to,
            to_offset,
            len,
            flags
        ));
    }
    if flags != 0 {
        return super::count(Err(Errno::EINVAL));
    }
    // SAFETY: each is null or an offset that copy_file_range(2)'s caller lets us change.
    let offsets = unsafe { (from_offset.as_mut(), to_offset.as_mut()) };
    super::count(copy(
        End {
            fd: from,
            offset: offsets.0,
        },
        End {
            fd: to,
            offset: offsets.1,
        },
        len,
    ))
}

/// One end of a copy: a descriptor with an offset of its own, or at its position.
struct End<'a> {
    fd: c_int,
    offset: Option<&'a mut off_t>,
}

/// Copies through the cipher, and returns how many bytes. An error after a part was copied is left
/// for the next call to tell.
fn copy(mut from: End, mut to: End, len: usize) -> Result<usize, Errno> {
    const STEP: usize = 32 * UNIT;
    let mut buf = Zeroizing::new(vec![0u8; len.min(STEP)]);
    let mut done = 0;
    while done < len {
        let want = (len - done).min(STEP);
        match copy_some(&mut from, &mut to, &mut buf[..want]) {
            Ok(0) => break,
            Ok(copied) => done += copied,
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// Copies a part. Both ends move by what was written: a caller that finds the source moved further
/// would never copy the bytes between.
fn copy_some(from: &mut End, to: &mut End, buf: &mut [u8]) -> Result<usize, Errno> {
    let have = from.peek(buf)?;
    if have == 0 {
        return Ok(0);
    }
    let written = to.write(&buf[..have])?;
    from.skip(written)?;
    Ok(written)
}

impl End<'_> {
    /// Reads what comes next, and stays there.
    fn peek(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        let at = match &self.offset {
            Some(offset) => **offset,
            None => self.seek(0)?,
        };
        let (pointer, len) = (buf.as_mut_ptr().cast(), buf.len());
        // SAFETY: `pointer` and `len` are those of `buf`, which we hold exclusively.
        check(unsafe { super::transfers::pread(self.fd, pointer, len, at) })
    }

    /// Writes what comes next, and moves on.
    fn write(&mut self, data: &[u8]) -> Result<usize, Errno> {
        let (pointer, len) = (data.as_ptr().cast(), data.len());
        let Some(offset) = &self.offset else {
            // SAFETY: `pointer` and `len` are those of `data`, which we borrow.
            return check(unsafe { super::transfers::write(self.fd, pointer, len) });
        };
        // SAFETY: `pointer` and `len` are those of `data`, which we borrow.
        let done = check(unsafe { super::transfers::pwrite(self.fd, pointer, len, **offset) })?;
        self.skip(done)?;
        Ok(done)
    }

    fn skip(&mut self, len: usize) -> Result<(), Errno> {
        let len = off_t::try_from(len).map_err(|_| Errno::EFBIG)?;
        match &mut self.offset {
            Some(offset) => **offset += len,
            None => {
                self.seek(len)?;
            }
        }
        Ok(())
    }

    /// Moves the descriptor's position by `len` bytes, and returns where it is now.
    fn seek(&self, len: off_t) -> Result<off_t, Errno> {
        // SAFETY: lseek(2) takes no pointer.
        let at = unsafe { libc::lseek(self.fd, len, libc::SEEK_CUR) };
        check(at).map(|_| at)
    }
}

/// `FICLONE` shares stored bytes between files: only where they mean the same in both.
/// `FICLONERANGE` could shift them.
pub unsafe fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int {
    const FICLONE: c_ulong = 0x4004_9409;
    const FICLONERANGE: c_ulong = 0x4020_940D;
    let protected = |fd: c_int| files::get(fd).is_some_and(|file| file.file.is_ciphered());
    let allowed = match request {
        FICLONE if PROCESS.is_viewer() => {
            !protected(fd) && !c_int::try_from(argument).is_ok_and(protected)
        }
        FICLONE if PROCESS.acts() => {
            c_int::try_from(argument).map_or(true, |source| may_clone(source, fd))
        }
        FICLONERANGE => {
            // SAFETY: file_clone_range begins with the source descriptor, as 64 bits.
            let source = c_int::try_from(unsafe { *(argument as *const i64) });
            !protected(fd) && !source.is_ok_and(protected)
        }
        _ => true,
    };
    if !allowed {
        return super::fail(libc::EOPNOTSUPP);
    }
    libc_call!(ioctl(fd, request, argument))
}

/// The empty name below a descriptor is the open file itself.
fn may_clone(source: c_int, target: c_int) -> bool {
    moving::may_share(&Name::at(source, c""), &Name::at(target, c"")).is_ok()
}
