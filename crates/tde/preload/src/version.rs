//! The version of this library, as a running server shows it: the name of a mapping, which
//! `pgseal status` and `pgseal doctor` read in `/proc/PID/maps`. The file that the library was
//! loaded from may have been replaced since, so it says nothing. What it was is remembered.

use crate::process::{LibraryFile, PROCESS};
use crate::real::libc_call;
use libc::c_void;
use pgseal_contract::file::{CURRENT, LIBRARY_MAPPING};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// The version, the commit and the profile.
pub const VERSION: &str = env!("PGSEAL_BUILD");

/// Maps an empty memory file of this name in a server; its children inherit the mapping. It takes
/// no memory, and nobody can read or write it. Where the kernel refuses, the version is not shown.
pub fn show() {
    if !PROCESS.is_server() {
        return;
    }
    PROCESS.server.library.get_or_init(loaded);
    let Ok(name) = CString::new(format!("{}{VERSION}", LIBRARY_MAPPING.as_str())) else {
        return;
    };
    // SAFETY: the name is terminated.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd >= 0 {
        let (access, kind) = (libc::PROT_NONE, libc::MAP_SHARED);
        libc_call!(mmap(null_mut(), 1, access, kind, fd, 0));
        libc_call!(close(fd));
    }
}

/// Does another file lie where the library was loaded from, or have packages put another version
/// into use? Then a restart loads that one.
pub fn is_replaced() -> bool {
    let Some(Some(loaded)) = PROCESS.server.library.get() else {
        return false;
    };
    let in_use = in_use(&loaded.path).and_then(|path| identity(&path));
    identity(&loaded.path) != Some(loaded.file) || in_use.is_some_and(|file| file != loaded.file)
}

/// Returns where the library of the version in use is if `path` is `VERSION/lib/libpgseal.so`.
fn in_use(path: &Path) -> Option<PathBuf> {
    let version = path.parent()?.parent()?;
    let name = path.strip_prefix(version).ok()?;
    Some(version.parent()?.join(CURRENT.as_str()).join(name))
}

fn loaded() -> Option<LibraryFile> {
    // SAFETY: plain data for which all zeros is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr fills the structure when it does not return 0, with strings that stay as long
    // as the library is loaded.
    let name = unsafe {
        if libc::dladdr(show as *const c_void, &raw mut info) == 0 {
            return None;
        }
        CStr::from_ptr(info.dli_fname)
    };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    let file = identity(&path)?;
    Some(LibraryFile { path, file })
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = path.metadata().ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_in_use_lies_beside_that_of_the_library() {
        let of = |path: &str| in_use(Path::new(path));
        let in_use = "/usr/lib/pgseal/current/lib/libpgseal.so";
        assert_eq!(
            of("/usr/lib/pgseal/0.1.0/lib/libpgseal.so"),
            Some(in_use.into())
        );
        assert_eq!(of("/libpgseal.so"), None);
    }
}
