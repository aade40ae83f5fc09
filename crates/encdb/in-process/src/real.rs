//! libc's own functions, the next in line after those of this library.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void, CStr};
use std::sync::OnceLock;

use libc::{iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec, FILE};

// `preload` has such a macro too. Each stays beside its table, whose signatures its `SAFETY` is
// about, and the products have no crate in common that touches libc.
macro_rules! table {
    ($($name:ident($($arg:ty),*) -> $ret:ty;)*) => {
        /// The functions.
        pub struct Real {
            $(pub $name: unsafe extern "C" fn($($arg),*) -> $ret,)*
        }

        impl Real {
            fn resolve() -> Self {
                Self {$(
                    $name: {
                        let address = next(concat!(stringify!($name), "\0"));
                        // SAFETY: the function of this name in libc's manual has this signature,
                        // and the address is not null.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($arg),*) -> $ret,
                            >(address)
                        }
                    },
                )*}
            }
        }
    };
}

table! {
    __read_chk(c_int, *mut c_void, size_t, size_t) -> ssize_t;
    __recv_chk(c_int, *mut c_void, size_t, size_t, c_int) -> ssize_t;
    close(c_int) -> c_int;
    close_range(c_uint, c_uint, c_int) -> c_int;
    closefrom(c_int) -> ();
    connect(c_int, *const sockaddr, socklen_t) -> c_int;
    dup(c_int) -> c_int;
    dup2(c_int, c_int) -> c_int;
    dup3(c_int, c_int, c_int) -> c_int;
    fcntl(c_int, c_int, c_ulong) -> c_int;
    fdopen(c_int, *const c_char) -> *mut FILE;
    read(c_int, *mut c_void, size_t) -> ssize_t;
    readv(c_int, *const iovec, c_int) -> ssize_t;
    recv(c_int, *mut c_void, size_t, c_int) -> ssize_t;
    recvfrom(c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t;
    recvmmsg(c_int, *mut mmsghdr, c_uint, c_int, *mut timespec) -> c_int;
    recvmsg(c_int, *mut msghdr, c_int) -> ssize_t;
    send(c_int, *const c_void, size_t, c_int) -> ssize_t;
    sendfile(c_int, c_int, *mut off_t, size_t) -> ssize_t;
    sendfile64(c_int, c_int, *mut off_t, size_t) -> ssize_t;
    sendmmsg(c_int, *mut mmsghdr, c_uint, c_int) -> c_int;
    sendmsg(c_int, *const msghdr, c_int) -> ssize_t;
    sendto(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t;
    splice(c_int, *mut off_t, c_int, *mut off_t, size_t, c_uint) -> ssize_t;
    write(c_int, *const c_void, size_t) -> ssize_t;
    writev(c_int, *const iovec, c_int) -> ssize_t;
}

/// Returns the functions, which are looked up in the first call.
pub fn real() -> &'static Real {
    static REAL: OnceLock<Real> = OnceLock::new();
    REAL.get_or_init(Real::resolve)
}

/// Returns the address of the next function of this name, which ends with a zero byte. A libc that
/// lacks it ends the program, for a call that is not followed could pass the engine by; but
/// `close_range` and `closefrom` are newer than the oldest glibc that we run with, 2.28.
fn next(name: &str) -> *mut c_void {
    let text = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
    // SAFETY: the name is a string of C, and the handle is one of dlsym's own.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, text.as_ptr()) };
    match (address.is_null(), name) {
        (false, _) => address,
        (true, "close_range\0") => substitute_close_range as *mut c_void,
        (true, "closefrom\0") => substitute_closefrom as *mut c_void,
        (true, _) => std::process::abort(),
    }
}

/// `close_range` of glibc 2.34, which is the system call (Linux 5.9) and nothing else.
unsafe extern "C" fn substitute_close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: the kernel takes any numbers.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    c_int::try_from(done).unwrap_or(-1)
}

/// `closefrom` of glibc 2.34, where the kernel has the system call. A program that was built for an
/// older glibc does not call it.
unsafe extern "C" fn substitute_closefrom(first: c_int) {
    // SAFETY: the kernel takes any numbers.
    unsafe { substitute_close_range(first.max(0).unsigned_abs(), c_uint::MAX, 0) };
}
