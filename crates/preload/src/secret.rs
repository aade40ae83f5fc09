//! Memory for master keys: `memfd_secret`, which no other process, no `/proc/PID/mem` and no core
//! dump can read, and which survives fork (crypto.md 10); where the kernel has none, locked pages
//! that are left out of core dumps.

use pgseal_crypto::MasterKey;

/// The two keys of a cluster, one page of their own.
#[repr(C)]
struct Pair {
    cluster: MasterKey,
    ephemeral: MasterKey,
}

const PAGE: usize = 4096;

/// Puts both keys into secret memory for the life of the process.
pub fn keep(
    cluster: MasterKey,
    ephemeral: MasterKey,
) -> Option<(&'static MasterKey, &'static MasterKey)> {
    const { assert!(size_of::<Pair>() <= PAGE) };
    let page = secret_page().or_else(locked_page)?;
    // SAFETY: a fresh page of ours, large enough and aligned; after this it is only read.
    unsafe {
        let pair = page.cast::<Pair>();
        pair.write(Pair { cluster, ephemeral });
        libc::mprotect(page, PAGE, libc::PROT_READ);
        Some((&(*pair).cluster, &(*pair).ephemeral))
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

fn locked_page() -> Option<*mut libc::c_void> {
    let page = map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    // SAFETY: advice on our own page.
    unsafe {
        libc::mlock(page, PAGE);
        libc::madvise(page, PAGE, libc::MADV_DONTDUMP);
    }
    Some(page)
}

fn map(flags: i32, fd: i32) -> Option<*mut libc::c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping, at no fixed address.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, access, flags, fd, 0) };
    (page != libc::MAP_FAILED).then_some(page)
}
