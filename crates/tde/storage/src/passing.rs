//! A WAL segment in transit: its clear bytes go in, in order and in pieces of any length, and
//! exactly the bytes that its file would hold come out.
//!
//! It serves where a byte that came out cannot be changed any more, because it is compressed next.
//! So the last block is held back until it is whole; at an early end it is filled up with zeros.

use crate::layout::BLOCK;
use crate::scratch::Scratch;
use crate::{Disk, Errno, Lock, SealedFile, Transfer};
use std::cell::RefCell;

const BLOCK_LEN: usize = pgseal_crypto::BLOCK;

/// A segment in transit.
pub struct Passing<'k> {
    file: SealedFile<'k>,
    /// Bytes that have come out; whole blocks.
    out: u64,
    held: [u8; BLOCK_LEN],
    held_len: usize,
}

impl<'k> Passing<'k> {
    /// Returns a segment of which nothing has come yet.
    #[must_use]
    pub const fn new(file: SealedFile<'k>) -> Self {
        Self {
            file,
            out: 0,
            held: [0; BLOCK_LEN],
            held_len: 0,
        }
    }

    /// Returns how many bytes have gone in.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        self.out + self.held_len as u64
    }

    /// Takes the next bytes and appends to `out` what is whole.
    pub fn push(
        &mut self,
        scratch: &mut Scratch,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        let mut rest = data;
        if self.held_len > 0 {
            let (first, others) = rest.split_at(rest.len().min(BLOCK_LEN - self.held_len));
            self.held[self.held_len..][..first.len()].copy_from_slice(first);
            self.held_len += first.len();
            if self.held_len < BLOCK_LEN {
                return Ok(());
            }
            self.let_out_held(scratch, out)?;
            rest = others;
        }
        let (whole, cut) = rest.split_at(rest.len() - rest.len() % BLOCK_LEN);
        self.let_out(scratch, whole, out)?;
        self.held[..cut.len()].copy_from_slice(cut);
        self.held_len = cut.len();
        Ok(())
    }

    /// Lets what is held back out as a whole block, because nothing follows.
    pub fn finish(&mut self, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<(), Errno> {
        if self.held_len == 0 {
            return Ok(());
        }
        self.held[self.held_len..].fill(0);
        self.let_out_held(scratch, out)
    }

    fn let_out_held(&mut self, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<(), Errno> {
        let block = std::mem::take(&mut self.held);
        self.held_len = 0;
        self.let_out(scratch, &block, out)
    }

    fn let_out(
        &mut self,
        scratch: &mut Scratch,
        blocks: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        let end = End {
            start: self.out,
            written: RefCell::new((0, out)),
        };
        let mut transfer = Transfer::new(&end, scratch);
        self.file.write_at(&mut transfer, blocks, self.out)?;
        self.out += blocks.len() as u64;
        Ok(())
    }
}

/// The end of a file that is not there: whole blocks are appended, nothing is read.
struct End<'v> {
    start: u64,
    /// The number of bytes that came, and where they are.
    written: RefCell<(u64, &'v mut Vec<u8>)>,
}

impl Disk for End<'_> {
    fn read_at(&self, _: &mut [u8], _: u64) -> Result<usize, Errno> {
        Err(Errno::EIO)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Errno> {
        let mut written = self.written.borrow_mut();
        if offset != self.start + written.0 || buf.len() as u64 % BLOCK != 0 {
            return Err(Errno::EIO);
        }
        written.0 += buf.len() as u64;
        written.1.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn size(&self) -> Result<u64, Errno> {
        Ok(self.start + self.written.borrow().0)
    }

    fn set_size(&self, _: u64) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn allocate(&self, _: u64, _: u64) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn lock(&self, _: Lock) -> Result<(), Errno> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that pass cannot be read again, moved or cut, so a layout that wanted it fails.
    #[test]
    fn an_end_takes_whole_blocks_in_order_and_nothing_else() {
        let mut out = Vec::new();
        let end = End {
            start: 32,
            written: RefCell::new((0, &mut out)),
        };
        assert_eq!(end.size(), Ok(32));
        assert_eq!(end.write_at(&[1; 16], 32), Ok(16));
        assert_eq!(end.size(), Ok(48));
        for (bytes, offset) in [(16, 32), (16, 64), (16, 16), (15, 48), (17, 48)] {
            let written = end.write_at(&vec![2; bytes], offset);
            assert_eq!(written, Err(Errno::EIO), "{bytes} at {offset}");
        }
        assert_eq!(end.write_at(&[3; 32], 48), Ok(32));
        assert_eq!(end.read_at(&mut [0; 16], 32), Err(Errno::EIO));
        assert_eq!(end.set_size(32), Err(Errno::EINVAL));
        assert_eq!(end.allocate(80, 16), Err(Errno::EINVAL));
        assert_eq!(end.lock(Lock::Exclusive), Ok(()));
        assert_eq!(out, [&[1; 16][..], &[3; 32]].concat());
    }
}
