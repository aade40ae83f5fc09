//! A disk in memory: it knows which bytes were written and which are holes, it fails as told, and
//! it can lose power.

use super::Rng;
use pgseal_storage::{Disk, Errno, Lock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

/// How the disk misbehaves from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Fault {
    /// Not at all.
    #[default]
    None,
    /// Every transfer ends at a random byte, by this seed.
    Short(u64),
    /// Room for so many bytes more; what is allocated already can be rewritten.
    Space(u64),
    /// After so many calls one fails with EIO; a write then takes so many bytes first.
    Once { calls: usize, takes: usize },
}

#[derive(Clone, Copy, PartialEq)]
enum Origin {
    /// A hole: reads as zeros and takes no space.
    Hole,
    /// posix_fallocate: reads as zeros and has its space.
    Reserved,
    Written,
}

#[derive(Clone)]
struct State {
    bytes: Vec<u8>,
    origin: Vec<Origin>,
    fault: Fault,
    /// Image at the last sync, the first ones since, and the present one.
    history: Vec<Vec<u8>>,
}

/// One file, shared by all that open it.
pub struct MemDisk {
    state: Mutex<State>,
    /// Holders of the lock: readers, or -1 for a writer.
    holders: Mutex<isize>,
    freed: Condvar,
    /// How often the lock was taken.
    pub locked: AtomicUsize,
    /// Transfers of which memory and file were not aligned alike: the kernel may then copy half a
    /// block beside a racing writer.
    pub misaligned: AtomicUsize,
    /// How often something was read.
    pub reads: AtomicUsize,
    /// How often something was written.
    pub writes: AtomicUsize,
    /// How often the size was asked for.
    pub sized: AtomicUsize,
}

