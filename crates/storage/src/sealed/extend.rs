//! Truncation and reservation: changes of size that carry no data.

use super::{ceil, floor, index, SealedFile};
use crate::disk::write_full;
use crate::layout::{Layout, PAGE};
use crate::scratch::Scratch;
use crate::{Disk, Errno, Lock};
use pgseal_crypto::UNIT;

impl SealedFile<'_> {
    /// `ftruncate`: the file has `new` bytes afterwards; what it gains reads as zeros.
    pub fn set_size<D: Disk>(
        &self,
        disk: &D,
        scratch: &mut Scratch,
        new: u64,
    ) -> Result<(), Errno> {
        self.locked(disk, Lock::Exclusive, || {
            let size = disk.size()?;
            if new < size {
                return self.shrink(disk, scratch, new);
            }
            self.grow(disk, scratch, size, new, || disk.set_size(new))
        })
    }

    /// `posix_fallocate`: the range has space; what the file gains reads as zeros.
    pub fn allocate<D: Disk>(
        &self,
        disk: &D,
        scratch: &mut Scratch,
        offset: u64,
        len: u64,
    ) -> Result<(), Errno> {
        let end = offset.checked_add(len).ok_or(Errno::EFBIG)?;
        self.locked(disk, Lock::Exclusive, || {
            let size = disk.size()?;
            if end <= size {
                return disk.allocate(offset, len);
            }
            self.grow(disk, scratch, size, end, || disk.allocate(offset, len))
        })
    }

    /// From `size` to `new` bytes: the old last granule is completed, `extend` adds a hole, and the
    /// new last granule is written if it is partial, because a partial one is never a hole.
    fn grow<D: Disk>(
        &self,
        disk: &D,
        scratch: &mut Scratch,
        size: u64,
        new: u64,
        extend: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        const ZEROS: [u8; UNIT] = [0; UNIT];
        if self.layout == Layout::Keystream {
            self.keystream_zeros(disk, scratch, size, new)?;
            return extend();
        }
        let granule = self.layout.granule();
        if new <= ceil(size, granule) {
            let zeros = &ZEROS[..index(new - size)];
            if !zeros.is_empty() {
                self.patch(disk, scratch, zeros, size, new)
                    .map_err(|(_, errno)| errno)?;
            }
            return extend();
        }
        self.complete_granule(disk, scratch, size)?;
        extend()?;
        let zeros = &ZEROS[..index(new % granule)];
        if !zeros.is_empty() {
            let last = floor(new, granule);
            self.patch(disk, scratch, zeros, last, new)
                .map_err(|(_, errno)| errno)?;
        }
        Ok(())
    }

    /// To `new` bytes, fewer than now: what becomes the last, partial granule is sealed again.
    fn shrink<D: Disk>(&self, disk: &D, scratch: &mut Scratch, new: u64) -> Result<(), Errno> {
        self.forget_size_above(new);
        let granule = self.layout.granule();
        if self.layout == Layout::Keystream || new % granule == 0 {
            return disk.set_size(new);
        }
        let start = floor(new, PAGE);
        self.read_unit(disk, scratch, start, new)?;
        disk.set_size(new)?;
        let (from, to) = (index(floor(new, granule) - start), index(new - start));
        self.seal_cut_unit(scratch, start, to);
        scratch.unit.fill(0);
        write_full(disk, &scratch.run[from..to], start + from as u64).map_err(|(_, errno)| errno)
    }
}
