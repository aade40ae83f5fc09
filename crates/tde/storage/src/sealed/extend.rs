//! Truncation and reservation: changes of size that carry no data.

use super::{ceil, end_of, floor, index, SealedFile};
use crate::disk::write_full;
use crate::layout::{Layout, PAGE};
use crate::{Disk, Errno, Lock, Transfer};

impl SealedFile<'_> {
    /// Sets the size as `ftruncate` does: the file then has `new` bytes, and what it gains reads
    /// as zeros.
    pub fn set_size(&self, transfer: &mut Transfer<impl Disk>, new: u64) -> Result<(), Errno> {
        self.locked(transfer, Lock::Exclusive, |transfer| {
            let size = transfer.disk.size()?;
            if new < size {
                return self.shrink(transfer, new);
            }
            self.grow(transfer, size, new, |disk| disk.set_size(new))
        })
    }

    /// Reserves space as `posix_fallocate` does: what the file gains reads as zeros.
    pub fn allocate(
        &self,
        transfer: &mut Transfer<impl Disk>,
        offset: u64,
        len: u64,
    ) -> Result<(), Errno> {
        let end = end_of(offset, len)?;
        self.locked(transfer, Lock::Exclusive, |transfer| {
            let size = transfer.disk.size()?;
            if end <= size {
                return transfer.disk.allocate(offset, len);
            }
            self.grow(transfer, size, end, |disk| disk.allocate(offset, len))
        })
    }

    /// Grows the file from `size` to `new` bytes. If that fails, the file keeps its size.
    fn grow<D: Disk>(
        &self,
        transfer: &mut Transfer<D>,
        size: u64,
        new: u64,
        extend: impl FnOnce(&D) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let result = if self.layout == Layout::Keystream {
            // The size comes first: the disk knows at once whether it has the space.
            extend(transfer.disk).and_then(|()| self.keystream_zeros(transfer, size, new))
        } else {
            self.grow_units(transfer, size, new, extend)
        };
        if result.is_err() {
            self.undo_growth(transfer, size)?;
        }
        result
    }

    /// Completes the old last granule and adds a hole by `extend`. What is left of a new last
    /// granule is then written, because a partial one is never a hole.
    fn grow_units<D: Disk>(
        &self,
        transfer: &mut Transfer<D>,
        size: u64,
        new: u64,
        extend: impl FnOnce(&D) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let granule = self.layout.granule();
        let completed = ceil(size, granule).min(new);
        self.write_zeros(transfer, size, completed)?;
        extend(transfer.disk)?;
        // The disk has the size already: what is written only replaces stored zeros.
        self.write_zeros(transfer, floor(new, granule).max(completed), new)
    }

    /// Takes back, after a failure, what a file of `size` bytes has grown.
    pub(super) fn undo_growth(
        &self,
        transfer: &mut Transfer<impl Disk>,
        size: u64,
    ) -> Result<(), Errno> {
        if transfer.disk.size()? > size {
            self.shrink(transfer, size)?;
        }
        Ok(())
    }

    /// Cuts the file to `new` bytes, fewer than now, and seals what becomes the last, partial
    /// granule again. The new tail can only follow the cut: a crash between them, or a disk that
    /// refuses to rewrite the tail, turns it into noise (docs/format/files.md#failures).
    fn shrink(&self, transfer: &mut Transfer<impl Disk>, new: u64) -> Result<(), Errno> {
        self.forget_size_above(new);
        let granule = self.layout.granule();
        if self.layout == Layout::Keystream || new % granule == 0 {
            return transfer.disk.set_size(new);
        }
        let start = floor(new, PAGE);
        self.read_unit(transfer, start, new)?;
        let (from, to) = (index(floor(new, granule) - start), index(new - start));
        self.seal_cut_unit(transfer.scratch, start, to);
        transfer.scratch.unit.fill(0);
        transfer.disk.set_size(new)?;
        let last = &transfer.scratch.run[from..to];
        write_full(transfer.disk, last, start + from as u64).map_err(|(_, errno)| errno)
    }
}
