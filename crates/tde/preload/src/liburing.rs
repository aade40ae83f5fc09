//! liburing: the layouts that its inline functions share with the kernel and with its callers, and
//! its own functions, which are looked for at the first call.
//!
//! The layouts are those of the system calls (io_uring(7)) and of liburing.so.2, whose versions
//! only add to the ends. liburing is no part of libc: a program may be linked with it, or load it
//! for a module only.

use libc::{c_int, c_uint, c_void, size_t};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A request, as its submitter fills it in (`struct io_uring_sqe`).
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// what is to be done ([`operation`])
    pub operation: u8,
    /// [`ASYNC`] and others
    pub flags: u8,
    /// a priority
    pub priority: u16,
    /// a descriptor, or the number of a registered file
    pub fd: c_int,
    /// in bytes
    pub offset: u64,
    /// of a buffer, or of an array of vectors
    pub address: u64,
    /// bytes of the buffer, or vectors
    pub len: u32,
    /// flags of the operation, such as those of preadv2(2)
    pub operation_flags: u32,
    /// comes back with the completion
    pub user_data: u64,
    /// a registered buffer, or a group of them
    pub buffer: u16,
    /// registered credentials
    pub personality: u16,
    /// a second descriptor
    pub other_fd: u32,
    /// of attributes and others
    pub extra: [u64; 2],
}

const _: () = assert!(size_of::<Request>() == 64);

/// Operations by their numbers (`enum io_uring_op`).
pub mod operation {
    #![allow(missing_docs)] // as in io_uring_enter(2)
    pub const NOP: u8 = 0;
    pub const READV: u8 = 1;
    pub const WRITEV: u8 = 2;
    pub const FSYNC: u8 = 3;
    pub const READ: u8 = 22;
    pub const WRITE: u8 = 23;
}

/// Never tries at once: a worker of the kernel does it (IOSQE_ASYNC).
pub const ASYNC: u8 = 1 << 4;

/// An answer (`struct io_uring_cqe`).
#[repr(C)]
#[derive(Debug)]
pub struct Completion {
    /// the request's
    pub user_data: u64,
    /// as of the system call, with errno as a negative number
    pub result: c_int,
    /// flags of the operation
    pub flags: u32,
}

/// The queue of requests (`struct io_uring_sq`).
#[repr(C)]
pub struct Requests {
    /// The place after the last request that the kernel took.
    pub head: *const AtomicU32,
    tail: *mut AtomicU32,
    /// The number of entries less one.
    pub mask: *const u32,
    /// The number of entries, a power of two.
    pub entries: *const u32,
    flags: *mut AtomicU32,
    dropped: *mut AtomicU32,
    array: *mut u32,
    /// The entries.
    pub requests: *mut Request,
    shown: u32,
    /// The place after the last request that was filled in.
    pub filled: u32,
}

/// The queue of answers (`struct io_uring_cq`).
#[repr(C)]
pub struct Completions {
    /// The place of the first answer that was not seen. The process that takes answers moves it.
    pub head: *const AtomicU32,
}

/// A ring (`struct io_uring`), of which only the beginnings of both queues matter here.
#[repr(C)]
pub struct Ring {
    /// The queue of requests.
    pub requests: Requests,
    /// The rest of its structure.
    requests_end: [u64; 4],
    /// The queue of answers.
    pub completions: Completions,
}

const _: () = assert!(std::mem::offset_of!(Ring, completions) == 104);

/// The options that a ring is made with (`struct io_uring_params`), as far as they matter here.
#[repr(C)]
pub struct Parameters {
    entries: [u32; 2],
    /// IORING_SETUP_SQPOLL and others
    pub flags: u32,
}

macro_rules! functions {
    ($($name:ident($($arg:ty),*) -> $ret:ty;)*) => {
        /// liburing's own functions, as far as they were found.
        pub struct Liburing {
            $($name: AtomicPtr<c_void>,)*
        }

        impl Liburing {
            /// Returns none of them.
            pub const fn new() -> Self {
                Self {
                    $($name: AtomicPtr::new(std::ptr::null_mut()),)*
                }
            }

            $(
                /// Returns liburing's function of this name.
                pub fn $name(&self) -> Option<unsafe extern "C" fn($($arg),*) -> $ret> {
                    let address = find(&self.$name, concat!(stringify!($name), "\0"))?;
                    // SAFETY: liburing's function of this name has this type (liburing.h).
                    Some(unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($arg),*) -> $ret,
                        >(address)
                    })
                }
            )*
        }
    };
}

functions! {
    io_uring_queue_init(c_uint, *mut Ring, c_uint) -> c_int;
    io_uring_queue_init_mem(c_uint, *mut Ring, *mut Parameters, *mut c_void, size_t) -> c_int;
    io_uring_queue_exit(*mut Ring) -> ();
    io_uring_submit(*mut Ring) -> c_int;
    io_uring_peek_batch_cqe(*mut Ring, *mut *mut Completion, c_uint) -> c_uint;
    io_uring_wait_cqes(*mut Ring, *mut *mut Completion, c_uint, *mut c_void, *mut c_void) -> c_int;
    io_uring_submit_and_wait(*mut Ring, c_uint) -> c_int;
    io_uring_submit_and_wait_timeout(
        *mut Ring, *mut *mut Completion, c_uint, *mut c_void, *mut c_void
    ) -> c_int;
    io_uring_submit_and_wait_min_timeout(
        *mut Ring, *mut *mut Completion, c_uint, *mut c_void, c_uint, *mut c_void
    ) -> c_int;
    io_uring_submit_and_wait_reg(*mut Ring, *mut *mut Completion, c_uint, c_int) -> c_int;
    io_uring_submit_and_get_events(*mut Ring) -> c_int;
    io_uring_wait_cqe_timeout(*mut Ring, *mut *mut Completion, *mut c_void) -> c_int;
}

/// Returns the next function of this name in line after ours, and remembers it. A library that was
/// loaded for a module only is not in line.
fn find(found: &AtomicPtr<c_void>, name: &str) -> Option<*mut c_void> {
    let mut address = found.load(Ordering::Relaxed);
    if address.is_null() {
        let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
        address = look_up(name);
        found.store(address, Ordering::Relaxed);
    }
    (!address.is_null()).then_some(address)
}

fn look_up(name: &CStr) -> *mut c_void {
    // SAFETY: all names are terminated; the handle's library stays loaded as long as its user.
    unsafe {
        let address = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if !address.is_null() {
            return address;
        }
        let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY;
        let handle = libc::dlopen(c"liburing.so.2".as_ptr(), flags);
        if handle.is_null() {
            return std::ptr::null_mut();
        }
        let address = libc::dlsym(handle, name.as_ptr());
        libc::dlclose(handle);
        address
    }
}
