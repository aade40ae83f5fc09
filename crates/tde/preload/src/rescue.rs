//! The key file that is lost under a running server: each process that the server starts looks
//! whether it is there. The first that misses it says so in the log, and each of them gives the key
//! to root, if root waits for it, so that a new key file can be made before the server stops.
//!
//! Root waits at a socket in the data directory (`pgseal key restore --from-server`), and sends a
//! request first. The kernel says who made the socket: nobody else gets the key, not the server's
//! own user either, who may be anybody that can run a program by SQL. No link is followed: it could
//! lead to another service of root's, such as the journal's. Root can take the key out of any
//! process by a debugger, so it learns nothing that it could not.
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
    let Some(socket) = of_root() else {
        return;
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes numbers only.
    let made = unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) };
    if let Ok(fd @ 0..) = c_int::try_from(made) {
        if connects(fd, socket) && is_root(fd) && is_asked(fd) {
            if let Some(record) = cluster.record() {
                send(fd, &record);
            }
        }
        libc_call!(close(fd));
    }
    libc_call!(close(socket));
}

/// Opens the socket in the current directory, which a server's is the data directory of, if root
/// made it there. A link, which the server's user can make, would lead to any socket of root's.
fn of_root() -> Option<c_int> {
    let name = file::RESCUE_SOCKET.as_c_str();
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the name is terminated. The call is the kernel's own, as below.
    let opened =
        unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name.as_ptr(), flags, 0) };
    let fd = c_int::try_from(opened).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: all zeros are a file's attributes; the kernel writes others over them.
    let mut found: libc::stat = unsafe { zeroed() };
    let into = std::ptr::from_mut(&mut found);
    let (empty, flag) = (c"".as_ptr(), libc::AT_EMPTY_PATH);
    // SAFETY: the pointers are to a terminated text and to a live value of the call's type.
    let done = unsafe { libc::syscall(libc::SYS_newfstatat, fd, empty, into, flag) };
    let is_socket = found.st_mode & libc::S_IFMT == libc::S_IFSOCK;
    if done == 0 && is_socket && found.st_uid == 0 && found.st_nlink == 1 {
        return Some(fd);
    }
    libc_call!(close(fd));
    None
}

/// Connects to the very socket that was looked at.
fn connects(fd: c_int, socket: c_int) -> bool {
    // SAFETY: all zeros are an address of no family.
    let mut address: sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).unwrap_or(0);
    let path = format!("/proc/self/fd/{socket}");
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
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

/// Whether the other end asks for a key, within a second.
fn is_asked(fd: c_int) -> bool {
    let time = libc::timeval {
        tv_sec: 1,
        tv_usec: 0,
    };
    let (level, name, size) = (
        libc::SOL_SOCKET,
        libc::SO_RCVTIMEO,
        size_of::<libc::timeval>(),
    );
    let from = std::ptr::from_ref(&time);
    // SAFETY: the pointer and the size are the time's.
    let bounded = unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, from, size) } == 0;
    let mut request = [0_u8; file::RESCUE_REQUEST.len()];
    let (into, length) = (request.as_mut_ptr(), request.len());
    // SAFETY: the pointer and the length are the buffer's.
    bounded
        && unsafe {
            libc::syscall(
                libc::SYS_recvfrom,
                fd,
                into,
                length,
                libc::MSG_WAITALL,
                0,
                0,
            )
        } > 0
        && request == *file::RESCUE_REQUEST
}

fn send(fd: c_int, record: &[u8]) {
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
