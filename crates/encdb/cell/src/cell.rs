//! The envelope of one encrypted value: it is parsed, and never trusted.
//!
//! Version 1 is `check u8 | type u8 | 0x10 | mode | key id u32be | nonce 12 | tag 16 | ciphertext`.
//! Version 0, as others publish it, is `check u8 | type u8 | algorithm u8 | IV 12 | tag 16 |
//! ciphertext`; one byte follows the plaintext. `check` is the exclusive or of all bytes after it.
//!
//! Invariant: a [`CellRef`] has a known version, type and mode, a right check byte, and a length
//! that its type can have. Only a key shows whether it is authentic.

use pgseal_value::Type;

use crate::DataKeyId;

/// Bytes before the ciphertext in version 1.
pub const HEADER: usize = 35;

/// Bytes before the ciphertext in version 0.
pub const LEGACY_HEADER: usize = 31;

const LEGACY: u8 = 0;
const VERSION_1: u8 = 1;
const AES_128_GCM: u8 = 0;

/// The reason why bytes are no cell that we can use. No variant holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellError {
    /// The bytes are too short for a header, or have a length that no value of the type has.
    #[error("the encrypted value has a wrong length")]
    WrongLength,
    /// The check byte does not match.
    #[error("the encrypted value is malformed: its check byte does not match")]
    Malformed,
    /// The version is neither 0 nor 1.
    #[error("the encrypted value is of a version that this pgseal does not know")]
    UnknownVersion,
    /// The algorithm of version 0, or the mode of version 1, is not known.
    #[error("the encrypted value names an algorithm that this pgseal does not know")]
    UnknownAlgorithm,
    /// The type byte is not known, or not known in this version.
    #[error("the encrypted value is of a type that this pgseal does not know")]
    UnknownType,
    /// The cell was sealed under another key, or was altered.
    #[error("the encrypted value is not authentic")]
    NotAuthentic,
}

/// The maker of a cell of version 1. It decides whether equal values give equal cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// A client or an authorised conversion made the cell, with a random nonce.
    Randomised = 1,
    /// A client or an authorised conversion made the cell; its nonce is a keyed function of the
    /// value, so equal values give equal cells.
    Deterministic = 2,
    /// An evaluator made the cell from other cells, with a random nonce.
    Derived = 3,
}

/// The part of a cell before its nonce: version, and in version 1 mode and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Envelope {
    /// Version 0, AES-128-GCM. It names no key.
    Legacy,
    /// Version 1, AES-256-GCM-SIV.
    Sealed {
        /// How the cell was made
        mode: Mode,
        /// The data key that sealed the cell
        key: DataKeyId,
    },
}

/// A borrowed cell that is well formed, and perhaps not authentic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRef<'a> {
    bytes: &'a [u8],
    ty: Type,
    envelope: Envelope,
}

