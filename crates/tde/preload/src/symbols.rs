//! The interposed functions: one line a symbol, each leading to one function in [`crate::hooks`]
//! or [`guard`].
//!
//! `open`, `openat`, `fcntl` and `ioctl` are variadic in C. Their one optional argument is an
//! integer or a pointer, which both supported ABIs (x86-64 System V, AArch64 AAPCS) pass in the
//! register of a named argument at that place; where the caller gave none it is never looked at.
//! On 64-bit Linux the `64` names are the same functions.

#![allow(missing_docs)] // the C library's manual pages

use crate::hooks::{
    commands, copies, descriptors, names, opening, rings, sizes, streams, transfers, withdrawn,
};
use crate::liburing::{Completion, Parameters, Ring};
use crate::receivers::guard;
use libc::{
    c_char, c_int, c_uint, c_ulong, c_void, dirent, iovec, mode_t, off_t, size_t, ssize_t, DIR,
    FILE,
};

macro_rules! interpose {
    ($($symbol:ident ($($arg:ident: $type:ty),*) $(-> $ret:ty)? = $hook:expr;)*) => {$(
        /// # Safety
        /// As the function of this name in the C library.
        #[no_mangle]
        pub unsafe extern "C" fn $symbol($($arg: $type),*) $(-> $ret)? {
            // SAFETY: the caller keeps that function's contract; the hook asks for no more.
            unsafe { $hook($($arg),*) }
        }
    )*};
}

