//! Reading pages beside the process that writes them: base backups, and programs that copy files.
//!
//! The kernel does not copy a page at once, so a read that meets a write may have a part of each. A
//! block of which a half is old and a half is new decrypts to noise. Recovery replaces such a page
//! of a relation by the image that WAL holds of it; of SLRUs and maps WAL holds none
//! ([`Layout::lacks_images`](crate::layout::Layout::lacks_images)). So each block of these is read
//! until two reads agree, into memory that is aligned for copies of whole blocks. Two reads agree
//! on a torn block only if its writer was interrupted inside it, on a processor that copies less
//! than a block at a time, and has not gone on before the second.

use super::SealedFile;
use crate::disk::read_full;
use crate::scratch::Scratch;
use crate::{Disk, Errno, Transfer};
use pgseal_crypto::{BLOCK as BLOCK_LEN, UNIT};

/// The most reads of one block. A server does not write such a page at every read, but only at a
/// checkpoint, or when it needs the page's buffer for another.
const TRIES: usize = 100;

impl SealedFile<'_> {
    /// Must blocks of this file be read until two reads agree?
    #[must_use]
    pub fn lacks_images(&self) -> bool {
        self.layout.lacks_images()
    }

    /// Reads as [`SealedFile::read_at`] does, beside a process that writes the file. The caller
    /// must have touched the memory of the scratch before.
    pub fn read_beside(
        &self,
        transfer: &mut Transfer<impl Disk>,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        if !self.lacks_images() {
            return self.read_at(transfer, buf, offset);
        }
        transfer.by_units(buf, offset, |transfer, start, _| {
            let have = transfer.read_agreed(start)?;
            self.open_cut_unit(&mut transfer.scratch.unit, have, start);
            Ok(have)
        })
    }
}

impl<D: Disk> Transfer<'_, D> {
    /// Reads stored bytes beside a process that writes the file: each block until two reads agree.
    pub fn read_stored(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.by_units(buf, offset, |this, start, _| this.read_agreed(start))
    }

    /// Puts what is stored at `start` into `scratch.unit`, each block as two reads in a row found
    /// it; says how many bytes the file has there.
    fn read_agreed(&mut self, start: u64) -> Result<usize, Errno> {
        let Scratch { run, unit } = self.scratch;
        let seen = &mut run[..UNIT];
        read_full(self.disk, unit, start)?;
        let have = read_full(self.disk, seen, start)?;
        let blocks = unit[..have].chunks_mut(BLOCK_LEN);
        let blocks = blocks.zip(seen[..have].chunks_mut(BLOCK_LEN));
        for (at, (last, now)) in (start..).step_by(BLOCK_LEN).zip(blocks) {
            agree(self.disk, last, now, at)?;
        }
        Ok(have)
    }
}

/// Reads one block until it is found `now` as it was the `last` time. One block is read faster
/// than a page is written, so a writer that never rests does not keep step.
fn agree(disk: &impl Disk, last: &mut [u8], now: &mut [u8], at: u64) -> Result<(), Errno> {
    for _ in 0..TRIES {
        if last == now {
            return Ok(());
        }
        last.copy_from_slice(now);
        read_full(disk, now, at)?;
    }
    Err(Errno::EIO)
}
