//! AES-256-GCM-SIV (RFC 8452): opens four messages at once, by the processor's own AES and
//! carry-less multiplication.
//!
//! Each message has keys of its own: they are derived from the key and the nonce, expanded, used
//! for a few blocks, and forgotten. For a short message this takes nearly all of the time, and each
//! step waits for the result of the one before. Steps of four messages do not wait for each other.
//!
//! No branch and no address depends on a key or on a text, only on lengths. [`Key::new`] returns
//! none on a processor that lacks the instructions; AWS-LC opens the messages there.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use zeroize::Zeroize;

use super::{Sealed, LANES};

type Block = __m128i;
/// One block of each message.
type Blocks = [Block; LANES];
/// The round keys of AES-256.
type Rounds = [Block; 15];

/// Bytes of a block.
const BLOCK: usize = 16;

/// An expanded key. It exists only on a processor that has the instructions.
pub struct Key(Rounds);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Key {
    /// Expands a key; none if the processor lacks the instructions.
    pub fn new(key: &[u8; 32]) -> Option<Self> {
        let is_able = is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("avx");
        // SAFETY: the processor has the instructions.
        is_able.then(|| unsafe { expanded(key) })
    }
}

/// Opens each message under its key. Returns whether it is authentic; its `out` is all zeros if it
/// is not.
pub fn open(keys: [&Key; LANES], messages: &mut [Sealed<'_>; LANES]) -> [bool; LANES] {
    // SAFETY: a `Key` exists only where the processor has the instructions.
    unsafe { opened(keys, messages) }
}

#[target_feature(enable = "aes,avx,pclmulqdq")]
fn expanded(key: &[u8; 32]) -> Key {
    let zero = _mm_setzero_si128();
    let halves = [block(first(&key[..BLOCK])), block(first(&key[BLOCK..]))];
    let mut rounds = [[zero; 15]; LANES];
    expand(&[halves, [zero; 2], [zero; 2], [zero; 2]], &mut rounds);
    let key = Key(rounds[0]);
    rounds.zeroize();
    key
}

#[target_feature(enable = "aes,avx,pclmulqdq")]
fn opened(keys: [&Key; LANES], messages: &mut [Sealed<'_>; LANES]) -> [bool; LANES] {
    let zero = _mm_setzero_si128();
    let (mut hashing, mut encrypting) = ([zero; LANES], [[zero; 2]; LANES]);
    derive(keys, messages, &mut hashing, &mut encrypting);
    let mut rounds = [[zero; 15]; LANES];
    expand(&encrypting, &mut rounds);
    decrypt(&rounds, messages);
    let mut tags = hash(&hashing, messages);
    encrypt_each(&rounds, &mut tags);
    let mut authentic = [false; LANES];
    for lane in 0..LANES {
        let differs = _mm_xor_si128(tags[lane], block(u128::from_le_bytes(*messages[lane].tag)));
        authentic[lane] = _mm_testz_si128(differs, differs) == 1;
        if !authentic[lane] {
            messages[lane].out.zeroize();
        }
    }
    hashing.zeroize();
    encrypting.zeroize();
    rounds.zeroize();
    authentic
}

#[target_feature(enable = "aes,avx,pclmulqdq")]
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "each half of the number")]
fn block(value: u128) -> Block {
    _mm_set_epi64x((value >> 64) as i64, value as i64)
}

#[target_feature(enable = "aes,avx,pclmulqdq")]
#[inline]
fn number(block: Block) -> u128 {
    let [low, high] = [_mm_cvtsi128_si64(block), _mm_extract_epi64::<1>(block)];
    u128::from(high.cast_unsigned()) << 64 | u128::from(low.cast_unsigned())
}

