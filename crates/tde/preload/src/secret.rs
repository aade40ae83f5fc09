//! Memory for master keys: `memfd_secret`, which no other process, no `/proc/PID/mem` and no core
//! dump can read, and which survives fork; where the kernel has none (before 5.14, and before 6.5
//! unless started with `secretmem.enable=1`), pages that are left out of core dumps, and locked in
//! every process. A server says in its log if they could not be locked.

use crate::process::PROCESS;
use crate::report;
use pgseal_crypto::MasterKey;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The two keys of a cluster, one page of their own.
#[repr(C)]
struct Pair {
    cluster: MasterKey,
    ephemeral: MasterKey,
    /// the locked page before this one
    locked: *mut Pair,
}

const PAGE: usize = 4096;

/// The pages of this process.
pub struct Pages {
    /// The last one that had to be locked.
    locked: AtomicPtr<Pair>,
}

impl Pages {
    /// Returns no pages.
    pub const fn new() -> Self {
        Self {
            locked: AtomicPtr::new(null_mut()),
        }
    }

    /// Puts both keys into secret memory for the life of the process. Called by one thread at a
    /// time. `after_fork` calls [`Pages::lock`]; it runs in a forked child.
    pub fn keep(
        &self,
        cluster: MasterKey,
        ephemeral: MasterKey,
        after_fork: unsafe extern "C" fn(),
    ) -> Option<(&'static MasterKey, &'static MasterKey)> {
        const { assert!(size_of::<Pair>() <= PAGE) };
        let secret = secret_page();
        let page = secret.or_else(undumped_page)?;
        let pair = page.cast::<Pair>();
        // SAFETY: a fresh page of ours, large enough and aligned; after this it is only read.
        unsafe {
            pair.write(Pair {
                cluster,
                ephemeral,
                locked: self.locked.load(Ordering::Relaxed),
            });
            libc::mprotect(page, PAGE, libc::PROT_READ);
        }
        if secret.is_none() && !self.lock_in_each_process(pair, after_fork) {
            report_unlocked();
        }
        // SAFETY: the pair was written above, is only read from now on, and is never unmapped.
        unsafe { Some((&(*pair).cluster, &(*pair).ephemeral)) }
    }

    /// False: this process could not lock all of them.
    fn lock_in_each_process(&self, pair: *mut Pair, after_fork: unsafe extern "C" fn()) -> bool {
        if self.locked.swap(pair, Ordering::Release).is_null() {
            // SAFETY: the handler only calls mlock, which a forked child may call.
            unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
        }
        self.lock()
    }

    /// Locks the pages, which a forked child inherits without their locks. False: not all of them
    /// can be locked, which changes nothing.
    pub fn lock(&self) -> bool {
        let mut locked = true;
        let mut pair = self.locked.load(Ordering::Acquire);
        while !pair.is_null() {
            // SAFETY: our own page, which is read only and never unmapped.
            unsafe {
                locked &= libc::mlock(pair.cast(), PAGE) == 0;
                pair = (*pair).locked;
            }
        }
        locked
    }
}

fn report_unlocked() {
    if PROCESS.is_server() {
        report::line(
            "the keys cannot be locked in memory and may be written to swap: raise the server's \
             limit of locked memory (LimitMEMLOCK in its unit, ulimit -l)",
        );
    }
}

fn secret_page() -> Option<*mut libc::c_void> {
    // SAFETY: a descriptor of our own, closed again; the mapping outlives it.
    unsafe {
        let fd = libc::syscall(libc::SYS_memfd_secret, libc::O_CLOEXEC);
        let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
        let sized = libc::ftruncate(fd, PAGE as i64) == 0;
        let page = map(libc::MAP_SHARED, fd);
        libc::close(fd);
        page.filter(|_| sized)
    }
}

fn undumped_page() -> Option<*mut libc::c_void> {
    let page = map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    // SAFETY: advice on our own page.
    unsafe { libc::madvise(page, PAGE, libc::MADV_DONTDUMP) };
    Some(page)
}

fn map(flags: i32, fd: i32) -> Option<*mut libc::c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping, at no fixed address.
    let page = unsafe { libc::mmap(null_mut(), PAGE, access, flags, fd, 0) };
    (page != libc::MAP_FAILED).then_some(page)
}
