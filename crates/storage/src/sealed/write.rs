//! Writing any range.

use super::{ceil, floor, index, is_zero, tail_len, SealedFile, MAX_SIZE};
use crate::disk::write_full;
use crate::layout::{Layout, BLOCK, PAGE};
use crate::scratch::{Scratch, RUN_UNITS};
use crate::{Disk, Errno, Lock};
use pgseal_crypto::UNIT;
use std::sync::atomic::Ordering;

const BLOCK_LEN: usize = BLOCK as usize;

impl SealedFile<'_> {
    /// Writes `data` at `offset`. A short count means that the disk took no more; an error, that it
    /// took nothing. Bytes outside the range keep their values, whatever happens.
    pub fn write_at<D: Disk>(
        &self,
        disk: &D,
        scratch: &mut Scratch,
        data: &[u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        let end = offset
            .checked_add(data.len() as u64)
            .filter(|&end| end <= MAX_SIZE);
        let end = end.ok_or(Errno::EFBIG)?;
        if data.is_empty() {
            return Ok(0);
        }
        if self.layout == Layout::Keystream {
            return self.write_keystream(disk, scratch, data, offset);
        }
        let whole_pages = offset % PAGE == 0 && data.len() % UNIT == 0 && !self.is_shared();
        if whole_pages && self.leaves_no_partial_granule(disk, offset)? {
            return self.write_pages(disk, scratch, data, offset);
        }
        self.locked(disk, Lock::Exclusive, || {
            self.write_range(disk, scratch, data, offset, end)
        })
    }

    /// May a write begin at `offset` without completing the file's last granule? The size is asked
    /// for only if what is known does not say so.
    fn leaves_no_partial_granule<D: Disk>(&self, disk: &D, offset: u64) -> Result<bool, Errno> {
        if offset <= self.known_size.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let size = disk.size()?;
        self.note_size(size);
        let granule = self.layout.granule();
        Ok(size % granule == 0 || offset <= floor(size, granule))
    }

    /// Whole pages: sealed run by run into the scratch, one transfer each. A gap before them is a
    /// hole, because no granule before them is partial.
    fn write_pages<D: Disk>(
        &self,
        disk: &D,
        scratch: &mut Scratch,
        data: &[u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        let mut done = 0;
        for run in data.chunks(RUN_UNITS * UNIT) {
            let at = offset + done as u64;
            self.seal_pages(run, &mut scratch.run[..run.len()], at);
            match write_full(disk, &scratch.run[..run.len()], at) {
                Ok(()) => done += run.len(),
                Err(cut) => return self.after_cut(disk, at, cut, done),
            }
        }
        self.note_size(offset + done as u64);
        Ok(done)
    }

    /// Seals whole pages from `plain` to `out`; `plain` is read once.
    pub fn seal_pages(&self, plain: &[u8], out: &mut [u8], offset: u64) {
        let units = plain.chunks(UNIT).zip(out.chunks_mut(UNIT));
        for (at, (plain, out)) in (offset..).step_by(UNIT).zip(units) {
            self.seal_unit(plain, out, at);
        }
    }

    /// Seals the whole blocks of a data unit from its start.
    fn seal_unit(&self, plain: &[u8], out: &mut [u8], start: u64) {
        self.cipher.seal(self.unit_at(start), plain, out);
        if self.clear_head() && start == 0 {
            out[..BLOCK_LEN].copy_from_slice(&plain[..BLOCK_LEN]);
        }
        if matches!(
            self.layout,
            Layout::Units {
                keep_zeros: true,
                ..
            }
        ) {
            let blocks = plain
                .chunks_exact(BLOCK_LEN)
                .zip(out.chunks_exact_mut(BLOCK_LEN));
            for (_, out) in blocks.filter(|(plain, _)| is_zero(plain)) {
                out.fill(0);
            }
        }
    }

    /// Any range: each data unit is put together in clear from what it held and what is new.
    fn write_range<D: Disk>(
        &self,
        disk: &D,
        scratch: &mut Scratch,
        data: &[u8],
        offset: u64,
        end: u64,
    ) -> Result<usize, Errno> {
        let size = disk.size()?;
        if end > size && floor(offset, self.layout.granule()) > size {
            self.complete_granule(disk, scratch, size)?;
        }
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let unit_end = floor(at, PAGE) + PAGE;
            let part = &data[done..data.len().min(done + index(unit_end - at))];
            match self.patch(disk, scratch, part, at, size.max(at + part.len() as u64)) {
                Ok(()) => done += part.len(),
                Err(cut) => return self.after_cut(disk, at, cut, done),
            }
        }
        self.note_size(size.max(end));
        Ok(done)
    }

    /// Rewrites the granules of one data unit that `part` at `at` touches, in a file that then has
    /// `size` bytes. On failure: how many bytes of `part` the disk took. Granules that `part` fills
    /// only partly are put back as they were, because they hold bytes that nobody asked to change.
    pub(super) fn patch<D: Disk>(
        &self,
        disk: &D,
        scratch: &mut Scratch,
        part: &[u8],
        at: u64,
        size: u64,
    ) -> Result<(), (usize, Errno)> {
        let granule = self.layout.granule();
        let end = at + part.len() as u64;
        let start = floor(at, PAGE);
        let (low, high) = (floor(at, granule), ceil(end, granule).min(size));
        let covers = at == low && end == high;
        let nothing = |errno| (0, errno);
        let have = if covers {
            0
        } else {
            self.load_unit(disk, scratch, start, high)
                .map_err(nothing)?
        };
        scratch.unit[have..].fill(0);
        let into = index(at - start);
        scratch.unit[into..into + part.len()].copy_from_slice(part);
        let (from, to) = (index(low - start), index(high - start));
        self.seal_cut_unit(scratch, start, to);
        scratch.unit.fill(0);
        match write_full(disk, &scratch.run[from..to], low) {
            Ok(()) => Ok(()),
            Err(cut) if covers => Err(cut),
            Err((_, errno)) => {
                let stored = &scratch.run[UNIT..UNIT + have];
                put_back(disk, stored.get(from..).unwrap_or(&[]), low).map_err(nothing)?;
                Err((0, errno))
            }
        }
    }

    /// Fills the file's last granule with zeros.
    pub(super) fn complete_granule<D: Disk>(
        &self,
        disk: &D,
        scratch: &mut Scratch,
        size: u64,
    ) -> Result<(), Errno> {
        const ZEROS: [u8; UNIT] = [0; UNIT];
        let whole = ceil(size, self.layout.granule());
        if whole == size {
            return Ok(());
        }
        let zeros = &ZEROS[..index(whole - size)];
        self.patch(disk, scratch, zeros, size, whole)
            .map_err(|(_, errno)| errno)
    }

    /// Seals the first `len` bytes of `scratch.unit` into `scratch.run`; a tail is masked.
    pub(super) fn seal_cut_unit(&self, scratch: &mut Scratch, start: u64, len: usize) {
        let tail = index(tail_len(len as u64));
        let body = len - tail;
        if body > 0 {
            self.seal_unit(&scratch.unit[..body], &mut scratch.run[..body], start);
        }
        if tail > 0 {
            let out = &mut scratch.run[body..len];
            out.copy_from_slice(&scratch.unit[body..len]);
            self.cipher.mask_tail((start + body as u64) / BLOCK, out);
        }
    }

    /// The disk took `cut.0` bytes of whole pages at `at` and no more. What it took is counted in
    /// whole blocks; half a block that now ends the file is cut off again.
    fn after_cut<D: Disk>(
        &self,
        disk: &D,
        at: u64,
        cut: (usize, Errno),
        done: usize,
    ) -> Result<usize, Errno> {
        let (taken, errno) = cut;
        let whole = taken - taken % BLOCK_LEN;
        if taken != whole && disk.size()? == at + taken as u64 {
            disk.set_size(at + whole as u64)?;
        }
        match done + whole {
            0 => Err(errno),
            count => Ok(count),
        }
    }

    fn write_keystream<D: Disk>(
        &self,
        disk: &D,
        scratch: &mut Scratch,
        data: &[u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        let size = disk.size()?;
        if offset > size {
            self.keystream_zeros(disk, scratch, size, offset)?;
        }
        let part = &data[..data.len().min(scratch.run.len())];
        let out = &mut scratch.run[..part.len()];
        out.copy_from_slice(part);
        self.cipher.keystream(offset, out);
        disk.write_at(out, offset)
    }

    /// Fills a gap with zeros in the keystream's form.
    pub(super) fn keystream_zeros<D: Disk>(
        &self,
        disk: &D,
        scratch: &mut Scratch,
        from: u64,
        to: u64,
    ) -> Result<(), Errno> {
        let mut at = from;
        while at < to {
            let len = index(to - at).min(scratch.run.len());
            let out = &mut scratch.run[..len];
            out.fill(0);
            self.cipher.keystream(at, out);
            write_full(disk, out, at).map_err(|(_, errno)| errno)?;
            at += len as u64;
        }
        Ok(())
    }
}

/// Undoes a rewrite that failed half-way: the bytes as they were, and no byte more. They lie on
/// space that the file already has, so that a full disk does not refuse them.
fn put_back<D: Disk>(disk: &D, stored: &[u8], low: u64) -> Result<(), Errno> {
    write_full(disk, stored, low).map_err(|(_, errno)| errno)?;
    let old_size = low + stored.len() as u64;
    if stored.len() < UNIT && disk.size()? > old_size {
        disk.set_size(old_size)?;
    }
    Ok(())
}
