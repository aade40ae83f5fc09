//! Wrapping under a passphrase: Argon2id makes a key-encryption key, AES-256-GCM wraps under it.
//!
//! Invariant: every wrapping has a fresh random salt, hence a fresh key, hence nonce 0 is used
//! once; `Kek::wrap` consumes the key to keep it so. Called by the crate of keys.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_256_GCM, NONCE_LEN};
use zeroize::Zeroizing;

/// Bytes of a salt.
pub const SALT: usize = 32;

/// Bytes of a key-encryption key.
const KEK: usize = 32;

/// Bytes that wrapping adds: the tag of AES-GCM.
pub const OVERHEAD: usize = 16;

const MIB: u32 = 1024; // KiB

/// The cost of one guess, within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Params {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl Argon2Params {
    /// The least that is written: RFC 9106's second recommended choice.
    pub const FLOOR: Self = Self {
        memory_kib: 64 * MIB,
        passes: 3,
        lanes: 4,
    };

    /// The most that is read: a key file must not be able to exhaust the machine.
    pub const CEILING: Self = Self {
        memory_kib: 4096 * MIB,
        passes: 64,
        lanes: 16,
    };

    /// Checks the cost of a new wrapping: each part is between floor and ceiling.
    pub fn for_writing(memory_kib: u32, passes: u32, lanes: u32) -> Result<Self, ParamsError> {
        let floor = Self::FLOOR;
        if memory_kib < floor.memory_kib || passes < floor.passes || lanes < floor.lanes {
            return Err(ParamsError::TooCheap);
        }
        Self::for_reading(memory_kib, passes, lanes)
    }

    /// Checks the cost of an existing wrapping: Argon2 allows it, and no part exceeds the ceiling.
    pub fn for_reading(memory_kib: u32, passes: u32, lanes: u32) -> Result<Self, ParamsError> {
        let most = Self::CEILING;
        if memory_kib > most.memory_kib || passes > most.passes || lanes > most.lanes {
            return Err(ParamsError::TooDear);
        }
        if passes == 0 || lanes == 0 || memory_kib < 8 * lanes {
            return Err(ParamsError::NotArgon2);
        }
        Ok(Self {
            memory_kib,
            passes,
            lanes,
        })
    }

    /// Memory in KiB.
    pub const fn memory_kib(self) -> u32 {
        self.memory_kib
    }

    /// Passes over the memory.
    pub fn passes(self) -> u32 {
        self.passes
    }

    /// Lanes, which an attacker can run at the same time.
    pub fn lanes(self) -> u32 {
        self.lanes
    }

    fn argon2id(self) -> Argon2<'static> {
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(KEK))
            .expect("parameters are within Argon2's limits");
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
    }
}

/// Parameters outside the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// A new wrapping that is too easy to guess at.
    #[error("Argon2id needs at least 64 MiB of memory, 3 passes and 4 lanes: raise them")]
    TooCheap,
    /// A wrapping that would exhaust the machine.
    #[error(
        "Argon2id with more than 4 GiB of memory, 64 passes or 16 lanes is refused: lower them, or \
         restore the key file from a copy if nobody chose them"
    )]
    TooDear,
    /// Parameters that Argon2 does not have.
    #[error("these are not parameters of Argon2id: restore the key file from a copy")]
    NotArgon2,
}

/// Why no key came out of a passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeriveError {
    /// The memory is not available.
    #[error(
        "Argon2id needs {0} KiB of memory that this machine does not give: free some or raise the \
         limit"
    )]
    NoMemory(u32),
    /// Longer than Argon2 takes.
    #[error("the passphrase is too long: use less than 4 GiB")]
    TooLong,
}

/// The key that a passphrase gives. The memory that Argon2id fills is wiped.
pub fn derive(
    passphrase: &[u8],
    salt: &[u8; SALT],
    params: Argon2Params,
) -> Result<Kek, DeriveError> {
    let argon2 = params.argon2id();
    let count = argon2.params().block_count();
    let mut memory = blocks(count).ok_or(DeriveError::NoMemory(params.memory_kib))?;
    let mut key = Zeroizing::new([0; KEK]);
    argon2
        .hash_password_into_with_memory(passphrase, salt, &mut *key, &mut **memory)
        .map_err(|_| DeriveError::TooLong)?;
    Ok(Kek(key))
}

fn blocks(count: usize) -> Option<Zeroizing<Vec<Block>>> {
    let mut blocks = Zeroizing::new(Vec::new());
    blocks.try_reserve_exact(count).ok()?;
    blocks.resize(count, Block::new());
    Some(blocks)
}

/// A key-encryption key.
pub struct Kek(Zeroizing<[u8; KEK]>);

impl Kek {
    /// Wraps `plain`, bound to `aad`. Consumes the key: its one nonce is then used up.
    pub fn wrap(self, plain: &[u8], aad: &[u8]) -> Vec<u8> {
        let mut wrapped = Vec::with_capacity(plain.len() + OVERHEAD);
        wrapped.extend_from_slice(plain);
        self.aead()
            .seal_in_place_append_tag(nonce_zero(), Aad::from(aad), &mut wrapped)
            .expect("AES-GCM seals less than 64 GiB");
        wrapped
    }

    /// Unwraps. An error means a wrong passphrase or altered bytes; AES-GCM does not show which.
    pub fn open(&self, wrapped: &[u8], aad: &[u8]) -> Result<Zeroizing<Vec<u8>>, WrongKey> {
        let mut buf = Zeroizing::new(wrapped.to_vec());
        let len = self
            .aead()
            .open_in_place(nonce_zero(), Aad::from(aad), &mut buf)
            .map_err(|_| WrongKey)?
            .len();
        buf.truncate(len);
        Ok(buf)
    }

    fn aead(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM, &*self.0).expect("32 bytes are an AES-256 key");
        LessSafeKey::new(key)
    }
}

fn nonce_zero() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// The wrapping does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "wrong passphrase, or the key file was altered: try again, or restore the key file from a copy"
)]
pub struct WrongKey;
