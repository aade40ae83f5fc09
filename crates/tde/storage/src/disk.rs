//! The disk below a sealed file: positioned transfers on one open file.
//!
//! The preload library implements it over libc, `pgseal verify` over the raw directory, and the
//! tests over memory with torn sectors, lost writes and errors.

/// An errno value, as libc reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Input/output error: a protected file could not be handled; never a reason to go on in clear.
    pub const EIO: Self = Self(5);
    /// No space left on device.
    pub const ENOSPC: Self = Self(28);
    /// Invalid argument.
    pub const EINVAL: Self = Self(22);
    /// File too large.
    pub const EFBIG: Self = Self(27);
}

/// How a range is locked against other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Other processes may read; none may change a unit that is not whole.
    Shared,
    /// No other process reads or writes a unit that is not whole.
    Exclusive,
    /// Gives the lock back.
    None,
}

/// One open file. Offsets and sizes are bytes; a transfer may be shorter than asked.
pub trait Disk {
    /// Reads at `offset`; 0 is the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno>;
    /// Writes at `offset`, extending the file where needed.
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Errno>;
    /// The file's size.
    fn size(&self) -> Result<u64, Errno>;
    /// Cuts or extends (with stored zeros) the file.
    fn set_size(&self, size: u64) -> Result<(), Errno>;
    /// Reserves space, extending the file with stored zeros.
    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno>;
    /// Locks the whole file between processes (an OFD lock: it belongs to the open file).
    fn lock(&self, lock: Lock) -> Result<(), Errno>;
}

/// Reads until `buf` is full or the file ends.
pub fn read_full(disk: &impl Disk, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut done = 0;
    while done < buf.len() {
        match disk.read_at(&mut buf[done..], offset + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

/// Writes all of `buf`; on failure says how many bytes the disk took before it.
pub fn write_full(disk: &impl Disk, buf: &[u8], offset: u64) -> Result<(), (usize, Errno)> {
    let mut done = 0;
    while done < buf.len() {
        match disk.write_at(&buf[done..], offset + done as u64) {
            Ok(0) => return Err((done, Errno::ENOSPC)),
            Ok(n) => done += n,
            Err(errno) => return Err((done, errno)),
        }
    }
    Ok(())
}
