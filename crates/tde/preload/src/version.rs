//! The version of this library, as a running server shows it: the name of a mapping, which
//! `pgseal status` and `pgseal doctor` read in `/proc/PID/maps`. The file that the library was
//! loaded from may have been replaced since, so it says nothing.

use crate::process::PROCESS;
use crate::real::libc_call;
use pgseal_contract::file::LIBRARY_MAPPING;
use std::ffi::CString;
use std::ptr::null_mut;

/// The version, the commit and the profile.
pub const VERSION: &str = env!("PGSEAL_BUILD");

/// Maps an empty memory file of this name in a server; its children inherit the mapping. It takes
/// no memory, and nobody can read or write it. Where the kernel refuses, the version is not shown.
pub fn show() {
    if !PROCESS.is_server() {
        return;
    }
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
