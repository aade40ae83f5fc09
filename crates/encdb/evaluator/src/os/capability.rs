//! The one capability that an evaluator may have: to lock memory beyond its limit.

use std::io;

/// capabilities(7): version 3 of the calls' structures.
const VERSION: u32 = 0x2008_0522;
const IPC_LOCK: u32 = 1 << 14;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// Bits 0 to 31, or 32 to 63.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

static OURSELVES: Header = Header {
    version: VERSION,
    pid: 0,
};

/// Whether this process may lock memory beyond its limit.
pub fn may_lock() -> bool {
    let mut sets = [Sets::default(); 2];
    // SAFETY: the kernel fills the two sets of version 3.
    let done = unsafe { libc::syscall(libc::SYS_capget, &raw const OURSELVES, sets.as_mut_ptr()) };
    done == 0 && sets[0].effective & IPC_LOCK != 0
}

/// Gives up every capability but that one.
pub fn keep_lock_alone() -> io::Result<()> {
    let lock = Sets {
        effective: IPC_LOCK,
        permitted: IPC_LOCK,
        inheritable: 0,
    };
    let sets = [lock, Sets::default()];
    // SAFETY: the kernel reads the two sets of version 3.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw const OURSELVES, sets.as_ptr()) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
