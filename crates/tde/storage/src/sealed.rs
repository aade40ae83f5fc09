//! A sealed file: reads, writes, truncations and reservations of any range, on whole cipher blocks.
//!
//! A file of S bytes is stored in S bytes, and at every moment between two calls
//! (docs/format/files.md):
//!
//! 1. every block (16 bytes) below S is the ciphertext of its place in its data unit (8 kB page),
//!    or part of a hole: stored zeros that read as zeros. A hole is a whole page where
//!    [`Zeros::Page`] holds (or what a power failure left of an empty one: `read.rs`), a whole
//!    block where [`Zeros::Block`] does;
//! 2. the last S mod 16 bytes, the tail, are masked and never a hole;
//! 3. with [`Zeros::Page`], the last S mod 8192 bytes are never a hole either.
//!
//! So whatever makes a granule (the unit of 1 and 3) whole or partial rewrites it: growth completes
//! the old last granule and writes the new one if it is partial. Whole pages, which are all that
//! PostgreSQL writes to relations, SLRUs and WAL, take the short way: one seal, one transfer.
//!
//! Reads decrypt in the caller's buffer; writes never change it.

pub mod beside;
mod carried;
mod extend;
mod read;
mod write;

use crate::layout::{Layout, Writers, Zeros, BLOCK, PAGE};
use crate::{Disk, Errno, Lock, Transfer};
use pgseal_crypto::{FileCipher, FileId};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The largest file: offsets are signed in libc.
const MAX_SIZE: u64 = i64::MAX as u64;

/// Cipher and layout of one open file.
pub struct SealedFile<'k> {
    cipher: FileCipher<'k>,
    layout: Layout,
    /// A size that the file is known to have had. A page that begins at or below it leaves no gap,
    /// so the short way need not ask for the size. It would be wrong only if another open file cut
    /// this one inside a page, which PostgreSQL never does.
    known_size: AtomicU64,
    /// Was anything but zeros written, to a file in which zeros are kept?
    wrote_data: AtomicBool,
}

impl<'k> SealedFile<'k> {
    /// A file that nothing is known of yet.
    #[must_use]
    pub fn new(cipher: FileCipher<'k>, layout: Layout) -> Self {
        Self {
            cipher,
            layout,
            known_size: AtomicU64::new(0),
            wrote_data: AtomicBool::new(false),
        }
    }

    /// Returns the identity that its key is derived from.
    #[must_use]
    pub fn id(&self) -> &FileId {
        self.cipher.id()
    }

    /// Returns the layout of its bytes.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    fn zeros(&self) -> Zeros {
        match self.layout {
            Layout::Units { zeros, .. } => zeros,
            Layout::Keystream => Zeros::Block,
        }
    }

    fn clear_head(&self) -> bool {
        matches!(
            self.layout,
            Layout::Units {
                clear_head: true,
                ..
            }
        )
    }

    /// Are zeros that are written kept as they are?
    #[must_use]
    pub fn keeps_zeros(&self) -> bool {
        matches!(
            self.layout,
            Layout::Units {
                keep_zeros: true,
                ..
            }
        )
    }

    /// Was nothing but zeros written through this open file, and are they stored as such? What the
    /// file held before is not asked.
    #[must_use]
    pub fn wrote_only_zeros(&self) -> bool {
        self.keeps_zeros() && !self.wrote_data.load(Ordering::Relaxed)
    }

    fn is_shared(&self) -> bool {
        matches!(
            self.layout,
            Layout::Units {
                writers: Writers::Many,
                ..
            }
        )
    }

    /// Are whole pages decrypted without regard to where the file ends, and to other processes that
    /// write it meanwhile?
    #[must_use]
    pub fn opens_in_place(&self) -> bool {
        matches!(
            self.layout,
            Layout::Units {
                writers: Writers::Own | Writers::NoImages,
                ..
            }
        )
    }

    /// The tweak of the data unit at `offset`.
    fn unit_at(&self, offset: u64) -> u64 {
        match self.layout {
            Layout::Units { first_unit, .. } => first_unit + offset / PAGE,
            Layout::Keystream => 0,
        }
    }

    fn note_size(&self, size: u64) {
        self.known_size.fetch_max(size, Ordering::Relaxed);
    }

    fn forget_size_above(&self, size: u64) {
        self.known_size.fetch_min(size, Ordering::Relaxed);
    }

    /// Runs `work` under the file's lock if other processes may be writing beside us.
    fn locked<D: Disk, T>(
        &self,
        transfer: &mut Transfer<D>,
        lock: Lock,
        work: impl FnOnce(&mut Transfer<D>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if !self.is_shared() {
            return work(transfer);
        }
        transfer.disk.lock(lock)?;
        let result = work(transfer);
        transfer.disk.lock(Lock::None)?;
        result
    }
}

/// `value` rounded down to a multiple of `step`, a power of two.
const fn floor(value: u64, step: u64) -> u64 {
    value & !(step - 1)
}

/// `value` rounded up to a multiple of `step`, a power of two.
const fn ceil(value: u64, step: u64) -> u64 {
    floor(value + step - 1, step)
}

/// Where a range ends, if libc can name it.
fn end_of(offset: u64, len: u64) -> Result<u64, Errno> {
    let end = offset.checked_add(len).filter(|&end| end <= MAX_SIZE);
    end.ok_or(Errno::EFBIG)
}

/// A length or offset inside one data unit or buffer, as an index.
#[allow(clippy::cast_possible_truncation)] // 64-bit targets only, checked below
const fn index(value: u64) -> usize {
    const { assert!(usize::BITS == 64) };
    value as usize
}

/// Are all bytes zero? By runs of 64 bytes, each a few vector instructions: byte by byte a page
/// costs more than its encryption.
#[inline]
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    let none = |run: &[u8]| run.iter().fold(0, |seen, byte| seen | byte) == 0;
    let mut runs = bytes.chunks_exact(64);
    none(runs.remainder()) && runs.all(none)
}

/// Bytes of the tail of a file of `size` bytes.
const fn tail_len(size: u64) -> u64 {
    size % BLOCK
}
