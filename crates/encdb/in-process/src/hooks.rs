//! The functions of libc that the program calls instead of libc's own.
//!
//! Each does what libc's does on a descriptor that is not served here. A panic ends the program:
//! nobody knows then what of a statement has become a cell.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libc::{
    iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, sockaddr_un, socklen_t, ssize_t, timespec,
    FILE,
};
use nix::sys::socket::{shutdown, Shutdown};

use crate::connection::{Connection, Socket};
use crate::dial;
use crate::real::real;
use crate::stack::Stack;
use crate::table::{self, Entry, Served};

/// Milliseconds after which a wait looks again, where the descriptor can always be read.
const SHORT: c_int = 1;

/// A descriptor of the program.
struct Descriptor {
    fd: c_int,
}

impl Socket for Descriptor {
    fn peek(&self, bytes: &mut [u8], wait: bool) -> io::Result<usize> {
        let flags = libc::MSG_PEEK | if wait { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: the slice is writable for its length.
        count(unsafe { (real().recv)(self.fd, bytes.as_mut_ptr().cast(), bytes.len(), flags) })
    }

    fn consume(&self, scratch: &mut [u8], mut count_left: usize) -> io::Result<()> {
        while count_left > 0 {
            let length = count_left.min(scratch.len());
            // SAFETY: the slice is writable for this length, which is at most its own.
            let done = unsafe { (real().recv)(self.fd, scratch.as_mut_ptr().cast(), length, 0) };
            match count(done)? {
                0 => return Err(io::ErrorKind::ConnectionReset.into()),
                done => count_left -= done,
            }
        }
        Ok(())
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the slice is readable for its length.
        count(unsafe { (real().send)(self.fd, bytes.as_ptr().cast(), bytes.len(), flags) })
    }

    fn wait(&self, to_send: bool, unread: bool) -> io::Result<()> {
        let mut events = libc::POLLRDHUP;
        events |= if unread { 0 } else { libc::POLLIN };
        events |= if to_send { libc::POLLOUT } else { 0 };
        let mut asked = libc::pollfd {
            fd: self.fd,
            events,
            revents: 0,
        };
        let timeout = if unread { SHORT } else { -1 };
        // SAFETY: one entry is asked, which can be written.
        let done = unsafe { libc::poll(&raw mut asked, 1, timeout) };
        if done < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(io::Error::last_os_error());
        }
        let ended = asked.revents & libc::POLLRDHUP != 0 && asked.revents & libc::POLLIN == 0;
        match ended {
            true => Err(io::ErrorKind::ConnectionReset.into()),
            false => Ok(()),
        }
    }

    fn end(&self) {
        // The peer may have ended it.
        let _ = shutdown(self.fd, Shutdown::Both);
    }
}

