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

/// Whether the descriptor `fd` is a memfd of pgseal, as far as its name shows.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    /// A program gets keys by it, and nobody may put others in their place.
    #[test]
    fn a_sealed_memfd_never_changes() {
        let file = File::from(sealed(b"keys").expect("memory"));
        assert!(file.write_at(b"x", 0).is_err());
        assert!(file.set_len(0).is_err() && file.set_len(5).is_err());
        let more = FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_FUTURE_WRITE);
        assert!(fcntl(&file, more).is_err());
        let mut bytes = [0; 5];
        assert_eq!(file.read_at(&mut bytes, 0).expect("memory"), 4);
        assert_eq!(&bytes[..4], b"keys");
    }

    #[test]
    fn a_memfd_of_ours_is_told_by_its_name() {
        let ours = sealed(b"").expect("memory");
        assert!(is_ours(ours.as_raw_fd()));
        let other = memfd_create(c"other", MFdFlags::empty()).expect("memory");
        assert!(!is_ours(other.as_raw_fd()));
        assert!(!is_ours(-1));
    }
}
