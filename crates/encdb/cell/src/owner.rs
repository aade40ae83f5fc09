//! An owner's master key. It wraps the data keys and hashes the values.

use pgseal_crypto::sign::PublicKey;
use pgseal_crypto::{Prf, RandomError, Secret};
use pgseal_value::Type;

/// The 32 random bytes that an owner keeps. It never reaches the server in clear.
pub struct MasterKey(Secret);

impl MasterKey {
    /// Generates a random key.
    pub fn generate() -> Result<Self, RandomError> {
        Secret::generate().map(Self)
    }

    /// Moves a key in and wipes the source.
    pub fn from_bytes(bytes: &mut [u8; 32]) -> Self {
        Self(Secret::from_bytes(bytes))
    }

    /// Returns the bytes, for the owner's own file and for the sealed exchange with an evaluator.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }

    /// Returns the name of this master key together with the owner's public key. Anybody who claims
    /// another owner's public key, but has another master key, gets another name.
    pub fn owner_id(&self, owner: &PublicKey) -> OwnerId {
        let info = [OWNER_ID, &owner.0].concat();
        OwnerId(self.0.derive_public(&info))
    }

    /// Returns the key that hashes values. All data keys of an owner share it, so that joins
    /// between columns of different keys work.
    pub fn hash_key(&self) -> HashKey {
        HashKey(Prf::new(self.0.derive(HASH)))
    }

    /// Returns the key of the tokens that indexes of words and of trigrams hold.
    pub fn token_key(&self) -> TokenKey {
        TokenKey(Prf::new(self.0.derive(TOKENS)))
    }

    pub(crate) fn wrapping_key(&self) -> Secret {
        self.0.derive(WRAP)
    }
}

const OWNER_ID: &[u8] = b"pgseal/owner/1 id\0";
const HASH: &[u8] = b"pgseal/owner/1 hash\0";
const TOKENS: &[u8] = b"pgseal/owner/1 tokens\0";
const WRAP: &[u8] = b"pgseal/owner/1 wrap\0";

/// The public name of an owner's master key together with its signing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub [u8; 16]);

/// The key that hashes the values of one owner.
pub struct HashKey(Prf);

impl HashKey {
    /// Hashes a value in canonical form. PostgreSQL's 32-bit hash is the low half of the hash with
    /// seed 0.
    #[inline]
    pub fn hash(&self, ty: Type, canonical: &[u8], seed: u64) -> u64 {
        self.0.of(&[&seed.to_le_bytes(), &[ty as u8], canonical])
    }
}

/// The kind of a token. The numbers are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TokenKind {
    /// A word.
    Word = 1,
    /// Three characters.
    Trigram = 2,
}

/// The key of the tokens of one owner. They are neither the hashes of values nor each other's kind:
/// an index of words says nothing about a hash index, or about one of trigrams.
pub struct TokenKey(Prf);

impl TokenKey {
    /// Returns the token of a part of a text.
    #[inline]
    pub fn token(&self, kind: TokenKind, part: &str) -> u64 {
        self.0.of(&[&[kind as u8], part.as_bytes()])
    }
}