fn count(result: ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Returns what libc would: a count, or -1 with errno.
fn answer(result: io::Result<usize>) -> ssize_t {
    match result.map(ssize_t::try_from) {
        Ok(Ok(count)) => count,
        Ok(Err(_)) => fails(libc::EIO),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => fails(libc::EAGAIN),
        Err(error) => fails(error.raw_os_error().unwrap_or(libc::EPROTO)),
    }
}

fn fails(errno: c_int) -> ssize_t {
    // SAFETY: libc's errno of this thread can always be written.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Runs on the connection of a descriptor.
fn serve(
    fd: c_int,
    entry: &Entry,
    act: impl FnOnce(&mut Connection, &Descriptor) -> io::Result<usize>,
) -> ssize_t {
    let mut served = entry.lock().unwrap_or_else(PoisonError::into_inner);
    let Served { connection, stack } = &mut *served;
    answer(stack.run(|| act(connection, &Descriptor { fd })))
}

fn sent(fd: c_int, entry: &Entry, bytes: &[u8]) -> ssize_t {
    serve(fd, entry, |connection, socket| {
        connection.send(socket, bytes)
    })
}

fn received(fd: c_int, entry: &Entry, bytes: &mut [u8], flags: c_int) -> ssize_t {
    let (peeks, wait) = (flags & libc::MSG_PEEK != 0, flags & libc::MSG_DONTWAIT == 0);
    serve(fd, entry, |connection, socket| {
        connection.receive(socket, bytes, peeks, wait)
    })
}

/// Returns the bytes that the program gives.
///
/// # Safety
/// `length` bytes can be read at the pointer, as libc demands.
unsafe fn given<'b>(bytes: *const c_void, length: size_t) -> &'b [u8] {
    match bytes.is_null() {
        true => &[],
        // SAFETY: `length` bytes can be read at the pointer, which is not null.
        false => unsafe { std::slice::from_raw_parts(bytes.cast(), length) },
    }
}

/// Returns the room that the program gives.
///
/// # Safety
/// `length` bytes can be written at the pointer, by nobody else, as libc demands.
unsafe fn room<'b>(bytes: *mut c_void, length: size_t) -> &'b mut [u8] {
    match bytes.is_null() {
        true => &mut [],
        // SAFETY: `length` bytes can be written at the pointer, which is not null, by nobody else.
        false => unsafe { std::slice::from_raw_parts_mut(bytes.cast(), length) },
    }
}

/// Returns the path of a unix socket's address.
///
/// # Safety
/// `length` bytes can be read at the pointer, as libc demands.
unsafe fn path<'a>(address: *const sockaddr, length: socklen_t) -> Option<&'a [u8]> {
    let begin = std::mem::offset_of!(sockaddr_un, sun_path);
    // SAFETY: `length` bytes can be read at the address.
    let bytes = unsafe { given(address.cast(), length as size_t) };
    // The kernel's order is the machine's, which is little-endian wherever pgseal runs.
    let family = u16::from_le_bytes(*bytes.first_chunk()?);
    let path = bytes.get(begin..)?;
    let end = path
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(path.len());
    (c_int::from(family) == libc::AF_UNIX).then(|| &path[..end])
}

/// Puts a connection to the server in the place of a socket of the program.
fn connected(fd: c_int) -> io::Result<usize> {
    let mut stack = Stack::new()?;
    let (socket, connection) = stack.run(dial::dial)?;
    // SAFETY: F_GETFD and F_GETFL read the flags of a descriptor, whatever it is.
    let (own, mode) = unsafe {
        (
            libc::fcntl(fd, libc::F_GETFD),
            libc::fcntl(fd, libc::F_GETFL),
        )
    };
    if mode & libc::O_NONBLOCK == 0 {
        // SAFETY: F_SETFL sets the flags of a socket that is ours.
        unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, 0) };
    }
    let flags = match own & libc::FD_CLOEXEC {
        0 => 0,
        _ => libc::O_CLOEXEC,
    };
    // SAFETY: both descriptors are open; the program's socket is replaced as a whole.
    if unsafe { (real().dup3)(socket.as_raw_fd(), fd, flags) } < 0 {
        return Err(io::Error::last_os_error());
    }
    watch_forks()?;
    let served = Served { connection, stack };
    match table::insert(fd, Arc::new(Mutex::new(served))) {
        true => Ok(0),
        false => Err(io::Error::from_raw_os_error(libc::EMFILE)),
    }
}

/// Lets the table know of forks, from the first connection on.
fn watch_forks() -> io::Result<()> {
    extern "C" fn prepare() {
        table::prepare_fork();
    }
    extern "C" fn after() {
        table::after_fork();
    }
    static WATCHED: OnceLock<c_int> = OnceLock::new();
    let watched = WATCHED.get_or_init(|| {
        table::own();
        // SAFETY: the functions take nothing and do not unwind.
        unsafe { libc::pthread_atfork(Some(prepare), Some(after), Some(after)) }
    });
    match watched {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(*error)),
    }
}

/// # Safety
/// The arguments must be valid for libc's connect.
#[no_mangle]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the address is as libc wants it, for it came for libc.
    let asked = unsafe { path(address, length) };
    if asked.is_none_or(|path| !dial::is_ours(path)) {
        // SAFETY: the address is as libc wants it, for it came for libc.
        return unsafe { (real().connect)(fd, address, length) };
    }
    table::remove(fd);
    c_int::try_from(answer(connected(fd))).unwrap_or(-1)
}

/// # Safety
/// The arguments must be valid for libc's send.
#[no_mangle]
pub unsafe extern "C" fn send(
    fd: c_int,
    bytes: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    match table::find(fd) {
        // SAFETY: `length` bytes can be read at `bytes`, as send demands.
        None => unsafe { (real().send)(fd, bytes, length, flags) },
        // SAFETY: `length` bytes can be read at `bytes`, as send demands.
        Some(entry) => sent(fd, &entry, unsafe { given(bytes, length) }),
    }
}

