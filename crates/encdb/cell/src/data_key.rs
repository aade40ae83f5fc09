//! Data keys, which seal cells, and their wrapped form, which the database stores.
//!
//! The wrapped form is `version u8 | algorithm u8 | flags u8 | group u32 | key id u32be | owner id
//! 16 | nonce 12 | tag 16 | wrapped key`.
//! The table stores the key name beside it. The tag binds the name and all fields before the nonce.
//!
//! Each state is a type: [`WrappedKey`] is well formed, but anybody may have written it; the tag of
//! [`Unwrapped`] was checked under the owner's master key.

use std::fmt;

use pgseal_crypto::aead::Aead;
use pgseal_crypto::sign::PublicKey;
use pgseal_crypto::{Nonces, RandomError, Secret};
use zeroize::Zeroizing;

use crate::{LegacyKey, MasterKey, OwnerId};
use pgseal_format::Reader;

const VERSION: u8 = 1;
const DETERMINISTIC: u8 = 1;
const BOUND: usize = 27;
const LABEL: &[u8] = b"pgseal/datakey/1\0";

/// The public name of a data key. It is a one-way function of the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataKeyId(pub u32);

impl fmt::Display for DataKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for DataKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKeyId({self})")
    }
}

/// The 32 random bytes from which the keys of a column's cells are derived.
pub struct DataKey(Secret);

impl DataKey {
    /// Generates a random key.
    pub fn generate() -> Result<Self, RandomError> {
        Secret::generate().map(Self)
    }

    /// Moves a key in and wipes the source.
    pub fn from_bytes(bytes: &mut [u8; 32]) -> Self {
        Self(Secret::from_bytes(bytes))
    }

    /// Returns the public name of this key.
    pub fn id(&self) -> DataKeyId {
        DataKeyId(u32::from_be_bytes(
            self.0.derive_public(b"pgseal/cell/1 id\0"),
        ))
    }

    pub(crate) fn sealing_key(&self) -> Secret {
        self.0.derive(b"pgseal/cell/1 seal\0")
    }

    pub(crate) fn nonce_key(&self) -> Secret {
        self.0.derive(b"pgseal/cell/1 nonce\0")
    }
}

/// The kind of cells that a data key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum KeyAlgorithm {
    /// AES-128-GCM of version 0; the key has 16 bytes and only opens cells
    Legacy = 0,
    /// AES-256-GCM-SIV of version 1
    Sealed = 1,
}

/// The reason why a data key cannot be unwrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnwrapError {
    /// The bytes are not a wrapped key.
    #[error("the data key is malformed: restore its row from a copy")]
    Malformed,
    /// A later pgseal wrote the key.
    #[error("the data key is of a form that this pgseal does not know: install a newer pgseal")]
    Unknown,
    /// The key is another owner's, or is wrapped under an earlier master key.
    #[error("the data key is not wrapped under this owner's master key")]
    OtherOwner,
    /// The key was altered, or stored under another name than it was made for.
    #[error("the data key is not authentic: restore its row from a copy")]
    NotAuthentic,
}

/// A data key that was unwrapped, so an authentic one.
pub enum Unwrapped {
    /// The key seals and opens cells of version 1.
    Sealed(DataKey),
    /// The key opens cells of version 0.
    Legacy(LegacyKey),
}

/// A borrowed wrapped key that is well formed, and perhaps not authentic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrappedKey<'a> {
    bound: &'a [u8; BOUND],
    algorithm: KeyAlgorithm,
    deterministic: bool,
    group: u32,
    id: DataKeyId,
    owner: OwnerId,
    nonce: &'a [u8; 12],
    tag: &'a [u8; 16],
    sealed: &'a [u8],
}

