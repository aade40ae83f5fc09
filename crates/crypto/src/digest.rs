//! Digests of transcripts and reports, and the keyed function that hashes values.

use aws_lc_rs::digest::{Context, SHA256, SHA512};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

use crate::Secret;

/// SHA-256 of the parts, one after the other.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

/// SHA-512 of the parts, one after the other.
pub fn sha512(parts: &[&[u8]]) -> [u8; 64] {
    let mut context = Context::new(&SHA512);
    parts.iter().for_each(|part| context.update(part));
    let mut digest = [0; 64];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

/// A keyed function of bytes to 64 bits: SipHash-2-4. Who lacks the key learns equality and
/// nothing else.
pub struct Prf(Secret);

impl Prf {
    /// The function of a key, of which the first 16 bytes count.
    pub fn new(key: Secret) -> Self {
        Self(key)
    }

    /// The function of the parts, one after the other.
    #[inline]
    pub fn of(&self, parts: &[&[u8]]) -> u64 {
        let mut key = [0; 16];
        key.copy_from_slice(&self.0.expose()[..16]);
        let mut hasher = SipHasher24::new_with_key(&key);
        parts.iter().for_each(|part| hasher.write(part));
        hasher.finish()
    }
}
