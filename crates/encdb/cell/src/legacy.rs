//! Version 0: cells as others publish them, opened and never made.
//!
//! Known: AES-128-GCM without associated data; the plaintext is followed by the exclusive or of its
//! bytes; integers are little-endian, as far as is known. What is opened is turned into version 1's
//! form, PostgreSQL's binary format.

use pgseal_crypto::aead::LegacyAead;
use pgseal_crypto::sha256;
use pgseal_value::Type;
use zeroize::{Zeroize, Zeroizing};

use crate::cell::check_byte;
use crate::{CellError, CellRef, DataKeyId, Envelope};

/// A data key of 16 bytes that others made.
pub struct LegacyKey(Zeroizing<[u8; 16]>);

impl LegacyKey {
    /// Moves a key in: the source is wiped.
    pub fn from_bytes(bytes: &mut [u8; 16]) -> Self {
        let key = Self(Zeroizing::new(*bytes));
        bytes.zeroize();
        key
    }

    /// The name of this key in its wrapping; cells of version 0 carry none.
    pub fn id(&self) -> DataKeyId {
        let [a, b, c, d, ..] = sha256(&[b"pgseal/cell/0 id\0", &self.0[..]]);
        DataKeyId(u32::from_be_bytes([a, b, c, d]))
    }

    pub(crate) fn expose(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Opens cells of version 0.
pub struct LegacyCipher(LegacyAead);

impl LegacyCipher {
    /// Expands a key.
    pub fn new(key: &LegacyKey) -> Self {
        Self(LegacyAead::new(&key.0))
    }

    /// Opens a cell of version 0 to its value in PostgreSQL's binary format. A cell of version 1 is
    /// not authentic under this key.
    pub fn open(&self, cell: &CellRef<'_>) -> Result<Zeroizing<Vec<u8>>, CellError> {
        if cell.envelope() != Envelope::Legacy {
            return Err(CellError::NotAuthentic);
        }
        let mut plain = Zeroizing::new(vec![0; cell.ciphertext().len()]);
        self.0
            .open(cell.nonce(), &[], cell.ciphertext(), cell.tag(), &mut plain)
            .map_err(|_| CellError::NotAuthentic)?;
        // The exclusive or of the plaintext and the byte that is its exclusive or.
        if check_byte(&plain) != 0 {
            return Err(CellError::Malformed);
        }
        plain.pop();
        if cell.ty() == Type::Int4 {
            plain.reverse();
        }
        Ok(plain)
    }
}
