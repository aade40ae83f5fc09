//! Cells of version 0, which others make. They are opened here and never made.
//!
//! Version 0 is AES-128-GCM without associated data. One byte follows the plaintext, the exclusive
//! or of its bytes. Integers are little-endian, as far as is known. An opened value is converted to
//! PostgreSQL's binary format, as version 1 has it.

use pgseal_crypto::aead::LegacyAead;
use pgseal_crypto::sha256;
use pgseal_value::Type;
use zeroize::{Zeroize, Zeroizing};

use crate::cell::check_byte;
use crate::{CellError, CellRef, DataKeyId, Envelope};

/// A data key of version 0: 16 bytes that others made.
pub struct LegacyKey(Zeroizing<[u8; 16]>);

impl LegacyKey {
    /// Moves a key in and wipes the source.
    pub fn from_bytes(bytes: &mut [u8; 16]) -> Self {
        let key = Self(Zeroizing::new(*bytes));
        bytes.zeroize();
        key
    }

    /// Returns the id of this key, which its wrapped form carries. Cells of version 0 carry none.
    pub fn id(&self) -> DataKeyId {
        let [a, b, c, d, ..] = sha256(&[b"pgseal/cell/0 id\0", &self.0[..]]);
        DataKeyId(u32::from_be_bytes([a, b, c, d]))
    }

    pub(crate) fn expose(&self) -> &[u8; 16] {
        &self.0
    }
}

/// A key of version 0, ready to open cells.
pub struct LegacyCipher(LegacyAead);

impl LegacyCipher {
    /// Expands a key.
    pub fn new(key: &LegacyKey) -> Self {
        Self(LegacyAead::new(&key.0))
    }

    /// Opens a cell of version 0 and returns its value in PostgreSQL's binary format. A cell of
    /// version 1 is not authentic under this key.
    pub fn open(&self, cell: &CellRef<'_>) -> Result<Zeroizing<Vec<u8>>, CellError> {
        if cell.envelope() != Envelope::Legacy {
            return Err(CellError::NotAuthentic);
        }
        let mut plain = Zeroizing::new(vec![0; cell.ciphertext().len()]);
        self.0
            .open(cell.nonce(), &[], cell.ciphertext(), cell.tag(), &mut plain)
            .map_err(|_| CellError::NotAuthentic)?;
        // The last byte is the exclusive or of the plaintext, so all of them together give zero.
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