/// # Safety
/// The arguments must be valid for libc's sendto.
#[no_mangle]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    bytes: *const c_void,
    length: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_length: socklen_t,
) -> ssize_t {
    match table::find(fd) {
        // SAFETY: `length` bytes can be read at `bytes`, as sendto demands.
        None => unsafe { (real().sendto)(fd, bytes, length, flags, address, address_length) },
        // SAFETY: `length` bytes can be read at `bytes`, as sendto demands.
        Some(entry) => sent(fd, &entry, unsafe { given(bytes, length) }),
    }
}

/// # Safety
/// The arguments must be valid for libc's write.
#[no_mangle]
pub unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, length: size_t) -> ssize_t {
    match table::find(fd) {
        // SAFETY: `length` bytes can be read at `bytes`, as write demands.
        None => unsafe { (real().write)(fd, bytes, length) },
        // SAFETY: `length` bytes can be read at `bytes`, as write demands.
        Some(entry) => sent(fd, &entry, unsafe { given(bytes, length) }),
    }
}

/// # Safety
/// The arguments must be valid for libc's send, which has this name, too.
#[no_mangle]
pub unsafe extern "C" fn __send(
    fd: c_int,
    bytes: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: `length` bytes can be read at `bytes`, as send demands.
    unsafe { send(fd, bytes, length, flags) }
}

/// # Safety
/// The arguments must be valid for libc's write, which has this name, too.
#[no_mangle]
pub unsafe extern "C" fn __write(fd: c_int, bytes: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: `length` bytes can be read at `bytes`, as write demands.
    unsafe { write(fd, bytes, length) }
}

/// # Safety
/// The arguments must be valid for libc's recv.
#[no_mangle]
pub unsafe extern "C" fn recv(
    fd: c_int,
    bytes: *mut c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    match table::find(fd) {
        // SAFETY: `length` bytes can be written at `bytes`, as recv demands.
        None => unsafe { (real().recv)(fd, bytes, length, flags) },
        // SAFETY: `length` bytes can be written at `bytes`, as recv demands.
        Some(entry) => received(fd, &entry, unsafe { room(bytes, length) }, flags),
    }
}

/// # Safety
/// The arguments must be valid for libc's recvfrom.
#[no_mangle]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    bytes: *mut c_void,
    length: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> ssize_t {
    match table::find(fd) {
        // SAFETY: `length` bytes can be written at `bytes`, as recvfrom demands.
        None => unsafe { (real().recvfrom)(fd, bytes, length, flags, address, address_length) },
        // SAFETY: `length` bytes can be written at `bytes`, as recvfrom demands.
        Some(entry) => received(fd, &entry, unsafe { room(bytes, length) }, flags),
    }
}

/// # Safety
/// The arguments must be valid for libc's read.
#[no_mangle]
pub unsafe extern "C" fn read(fd: c_int, bytes: *mut c_void, length: size_t) -> ssize_t {
    match table::find(fd) {
        // SAFETY: `length` bytes can be written at `bytes`, as read demands.
        None => unsafe { (real().read)(fd, bytes, length) },
        // SAFETY: `length` bytes can be written at `bytes`, as read demands.
        Some(entry) => received(fd, &entry, unsafe { room(bytes, length) }, 0),
    }
}

/// # Safety
/// The arguments must be valid for libc's `__read_chk`, which replaces `read` in programs that
/// were built to check their arrays.
#[no_mangle]
pub unsafe extern "C" fn __read_chk(
    fd: c_int,
    bytes: *mut c_void,
    length: size_t,
    array: size_t,
) -> ssize_t {
    if table::is_served(fd) && length <= array {
        // SAFETY: `length` bytes can be written at `bytes`, as read demands.
        return unsafe { read(fd, bytes, length) };
    }
    // SAFETY: the arguments are as libc wants them, for they came for libc.
    unsafe { (real().__read_chk)(fd, bytes, length, array) }
}

/// # Safety
/// The arguments must be valid for libc's `__recv_chk`, which replaces `recv` in programs that
/// were built to check their arrays.
#[no_mangle]
pub unsafe extern "C" fn __recv_chk(
    fd: c_int,
    bytes: *mut c_void,
    length: size_t,
    array: size_t,
    flags: c_int,
) -> ssize_t {
    if table::is_served(fd) && length <= array {
        // SAFETY: `length` bytes can be written at `bytes`, as recv demands.
        return unsafe { recv(fd, bytes, length, flags) };
    }
    // SAFETY: the arguments are as libc wants them, for they came for libc.
    unsafe { (real().__recv_chk)(fd, bytes, length, array, flags) }
}

