//! Memfds: bytes for another process that no process can change, and room for its answer.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use nix::fcntl::{fcntl, FcntlArg, SealFlag};
use nix::sys::memfd::{memfd_create, MFdFlags};

/// The name that the kernel shows for them.
const NAME: &CStr = c"pgseal";

/// Whether the descriptor `fd` is a memfd of pgseal, as far as its name tells.
pub fn is_ours(fd: i32) -> bool {
    let link = fs::read_link(format!("/proc/self/fd/{fd}"));
    link.is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"/memfd:pgseal "))
}

/// Opens an empty memfd that other processes may write to, open across exec.
pub fn open() -> io::Result<File> {
    Ok(File::from(memfd_create(NAME, MFdFlags::empty())?))
}

/// Makes a memfd that holds `bytes`, can never change again, and stays open across exec.
pub fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(NAME, MFdFlags::MFD_ALLOW_SEALING)?);
    file.write_all(bytes)?;
    let seals = SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}
