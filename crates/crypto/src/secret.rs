//! 32 secret bytes, what is derived from them, and a supply of random nonces.
//!
//! Called by `pgseal-cell`, which gives every key its own type and every derivation its own input:
//! no two uses of a [`Secret`] may share an `info`.

use zeroize::{Zeroize, Zeroizing};

use crate::{awslc, random_bytes, RandomError};

/// 32 uniform bytes that nobody else knows. Wiped when dropped.
#[repr(transparent)]
pub struct Secret([u8; 32]);

impl Secret {
    /// A new one from the kernel.
    pub fn generate() -> Result<Self, RandomError> {
        random_bytes().map(Self)
    }

    /// Moves a secret in: the source is wiped.
    pub fn from_bytes(bytes: &mut [u8; 32]) -> Self {
        let secret = Self(*bytes);
        bytes.zeroize();
        secret
    }

    /// The bytes, for wrapping and for locked memory.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// HKDF-Expand (RFC 5869) with SHA-256: the secret of this use.
    pub fn derive(&self, info: &[u8]) -> Self {
        let mut derived = Self([0; 32]);
        awslc::hkdf_expand(&self.0, info, &mut derived.0);
        derived
    }

    /// HKDF-Expand to something that may be shown, such as a key's name.
    pub fn derive_public<const N: usize>(&self, info: &[u8]) -> [u8; N] {
        let mut derived = [0; N];
        awslc::hkdf_expand(&self.0, info, &mut derived);
        derived
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// HMAC-SHA256 under one secret, taken in once.
pub struct Mac(awslc::HmacKey);

impl Mac {
    /// Takes a secret in.
    pub fn new(secret: &Secret) -> Self {
        Self(awslc::HmacKey::new(&secret.0))
    }

    /// The tag of the parts, one after the other.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.0.tag(parts)
    }
}

/// Random nonces, fetched from the kernel by the page, for a call of the kernel costs more than a
/// small seal. Not to be kept across a fork.
pub struct Nonces {
    pool: Zeroizing<[u8; Self::POOL]>,
    used: usize,
}

impl Nonces {
    const POOL: usize = 3072;

    /// An empty supply.
    pub fn new() -> Self {
        Self {
            pool: Zeroizing::new([0; Self::POOL]),
            used: Self::POOL,
        }
    }

    /// The next nonce; what was given out is wiped.
    #[inline]
    pub fn take(&mut self) -> Result<[u8; 12], RandomError> {
        if self.used == Self::POOL {
            *self.pool = random_bytes()?;
            self.used = 0;
        }
        let next = &mut self.pool[self.used..self.used + 12];
        let mut nonce = [0; 12];
        nonce.copy_from_slice(next);
        next.fill(0);
        self.used += 12;
        Ok(nonce)
    }
}

impl Default for Nonces {
    fn default() -> Self {
        Self::new()
    }
}