impl Default for MemDisk {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl MemDisk {
    pub fn of(bytes: Vec<u8>) -> Self {
        let state = State {
            origin: vec![Origin::Written; bytes.len()],
            history: vec![bytes.clone()],
            bytes,
            fault: Fault::None,
        };
        Self {
            state: Mutex::new(state),
            holders: Mutex::new(0),
            freed: Condvar::new(),
            locked: AtomicUsize::new(0),
            misaligned: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
            sized: AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn stored(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    pub fn fail(&self, fault: Fault) {
        self.state().fault = fault;
    }

    /// The first whole block of zeros from block `from` on of which a byte was written, not left
    /// as a hole.
    pub fn written_zero_block(&self, from: usize) -> Option<usize> {
        let state = self.state();
        let blocks = state.bytes.chunks_exact(16).zip(state.origin.chunks(16));
        blocks
            .enumerate()
            .skip(from)
            .find(|(_, (bytes, origin))| {
                bytes.iter().all(|&byte| byte == 0) && origin.contains(&Origin::Written)
            })
            .map(|(i, _)| i)
    }

    /// fsync: what is stored now survives.
    pub fn sync(&self) {
        let mut state = self.state();
        state.history = vec![state.bytes.clone()];
    }

    /// Power fails: each sector holds what it held at the last sync or at any moment since, and so
    /// does the size, independently. What the size covers and no write reached is zeros.
    pub fn after_power_loss(&self, sector: usize, seed: u64) -> Self {
        let state = self.state();
        let mut rng = Rng(seed);
        let pick = |rng: &mut Rng| &state.history[rng.below(state.history.len())];
        let size = pick(&mut rng).len();
        let mut bytes = Vec::with_capacity(size + sector);
        while bytes.len() < size {
            let from = pick(&mut rng).get(bytes.len()..).unwrap_or(&[]);
            let mut part = from[..from.len().min(sector)].to_vec();
            part.resize(sector, 0);
            bytes.extend(part);
        }
        bytes.truncate(size);
        Self::of(bytes)
    }
}

impl State {
    /// Counts a call down to the one that fails; says how many bytes that one takes.
    fn fails_now(&mut self) -> Option<usize> {
        let Fault::Once { calls, takes } = &mut self.fault else {
            return None;
        };
        if *calls > 0 {
            *calls -= 1;
            return None;
        }
        let takes = *takes;
        self.fault = Fault::None;
        Some(takes)
    }

    /// How much of a transfer of `len` bytes is done.
    fn cut(&mut self, len: usize) -> usize {
        match &mut self.fault {
            Fault::Short(seed) if len > 0 => {
                let mut rng = Rng(*seed);
                *seed = rng.next();
                1 + rng.below(len)
            }
            _ => len,
        }
    }

    /// How many of `len` bytes at `at` the full disk still takes.
    fn room(&mut self, at: usize, len: usize) -> usize {
        let Fault::Space(left) = &mut self.fault else {
            return len;
        };
        let needs_space = |i: &usize| self.origin.get(*i).is_none_or(|&o| o == Origin::Hole);
        for i in (at..at + len).filter(needs_space) {
            if *left == 0 {
                return i - at;
            }
            *left -= 1;
        }
        len
    }

    fn resize(&mut self, size: usize) {
        self.bytes.resize(size, 0);
        self.origin.resize(size, Origin::Hole);
        self.remember();
    }

    fn put(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        if !data.is_empty() {
            let size = self.bytes.len().max(end);
            self.bytes.resize(size, 0);
            self.origin.resize(size, Origin::Hole);
            self.bytes[at..end].copy_from_slice(data);
            self.origin[at..end].fill(Origin::Written);
        }
        self.remember();
    }

    fn remember(&mut self) {
        const ENOUGH: usize = 16;
        if self.history.len() == ENOUGH {
            self.history.pop();
        }
        self.history.push(self.bytes.clone());
    }
}

impl Disk for MemDisk {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.check_alignment(buf, offset);
        self.reads.fetch_add(1, Ordering::Relaxed);
        std::thread::yield_now(); // another writer may come between a read and its write
        let mut state = self.state();
        if state.fails_now().is_some() {
            return Err(Errno::EIO);
        }
        let from = state.bytes.len().min(offset as usize);
        let len = buf.len().min(state.bytes.len() - from);
        let len = state.cut(len);
        buf[..len].copy_from_slice(&state.bytes[from..from + len]);
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Errno> {
        self.check_alignment(buf, offset);
        self.writes.fetch_add(1, Ordering::Relaxed);
        std::thread::yield_now();
        let mut state = self.state();
        let at = offset as usize;
        if let Some(takes) = state.fails_now() {
            let taken = takes.min(buf.len());
            state.put(at, &buf[..taken]);
            // A disk that took something says so, and fails the next call.
            if taken == 0 {
                return Err(Errno::EIO);
            }
            state.fault = Fault::Once { calls: 0, takes: 0 };
            return Ok(taken);
        }
        let len = state.cut(buf.len());
        let len = state.room(at, len);
        if len == 0 && !buf.is_empty() {
            return Err(Errno::ENOSPC);
        }
        state.put(at, &buf[..len]);
        Ok(len)
    }

    fn size(&self) -> Result<u64, Errno> {
        self.sized.fetch_add(1, Ordering::Relaxed);
        Ok(self.state().bytes.len() as u64)
    }

    fn set_size(&self, size: u64) -> Result<(), Errno> {
        let mut state = self.state();
        if state.fails_now().is_some() {
            return Err(Errno::EIO);
        }
        state.resize(size as usize);
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let mut state = self.state();
        let (at, len) = (offset as usize, len as usize);
        if state.fails_now().is_some() {
            return Err(Errno::EIO);
        }
        let room = state.room(at, len);
        let size = state.bytes.len().max(at + room);
        state.resize(size);
        for origin in &mut state.origin[at..at + room] {
            if *origin == Origin::Hole {
                *origin = Origin::Reserved;
            }
        }
        if room < len {
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    fn lock(&self, lock: Lock) -> Result<(), Errno> {
        self.gate(lock);
        if lock != Lock::None {
            self.locked.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl MemDisk {
    fn check_alignment(&self, buf: &[u8], offset: u64) {
        if buf.as_ptr().addr() % 16 != offset as usize % 16 {
            self.misaligned.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn gate(&self, lock: Lock) {
        let holders = self.holders.lock().unwrap();
        let (mut holders, now) = match lock {
            Lock::Shared => (self.freed.wait_while(holders, |n| *n < 0).unwrap(), 1),
            Lock::Exclusive => (self.freed.wait_while(holders, |n| *n != 0).unwrap(), -1),
            Lock::None => {
                let back = -holders.signum();
                (holders, back)
            }
        };
        *holders += now;
        self.freed.notify_all();
    }
}
