//! Reading any range.

use super::{ceil, floor, index, is_zero, tail_len, SealedFile};
use crate::disk::read_full;
use crate::layout::{Layout, Writers, Zeros, BLOCK, PAGE};
use crate::scratch::Scratch;
use crate::{Disk, Errno, Lock, Transfer};
use pgseal_crypto::{BLOCK as BLOCK_LEN, UNIT};

/// Bytes of a line of the processor's caches.
const LINE: usize = 64;
const BLOCKS: usize = UNIT / BLOCK_LEN;
/// Bytes that a disk writes at once, or not at all.
const SECTOR: usize = 512;
/// Bytes of PostgreSQL's `PageHeaderData`.
const PAGE_HEADER: usize = 24;

impl SealedFile<'_> {
    /// Reads at `offset` into `buf`; a short count is the end of the file.
    ///
    /// Whole pages into a buffer that [may be read into](SealedFile::may_read_into) take the short
    /// way: one transfer, decrypted where it is.
    pub fn read_at(
        &self,
        transfer: &mut Transfer<impl Disk>,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        if self.layout == Layout::Keystream {
            let done = read_full(transfer.disk, buf, offset)?;
            self.cipher.keystream(offset, &mut buf[..done]);
            return Ok(done);
        }
        if self.is_raced() && offset % PAGE == 0 && buf.len() == UNIT {
            return self.read_raced_page(transfer, buf, offset);
        }
        if Self::may_read_into(buf.as_ptr().addr()) && offset % PAGE == 0 && buf.len() % UNIT == 0 {
            return self.read_pages(transfer, buf, offset);
        }
        self.locked(transfer, Lock::Shared, |transfer| {
            self.read_range(transfer, buf, offset)
        })
    }

    /// Whether memory at this address may be read into and decrypted where it is. Correctness
    /// needs the alignment: the kernel copies aligned memory in pieces of whole blocks, so a read
    /// that races a write sees each block old or new, never half. The alignment is that of a cache
    /// line: with only 16 bytes, AMD's processors copy the bytes before the next line one by one.
    /// The memory must also be resident: a caller whose reads may race touches it, and the
    /// scratch, first.
    pub fn may_read_into(address: usize) -> bool {
        address % LINE == 0
    }

    /// Does a process append to the file, without a lock, while others read it?
    pub fn is_raced(&self) -> bool {
        let Layout::Units { writers, .. } = self.layout else {
            return false;
        };
        writers == Writers::Racing
    }

    /// Reads one page of WAL. A reader of a whole page knows how far WAL is flushed, and this code
    /// does not, so it reads the page twice. Nothing was being written before the first block that
    /// differs. That block may be where the flush ends, written again meanwhile, so it is read
    /// until it settles. Nothing behind it was flushed before the first read.
    fn read_raced_page(
        &self,
        transfer: &mut Transfer<impl Disk>,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        if read_full(transfer.disk, &mut transfer.scratch.unit, offset)? < UNIT {
            return self.read_range(transfer, buf, offset);
        }
        let again = &mut transfer.scratch.run[..UNIT];
        read_full(transfer.disk, again, offset)?;
        if let Some(block) = first_difference(&transfer.scratch.unit, again) {
            transfer.settle(offset, (block + 1) * BLOCK_LEN)?;
        }
        self.open_unit(&mut transfer.scratch.unit, offset);
        buf.copy_from_slice(&transfer.scratch.unit);
        transfer.scratch.unit.fill(0);
        Ok(UNIT)
    }

    /// Reads whole pages in place. Only a page that the end of the file cuts may have to be read
    /// again the long way: for its tail, or because other processes may be growing it.
    fn read_pages(
        &self,
        transfer: &mut Transfer<impl Disk>,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        let done = read_full(transfer.disk, buf, offset)?;
        let kept = done - done % UNIT;
        if kept == done || (done % BLOCK_LEN == 0 && !self.is_shared()) {
            self.open_in_place(&mut buf[..done], offset);
            return Ok(done);
        }
        self.open_in_place(&mut buf[..kept], offset);
        let rest = self.locked(transfer, Lock::Shared, |transfer| {
            self.read_range(transfer, &mut buf[kept..done], offset + kept as u64)
        })?;
        Ok(kept + rest)
    }

    /// Decrypts blocks that begin a data unit. A last, partial unit is never a page-sized hole.
    pub fn open_in_place(&self, buf: &mut [u8], offset: u64) {
        for (at, unit) in (offset..).step_by(UNIT).zip(buf.chunks_mut(UNIT)) {
            self.open_unit(unit, at);
        }
    }

    fn open_unit(&self, unit: &mut [u8], offset: u64) {
        if self.clear_head() && offset == 0 && self.open_carried(unit) {
            return;
        }
        let head: [u8; BLOCK_LEN] = std::array::from_fn(|i| unit.get(i).copied().unwrap_or(0));
        match self.zeros() {
            Zeros::Page => {
                let holes = Sectors::unwritten(unit);
                if holes != Sectors::ALL {
                    self.cipher.open(self.unit_at(offset), unit);
                    holes.restore_in_empty(unit);
                }
            }
            Zeros::Block => {
                let holes = Holes::find(unit);
                self.cipher.open(self.unit_at(offset), unit);
                holes.restore(unit);
            }
        }
        if self.clear_head() && offset == 0 {
            unit[..BLOCK_LEN].copy_from_slice(&head);
        }
    }

    /// Reads any range through the scratch: each data unit from its start, because the cipher's
    /// tweak runs from there.
    fn read_range(
        &self,
        transfer: &mut Transfer<impl Disk>,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        transfer.by_units(buf, offset, |transfer, start, end| {
            self.read_unit(transfer, start, end)
        })
    }

    /// Puts the data unit at `start` into `scratch.unit` in clear, as far as `end` at least, and
    /// says how many of its bytes the file has.
    pub(super) fn read_unit(
        &self,
        transfer: &mut Transfer<impl Disk>,
        start: u64,
        end: u64,
    ) -> Result<usize, Errno> {
        let have = self.read_stored(transfer, start, end)?;
        self.open_cut_unit(&mut transfer.scratch.unit, have, start);
        Ok(have)
    }

    /// Does what `read_unit` does, and keeps the stored bytes in `scratch.run[UNIT..]`.
    pub(super) fn load_unit(
        &self,
        transfer: &mut Transfer<impl Disk>,
        start: u64,
        end: u64,
    ) -> Result<usize, Errno> {
        let have = self.read_stored(transfer, start, end)?;
        transfer.scratch.run[UNIT..UNIT + have].copy_from_slice(&transfer.scratch.unit[..have]);
        self.open_cut_unit(&mut transfer.scratch.unit, have, start);
        Ok(have)
    }

    fn read_stored(
        &self,
        transfer: &mut Transfer<impl Disk>,
        start: u64,
        end: u64,
    ) -> Result<usize, Errno> {
        let whole_unit = self.zeros() == Zeros::Page;
        let want = if whole_unit {
            UNIT
        } else {
            index(ceil(end, BLOCK) - start)
        };
        let mut have = read_full(transfer.disk, &mut transfer.scratch.unit[..want], start)?;
        if self.clear_head() && have == want {
            // Only the whole of a control file says whether it was carried. Asked for second, so
            // that a range that the file does not take (O_DIRECT) fails as it would natively.
            have = read_full(transfer.disk, &mut transfer.scratch.unit, start)?;
        }
        if self.is_raced() && end % BLOCK != 0 && have > 0 {
            return transfer.settle(start, have);
        }
        Ok(have)
    }

    /// Decrypts the `have` first bytes of a unit. Reads ask for whole blocks, so a cut one means
    /// that the file ends there: its tail.
    pub(super) fn open_cut_unit(&self, unit: &mut [u8; UNIT], have: usize, start: u64) {
        let tail = index(tail_len(have as u64));
        let body = have - tail;
        if body > 0 {
            self.open_unit(&mut unit[..body], start);
        }
        if tail > 0 {
            self.cipher
                .mask_tail((start + body as u64) / BLOCK, &mut unit[body..have]);
        }
    }
}

