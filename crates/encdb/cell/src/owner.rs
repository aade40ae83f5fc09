//! An owner's master key: what wraps data keys, and what hashes values.

use pgseal_crypto::sign::PublicKey;
use pgseal_crypto::{Prf, RandomError, Secret};
use pgseal_value::Type;

/// The 32 random bytes that an owner keeps. It never reaches the server in clear.
pub struct MasterKey(Secret);

impl MasterKey {
    /// A new key.
    pub fn generate() -> Result<Self, RandomError> {
        Secret::generate().map(Self)
    }

    /// Moves a key in: the source is wiped.
    pub fn from_bytes(bytes: &mut [u8; 32]) -> Self {
        Self(Secret::from_bytes(bytes))
    }

    /// The bytes, for the owner's own keeping and for the sealed exchange.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }

    /// The name of this key in the hands of this owner. Who claims another's public key without its
    /// master key gets another name.
    pub fn owner_id(&self, owner: &PublicKey) -> OwnerId {
        let info = [OWNER_ID, &owner.0].concat();
        OwnerId(self.0.derive_public(&info))
    }

    /// The key by which values are hashed: one for all data keys of an owner, so that joins work.
    pub fn hash_key(&self) -> HashKey {
        HashKey(Prf::new(self.0.derive(HASH)))
    }

    pub(crate) fn wrapping_key(&self) -> Secret {
        self.0.derive(WRAP)
    }
}

const OWNER_ID: &[u8] = b"pgseal/owner/1 id\0";
const HASH: &[u8] = b"pgseal/owner/1 hash\0";
const WRAP: &[u8] = b"pgseal/owner/1 wrap\0";

/// Names an owner's master key and signing key together; public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub [u8; 16]);

/// Hashes values of one owner.
pub struct HashKey(Prf);

impl HashKey {
    /// The hash of a value in canonical form. Its low half with seed 0 is the 32-bit hash.
    #[inline]
    pub fn hash(&self, ty: Type, canonical: &[u8], seed: u64) -> u64 {
        self.0.of(&[&seed.to_le_bytes(), &[ty as u8], canonical])
    }
}
