//! The suite seam: how the bytes of one file become what is stored. Nothing above knows the mode.
//!
//! Three ways, by the class of the file and the place in it:
//! - whole blocks, page by page: AES-XTS, unit = the page's number ([`FileCipher::seal`], `open`);
//! - the 1 to 15 bytes after the last whole block: a mask, see [`FileCipher::mask_tail`];
//! - files whose every prefix must stay readable: a stream, see [`FileCipher::keystream`].
//!
//! Each has its own key, which is derived when it is expanded and kept in no other form. Made once
//! per open file by the storage crate; any thread may use it.

use crate::awslc::{Context, Direction, Mode};
use crate::cached::Cached;
use crate::wipe::without_trace;
use crate::xts::{position, Schedule};
use crate::{derive, FileId, KeyLength, MasterKey, BLOCK, UNIT};

/// The keys of one file.
pub struct FileCipher<'k> {
    master: &'k MasterKey,
    length: KeyLength,
    id: FileId,
    sealing: Cached<Schedule>,
    opening: Cached<Schedule>,
    tail: Cached<Context>,
    stream: Cached<Context>,
}

impl<'k> FileCipher<'k> {
    /// Derives nothing yet: every key is derived at its first use.
    pub fn new(master: &'k MasterKey, length: KeyLength, id: &FileId) -> Self {
        Self {
            master,
            length,
            id: id.clone(),
            sealing: Cached::empty(),
            opening: Cached::empty(),
            tail: Cached::empty(),
            stream: Cached::empty(),
        }
    }

    /// Returns the identity that the keys are derived from.
    pub fn id(&self) -> &FileId {
        &self.id
    }

    /// Encrypts `plain` into `out`: whole blocks from the start of data unit `unit`, at most one
    /// unit, both of the same length.
    pub fn seal(&self, unit: u64, plain: &[u8], out: &mut [u8]) {
        assert_eq!(plain.len(), out.len(), "sealing keeps lengths");
        check_run(plain.len());
        let make = || self.schedule(Direction::Seal);
        self.sealing
            .with(make, |keys| keys.run(position(unit), plain, out));
    }

    /// Decrypts `buf` in place: whole blocks from the start of data unit `unit`, at most one unit.
    pub fn open(&self, unit: u64, buf: &mut [u8]) {
        check_run(buf.len());
        let make = || self.schedule(Direction::Open);
        self.opening
            .with(make, |keys| keys.run_in_place(position(unit), buf));
    }

    /// Masks or unmasks the last 1 to 15 bytes of a file, which begin at 16-byte block `block`:
    /// XOR with the first r bytes of `AES-256(Kt, le64(block) || le32(r) || 0^4)`, where r is their
    /// number. With r inside, a tail that grows meets a fresh mask.
    pub fn mask_tail(&self, block: u64, tail: &mut [u8]) {
        assert!((1..BLOCK).contains(&tail.len()), "a tail has 1 to 15 bytes");
        let mut mask = [0; BLOCK];
        mask[..8].copy_from_slice(&block.to_le_bytes());
        mask[8] = u8::try_from(tail.len()).expect("a tail has 1 to 15 bytes");
        self.tail
            .with(|| self.tail_context(), |aes| aes.run_in_place(&mut mask));
        for (byte, mask) in tail.iter_mut().zip(mask) {
            *byte ^= mask;
        }
    }

    /// XORs `buf`, which is at byte `offset` of the file, with a stream that depends on the
    /// position alone: AES-CTR under its own key of the cluster's key length. The counter block of
    /// the bytes from 16 i on is i as a 128-bit big-endian integer.
    ///
    /// Only for files whose bytes never change once written: two versions of a byte at one place
    /// give away their XOR.
    pub fn keystream(&self, offset: u64, buf: &mut [u8]) {
        let counter = u128::from(offset) / BLOCK as u128;
        let mut skipped = [0; BLOCK];
        let skip = usize::try_from(offset % BLOCK as u64).expect("less than a block");
        self.stream.with(
            || self.stream_context(),
            |ctr| {
                ctr.start(&counter.to_be_bytes());
                ctr.run_in_place(&mut skipped[..skip]);
                ctr.run_in_place(buf);
            },
        );
    }

    fn schedule(&self, direction: Direction) -> Schedule {
        without_trace(|| derive::schedule(self.master, self.length, &self.id, direction))
    }

    fn tail_context(&self) -> Context {
        without_trace(|| {
            let key = derive::tail_key(self.master, self.length, &self.id);
            Context::new(Mode::Ecb(KeyLength::Bits256), Direction::Seal, &*key)
        })
    }

    fn stream_context(&self) -> Context {
        without_trace(|| {
            let key = derive::keystream_key(self.master, self.length, &self.id);
            let key = &key[..self.length.bytes()];
            Context::new(Mode::Ctr(self.length), Direction::Seal, key)
        })
    }
}

fn check_run(len: usize) {
    assert!(
        (BLOCK..=UNIT).contains(&len) && len % BLOCK == 0,
        "a run is whole blocks, at most a page"
    );
}
