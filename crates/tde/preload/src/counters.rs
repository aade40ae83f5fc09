//! Counters of what went through the cipher: what `pgseal_io` shows, and what measurements read.
//!
//! A server's lie in memory that all of its processes share. `PGSEAL_COUNTERS` names a file for
//! them, which `pgseal bench` reads; then any program counts. There are 64 slots, one row per
//! [`Area`] in each, eight little-endian u64 in a row: data units opened, units sealed, bytes read,
//! bytes written, nanoseconds of reads, nanoseconds of writes, files opened, and units of zeros
//! that were written and are stored as they are. A unit is a page of 8 kB. Each process adds to the
//! slot of its number, so two of them rarely share a cache line. Behind the slots one more row has,
//! in its last field, the lines that were written into the log, and in its first whether the key
//! file is missing.
//!
//! Times are taken while the server's `track_io_timing` is on, without the kernel's part: they are
//! what encryption adds.

use crate::process::PROCESS;
use crate::real::{errno, libc_call, set_errno};
use libc::{c_int, c_void};
use pgseal_contract::variable;
use pgseal_crypto::{FileClass, UNIT};
use pgseal_storage::layout::{Root, Spec};
use pgseal_storage::sealed::is_zero;
use pgseal_storage::{Errno, SealedFile};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The kinds of files that are counted apart, each with its row in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// permanent and unlogged relations
    Relation = 0,
    /// temporary relations, and other files that no server needs after a restart
    Temporary = 1,
    /// the write-ahead log
    Wal = 2,
    /// simple LRU areas, such as `pg_xact`
    Slru = 3,
    /// all others
    Other = 4,
}

impl Area {
    /// All of them, in the order of their rows.
    pub const ALL: [Self; 5] = [
        Self::Relation,
        Self::Temporary,
        Self::Wal,
        Self::Slru,
        Self::Other,
    ];

    /// Returns the area of a sealed file.
    pub fn of(spec: &Spec) -> Self {
        match (spec.root, spec.id.class()) {
            (Root::Ephemeral, _) | (_, FileClass::TempRelation) => Self::Temporary,
            (_, FileClass::Relation) => Self::Relation,
            (_, FileClass::Wal) => Self::Wal,
            (_, FileClass::Slru) => Self::Slru,
            (_, FileClass::Named) => Self::Other,
        }
    }

    /// Returns its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relation => "relation",
            Self::Temporary => "temporary",
            Self::Wal => "wal",
            Self::Slru => "slru",
            Self::Other => "other",
        }
    }
}

/// The counters, each with its index in a row.
#[derive(Clone, Copy)]
enum Count {
    Opened = 0,
    Sealed = 1,
    BytesRead = 2,
    BytesWritten = 3,
    ReadTime = 4,
    WriteTime = 5,
    Files = 6,
    Zeros = 7,
}

const SLOTS: usize = 64;
type Row = [AtomicU64; 8];
type Slot = [Row; Area::ALL.len()];

/// The memory that the processes share.
struct Shared {
    slots: [Slot; SLOTS],
    /// Whether the key file was missing when a process last looked, six spare fields, then the
    /// lines in the log.
    after: Row,
}

/// The place of that mark in the last row.
const MISSING: usize = 0;

static COUNTERS: Counters = Counters {
    shared: AtomicPtr::new(std::ptr::null_mut()),
    mine: AtomicPtr::new(std::ptr::null_mut()),
    is_timed: AtomicPtr::new(std::ptr::null_mut()),
    kernel: AtomicU64::new(0),
};

/// The counters, if there are some, and this process's own slot.
struct Counters {
    shared: AtomicPtr<Shared>,
    mine: AtomicPtr<Slot>,
    /// The server's `track_io_timing`.
    is_timed: AtomicPtr<bool>,
    /// Nanoseconds that this process's transfers spent in the kernel.
    kernel: AtomicU64,
}

/// The sums over all processes for one area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums(pub [u64; 8]);

/// Returns the sums since the server's start; none if nothing is counted.
pub fn sums(area: Area) -> Option<Sums> {
    let mut sums = Sums::default();
    for slot in &shared()?.slots {
        for (sum, count) in sums.0.iter_mut().zip(&slot[area as usize]) {
            *sum += count.load(Ordering::Relaxed);
        }
    }
    Some(sums)
}

fn shared() -> Option<&'static Shared> {
    let shared = COUNTERS.shared.load(Ordering::Acquire);
    // SAFETY: the pointer is null, or leads to a mapping of atomics that stays.
    unsafe { shared.as_ref() }
}

