//! Counters of pages that went through the cipher, for measurements. They lie in a shared file that
//! `PGSEAL_COUNTERS` names. It has 64 slots of eight little-endian u64: units opened, units sealed,
//! files opened, five spare. Pages of zeros that fill a new WAL segment are not counted, because
//! they are stored as they are; those that make room in a table are encrypted. Each process adds to
//! the slot of its number, so that two of them rarely share a cache line. Without the variable
//! nothing is counted.

use crate::real::libc_call;
use pgseal_contract::variable;
use pgseal_storage::sealed::is_zero;
use pgseal_storage::SealedFile;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The counters, each with its index in a slot.
#[derive(Clone, Copy)]
pub enum Count {
    Opened = 0,
    Sealed = 1,
    Files = 2,
}

const SLOTS: usize = 64;
type Slot = [AtomicU64; 8];

static COUNTERS: Counters = Counters {
    file: AtomicPtr::new(std::ptr::null_mut()),
    mine: AtomicPtr::new(std::ptr::null_mut()),
};

/// The file, if it is mapped, and this process's slot in it.
struct Counters {
    file: AtomicPtr<Slot>,
    mine: AtomicPtr<Slot>,
}

/// Adds to this process's counter.
#[inline]
pub fn add(count: Count, n: u64) {
    let slot = COUNTERS.mine.load(Ordering::Relaxed);
    if !slot.is_null() {
        // SAFETY: the pointer is set once, to a slot of a mapping that stays.
        unsafe { (*slot)[count as usize].fetch_add(n, Ordering::Relaxed) };
    }
}

/// Adds data units that are written to `file`, one each.
#[inline]
pub fn add_sealed<'p>(file: &SealedFile, units: impl Iterator<Item = &'p [u8]>) {
    if !COUNTERS.mine.load(Ordering::Relaxed).is_null() {
        let ciphered = units.filter(|unit| !(file.keeps_zeros() && is_zero(unit)));
        add(Count::Sealed, ciphered.count() as u64);
    }
}

/// Data units that `bytes` touch, when they are whole or lie in one.
pub fn units(bytes: usize) -> u64 {
    bytes.div_ceil(pgseal_crypto::UNIT) as u64
}

/// Maps the file, if one is named.
pub fn start() {
    let Some(path) = std::env::var_os(variable::COUNTERS.as_str()) else {
        return;
    };
    let Ok(path) = CString::new(path.as_bytes()) else {
        return;
    };
    let fd = libc_call!(open(
        path.as_ptr(),
        libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC,
        0o600
    ));
    if fd < 0 {
        return;
    }
    let size = SLOTS * size_of::<Slot>();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    libc_call!(ftruncate(fd, size as i64));
    let null = std::ptr::null_mut();
    let map = libc_call!(mmap(null, size, access, libc::MAP_SHARED, fd, 0));
    libc_call!(close(fd));
    if map != libc::MAP_FAILED {
        COUNTERS.file.store(map.cast(), Ordering::Release);
        choose_slot();
        // SAFETY: the handler that is registered only stores a pointer.
        unsafe { libc::pthread_atfork(None, None, Some(choose_slot)) };
    }
}

extern "C" fn choose_slot() {
    let index = std::process::id() as usize % SLOTS;
    // SAFETY: the slot lies within the mapping, which is never unmapped.
    let slot = unsafe { COUNTERS.file.load(Ordering::Acquire).add(index) };
    COUNTERS.mine.store(slot, Ordering::Relaxed);
}
