//! Authenticated encryption of small and large values: AES-256-GCM-SIV for all that is ours,
//! AES-128-GCM for what others wrote.
//!
//! A key is expanded once; sealing and opening allocate nothing and may run in many threads at
//! once. A nonce that is used twice under one key reveals only whether the two values are equal.

use aws_lc_rs::aead::{
    Aad, Algorithm, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, AES_256_GCM_SIV,
};
use zeroize::Zeroize;

use crate::wipe::without_trace;
use crate::Secret;

#[cfg(target_arch = "x86_64")]
mod four;
/// Where no messages are opened side by side, no key is expanded for it.
#[cfg(not(target_arch = "x86_64"))]
mod four {
    use super::{Sealed, LANES};

    pub enum Key {}

    impl Key {
        pub fn new(_: &[u8; 32]) -> Option<Self> {
            None
        }
    }

    pub fn open(keys: [&Key; LANES], _: &mut [Sealed<'_>; LANES]) -> [bool; LANES] {
        match *keys[0] {}
    }
}

/// Bytes of a nonce.
pub const NONCE: usize = 12;

/// Bytes of a tag.
pub const TAG: usize = 16;

/// Messages that [`open_four`] opens side by side.
pub const LANES: usize = 4;

/// The tag does not match: another key, or something was altered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not authentic")]
pub struct NotAuthentic;

/// AES-256-GCM-SIV (RFC 8452) under one key.
pub struct Aead {
    one: LessSafeKey,
    /// For messages that are opened side by side, where the processor can
    four: Option<Box<four::Key>>,
}

/// A message to be opened, and the room for its text.
pub struct Sealed<'m> {
    /// The nonce that it was sealed with
    pub nonce: &'m [u8; NONCE],
    /// The associated data that it was sealed with
    pub ad: &'m [u8],
    /// The encrypted text
    pub text: &'m [u8],
    /// Its tag
    pub tag: &'m [u8; TAG],
    /// The text goes here; it has the length of `text`
    pub out: &'m mut [u8],
}

/// Opens four messages, each under its own key, as [`Aead::open`] opens one. Where the processor
/// has AES instructions, short messages take less than half the time so. The shorter ones take as
/// long as the longest.
pub fn open_four(
    keys: [&Aead; LANES],
    messages: &mut [Sealed<'_>; LANES],
) -> [Result<(), NotAuthentic>; LANES] {
    for message in &*messages {
        assert_eq!(
            message.text.len(),
            message.out.len(),
            "opening keeps lengths"
        );
    }
    if let [Some(a), Some(b), Some(c), Some(d)] = keys.map(|key| key.four.as_deref()) {
        let opened = four::open([a, b, c, d], messages);
        return opened.map(|is_authentic| is_authentic.then_some(()).ok_or(NotAuthentic));
    }
    let mut keys = keys.into_iter();
    messages.each_mut().map(|message| {
        let key = keys.next().expect("a key for each message");
        key.open(
            message.nonce,
            message.ad,
            message.text,
            message.tag,
            message.out,
        )
    })
}

impl Aead {
    /// Expands a key.
    pub fn new(key: &Secret) -> Self {
        without_trace(|| Self {
            one: expanded(&AES_256_GCM_SIV, key.expose()),
            four: four::Key::new(key.expose()).map(Box::new),
        })
    }

    /// Encrypts `text` in place and gives its tag.
    #[inline]
    pub fn seal(&self, nonce: &[u8; NONCE], ad: &[u8], text: &mut [u8]) -> [u8; TAG] {
        seal(&self.one, nonce, ad, text)
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
        open(&self.one, nonce, ad, sealed, tag, out)
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
