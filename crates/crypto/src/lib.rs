//! Everything that pgseal does with a key. No other crate names an algorithm.
//!
//! A cluster has one [`MasterKey`]. Every file gets its own keys, derived from the master and the
//! file's [`FileId`]; a [`FileCipher`] turns its bytes into what is stored and back. Beside that:
//! the MACs of the key file ([`mac`]) and the wrapping of a master key under a passphrase
//! ([`passphrase`], [`pbkdf2`]). For columns that the server cannot read: [`Secret`]s and what is
//! derived from them, authenticated encryption ([`aead`]), signatures ([`sign`]), sealed exchange
//! ([`exchange`]), digests, and the check of what others signed ([`foreign`]).
//!
//! Invariants:
//! 1. Nothing here does I/O, except `getrandom(2)` in [`random_bytes`], and what the FIPS module
//!    does for its random generator.
//! 2. Secrets have neither `Clone` nor `Debug` and are wiped when dropped.
//! 3. A `FileCipher` waits for nobody: it may be used by several threads, in a forked child, and
//!    again by a signal handler that interrupted it. It allocates at the first use of a direction,
//!    and for a call that finds it in use; else never. See [`route_allocations`].
//! 4. Sizes never change: sealing maps n bytes to n bytes.
//!
//! The feature `fips` takes all that encryption at rest needs from the FIPS module of AWS-LC,
//! except Argon2id (docs/security/fips.md).
//!
//! All code that is `unsafe` is in `awslc.rs`, below `awslc/`, in `wipe.rs` and in `aead/four.rs`.
//! The last one is the only cipher that AWS-LC does not run: AES-256-GCM-SIV of four short messages
//! side by side, which it only opens.

pub mod aead;
mod awslc;
mod cached;
mod cipher;
mod derive;
pub mod exchange;
mod file_id;
pub mod foreign;
pub mod mac;
mod master;
pub mod passphrase;
pub mod pbkdf2;
#[cfg(feature = "prf")]
mod prf;
mod random;
mod secret;
pub mod sign;
#[cfg(test)]
mod tests;
mod wipe;
mod xts;

pub use aead::NotAuthentic;
pub use awslc::{equal, route_allocations, sha256, sha512, Allocate, Reallocate, Release};
pub use cipher::FileCipher;
pub use file_id::{Class as FileClass, FileId, Fork};
pub use master::{KeyId, MasterKey};
#[cfg(feature = "prf")]
pub use prf::Prf;
pub use random::{random_bytes, RandomError};
pub use secret::{Mac, Nonces, Secret};
pub use wipe::without_trace;

/// Items for measurement: AWS-LC alone and both engines of XTS, to compare with [`FileCipher`].
#[doc(hidden)]
pub mod internals {
    pub use crate::awslc::{hkdf_expand, Context, Direction, Mode};
    pub use crate::xts::{Engine, Schedule};
}

/// Bytes of a data unit: one page of PostgreSQL.
pub const UNIT: usize = 8192;

/// Bytes of a cipher block: what one changed bit garbles.
pub const BLOCK: usize = 16;

/// How bytes are stored. A new suite is a new number, never a changed meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Suite {
    /// AES-XTS per page, masked tails; confidentiality only.
    AesXts = 1,
}

/// The length of the cluster's AES keys. XTS uses two such keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLength {
    /// AES-128
    Bits128,
    /// AES-192: sound, but in no standard for XTS
    Bits192,
    /// AES-256: the default, the fastest here, and the only one with a FIPS certificate
    Bits256,
}

impl KeyLength {
    /// The length in bits: 128, 192 or 256.
    pub const fn bits(self) -> u16 {
        match self {
            Self::Bits128 => 128,
            Self::Bits192 => 192,
            Self::Bits256 => 256,
        }
    }

    /// The length in bytes: 16, 24 or 32.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bits128 => 16,
            Self::Bits192 => 24,
            Self::Bits256 => 32,
        }
    }
}

impl TryFrom<u16> for KeyLength {
    type Error = UnknownKeyLength;

    fn try_from(bits: u16) -> Result<Self, UnknownKeyLength> {
        match bits {
            128 => Ok(Self::Bits128),
            192 => Ok(Self::Bits192),
            256 => Ok(Self::Bits256),
            other => Err(UnknownKeyLength(other)),
        }
    }
}

/// A key length that AES does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a key length: use 128, 192 or 256")]
pub struct UnknownKeyLength(pub u16);

/// Returns the name and version of the FIPS module that this build uses; none if it uses none.
pub fn fips_module() -> Option<&'static str> {
    awslc::version()
}
