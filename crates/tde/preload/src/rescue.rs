//! The key file that is lost under a running server: each process that the server starts looks
//! whether it is there. The first that misses it says so in the log, and each of them gives the key
//! to root, if root waits for it, so that a new key file can be made before the server stops.
//!
//! Root waits at a socket in the data directory (`pgseal key restore --from-server`). The kernel
//! says who made the socket: nobody else gets the key, not the server's own user either, who may be
//! anybody that can run a program by SQL. Root can take the key out of any process by a debugger,
//! so it learns nothing that it could not.
//!
//! While the key file is there, this costs one system call for each process that starts.

use crate::clusters::{self, Cluster};
use crate::counters;
use crate::process::PROCESS;
use crate::real::{errno, libc_call, set_errno};
use crate::report;
use libc::{c_int, c_void, sockaddr_un, socklen_t, ucred};
use pgseal_contract::file;
use std::ffi::CString;
use std::mem::{size_of, zeroed};

/// Has each process of a server look.
pub fn start() {
    if PROCESS.is_server() {
        // SAFETY: `look` only reads what its parent published, and makes system calls. A postmaster
        // has one thread, and forks while no signal handler runs within malloc: it lets signals in
        // only while it waits.
        unsafe { libc::pthread_atfork(None, None, Some(look)) };
    }
}

/// Runs in a new process. What the server itself finds in errno is as fork left it.
extern "C" fn look() {
    let before = errno();
    let mut known = clusters::all();
    if let Some(cluster) = known.next().filter(|cluster| !cluster.is_pending()) {
        let is_missing = is_missing(cluster);
        if counters::note_missing(is_missing) && is_missing {
            report::line(
                "pg_encryption/key.bin is missing: this server runs on, and cannot be started \
                 again: make the file anew now, by `pgseal key restore` from a copy or a sheet, or \
                 as root with --from-server",
            );
        }
        if is_missing {
            give(cluster);
        }
    }
    set_errno(before);
}

/// Whether the cluster's key file is not there.
fn is_missing(cluster: &Cluster) -> bool {
    let path = [&cluster.root[..], b"/", file::KEY_PATH.as_str().as_bytes()].concat();
    let Ok(path) = CString::new(path) else {
        return false;
    };
    // SAFETY: the path is terminated, and lives until the call returns. The call is the kernel's,
    // because this library answers libc's for its own files.
    let found = unsafe {
        libc::syscall(
            libc::SYS_faccessat,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::F_OK,
        )
    };
    found != 0 && errno() == libc::ENOENT
}

/// Gives the key to root, if it waits.
fn give(cluster: &Cluster) {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes numbers only.
    let made = unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) };
    let Ok(fd @ 0..) = c_int::try_from(made) else {
        return;
    };
    if connects(fd) && is_root(fd) {
        if let Some(record) = cluster.record() {
            let (bytes, length) = (record.as_ptr().cast::<c_void>(), record.len());
            // SAFETY: the pointer and the length are the record's.
            unsafe {
                libc::syscall(
                    libc::SYS_sendto,
                    fd,
                    bytes,
                    length,
                    libc::MSG_NOSIGNAL,
                    0,
                    0,
                )
            };
        }
    }
    libc_call!(close(fd));
}

/// Connects to the socket in the current directory: a server's is its data directory, whose whole
/// path may be too long for an address.
fn connects(fd: c_int) -> bool {
    // SAFETY: all zeros are an address of no family.
    let mut address: sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).unwrap_or(0);
    let name = file::RESCUE_SOCKET.as_c_str().to_bytes_with_nul();
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let length = size_of::<sockaddr_un>();
    // SAFETY: the pointer and the length are the address's.
    unsafe { libc::syscall(libc::SYS_connect, fd, std::ptr::from_ref(&address), length) == 0 }
}

/// Whether root made the socket at the other end.
fn is_root(fd: c_int) -> bool {
    // SAFETY: all zeros are credentials; the kernel writes others over them, or the call fails.
    let mut peer: ucred = unsafe { zeroed() };
    let mut length = socklen_t::try_from(size_of::<ucred>()).unwrap_or(0);
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    let into = std::ptr::from_mut(&mut peer);
    // SAFETY: the pointers are to live values of the types that the option has.
    let done = unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, into, &mut length) };
    done == 0 && peer.uid == 0
}