/// The first block in which two reads of a unit differ.
fn first_difference(one: &[u8; UNIT], other: &[u8]) -> Option<usize> {
    if one == other {
        return None;
    }
    let mut blocks = one
        .chunks_exact(BLOCK_LEN)
        .zip(other.chunks_exact(BLOCK_LEN));
    blocks.position(|(one, other)| one != other)
}

impl<D: Disk> Transfer<'_, D> {
    /// Reads any range unit by unit. `load` puts the unit that begins at one offset into
    /// `scratch.unit`, as far as another at least, and says how many of its bytes the file has.
    pub(super) fn by_units(
        &mut self,
        buf: &mut [u8],
        offset: u64,
        mut load: impl FnMut(&mut Self, u64, u64) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mut done = 0;
        let mut read = || {
            while done < buf.len() {
                let at = offset + done as u64;
                let start = floor(at, PAGE);
                let end = (offset + buf.len() as u64).min(start + PAGE);
                let have = load(self, start, end)?;
                let from = index(at - start);
                let to = index(end - start).min(have).max(from);
                buf[done..done + to - from].copy_from_slice(&self.scratch.unit[from..to]);
                done += to - from;
                if to < index(end - start) {
                    break;
                }
            }
            Ok(())
        };
        let result = read();
        self.scratch.unit.fill(0);
        result.map(|()| done)
    }

    /// Reads the last block of `scratch.unit` again until two reads agree: its writer may be in
    /// the middle of it, at WAL's flush boundary. The kernel copies an aligned block at once on the
    /// processors that were measured; this holds on the others.
    fn settle(&mut self, start: u64, have: usize) -> Result<usize, Errno> {
        const TRIES: usize = 100;
        let Scratch { run, unit } = self.scratch;
        let last = have.saturating_sub(1) / BLOCK_LEN * BLOCK_LEN;
        let seen = &mut run[..BLOCK_LEN]; // aligned
        let mut end = have;
        for _ in 0..TRIES {
            let got = read_full(self.disk, seen, start + last as u64)?;
            let same = unit[last..end] == seen[..got];
            end = last + got;
            unit[last..end].copy_from_slice(&seen[..got]);
            if same {
                return Ok(end);
            }
        }
        Err(Errno::EIO)
    }
}

