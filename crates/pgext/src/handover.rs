//! How a session reaches the parallel workers of its backend.
//!
//! The leader leaves it in a memory file without a name in any directory; a worker knows its
//! leader's process id from PostgreSQL's lock group and finds the file among the leader's
//! descriptors. The file's mode is 0, so that a function of the server that reads files by name
//! does not read this one; the worker, which has the same user, changes the mode for the moment in
//! which it opens it.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const NAME: &std::ffi::CStr = c"pgseal-encdb-session";
const LINK: &str = "/memfd:pgseal-encdb-session (deleted)";
const ATTEMPTS: u32 = 100;

/// A session that lies ready for workers, until this is dropped.
pub(crate) struct Handover {
    _file: File,
}

impl Handover {
    /// Leaves `bytes` for the workers of this process.
    pub(crate) fn leave(bytes: &[u8]) -> io::Result<Self> {
        let mut file = memory_file()?;
        file.set_permissions(Permissions::from_mode(0o0))?;
        file.write_all(bytes)?;
        Ok(Self { _file: file })
    }
}

/// What the process `leader` has left.
pub(crate) fn take(leader: i32) -> io::Result<Vec<u8>> {
    let path = find(leader)?;
    for _ in 0..ATTEMPTS {
        // Another worker may take the mode away in between.
        fs::set_permissions(&path, Permissions::from_mode(0o400))?;
        let opened = OpenOptions::new().read(true).open(&path);
        fs::set_permissions(&path, Permissions::from_mode(0o0))?;
        match opened {
            Ok(mut file) => return read_all(&mut file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

fn read_all(file: &mut File) -> io::Result<Vec<u8>> {
    // Reserved at once: growing would leave copies behind.
    let size = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(size + 1);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn find(leader: i32) -> io::Result<PathBuf> {
    let descriptors = PathBuf::from(format!("/proc/{leader}/fd"));
    for entry in fs::read_dir(descriptors)? {
        let path = entry?.path();
        if fs::read_link(&path).is_ok_and(|target| target == Path::new(LINK)) {
            return Ok(path);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a C string that lives as long as the program.
    let descriptor = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and nobody else has it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_finds_what_its_leader_left_and_nobody_reads_it_by_name() {
        let this = i32::try_from(std::process::id()).expect("a process id");
        assert!(take(this).is_err());
        let handover = Handover::leave(b"session").expect("a memory file");
        assert_eq!(take(this).expect("what was left"), b"session");
        let path = find(this).expect("the file is open");
        let mode = fs::metadata(path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0);
        drop(handover);
        assert!(take(this).is_err());
    }
}
