//! Authenticated encryption of small and large values: AES-256-GCM-SIV for all that is ours,
//! AES-128-GCM for what others wrote.
//!
//! A key is expanded once; sealing and opening allocate nothing and may run in many threads at
//! once. A nonce that is used twice under one key reveals only whether the two values are equal.

use aws_lc_rs::aead::{
    Aad, Algorithm, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, AES_256_GCM_SIV,
};
use zeroize::Zeroize;

use crate::Secret;

/// Bytes of a nonce.
pub const NONCE: usize = 12;

/// Bytes of a tag.
pub const TAG: usize = 16;

/// The tag does not match: another key, or something was altered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not authentic")]
pub struct NotAuthentic;

/// AES-256-GCM-SIV (RFC 8452) under one key.
pub struct Aead(LessSafeKey);

impl Aead {
    /// Expands a key.
    pub fn new(key: &Secret) -> Self {
        Self(expanded(&AES_256_GCM_SIV, key.expose()))
    }

    /// Encrypts `text` in place and gives its tag.
    #[inline]
    pub fn seal(&self, nonce: &[u8; NONCE], ad: &[u8], text: &mut [u8]) -> [u8; TAG] {
        seal(&self.0, nonce, ad, text)
    }

    /// Decrypts `sealed` into `out`, which has the same length; zeroes `out` if the tag is wrong.
    #[inline]
    pub fn open(
        &self,
        nonce: &[u8; NONCE],
        ad: &[u8],
        sealed: &[u8],
        tag: &[u8; TAG],
        out: &mut [u8],
    ) -> Result<(), NotAuthentic> {
        open(&self.0, nonce, ad, sealed, tag, out)
    }
}

/// AES-128-GCM (NIST SP 800-38D) under one key: reads what others wrote, and writes nothing.
pub struct LegacyAead(LessSafeKey);

impl LegacyAead {
    /// Expands a key.
    pub fn new(key: &[u8; 16]) -> Self {
        Self(expanded(&AES_128_GCM, key))
    }

    /// Decrypts `sealed` into `out`, which has the same length; zeroes `out` if the tag is wrong.
    pub fn open(
        &self,
        nonce: &[u8; NONCE],
        ad: &[u8],
        sealed: &[u8],
        tag: &[u8; TAG],
        out: &mut [u8],
    ) -> Result<(), NotAuthentic> {
        open(&self.0, nonce, ad, sealed, tag, out)
    }
}

fn expanded(algorithm: &'static Algorithm, key: &[u8]) -> LessSafeKey {
    let key = UnboundKey::new(algorithm, key).expect("the key has the algorithm's length");
    LessSafeKey::new(key)
}

fn seal(key: &LessSafeKey, nonce: &[u8; NONCE], ad: &[u8], text: &mut [u8]) -> [u8; TAG] {
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let sealed = key
        .seal_in_place_separate_tag(nonce, Aad::from(ad), text)
        .expect("a text of less than 64 GB");
    let mut tag = [0; TAG];
    tag.copy_from_slice(sealed.as_ref());
    tag
}

fn open(
    key: &LessSafeKey,
    nonce: &[u8; NONCE],
    ad: &[u8],
    sealed: &[u8],
    tag: &[u8; TAG],
    out: &mut [u8],
) -> Result<(), NotAuthentic> {
    assert_eq!(sealed.len(), out.len(), "opening keeps lengths");
    let nonce = Nonce::assume_unique_for_key(*nonce);
    key.open_separate_gather(nonce, Aad::from(ad), sealed, tag, out)
        .map_err(|_| {
            out.zeroize();
            NotAuthentic
        })
}