impl<'a> CellRef<'a> {
    /// Reads a cell, and checks all but its tag.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, CellError> {
        let &[check, ty, form, ref rest @ ..] = bytes else {
            return Err(CellError::WrongLength);
        };
        let known = Type::from_byte(ty);
        let (ty, envelope) = match form >> 4 {
            LEGACY => (known.filter(|ty| is_published(*ty)), legacy(form)?),
            VERSION_1 => (known, sealed(form, rest)?),
            _ => return Err(CellError::UnknownVersion),
        };
        let ty = ty.ok_or(CellError::UnknownType)?;
        let cell = Self {
            bytes,
            ty,
            envelope,
        };
        if !cell.has_possible_length() {
            return Err(CellError::WrongLength);
        }
        if check != check_byte(&bytes[1..]) {
            return Err(CellError::Malformed);
        }
        Ok(cell)
    }

    /// Returns the type of the value, which the tag protects.
    #[inline]
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// Returns version, mode and key.
    #[inline]
    pub fn envelope(&self) -> Envelope {
        self.envelope
    }

    /// Returns how the cell was made. A cell of version 0 counts as made by a client.
    #[inline]
    pub fn mode(&self) -> Mode {
        match self.envelope {
            Envelope::Legacy => Mode::Randomised,
            Envelope::Sealed { mode, .. } => mode,
        }
    }

    /// Returns the data key. Version 0 names none.
    #[inline]
    pub fn key_id(&self) -> Option<DataKeyId> {
        match self.envelope {
            Envelope::Legacy => None,
            Envelope::Sealed { key, .. } => Some(key),
        }
    }

    /// Returns the whole cell.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the nonce.
    #[inline]
    pub fn nonce(&self) -> &'a [u8; 12] {
        self.part(self.header() - 28)
    }

    /// Returns the tag.
    #[inline]
    pub fn tag(&self) -> &'a [u8; 16] {
        self.part(self.header() - 16)
    }

    /// Returns the encrypted bytes, one more than the value has in version 0.
    #[inline]
    pub fn ciphertext(&self) -> &'a [u8] {
        &self.bytes[self.header()..]
    }

    /// Returns the length of the value in PostgreSQL's binary format, in bytes. Version 0 appends a
    /// byte to the value, which does not count.
    #[inline]
    pub fn plain_len(&self) -> usize {
        match self.envelope {
            Envelope::Legacy => self.bytes.len() - LEGACY_HEADER - 1,
            Envelope::Sealed { .. } => self.bytes.len() - HEADER,
        }
    }

    #[inline]
    fn header(&self) -> usize {
        match self.envelope {
            Envelope::Legacy => LEGACY_HEADER,
            Envelope::Sealed { .. } => HEADER,
        }
    }

    fn part<const N: usize>(&self, at: usize) -> &'a [u8; N] {
        self.bytes[at..]
            .first_chunk()
            .expect("a cell is at least as long as its header")
    }

    fn has_possible_length(&self) -> bool {
        let least = match self.envelope {
            Envelope::Legacy => LEGACY_HEADER + 1,
            Envelope::Sealed { .. } => HEADER,
        };
        match (self.bytes.len().checked_sub(least), fixed_len(self.ty)) {
            (Some(plain), Some(fixed)) => plain == fixed,
            (plain, None) => plain.is_some(),
            (None, _) => false,
        }
    }
}

/// Returns the length of the type's values in PostgreSQL's binary format, in bytes, if all values
/// have the same length.
fn fixed_len(ty: Type) -> Option<usize> {
    match ty {
        Type::Bool => Some(1),
        Type::Int4 | Type::Float4 | Type::Date => Some(4),
        Type::Int8 | Type::Float8 | Type::Timestamp | Type::TimestampTz => Some(8),
        Type::Uuid | Type::Interval => Some(16),
        Type::Decimal | Type::Bytea | Type::Text => None,
    }
}

/// Whether version 0 has this type. Only two type bytes of version 0 are published.
fn is_published(ty: Type) -> bool {
    matches!(ty, Type::Int4 | Type::Text)
}

fn legacy(form: u8) -> Result<Envelope, CellError> {
    if form == AES_128_GCM {
        Ok(Envelope::Legacy)
    } else {
        Err(CellError::UnknownAlgorithm)
    }
}

fn sealed(form: u8, rest: &[u8]) -> Result<Envelope, CellError> {
    let mode = match form & 15 {
        1 => Mode::Randomised,
        2 => Mode::Deterministic,
        3 => Mode::Derived,
        _ => return Err(CellError::UnknownAlgorithm),
    };
    let key = rest.first_chunk().ok_or(CellError::WrongLength)?;
    let key = DataKeyId(u32::from_be_bytes(*key));
    Ok(Envelope::Sealed { mode, key })
}

/// Returns the exclusive or of all bytes. It works on words of 8 bytes, because every cell that is
/// read or made needs it.
pub(crate) fn check_byte(bytes: &[u8]) -> u8 {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    let word = words.fold(0, |sum, word| {
        sum ^ u64::from_le_bytes(word.try_into().expect("chunks of 8"))
    });
    rest.iter()
        .chain(&word.to_le_bytes())
        .fold(0, |sum, byte| sum ^ byte)
}