interpose! {
    open (path: *const c_char, flags: c_int, mode: mode_t) -> c_int = opening::open;
    open64 (path: *const c_char, flags: c_int, mode: mode_t) -> c_int = opening::open;
    openat (
        directory: c_int, path: *const c_char, flags: c_int, mode: mode_t
    ) -> c_int = opening::openat;
    openat64 (
        directory: c_int, path: *const c_char, flags: c_int, mode: mode_t
    ) -> c_int = opening::openat;
    __open_2 (path: *const c_char, flags: c_int) -> c_int = opening::open_2;
    __open64_2 (path: *const c_char, flags: c_int) -> c_int = opening::open_2;
    __openat_2 (directory: c_int, path: *const c_char, flags: c_int) -> c_int = opening::openat_2;
    __openat64_2 (directory: c_int, path: *const c_char, flags: c_int) -> c_int = opening::openat_2;
    creat (path: *const c_char, mode: mode_t) -> c_int = opening::creat;
    creat64 (path: *const c_char, mode: mode_t) -> c_int = opening::creat;
    close (fd: c_int) -> c_int = descriptors::close;
    close_range (first: c_uint, last: c_uint, flags: c_int) -> c_int = descriptors::close_range;
    closefrom (first: c_int) = descriptors::closefrom;
    dup (fd: c_int) -> c_int = descriptors::dup;
    dup2 (fd: c_int, copy: c_int) -> c_int = descriptors::dup2;
    dup3 (fd: c_int, copy: c_int, flags: c_int) -> c_int = descriptors::dup3;
    fcntl (fd: c_int, command: c_int, argument: c_ulong) -> c_int = descriptors::fcntl;
    fcntl64 (fd: c_int, command: c_int, argument: c_ulong) -> c_int = descriptors::fcntl;
    read (fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t = transfers::read;
    __read_chk (
        fd: c_int, buf: *mut c_void, len: size_t, room: size_t
    ) -> ssize_t = transfers::read_chk;
    pread (fd: c_int, buf: *mut c_void, len: size_t, offset: off_t) -> ssize_t = transfers::pread;
    pread64 (fd: c_int, buf: *mut c_void, len: size_t, offset: off_t) -> ssize_t = transfers::pread;
    __pread_chk (
        fd: c_int, buf: *mut c_void, len: size_t, offset: off_t, room: size_t
    ) -> ssize_t = transfers::pread_chk;
    __pread64_chk (
        fd: c_int, buf: *mut c_void, len: size_t, offset: off_t, room: size_t
    ) -> ssize_t = transfers::pread_chk;
    readv (fd: c_int, parts: *const iovec, count: c_int) -> ssize_t = transfers::readv;
    preadv (
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t
    ) -> ssize_t = transfers::preadv;
    preadv64 (
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t
    ) -> ssize_t = transfers::preadv;
    preadv2 (
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t = transfers::preadv2;
    preadv64v2 (
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t = transfers::preadv2;
    write (fd: c_int, buf: *const c_void, len: size_t) -> ssize_t = transfers::write;
    pwrite (
        fd: c_int, buf: *const c_void, len: size_t, offset: off_t
    ) -> ssize_t = transfers::pwrite;
    pwrite64 (
        fd: c_int, buf: *const c_void, len: size_t, offset: off_t
    ) -> ssize_t = transfers::pwrite;
    writev (fd: c_int, parts: *const iovec, count: c_int) -> ssize_t = transfers::writev;
    pwritev (
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t
    ) -> ssize_t = transfers::pwritev;
    pwritev64 (
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t
    ) -> ssize_t = transfers::pwritev;
    pwritev2 (
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t = transfers::pwritev2;
    pwritev64v2 (
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t = transfers::pwritev2;
    copy_file_range (
        from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t,
        len: size_t, flags: c_uint
    ) -> ssize_t = copies::copy_file_range;
    ioctl (fd: c_int, request: c_ulong, argument: c_ulong) -> c_int = copies::ioctl;
    ftruncate (fd: c_int, size: off_t) -> c_int = sizes::ftruncate;
    ftruncate64 (fd: c_int, size: off_t) -> c_int = sizes::ftruncate;
    truncate (path: *const c_char, size: off_t) -> c_int = sizes::truncate;
    truncate64 (path: *const c_char, size: off_t) -> c_int = sizes::truncate;
    posix_fallocate (fd: c_int, offset: off_t, len: off_t) -> c_int = sizes::posix_fallocate;
    posix_fallocate64 (fd: c_int, offset: off_t, len: off_t) -> c_int = sizes::posix_fallocate;
    fallocate (fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int = sizes::fallocate;
    fallocate64 (fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int = sizes::fallocate;
    mmap (
        address: *mut c_void, len: size_t, access: c_int, flags: c_int, fd: c_int, offset: off_t
    ) -> *mut c_void = withdrawn::mmap;
    mmap64 (
        address: *mut c_void, len: size_t, access: c_int, flags: c_int, fd: c_int, offset: off_t
    ) -> *mut c_void = withdrawn::mmap;
    lockf (fd: c_int, command: c_int, len: off_t) -> c_int = withdrawn::lockf;
    lockf64 (fd: c_int, command: c_int, len: off_t) -> c_int = withdrawn::lockf;
    sendfile (
        to: c_int, from: c_int, offset: *mut off_t, len: size_t
    ) -> ssize_t = withdrawn::sendfile;
    sendfile64 (
        to: c_int, from: c_int, offset: *mut off_t, len: size_t
    ) -> ssize_t = withdrawn::sendfile;
    splice (
        from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t,
        len: size_t, flags: c_uint
    ) -> ssize_t = withdrawn::splice;
    io_uring_queue_init (
        entries: c_uint, ring: *mut Ring, flags: c_uint
    ) -> c_int = rings::queue_init;
    io_uring_queue_init_mem (
        entries: c_uint, ring: *mut Ring, parameters: *mut Parameters, buf: *mut c_void, len: size_t
    ) -> c_int = rings::queue_init_mem;
    io_uring_queue_exit (ring: *mut Ring) = rings::queue_exit;
    io_uring_submit (ring: *mut Ring) -> c_int = rings::submit;
    io_uring_peek_batch_cqe (
        ring: *mut Ring, answers: *mut *mut Completion, count: c_uint
    ) -> c_uint = rings::peek_batch_cqe;
    io_uring_wait_cqes (
        ring: *mut Ring, answer: *mut *mut Completion, count: c_uint, time: *mut c_void,
        signals: *mut c_void
    ) -> c_int = rings::wait_cqes;
    io_uring_submit_and_wait (ring: *mut Ring, count: c_uint) -> c_int = rings::submit_and_wait;
    io_uring_submit_and_wait_timeout (
        ring: *mut Ring, answer: *mut *mut Completion, count: c_uint, time: *mut c_void,
        signals: *mut c_void
    ) -> c_int = rings::submit_and_wait_timeout;
    io_uring_submit_and_wait_min_timeout (
        ring: *mut Ring, answer: *mut *mut Completion, count: c_uint, time: *mut c_void,
        least: c_uint, signals: *mut c_void
    ) -> c_int = rings::submit_and_wait_min_timeout;
    io_uring_submit_and_wait_reg (
        ring: *mut Ring, answer: *mut *mut Completion, count: c_uint, region: c_int
    ) -> c_int = rings::submit_and_wait_reg;
    io_uring_submit_and_get_events (ring: *mut Ring) -> c_int = rings::submit_and_get_events;
    io_uring_wait_cqe_timeout (
        ring: *mut Ring, answer: *mut *mut Completion, time: *mut c_void
    ) -> c_int = rings::wait_cqe_timeout;
    rename (from: *const c_char, to: *const c_char) -> c_int = names::rename;
    renameat (
        from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char
    ) -> c_int = names::renameat;
    renameat2 (
        from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char,
        flags: c_uint
    ) -> c_int = names::renameat2;
    link (from: *const c_char, to: *const c_char) -> c_int = names::link;
    linkat (
        from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char,
        flags: c_int
    ) -> c_int = names::linkat;
    unlink (path: *const c_char) -> c_int = names::unlink;
    unlinkat (directory: c_int, path: *const c_char, flags: c_int) -> c_int = names::unlinkat;
    remove (path: *const c_char) -> c_int = names::remove;
    rmdir (path: *const c_char) -> c_int = names::rmdir;
    readdir (directory: *mut DIR) -> *mut dirent = names::readdir;
    readdir64 (directory: *mut DIR) -> *mut dirent = names::readdir;
    closedir (directory: *mut DIR) -> c_int = names::closedir;
    fopen (path: *const c_char, mode: *const c_char) -> *mut FILE = streams::fopen;
    fopen64 (path: *const c_char, mode: *const c_char) -> *mut FILE = streams::fopen;
    fdopen (fd: c_int, mode: *const c_char) -> *mut FILE = streams::fdopen;
    freopen (
        path: *const c_char, mode: *const c_char, stream: *mut FILE
    ) -> *mut FILE = streams::freopen;
    freopen64 (
        path: *const c_char, mode: *const c_char, stream: *mut FILE
    ) -> *mut FILE = streams::freopen;
    fclose (stream: *mut FILE) -> c_int = streams::fclose;
    fseek (stream: *mut FILE, offset: off_t, whence: c_int) -> c_int = streams::fseek;
    fseeko (stream: *mut FILE, offset: off_t, whence: c_int) -> c_int = streams::fseek;
    fseeko64 (stream: *mut FILE, offset: off_t, whence: c_int) -> c_int = streams::fseek;
    fileno (stream: *mut FILE) -> c_int = streams::fileno;
    fileno_unlocked (stream: *mut FILE) -> c_int = streams::fileno;
    system (command: *const c_char) -> c_int = commands::system;
    send (
        socket: c_int, buf: *const c_void, len: size_t, flags: c_int
    ) -> ssize_t = guard::send;
}
