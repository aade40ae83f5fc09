//! Writing any range.

use super::{ceil, end_of, floor, index, is_zero, tail_len, SealedFile};
use crate::disk::write_full;
use crate::layout::{Layout, BLOCK, PAGE};
use crate::scratch::{Scratch, RUN_UNITS};
use crate::{Disk, Errno, Lock, Transfer};
use pgseal_crypto::{BLOCK as BLOCK_LEN, UNIT};
use std::sync::atomic::Ordering;

impl SealedFile<'_> {
    /// Writes `data` at `offset`. A short count means that the disk took no more; an error, that it
    /// took nothing. Bytes outside the range keep their values, and the file ends where it did or
    /// where the count says. Inside the range, what follows the count is undefined: old, new, or
    /// noise in the block where the disk stopped and in what was a hole.
    pub fn write_at(
        &self,
        transfer: &mut Transfer<impl Disk>,
        data: &[u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        end_of(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(0);
        }
        if self.layout == Layout::Keystream {
            return self.write_keystream(transfer, data, offset);
        }
        if data.len() % UNIT == 0 && self.takes_pages(transfer.disk, offset)? {
            return self.write_pages(transfer, data.chunks(UNIT), offset);
        }
        self.locked(transfer, Lock::Exclusive, |transfer| {
            self.write_range(transfer, data, offset)
        })
    }

    /// Writes whole pages that lie apart in memory, with no more transfers than for pages that lie
    /// together. Returns none if whole pages cannot be written at `offset`.
    pub fn write_gathered<'p>(
        &self,
        transfer: &mut Transfer<impl Disk>,
        pages: impl Iterator<Item = &'p [u8]>,
        offset: u64,
    ) -> Result<Option<usize>, Errno> {
        if self.layout == Layout::Keystream || !self.takes_pages(transfer.disk, offset)? {
            return Ok(None);
        }
        self.write_pages(transfer, pages, offset).map(Some)
    }

    /// May whole pages be written at `offset` with nothing read before?
    fn takes_pages(&self, disk: &impl Disk, offset: u64) -> Result<bool, Errno> {
        let aligned = offset % PAGE == 0 && !self.is_shared();
        Ok(aligned && self.leaves_no_partial_granule(disk, offset)?)
    }

    /// May a page begin at `offset` without completing the file's last granule? The size is asked
    /// for only if what is known does not say so.
    fn leaves_no_partial_granule(&self, disk: &impl Disk, offset: u64) -> Result<bool, Errno> {
        if offset <= self.known_size.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let size = disk.size()?;
        self.note_size(size);
        let granule = self.layout.granule();
        Ok(size % granule == 0 || offset <= floor(size, granule))
    }

    /// Writes whole pages: seals them run by run into the scratch, with one transfer for each run.
    /// A gap before them is a hole, because no granule before them is partial.
    fn write_pages<'p>(
        &self,
        transfer: &mut Transfer<impl Disk>,
        mut pages: impl Iterator<Item = &'p [u8]>,
        offset: u64,
    ) -> Result<usize, Errno> {
        let mut done = 0;
        let mut run: [&[u8]; RUN_UNITS] = [&[]; RUN_UNITS];
        loop {
            let at = offset + done as u64;
            let places = run.iter_mut().zip(&mut pages);
            let count = places.map(|(place, page)| *place = page).count();
            if count == 0 {
                break;
            }
            self.seal_units(run[..count].iter().copied(), &mut transfer.scratch.run, at);
            match write_full(transfer.disk, &transfer.scratch.run[..count * UNIT], at) {
                Ok(()) => done += count * UNIT,
                Err((taken, errno)) => {
                    let whole = taken - taken % UNIT;
                    let (cut, cut_at) = (run[taken / UNIT], at + whole as u64);
                    done += whole + self.count_taken(transfer, cut, cut_at, taken - whole)?;
                    return if done == 0 { Err(errno) } else { Ok(done) };
                }
            }
        }
        self.note_size(offset + done as u64);
        Ok(done)
    }

    /// Seals whole pages into `out`, one after another.
    fn seal_units<'p>(&self, pages: impl Iterator<Item = &'p [u8]>, out: &mut [u8], offset: u64) {
        let units = pages.zip(out.chunks_mut(UNIT));
        for (start, (page, out)) in (offset..).step_by(UNIT).zip(units) {
            self.seal_unit(page, &mut out[..page.len()], start);
        }
    }

    /// Seals the whole blocks of a data unit from its start.
    fn seal_unit(&self, plain: &[u8], out: &mut [u8], start: u64) {
        let keeps_zeros = self.keeps_zeros();
        if keeps_zeros && is_zero(plain) {
            // A new WAL segment is filled with such pages before anything is written to it.
            return out.fill(0);
        }
        self.note_data();
        self.cipher.seal(self.unit_at(start), plain, out);
        if self.clear_head() && start == 0 {
            out[..BLOCK_LEN].copy_from_slice(&plain[..BLOCK_LEN]);
        }
        if keeps_zeros {
            let blocks = plain
                .chunks_exact(BLOCK_LEN)
                .zip(out.chunks_exact_mut(BLOCK_LEN));
            for (_, out) in blocks.filter(|(plain, _)| is_zero(plain)) {
                out.fill(0);
            }
        }
    }

    /// Notes that what is stored from here on depends on the file's key.
    fn note_data(&self) {
        if self.keeps_zeros() {
            self.wrote_data.store(true, Ordering::Relaxed);
        }
    }

    /// Writes any range: puts each data unit together in clear from what it held and what is new.
    fn write_range(
        &self,
        transfer: &mut Transfer<impl Disk>,
        data: &[u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        let size = transfer.disk.size()?;
        let granule = self.layout.granule();
        if floor(offset, granule) > size {
            self.write_zeros(transfer, size, ceil(size, granule))?;
        }
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let room = index(floor(at, PAGE) + PAGE - at);
            let part = &data[done..data.len().min(done + room)];
            let failed = match self.patch(transfer, part, at) {
                Ok(()) => None,
                Err((taken, errno)) => Some((self.count_taken(transfer, part, at, taken)?, errno)),
            };
            done += failed.map_or(part.len(), |(taken, _)| taken);
            match failed {
                None => {}
                Some((_, errno)) if done == 0 => {
                    self.undo_growth(transfer, size)?;
                    return Err(errno);
                }
                Some(_) => return Ok(done),
            }
        }
        self.note_size(offset + done as u64);
        Ok(done)
    }

    /// Rewrites the granules of one data unit that `part` at `at` touches; the file has no partial
    /// granule before them. On failure, returns how many bytes of `part` the disk took. Granules
    /// that `part` fills only partly are then put back as they were: the caller did not ask to
    /// change their other bytes.
    fn patch(
        &self,
        transfer: &mut Transfer<impl Disk>,
        part: &[u8],
        at: u64,
    ) -> Result<(), (usize, Errno)> {
        let nothing = |errno| (0, errno);
        let granule = self.layout.granule();
        let end = at + part.len() as u64;
        let old_size = transfer.disk.size().map_err(nothing)?;
        let start = floor(at, PAGE);
        let low = floor(at, granule);
        let high = ceil(end, granule).min(old_size.max(end));
        let covers = at == low && end == high;
        let have = if covers {
            0
        } else {
            self.load_unit(transfer, start, high).map_err(nothing)?
        };
        transfer.scratch.unit[have..].fill(0);
        let into = index(at - start);
        transfer.scratch.unit[into..into + part.len()].copy_from_slice(part);
        let (from, to) = (index(low - start), index(high - start));
        self.seal_cut_unit(transfer.scratch, start, to);
        transfer.scratch.unit.fill(0);
        match write_full(transfer.disk, &transfer.scratch.run[from..to], low) {
            Ok(()) => Ok(()),
            Err(cut) if covers => Err(cut),
            Err((taken, errno)) => {
                let kept = have.clamp(from, from + taken);
                let stored = &transfer.scratch.run[UNIT + from..UNIT + kept];
                put_back(transfer.disk, stored, low, old_size).map_err(nothing)?;
                Err((0, errno))
            }
        }
    }

    /// Writes zeros from `from` to `to`, at most a granule, or nothing at all.
    pub(super) fn write_zeros(
        &self,
        transfer: &mut Transfer<impl Disk>,
        from: u64,
        to: u64,
    ) -> Result<(), Errno> {
        const ZEROS: [u8; UNIT] = [0; UNIT];
        if from == to {
            return Ok(());
        }
        self.patch(transfer, &ZEROS[..index(to - from)], from)
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
            self.note_data();
            self.cipher.mask_tail((start + body as u64) / BLOCK, out);
        }
    }

    /// Says how many of the `taken` bytes count that the disk took of `part`, which begins a block
    /// at `at`. Half a block counts only if it now ends the file, where it is made the tail.
    fn count_taken(
        &self,
        transfer: &mut Transfer<impl Disk>,
        part: &[u8],
        at: u64,
        taken: usize,
    ) -> Result<usize, Errno> {
        let whole = taken - taken % BLOCK_LEN;
        if taken == whole || transfer.disk.size()? != at + taken as u64 {
            return Ok(whole);
        }
        let tail_at = at + whole as u64;
        let tail = &mut transfer.scratch.run[..taken - whole];
        tail.copy_from_slice(&part[whole..taken]);
        self.note_data();
        self.cipher.mask_tail(tail_at / BLOCK, tail);
        write_full(transfer.disk, tail, tail_at).map_err(|(_, errno)| errno)?;
        Ok(taken)
    }

    /// Writes any range under the keystream. That depends on the position alone, so no block needs
    /// completing.
    fn write_keystream(
        &self,
        transfer: &mut Transfer<impl Disk>,
        data: &[u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        let size = transfer.disk.size()?;
        let mut done = 0;
        let mut write = || {
            self.keystream_zeros(transfer, size, offset)?;
            for part in data.chunks(transfer.scratch.run.len()) {
                let out = &mut transfer.scratch.run[..part.len()];
                out.copy_from_slice(part);
                let at = offset + done as u64;
                self.cipher.keystream(at, out);
                let written = write_full(transfer.disk, out, at);
                done += written.map_or_else(|(taken, _)| taken, |()| part.len());
                written.map_err(|(_, errno)| errno)?;
            }
            Ok(())
        };
        match write() {
            Err(errno) if done == 0 => {
                self.undo_growth(transfer, size)?;
                Err(errno)
            }
            _ => Ok(done),
        }
    }

    /// Fills a gap, if there is one, with zeros in the keystream's form.
    pub(super) fn keystream_zeros(
        &self,
        transfer: &mut Transfer<impl Disk>,
        from: u64,
        to: u64,
    ) -> Result<(), Errno> {
        let mut at = from;
        while at < to {
            let len = index((to - at).min(transfer.scratch.run.len() as u64));
            let out = &mut transfer.scratch.run[..len];
            out.fill(0);
            self.cipher.keystream(at, out);
            write_full(transfer.disk, out, at).map_err(|(_, errno)| errno)?;
            at += len as u64;
        }
        Ok(())
    }
}

/// Undoes a rewrite that failed half-way: restores the bytes that it replaced, and no byte more.
/// They lie on space that the file already has, so that a full disk does not refuse them.
fn put_back<D: Disk>(disk: &D, stored: &[u8], low: u64, old_size: u64) -> Result<(), Errno> {
    write_full(disk, stored, low).map_err(|(_, errno)| errno)?;
    if disk.size()? > old_size {
        disk.set_size(old_size)?;
    }
    Ok(())
}