/// Counts a line that the library wrote into the log.
pub fn line() {
    if let Some(shared) = shared() {
        shared.after[7].fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns how many lines the library has written into the log; none if nothing is counted.
pub fn lines() -> Option<u64> {
    Some(shared()?.after[7].load(Ordering::Relaxed))
}

/// Counts a file that was opened.
pub fn opened(area: Area) {
    add(area, Count::Files, 1);
}

/// Counts what `read` brought through the cipher.
#[inline]
pub fn read(area: Area, read: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let result = timed(area, Count::ReadTime, read);
    if let Ok(bytes) = result {
        add(area, Count::Opened, bytes.div_ceil(UNIT) as u64);
        add(area, Count::BytesRead, bytes as u64);
    }
    result
}

/// Counts the time of a transfer to a file of this area.
#[inline]
pub fn writing<T>(area: Area, write: impl FnOnce() -> T) -> T {
    timed(area, Count::WriteTime, write)
}

/// Counts data units that were written to `file`, one slice each.
#[inline]
pub fn written<'p>(area: Area, file: &SealedFile, units: impl Iterator<Item = &'p [u8]>) {
    if COUNTERS.mine.load(Ordering::Relaxed).is_null() {
        return;
    }
    let (mut ciphered, mut zeros, mut bytes) = (0, 0, 0);
    for unit in units {
        bytes += unit.len() as u64;
        match file.keeps_zeros() && is_zero(unit) {
            true => zeros += 1,
            false => ciphered += 1,
        }
    }
    add(area, Count::Sealed, ciphered);
    add(area, Count::Zeros, zeros);
    add(area, Count::BytesWritten, bytes);
}

/// Runs a call of the kernel's that a transfer makes: its time is not that of encryption.
#[inline]
pub fn in_kernel<T>(call: impl FnOnce() -> T) -> T {
    if !is_timed() {
        return call();
    }
    let start = Instant::now();
    let result = call();
    let kept = errno();
    let elapsed = nanoseconds(start.elapsed());
    COUNTERS.kernel.fetch_add(elapsed, Ordering::Relaxed);
    set_errno(kept);
    result
}

/// Adds the time of `transfer` without the kernel's part of it.
#[inline]
fn timed<T>(area: Area, count: Count, transfer: impl FnOnce() -> T) -> T {
    if !is_timed() {
        return transfer();
    }
    let (start, kernel) = (Instant::now(), COUNTERS.kernel.load(Ordering::Relaxed));
    let result = transfer();
    let kernel = COUNTERS.kernel.load(Ordering::Relaxed) - kernel;
    let kept = errno();
    let ours = nanoseconds(start.elapsed()).saturating_sub(kernel);
    add(area, count, ours);
    set_errno(kept);
    result
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[inline]
fn is_timed() -> bool {
    let flag = COUNTERS.is_timed.load(Ordering::Relaxed);
    // SAFETY: the pointer is null, or leads to the server's own bool, which stays.
    !flag.is_null() && unsafe { *flag }
}

#[inline]
fn add(area: Area, count: Count, n: u64) {
    let slot = COUNTERS.mine.load(Ordering::Relaxed);
    if n > 0 && !slot.is_null() {
        // SAFETY: the pointer is set once in a process, to a slot of a mapping that stays.
        unsafe { (*slot)[area as usize][count as usize].fetch_add(n, Ordering::Relaxed) };
    }
}

/// Notes for all processes whether the key file is missing. Returns whether that is news, which is
/// not known if nothing is counted.
pub fn note_missing(is_missing: bool) -> bool {
    let now = u64::from(is_missing);
    shared().is_some_and(|shared| shared.after[MISSING].swap(now, Ordering::Relaxed) != now)
}

/// Makes the counters of a server, or those in the file that the variable names. Called once,
/// before `main`, when it is known what this program is. `is_timed` is the address of the server's
/// `track_io_timing`, which every supported server exports as a bool (bufmgr.h).
pub fn start(is_timed: Option<*mut c_void>) {
    let map = match file() {
        Some(fd) => {
            let map = map(libc::MAP_SHARED, fd);
            libc_call!(close(fd));
            map
        }
        None if PROCESS.is_server() => map(libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
        None => return,
    };
    if map != libc::MAP_FAILED {
        COUNTERS.shared.store(map.cast(), Ordering::Release);
        choose_slot();
        // SAFETY: the handler that is registered only stores a pointer.
        unsafe { libc::pthread_atfork(None, None, Some(choose_slot)) };
    }
    let flag = is_timed.unwrap_or(std::ptr::null_mut());
    COUNTERS.is_timed.store(flag.cast(), Ordering::Relaxed);
}

/// Opens the file that the variable names, at its full size.
fn file() -> Option<c_int> {
    let path = std::env::var_os(variable::COUNTERS.as_str())?;
    let path = CString::new(path.as_bytes()).ok()?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC;
    let fd = libc_call!(open(path.as_ptr(), flags, 0o600));
    if fd < 0 {
        return None;
    }
    libc_call!(ftruncate(fd, size_of::<Shared>() as i64));
    Some(fd)
}

fn map(kind: c_int, fd: c_int) -> *mut c_void {
    let (null, size) = (std::ptr::null_mut(), size_of::<Shared>());
    let access = libc::PROT_READ | libc::PROT_WRITE;
    libc_call!(mmap(null, size, access, kind, fd, 0))
}

extern "C" fn choose_slot() {
    let index = std::process::id() as usize % SLOTS;
    if let Some(shared) = shared() {
        let slot = std::ptr::from_ref(&shared.slots[index]).cast_mut();
        COUNTERS.mine.store(slot, Ordering::Relaxed);
    }
}
