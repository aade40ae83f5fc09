//! libc itself: one table of typed function pointers, resolved at once, the next in line after us.
//!
//! A function that libc lacks ends the program at its start, with its name, not at a call in the
//! middle of a write. Two are newer than the oldest glibc that we run with, 2.28. A program that
//! was built for such a glibc calls neither, unless it asks the loader for the name and finds ours,
//! so these have a substitute.

use libc::{
    c_char, c_int, c_uint, c_ulong, c_void, dirent, iovec, mode_t, off_t, size_t, ssize_t, FILE,
};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

macro_rules! table {
    ($($name:ident($($arg:ty),*) -> $ret:ty;)*) => {
        /// libc's own functions.
        pub struct Real {
            $(pub $name: unsafe extern "C" fn($($arg),*) -> $ret,)*
        }

        impl Real {
            fn resolve() -> Self {
                Self {$(
                    $name: {
                        let address = next(concat!(stringify!($name), "\0"));
                        // SAFETY: libc's function of this name has this signature (manual page).
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
    __pread_chk(c_int, *mut c_void, size_t, off_t, size_t) -> ssize_t;
    __read_chk(c_int, *mut c_void, size_t, size_t) -> ssize_t;
    close(c_int) -> c_int;
    closedir(*mut libc::DIR) -> c_int;
    close_range(c_uint, c_uint, c_int) -> c_int;
    closefrom(c_int) -> ();
    copy_file_range(c_int, *mut off_t, c_int, *mut off_t, size_t, c_uint) -> ssize_t;
    dup(c_int) -> c_int;
    dup2(c_int, c_int) -> c_int;
    dup3(c_int, c_int, c_int) -> c_int;
    fallocate(c_int, c_int, off_t, off_t) -> c_int;
    fclose(*mut FILE) -> c_int;
    fcntl(c_int, c_int, c_ulong) -> c_int;
    fdopen(c_int, *const c_char) -> *mut FILE;
    fileno(*mut FILE) -> c_int;
    fopen(*const c_char, *const c_char) -> *mut FILE;
    freopen(*const c_char, *const c_char, *mut FILE) -> *mut FILE;
    fseeko(*mut FILE, off_t, c_int) -> c_int;
    ftruncate(c_int, off_t) -> c_int;
    ioctl(c_int, c_ulong, c_ulong) -> c_int;
    linkat(c_int, *const c_char, c_int, *const c_char, c_int) -> c_int;
    lockf(c_int, c_int, off_t) -> c_int;
    mmap(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void;
    open(*const c_char, c_int, mode_t) -> c_int;
    openat(c_int, *const c_char, c_int, mode_t) -> c_int;
    posix_fallocate(c_int, off_t, off_t) -> c_int;
    pread(c_int, *mut c_void, size_t, off_t) -> ssize_t;
    preadv(c_int, *const iovec, c_int, off_t) -> ssize_t;
    preadv2(c_int, *const iovec, c_int, off_t, c_int) -> ssize_t;
    pwrite(c_int, *const c_void, size_t, off_t) -> ssize_t;
    pwritev(c_int, *const iovec, c_int, off_t) -> ssize_t;
    pwritev2(c_int, *const iovec, c_int, off_t, c_int) -> ssize_t;
    read(c_int, *mut c_void, size_t) -> ssize_t;
    readdir(*mut libc::DIR) -> *mut dirent;
    readv(c_int, *const iovec, c_int) -> ssize_t;
    remove(*const c_char) -> c_int;
    renameat2(c_int, *const c_char, c_int, *const c_char, c_uint) -> c_int;
    send(c_int, *const c_void, size_t, c_int) -> ssize_t;
    sendfile(c_int, c_int, *mut off_t, size_t) -> ssize_t;
    splice(c_int, *mut off_t, c_int, *mut off_t, size_t, c_uint) -> ssize_t;
    system(*const c_char) -> c_int;
    truncate(*const c_char, off_t) -> c_int;
    unlinkat(c_int, *const c_char, c_int) -> c_int;
    write(c_int, *const c_void, size_t) -> ssize_t;
    writev(c_int, *const iovec, c_int) -> ssize_t;
}

/// Calls libc's own function with the caller's own arguments.
macro_rules! libc_call {
    ($name:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: the arguments are those of a libc caller, or pointers to our own live values of
        // the types that libc's prototype asks for.
        unsafe { ($crate::real::real().$name)($($arg),*) }
    };
}
pub(crate) use libc_call;

static LIBC: Libc = Libc {
    table: AtomicPtr::new(std::ptr::null_mut()),
    slots: [const { UnsafeCell::new(MaybeUninit::uninit()) }; 8],
    taken: AtomicUsize::new(0),
};

/// The table, and the memory that keeps it. This is not on the heap: an allocator maps memory and
/// opens files while it starts itself, holding its lock. Two threads, or a call from inside dlsym,
/// may get there at once. No thread can wait for another, so each makes the same table in a slot of
/// its own.
struct Libc {
    table: AtomicPtr<Real>,
    slots: [UnsafeCell<MaybeUninit<Real>>; 8],
    taken: AtomicUsize,
}

// SAFETY: each slot is written once, by the thread that has taken it.
unsafe impl Sync for Libc {}

/// The table; made at the first call, which may come before our constructor.
#[inline]
pub fn real() -> &'static Real {
    let table = LIBC.table.load(Ordering::Acquire);
    if table.is_null() {
        return make();
    }
    // SAFETY: the table was published by `make` and is never changed again.
    unsafe { &*table }
}

#[cold]
fn make() -> &'static Real {
    let Some(place) = LIBC.slots.get(LIBC.taken.fetch_add(1, Ordering::Relaxed)) else {
        // All slots are taken: one of the threads that took them finishes soon.
        while LIBC.table.load(Ordering::Acquire).is_null() {
            std::hint::spin_loop();
        }
        return real();
    };
    // SAFETY: no other thread has this slot, because each number is given once.
    let table = unsafe { (*place.get()).write(Real::resolve()) };
    LIBC.table.store(table, Ordering::Release);
    table
}

fn next(name: &str) -> *mut c_void {
    // SAFETY: `name` ends with a NUL (the macro adds it).
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) };
    match (address.is_null(), name) {
        (false, _) => address,
        (true, "close_range\0") => substitute_close_range as *mut c_void,
        (true, "closefrom\0") => substitute_closefrom as *mut c_void,
        (true, _) => {
            let name = CStr::from_bytes_until_nul(name.as_bytes()).unwrap_or_default();
            crate::report::line(&format!(
                "this C library has no {}: pgseal needs glibc 2.28 or newer",
                name.to_string_lossy()
            ));
            // SAFETY: ends the process; nothing was opened yet.
            unsafe { libc::_exit(8) };
        }
    }
}

/// `close_range` of glibc 2.34, which is the system call (Linux 5.9) and nothing else.
unsafe extern "C" fn substitute_close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: the kernel takes any numbers.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if done == 0 {
        0
    } else {
        -1
    }
}

/// `closefrom` of glibc 2.34. Where the kernel lacks the system call, too, each descriptor that the
/// process may have is closed.
unsafe extern "C" fn substitute_closefrom(first: c_int) {
    let first = first.max(0);
    // SAFETY: the kernel takes any numbers.
    if unsafe { substitute_close_range(first.unsigned_abs(), c_uint::MAX, 0) } == 0 {
        return;
    }
    // SAFETY: sysconf takes any name.
    let end = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    for fd in first..c_int::try_from(end).unwrap_or(c_int::MAX) {
        // SAFETY: close takes any number; the caller gives up all of these.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }
}

/// The calling thread's errno.
pub fn errno() -> c_int {
    // SAFETY: the pointer is always valid in its own thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno.
pub fn set_errno(value: c_int) {
    // SAFETY: the pointer is always valid in its own thread.
    unsafe { *libc::__errno_location() = value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, IntoRawFd};

    #[test]
    fn the_substitutes_close_as_libc_does() {
        let file = std::fs::File::open("/dev/null").expect("it exists");
        // Far above what other tests open, and the last of all.
        let high = 900;
        // SAFETY: the number is unused, and given up below.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), high) }, high);
        // SAFETY: nobody else has this descriptor.
        assert_eq!(unsafe { substitute_close_range(900, 900, 0) }, 0);
        // SAFETY: fcntl takes any number.
        assert_eq!(unsafe { libc::fcntl(high, libc::F_GETFD) }, -1);
        // SAFETY: the kernel refuses an empty range.
        assert_eq!(unsafe { substitute_close_range(2, 1, 0) }, -1);
        // SAFETY: the number is unused again.
        assert_eq!(unsafe { libc::dup2(file.into_raw_fd(), high) }, high);
        // SAFETY: no descriptor above is open.
        unsafe { substitute_closefrom(high) };
        // SAFETY: fcntl takes any number.
        assert_eq!(unsafe { libc::fcntl(high, libc::F_GETFD) }, -1);
    }
}