/// Derives the keys of each message, for hashing and for encryption (RFC 8452, section 4): the
/// first halves of the encryptions of a counter and the nonce.
#[target_feature(enable = "aes,avx,pclmulqdq")]
#[inline]
fn derive(
    keys: [&Key; LANES],
    messages: &[Sealed<'_>; LANES],
    hashing: &mut Blocks,
    encrypting: &mut [[Block; 2]; LANES],
) {
    for lane in 0..LANES {
        let nonce = block(u128_of(messages[lane].nonce) << 32);
        let mut made = [nonce; 6];
        for (count, block) in (0..).zip(&mut made) {
            *block = _mm_xor_si128(*block, _mm_set_epi32(0, 0, 0, count));
        }
        encrypt(&keys[lane].0, &mut made);
        hashing[lane] = _mm_unpacklo_epi64(made[0], made[1]);
        encrypting[lane] = [
            _mm_unpacklo_epi64(made[2], made[3]),
            _mm_unpacklo_epi64(made[4], made[5]),
        ];
        made.zeroize();
    }
}

/// Expands a key of AES-256 for each message (FIPS 197, section 5.2). `aesenclast` on four equal
/// columns leaves rows where they are, so it is SubWord and the addition of a round constant.
#[target_feature(enable = "aes,avx,pclmulqdq")]
#[inline]
fn expand(keys: &[[Block; 2]; LANES], rounds: &mut [Rounds; LANES]) {
    let zero = _mm_setzero_si128();
    // The last column, rotated, in each column.
    let rotated = _mm_set1_epi32(0x0c0f_0e0d);
    let mut constant = _mm_set1_epi32(1);
    for lane in 0..LANES {
        rounds[lane][..2].copy_from_slice(&keys[lane]);
    }
    for round in 2..15 {
        for key in &mut *rounds {
            let last = key[round - 1];
            let word = match round % 2 {
                0 => _mm_aesenclast_si128(_mm_shuffle_epi8(last, rotated), constant),
                _ => _mm_aesenclast_si128(_mm_shuffle_epi32::<0xff>(last), zero),
            };
            key[round] = _mm_xor_si128(spread(key[round - 2]), word);
        }
        if round % 2 == 0 {
            constant = _mm_slli_epi32::<1>(constant);
        }
    }
}

/// Adds to each column those before it.
#[target_feature(enable = "aes,avx,pclmulqdq")]
#[inline]
fn spread(key: Block) -> Block {
    let key = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
    _mm_xor_si128(key, _mm_slli_si128::<8>(key))
}

/// Encrypts six blocks under one key.
#[target_feature(enable = "aes,avx,pclmulqdq")]
#[inline]
fn encrypt(key: &Rounds, blocks: &mut [Block; 6]) {
    for block in &mut *blocks {
        *block = _mm_xor_si128(*block, key[0]);
    }
    for round in &key[1..14] {
        for block in &mut *blocks {
            *block = _mm_aesenc_si128(*block, *round);
        }
    }
    for block in blocks {
        *block = _mm_aesenclast_si128(*block, key[14]);
    }
}

/// Encrypts the block of each message under the message's own key.
#[target_feature(enable = "aes,avx,pclmulqdq")]
#[inline]
fn encrypt_each(keys: &[Rounds; LANES], blocks: &mut Blocks) {
    for (block, key) in blocks.iter_mut().zip(keys) {
        *block = _mm_xor_si128(*block, key[0]);
    }
    for round in 1..14 {
        for (block, key) in blocks.iter_mut().zip(keys) {
            *block = _mm_aesenc_si128(*block, key[round]);
        }
    }
    for (block, key) in blocks.iter_mut().zip(keys) {
        *block = _mm_aesenclast_si128(*block, key[14]);
    }
}

/// Decrypts each text in counter mode, from its tag on (RFC 8452, section 5).
#[target_feature(enable = "aes,avx,pclmulqdq")]
#[inline]
fn decrypt(keys: &[Rounds; LANES], messages: &mut [Sealed<'_>; LANES]) {
    let top = _mm_set_epi32(i32::MIN, 0, 0, 0);
    let longest = messages.iter().map(|message| message.text.len()).max();
    for (at, count) in (0..longest.unwrap_or(0)).step_by(BLOCK).zip(0..) {
        let count = _mm_set_epi32(0, 0, 0, count);
        let mut blocks = [count; LANES];
        for lane in 0..LANES {
            let first = _mm_or_si128(block(u128::from_le_bytes(*messages[lane].tag)), top);
            blocks[lane] = _mm_add_epi32(first, count);
        }
        encrypt_each(keys, &mut blocks);
        for lane in 0..LANES {
            let Sealed { text, out, .. } = &mut messages[lane];
            if let (Some(text), Some(out)) = (text.get(at..), out.get_mut(at..)) {
                put(number(blocks[lane]) ^ first(text), out);
            }
        }
    }
}

/// Computes POLYVAL of associated data, text and lengths, which is the tag before its encryption.
#[target_feature(enable = "aes,avx,pclmulqdq")]
#[inline]
fn hash(keys: &Blocks, messages: &[Sealed<'_>; LANES]) -> Blocks {
    let mut sums = [_mm_setzero_si128(); LANES];
    absorb(
        &mut sums,
        keys,
        messages.each_ref().map(|message| message.ad),
    );
    absorb(
        &mut sums,
        keys,
        messages.each_ref().map(|message| &*message.out),
    );
    let nothing = _mm_set_epi32(i32::MIN, 0, 0, 0);
    for lane in 0..LANES {
        let message = &messages[lane];
        let bits = |bytes: &[u8]| 8 * bytes.len() as i64;
        let lengths = _mm_set_epi64x(bits(message.out), bits(message.ad));
        let sum = multiply(_mm_xor_si128(sums[lane], lengths), keys[lane]);
        let sum = _mm_xor_si128(sum, block(u128_of(message.nonce)));
        sums[lane] = _mm_andnot_si128(nothing, sum);
    }
    sums
}

/// Takes bytes of each message into its sum, filled with zeros to whole blocks.
#[target_feature(enable = "aes,avx,pclmulqdq")]
#[inline]
fn absorb(sums: &mut Blocks, keys: &Blocks, bytes: [&[u8]; LANES]) {
    let longest = bytes.iter().map(|bytes| bytes.len()).max();
    for at in (0..longest.unwrap_or(0)).step_by(BLOCK) {
        for lane in 0..LANES {
            if let Some(rest @ [_, ..]) = bytes[lane].get(at..) {
                let sum = _mm_xor_si128(sums[lane], block(first(rest)));
                sums[lane] = multiply(sum, keys[lane]);
            }
        }
    }
}

/// Multiplies two numbers and the inverse of x^128 in POLYVAL's field (RFC 8452, section 3). The
/// product of 256 bits is reduced from its low end, 64 bits at a time.
#[target_feature(enable = "aes,avx,pclmulqdq")]
#[inline]
fn multiply(a: Block, b: Block) -> Block {
    let low = _mm_clmulepi64_si128::<0x00>(a, b);
    let high = _mm_clmulepi64_si128::<0x11>(a, b);
    let middle = _mm_xor_si128(
        _mm_clmulepi64_si128::<0x10>(a, b),
        _mm_clmulepi64_si128::<0x01>(a, b),
    );
    let low = _mm_xor_si128(low, _mm_slli_si128::<8>(middle));
    let high = _mm_xor_si128(high, _mm_srli_si128::<8>(middle));
    _mm_xor_si128(high, reduce(reduce(low)))
}

/// Takes 64 bits of a product away: x^127 + x^126 + x^121 + 1 is the field's polynomial without
/// x^128.
#[target_feature(enable = "aes,avx,pclmulqdq")]
#[inline]
fn reduce(product: Block) -> Block {
    let polynomial = _mm_set_epi64x(0xc2_u64.rotate_right(8).cast_signed(), 1);
    let folded = _mm_clmulepi64_si128::<0x10>(product, polynomial);
    _mm_xor_si128(_mm_shuffle_epi32::<0x4e>(product), folded)
}

/// Returns the number that a nonce is, in little-endian order.
#[inline]
fn u128_of(nonce: &[u8; 12]) -> u128 {
    first(nonce)
}

/// Returns the number that the first block is, in little-endian order: fewer bytes are as if zeros
/// followed. It reads words, because bytes that are put together in memory are slow to load as one.
#[inline]
fn first(bytes: &[u8]) -> u128 {
    if let Some(whole) = bytes.first_chunk() {
        return u128::from_le_bytes(*whole);
    }
    let shift = |word: usize| 8 * (bytes.len() - word);
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let [low, high] = [low, high].map(|word| u128::from(u64::from_le_bytes(*word)));
        return low | high << shift(8);
    }
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let [low, high] = [low, high].map(|word| u128::from(u32::from_le_bytes(*word)));
        return low | high << shift(4);
    }
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// Writes a number's first bytes, in little-endian order, as far as there is room in a block. It
/// writes words, as [`first`] reads them.
#[inline]
fn put(number: u128, out: &mut [u8]) {
    let length = out.len();
    let shifted = |word: usize| (number >> (8 * (length - word))).to_le_bytes();
    let bytes = number.to_le_bytes();
    match length {
        0..4 => out.copy_from_slice(&bytes[..length]),
        4..8 => {
            out[..4].copy_from_slice(&bytes[..4]);
            out[length - 4..].copy_from_slice(&shifted(4)[..4]);
        }
        8..BLOCK => {
            out[..8].copy_from_slice(&bytes[..8]);
            out[length - 8..].copy_from_slice(&shifted(8)[..8]);
        }
        _ => out[..BLOCK].copy_from_slice(&bytes),
    }
}
