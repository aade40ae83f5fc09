//! The keyed function that hashes values. The feature `prf` brings it: nothing at rest needs it.

use siphasher::sip::SipHasher24;
use std::hash::Hasher;

use crate::Secret;

/// A keyed function of bytes to 64 bits: SipHash-2-4. Without the key it shows equality and
/// nothing else.
pub struct Prf(Secret);

impl Prf {
    /// Returns the function of a key, of which the first 16 bytes count.
    pub fn new(key: Secret) -> Self {
        Self(key)
    }

    /// Returns the function of the parts, one after the other.
    #[inline]
    pub fn of(&self, parts: &[&[u8]]) -> u64 {
        let mut key = [0; 16];
        key.copy_from_slice(&self.0.expose()[..16]);
        let mut hasher = SipHasher24::new_with_key(&key);
        parts.iter().for_each(|part| hasher.write(part));
        hasher.finish()
    }
}
