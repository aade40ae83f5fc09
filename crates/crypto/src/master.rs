//! The master key of a cluster, and its public name.

use std::fmt;

use zeroize::Zeroize;

use crate::derive::{cluster_key, ClusterPurpose};
use crate::{random_bytes, RandomError};

/// The 32 random bytes that every key of a cluster is derived from.
///
/// Its layout is exactly these bytes, so that a process can keep it in locked memory and refer to
/// it there.
#[repr(transparent)]
pub struct MasterKey([u8; 32]);

impl MasterKey {
    /// A new key from the kernel: for a cluster, or for the temporary files of one server run.
    pub fn generate() -> Result<Self, RandomError> {
        random_bytes().map(Self)
    }

    /// Moves a key in: the source is wiped.
    pub fn from_bytes(bytes: &mut [u8; 32]) -> Self {
        let key = Self(*bytes);
        bytes.zeroize();
        key
    }

    /// The bytes, for wrapping and for locked memory.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// The public name of this key.
    pub fn key_id(&self) -> KeyId {
        let mut id = [0; 16];
        cluster_key(self, ClusterPurpose::KeyId, &mut id);
        KeyId(id)
    }
}

impl Drop for MasterKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Names a master key and reveals nothing about it: a one-way function of its 256 random bits.
#[derive(Clone, Copy, Eq)]
pub struct KeyId(pub [u8; 16]);

impl PartialEq for KeyId {
    fn eq(&self, other: &Self) -> bool {
        crate::equal(&self.0, &other.0)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}
