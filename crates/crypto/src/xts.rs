//! AES-XTS over one data unit, for keys of 128, 192 and 256 bits.
//!
//! 256: AWS-LC's own. It has no other length, so 128 and 192 are composed from its AES-ECB:
//! `C = E_K1(P ^ T) ^ T`, `T_0 = E_K2(le128(unit))`, `T_(i+1) = T_i * alpha` in GF(2^128) modulo
//! x^128 + x^7 + x^2 + x + 1, little-endian. The composed code runs 256 too, so that the tests can
//! compare it with AWS-LC's.
//!
//! Invariants:
//! 1. K1 != K2 ([`Schedule::new`] refuses).
//! 2. Whole blocks only, no ciphertext stealing: what is left is for `FileCipher::mask_tail`.
//! 3. Keys are kept as AWS-LC expands them, in its own memory; running them allocates nothing.

use crate::awslc::{Context, Direction, Mode};
use crate::{equal, KeyLength, BLOCK};

/// Room for the longest pair of keys.
pub const MAX_KEY_BYTES: usize = 64;

/// Bytes that are whitened and passed to AES-ECB at once: enough to keep AES busy, small enough to
/// stay in the first-level cache beside its tweaks.
const CHUNK: usize = 2048;

/// Which code runs XTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// AWS-LC's XTS; AES-256 only.
    Native,
    /// XTS over AWS-LC's ECB.
    Composed,
}

/// The expanded keys of one direction.
pub struct Schedule(Keys);

enum Keys {
    Native(Context),
    Composed { data: Context, tweak: Context },
}

impl Schedule {
    /// Expands K1 || K2 of `2 * length` bytes; `None` if the two are equal.
    pub fn new(direction: Direction, length: KeyLength, pair: &[u8]) -> Option<Self> {
        let engine = match length {
            KeyLength::Bits256 => Engine::Native,
            KeyLength::Bits128 | KeyLength::Bits192 => Engine::Composed,
        };
        Self::on(engine, direction, length, pair)
    }

    /// Expands the keys as `new` does, for a chosen engine.
    pub fn on(
        engine: Engine,
        direction: Direction,
        length: KeyLength,
        pair: &[u8],
    ) -> Option<Self> {
        assert_eq!(
            pair.len(),
            2 * length.bytes(),
            "two keys of the given length"
        );
        let (k1, k2) = pair.split_at(length.bytes());
        if equal(k1, k2) {
            return None;
        }
        let mode = Mode::Ecb(length);
        Some(Self(match engine {
            Engine::Native => Keys::Native(Context::new(Mode::Xts256, direction, pair)),
            Engine::Composed => Keys::Composed {
                data: Context::new(mode, direction, k1),
                tweak: Context::new(mode, Direction::Seal, k2),
            },
        }))
    }

    /// Runs whole blocks of the unit at `position` from `input` to `out`, of the same length.
    #[inline]
    pub fn run(&mut self, position: [u8; BLOCK], input: &[u8], out: &mut [u8]) {
        match &mut self.0 {
            Keys::Native(xts) => {
                xts.start(&position);
                xts.run(input, out);
            }
            Keys::Composed { data, tweak } => {
                let mut next = first_tweak(tweak, position);
                let mut tweaks = Tweaks::new();
                for (input, out) in input.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
                    tweaks.fill(&mut next, out.len());
                    tweaks.whiten(input, out);
                    data.run_in_place(out);
                    tweaks.whiten_in_place(out);
                }
            }
        }
    }

    /// Runs whole blocks of the unit at `position` in place.
    #[inline]
    pub fn run_in_place(&mut self, position: [u8; BLOCK], buf: &mut [u8]) {
        match &mut self.0 {
            Keys::Native(xts) => {
                xts.start(&position);
                xts.run_in_place(buf);
            }
            Keys::Composed { data, tweak } => {
                let mut next = first_tweak(tweak, position);
                let mut tweaks = Tweaks::new();
                for buf in buf.chunks_mut(CHUNK) {
                    tweaks.fill(&mut next, buf.len());
                    tweaks.whiten_in_place(buf);
                    data.run_in_place(buf);
                    tweaks.whiten_in_place(buf);
                }
            }
        }
    }
}

/// A unit's number as XTS wants it: 16 bytes, little-endian.
pub fn position(unit: u64) -> [u8; BLOCK] {
    u128::from(unit).to_le_bytes()
}

fn first_tweak(k2: &mut Context, mut position: [u8; BLOCK]) -> u128 {
    k2.run_in_place(&mut position);
    u128::from_le_bytes(position)
}

/// The tweaks of one chunk.
struct Tweaks([u128; CHUNK / BLOCK]);

impl Tweaks {
    fn new() -> Self {
        Self([0; CHUNK / BLOCK])
    }

    /// The tweaks of `len` bytes from `next` on, which moves past them.
    fn fill(&mut self, next: &mut u128, len: usize) {
        for tweak in &mut self.0[..len / BLOCK] {
            *tweak = *next;
            *next = times_alpha(*next);
        }
    }

    fn whiten(&self, input: &[u8], out: &mut [u8]) {
        let blocks = input.chunks_exact(BLOCK).zip(out.chunks_exact_mut(BLOCK));
        for ((input, out), tweak) in blocks.zip(&self.0) {
            out.copy_from_slice(&(block(input) ^ tweak).to_le_bytes());
        }
    }

    fn whiten_in_place(&self, buf: &mut [u8]) {
        for (bytes, tweak) in buf.chunks_exact_mut(BLOCK).zip(&self.0) {
            bytes.copy_from_slice(&(block(bytes) ^ tweak).to_le_bytes());
        }
    }
}

/// The bit that falls out comes back as 0x87. No branch and no table: tweaks are secret.
#[inline]
fn times_alpha(tweak: u128) -> u128 {
    let fallen_out = tweak >> 127;
    (tweak << 1) ^ (fallen_out.wrapping_neg() & 0x87)
}

#[inline]
fn block(bytes: &[u8]) -> u128 {
    u128::from_le_bytes(bytes.try_into().expect("a whole block"))
}
