//! The only unsafe file of this crate: memory that two processes share, and sleeping on its words.
//!
//! The memory is a memfd that can neither shrink nor grow, so that no access to it can fail. It is
//! seen as atomic words only: whatever the other process writes, and when, is defined.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::{format, is_ring, Wait, WORDS};

const BYTES: usize = WORDS * size_of::<AtomicU64>();
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// A ring's memory, mapped.
pub struct Mapping(NonNull<AtomicU64>);

// SAFETY: a mapping that this value alone unmaps, of words that any thread may use.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives access to atomic words only, which any thread may use.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// A new ring, and the descriptor to hand over.
    pub fn create() -> io::Result<(Self, OwnedFd)> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string; the result is checked.
        let raw = unsafe { libc::memfd_create(c"pgseal-ring".as_ptr(), flags) };
        check(raw)?;
        // SAFETY: the descriptor was just made and has no other owner.
        let memory = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: these take no pointers.
        check(unsafe { libc::ftruncate(raw, BYTES as libc::off_t) })?;
        // SAFETY: this command of fcntl(2) takes an integer, no pointer.
        check(unsafe { libc::fcntl(raw, libc::F_ADD_SEALS, SEALS) })?;
        let mapping = Self::map(memory.as_fd())?;
        format(mapping.as_ref());
        Ok((mapping, memory))
    }

    /// Opens the ring of a descriptor that was handed over. Fails if the memory is no ring.
    pub fn open(memory: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: takes no pointer; fails for what is not a memfd.
        let seals = check(unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS) })?;
        let fixed = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
        let size = std::fs::File::from(memory.try_clone_to_owned()?)
            .metadata()?
            .len();
        if seals & fixed != fixed || size != BYTES as u64 {
            return Err(not_a_ring());
        }
        let mapping = Self::map(memory)?;
        if is_ring(mapping.as_ref()) {
            Ok(mapping)
        } else {
            Err(not_a_ring())
        }
    }

    fn map(memory: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                memory.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(
            NonNull::new(start.cast()).expect("mmap never gives null"),
        ))
    }
}

impl AsRef<[AtomicU64]> for Mapping {
    #[inline]
    fn as_ref(&self) -> &[AtomicU64] {
        // SAFETY: WORDS aligned words are mapped as long as this value lives; the file is as long
        // and cannot shrink; both processes use them as atomics only.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), WORDS) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, unmapped once.
        unsafe { libc::munmap(self.0.as_ptr().cast(), BYTES) };
    }
}

/// futex(2) on shared memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Futex;

impl Wait for Futex {
    fn wait(&self, word: &AtomicU64, value: u32, at_most: Duration) {
        let until = libc::timespec {
            tv_sec: libc::time_t::try_from(at_most.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(at_most.subsec_nanos()),
        };
        // SAFETY: the word is live and aligned; its low half is first on the machines that we
        // build for; the kernel only compares it.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT,
                value,
                &raw const until,
            );
        }
    }

    fn wake(&self, word: &AtomicU64) {
        // SAFETY: the word is live; the kernel only takes its address.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
    }

    #[inline]
    fn core(&self) -> Option<u32> {
        // SAFETY: takes nothing; negative if the kernel cannot tell.
        u32::try_from(unsafe { libc::sched_getcpu() }).ok()
    }
}

#[cfg(not(target_endian = "little"))]
compile_error!("a ring's number is the first half of its word");

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn not_a_ring() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the evaluator handed over no ring of this version",
    )
}