impl<'a> WrappedKey<'a> {
    /// Reads a wrapped key. Fails with [`UnwrapError::Malformed`] or [`UnwrapError::Unknown`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, UnwrapError> {
        match bytes.first() {
            Some(&VERSION) => {}
            Some(0) | None => return Err(UnwrapError::Malformed),
            Some(_) => return Err(UnwrapError::Unknown),
        }
        let (algorithm, expected) = match bytes.get(1) {
            Some(0) => (KeyAlgorithm::Legacy, 16),
            Some(1) => (KeyAlgorithm::Sealed, 32),
            Some(_) => return Err(UnwrapError::Unknown),
            None => return Err(UnwrapError::Malformed),
        };
        Self::fields(bytes, algorithm)
            .filter(|key| key.sealed.len() == expected && key.bound[2] & !DETERMINISTIC == 0)
            .ok_or(UnwrapError::Malformed)
    }

    fn fields(bytes: &'a [u8], algorithm: KeyAlgorithm) -> Option<Self> {
        let bound = bytes.first_chunk()?;
        let mut reader = Reader::new(&bytes[2..]);
        Some(Self {
            bound,
            algorithm,
            deterministic: reader.u8()? == DETERMINISTIC,
            group: reader.u32()?,
            id: DataKeyId(u32::from_be_bytes(*reader.array()?)),
            owner: OwnerId(*reader.array()?),
            nonce: reader.array()?,
            tag: reader.array()?,
            sealed: reader.rest(),
        })
    }

    /// Returns the kind of cells that the key is for.
    pub fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }

    /// Whether conversions on the server make deterministic cells with this key.
    pub fn deterministic(&self) -> bool {
        self.deterministic
    }

    /// Returns the key's group, which grants may name.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// Returns the id that the key's cells carry.
    pub fn id(&self) -> DataKeyId {
        self.id
    }

    /// Returns the owner that the key claims.
    pub fn owner(&self) -> OwnerId {
        self.owner
    }

    /// Returns a hash that no other wrapped key has.
    pub fn identity(&self) -> [u8; 32] {
        pgseal_crypto::sha256(&[self.bound, self.nonce, self.tag, self.sealed])
    }

    /// Unwraps the key. Fails unless it was wrapped under this master key, for this owner and this
    /// name.
    pub fn unwrap(
        &self,
        master: &MasterKey,
        owner: &PublicKey,
        keyname: &str,
    ) -> Result<Unwrapped, UnwrapError> {
        if self.owner != master.owner_id(owner) {
            return Err(UnwrapError::OtherOwner);
        }
        let mut key = Zeroizing::new([0; 32]);
        let out = &mut key[..self.sealed.len()];
        Aead::new(&master.wrapping_key())
            .open(
                self.nonce,
                &ad(self.bound, keyname),
                self.sealed,
                self.tag,
                out,
            )
            .map_err(|_| UnwrapError::NotAuthentic)?;
        let (id, unwrapped) = match self.algorithm {
            KeyAlgorithm::Sealed => {
                let key = DataKey::from_bytes(&mut key);
                (key.id(), Unwrapped::Sealed(key))
            }
            KeyAlgorithm::Legacy => {
                let mut short = Zeroizing::new([0; 16]);
                short.copy_from_slice(&key[..16]);
                let key = LegacyKey::from_bytes(&mut short);
                (key.id(), Unwrapped::Legacy(key))
            }
        };
        if id != self.id {
            return Err(UnwrapError::NotAuthentic);
        }
        Ok(unwrapped)
    }
}

impl Unwrapped {
    /// Returns the public name of this key.
    pub fn id(&self) -> DataKeyId {
        match self {
            Self::Sealed(key) => key.id(),
            Self::Legacy(key) => key.id(),
        }
    }

    /// Wraps the key for the table of data keys.
    pub fn wrap(
        &self,
        master: &MasterKey,
        owner: &PublicKey,
        keyname: &str,
        group: u32,
        deterministic: bool,
        nonces: &mut Nonces,
    ) -> Result<Vec<u8>, RandomError> {
        let (algorithm, key) = match self {
            Self::Sealed(key) => (KeyAlgorithm::Sealed, &key.0.expose()[..]),
            Self::Legacy(key) => (KeyAlgorithm::Legacy, &key.expose()[..]),
        };
        let mut wrapped = vec![VERSION, algorithm as u8, u8::from(deterministic)];
        wrapped.extend_from_slice(&group.to_le_bytes());
        wrapped.extend_from_slice(&self.id().0.to_be_bytes());
        wrapped.extend_from_slice(&master.owner_id(owner).0);
        let nonce = nonces.take()?;
        let mut sealed = Zeroizing::new(key.to_vec());
        let tag =
            Aead::new(&master.wrapping_key()).seal(&nonce, &ad(&wrapped, keyname), &mut sealed);
        wrapped.extend_from_slice(&nonce);
        wrapped.extend_from_slice(&tag);
        wrapped.extend_from_slice(&sealed);
        Ok(wrapped)
    }
}

fn ad(bound: &[u8], keyname: &str) -> Vec<u8> {
    [LABEL, bound, keyname.as_bytes()].concat()
}