macro_rules! not_followed {
    ($($name:ident($($argument:ident: $type:ty),*) -> $return:ty, $($fd:ident)|+;)*) => {$(
        /// # Safety
        /// The arguments must be valid for libc's function of this name.
        #[no_mangle]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $return {
            if $(table::is_served($fd))||+ {
                fails(libc::ENOTSUP);
                return -1;
            }
            // SAFETY: the arguments are as libc wants them, for they came for libc.
            unsafe { (real().$name)($($argument),*) }
        }
    )*};
}

// Programs of libpq do not call them. What is sent so would pass the engine by.
not_followed! {
    readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t, fd;
    recvmmsg(fd: c_int, all: *mut mmsghdr, count: c_uint, flags: c_int, time: *mut timespec)
        -> c_int, fd;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t, fd;
    sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t, to;
    sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t, to;
    sendmmsg(fd: c_int, all: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int, fd;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t, fd;
    splice(from: c_int, begin: *mut off_t, to: c_int, end: *mut off_t, count: size_t,
        flags: c_uint) -> ssize_t, from | to;
    writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t, fd;
}

/// A stream of C, whose bytes libc sends by itself, is none of a descriptor that is served here.
///
/// # Safety
/// The arguments must be valid for libc's fdopen.
#[no_mangle]
pub unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if table::is_served(fd) {
        fails(libc::ENOTSUP);
        return std::ptr::null_mut();
    }
    // SAFETY: the arguments are as libc wants them, for they came for libc.
    unsafe { (real().fdopen)(fd, mode) }
}

/// Lets a new descriptor of the same socket be served as the old one.
fn shared(old: c_int, new: c_int) -> c_int {
    let Some(entry) = table::find(old) else {
        return new;
    };
    if new < 0 || old == new || table::insert(new, entry) {
        return new;
    }
    // SAFETY: the descriptor was made for this call, and nobody knows it.
    unsafe { (real().close)(new) };
    c_int::try_from(fails(libc::EMFILE)).unwrap_or(-1)
}

/// # Safety
/// The arguments must be valid for libc's dup.
#[no_mangle]
pub unsafe extern "C" fn dup(old: c_int) -> c_int {
    // SAFETY: dup takes any number.
    shared(old, unsafe { (real().dup)(old) })
}

/// # Safety
/// The arguments must be valid for libc's fcntl. The third has the width of a pointer, whatever
/// the command makes of it.
#[no_mangle]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the arguments are as libc wants them, for they came for libc.
    let done = unsafe { (real().fcntl)(fd, command, argument) };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => shared(fd, done),
        _ => done,
    }
}

/// # Safety
/// The arguments must be valid for libc's fcntl, which programs for large files call by this name.
#[no_mangle]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the arguments are as libc wants them, for they came for libc.
    unsafe { fcntl(fd, command, argument) }
}

/// # Safety
/// The arguments must be valid for libc's close.
#[no_mangle]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    table::remove(fd);
    // SAFETY: close takes any number.
    unsafe { (real().close)(fd) }
}

/// # Safety
/// The arguments must be valid for libc's close_range.
#[no_mangle]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: close_range takes any numbers.
    let done = unsafe { (real().close_range)(first, last, flags) };
    if done == 0 && flags.unsigned_abs() & libc::CLOSE_RANGE_CLOEXEC == 0 {
        table::remove_range(first, last);
    }
    done
}

/// # Safety
/// The arguments must be valid for libc's closefrom.
#[no_mangle]
pub unsafe extern "C" fn closefrom(first: c_int) {
    table::remove_range(first.max(0).unsigned_abs(), c_uint::MAX);
    // SAFETY: closefrom takes any number.
    unsafe { (real().closefrom)(first) }
}

/// # Safety
/// The arguments must be valid for libc's dup2.
#[no_mangle]
pub unsafe extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
    if old != new {
        table::remove(new);
    }
    // SAFETY: dup2 takes any numbers.
    shared(old, unsafe { (real().dup2)(old, new) })
}

/// # Safety
/// The arguments must be valid for libc's dup3.
#[no_mangle]
pub unsafe extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if old != new {
        table::remove(new);
    }
    // SAFETY: dup3 takes any numbers.
    shared(old, unsafe { (real().dup3)(old, new, flags) })
}
