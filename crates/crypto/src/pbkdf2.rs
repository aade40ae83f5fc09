//! Wrapping under a passphrase by functions that FIPS 140-3 approves: PBKDF2-HMAC-SHA512 makes a
//! key-encryption key, AES-256-GCM wraps under it. Every build has it; a FIPS build takes both from
//! its module.
//!
//! PBKDF2 needs no memory, so that one guess costs an attacker with special hardware far less than
//! Argon2id's does. Called by the crate of keys.

use zeroize::Zeroizing;

use crate::awslc;
use crate::passphrase::{WrongKey, SALT};

/// The fewest bytes of a secret: SP 800-131A asks for 112 bits, and a byte of a passphrase counts
/// for at most 8. The FIPS module does not approve fewer.
pub const LEAST_SECRET: usize = 14;

/// The number of iterations, within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pbkdf2Params(u32);

impl Pbkdf2Params {
    /// The least that is written: OWASP's figure for PBKDF2-HMAC-SHA512.
    pub const FLOOR: Self = Self(210_000);

    /// The least that is read: SP 800-132's.
    pub const LEAST: Self = Self(1_000);

    /// The most that is read: a key file must not keep the machine busy for long.
    pub const CEILING: Self = Self(20_000_000);

    /// Returns the cost of a new wrapping: `iterations`, moved between floor and ceiling.
    pub fn for_writing(iterations: u32) -> Self {
        Self(iterations.clamp(Self::FLOOR.0, Self::CEILING.0))
    }

    /// Checks the cost of an existing wrapping.
    pub fn for_reading(iterations: u32) -> Result<Self, IterationsError> {
        match iterations {
            _ if iterations < Self::LEAST.0 => Err(IterationsError::TooFew(iterations)),
            _ if iterations > Self::CEILING.0 => Err(IterationsError::TooMany(iterations)),
            _ => Ok(Self(iterations)),
        }
    }

    /// Returns the number of iterations.
    pub const fn iterations(self) -> u32 {
        self.0
    }
}

/// Iterations outside the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IterationsError {
    /// Too easy to guess at.
    #[error("PBKDF2 with {0} iterations is refused, the least is 1000: restore the key file from a copy")]
    TooFew(u32),
    /// They would keep the machine busy.
    #[error(
        "PBKDF2 with {0} iterations is refused, the most is 20000000: restore the key file from a \
         copy"
    )]
    TooMany(u32),
}

/// The secret has fewer than [`LEAST_SECRET`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PBKDF2 needs a passphrase or key of at least 14 bytes: use a longer one")]
pub struct TooShort;

/// A key-encryption key.
pub struct Kek(Zeroizing<[u8; 32]>);

/// Returns the key that a secret gives.
pub fn derive(secret: &[u8], salt: &[u8; SALT], params: Pbkdf2Params) -> Result<Kek, TooShort> {
    if secret.len() < LEAST_SECRET {
        return Err(TooShort);
    }
    let mut key = Zeroizing::new([0; 32]);
    awslc::pbkdf2(secret, salt, params.0, &mut *key);
    Ok(Kek(key))
}

impl Kek {
    /// Wraps `plain`, bound to `ad`: ciphertext, tag of 16 bytes, random nonce of 12.
    pub fn wrap(&self, plain: &[u8], ad: &[u8]) -> Vec<u8> {
        awslc::gcm_seal(&self.0, ad, plain)
    }

    /// Unwraps. An error means a wrong secret or altered bytes; AES-GCM does not show which.
    pub fn open(&self, wrapped: &[u8], ad: &[u8]) -> Result<Zeroizing<Vec<u8>>, WrongKey> {
        awslc::gcm_open(&self.0, ad, wrapped).ok_or(WrongKey)
    }
}
