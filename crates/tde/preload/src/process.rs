//! The owner of the memory that this process runs in. After `vfork` a child runs in its parent's
//! memory until it execs, and may close or copy descriptors before that (PL/Python's subprocess
//! closes all of them). The table of open files is its parent's and must stay as it is, or the
//! parent's next write to a sealed file would be in clear.
//!
//! The owner's process id lies in a page that the kernel wipes at every fork that copies memory,
//! by whatever call: wiped means a copy of our own, another id means borrowed memory.

use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

static OWNER: AtomicPtr<AtomicI32> = AtomicPtr::new(std::ptr::null_mut());
const PAGE: usize = 4096;

/// May this process change what it finds in memory?
pub fn owns_memory() -> bool {
    let Some(owner) = owner() else { return true };
    // SAFETY: getpid(2) takes no arguments.
    let me = unsafe { libc::getpid() };
    match owner.load(Ordering::Acquire) {
        0 => {
            owner.store(me, Ordering::Release);
            true
        }
        other => other == me,
    }
}

/// The id's page; made before `main`, so never first asked for in a `vfork` child. None on kernels
/// before 4.14, which cannot wipe it.
fn owner() -> Option<&'static AtomicI32> {
    let page = OWNER.load(Ordering::Acquire);
    // SAFETY: the pointer is set below, to a page that stays mapped.
    unsafe { page.as_ref() }
}

/// Makes the page.
pub fn start() {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the page is new and our own; the advice is on it alone.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), PAGE, access, flags, -1, 0);
        if page != libc::MAP_FAILED && libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) == 0 {
            OWNER.store(page.cast(), Ordering::Release);
        }
    }
    owns_memory();
}