/// The sectors of a stored page that are zeros: all of them in a hole, and some where a power
/// failure let only a part of the first write to a hole reach the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sectors(u16);

impl Sectors {
    /// A hole.
    const ALL: Self = Self(u16::MAX);

    /// Finds the sectors of zeros in a stored page. Bytes that are not a whole page have none.
    fn unwritten(page: &[u8]) -> Self {
        if page.len() != UNIT {
            return Self(0);
        }
        let mut found = 0;
        for (i, sector) in page.chunks_exact(SECTOR).enumerate() {
            // Nearly no ciphertext holds 16 zero bytes: the sector is scanned only then.
            let hole = sector.first_chunk() == Some(&[0; BLOCK_LEN]) && is_zero(sector);
            found |= u16::from(hole) << i;
        }
        Self(found)
    }

    fn has(self, i: usize) -> bool {
        self.0 >> i & 1 == 1
    }

    /// Fills the unwritten sectors of a decrypted page with zeros if the page is empty, that is,
    /// has only zeros behind its header. PostgreSQL extends relations by such pages without WAL.
    /// In any other page the sectors stay noise: anyone who can write the disk could delete rows by
    /// them.
    fn restore_in_empty(self, page: &mut [u8]) {
        let sectors = || page.chunks_exact(SECTOR).enumerate();
        let is_empty = |i, sector: &[u8]| match i {
            0 => is_zero(&sector[PAGE_HEADER..]),
            _ => is_zero(sector),
        };
        let empty = self.0 != 0 && sectors().all(|(i, sector)| self.has(i) || is_empty(i, sector));
        if empty {
            let sectors = page.chunks_exact_mut(SECTOR).enumerate();
            let holes = sectors.filter(|(i, _)| self.has(*i));
            holes.for_each(|(_, sector)| sector.fill(0));
        }
    }
}

/// The zero blocks of a stored unit, found before it is decrypted where it is.
struct Holes([u64; BLOCKS / 64]);

impl Holes {
    fn find(unit: &[u8]) -> Self {
        let mut bits = [0; BLOCKS / 64];
        // Nearly no ciphertext holds four zero bytes in a row: they are counted first, a loop that
        // the compiler turns into vectors, because looking for blocks costs as much as the cipher.
        let words = unit.chunks_exact(4);
        let zeros = words.map(|word| u32::from(word == [0; 4]));
        if zeros.sum::<u32>() > 0 {
            for (i, block) in unit.chunks_exact(BLOCK_LEN).enumerate() {
                bits[i / 64] |= u64::from(is_zero(block)) << (i % 64);
            }
        }
        Self(bits)
    }

    fn restore(&self, unit: &mut [u8]) {
        if self.0 == [0; BLOCKS / 64] {
            return;
        }
        for (i, block) in unit.chunks_exact_mut(BLOCK_LEN).enumerate() {
            if self.0[i / 64] >> (i % 64) & 1 == 1 {
                block.fill(0);
            }
        }
    }
}
