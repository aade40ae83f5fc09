//! The form that the files beside `key.bin` have in common: magic, format, key id, a count of
//! versions, then fields of their own, and a MAC over all of that.

use pgseal_crypto::{KeyId, MasterKey};

use crate::reader::Reader;
use crate::MAC;

/// The length of a magic.
pub const MAGIC: usize = 8;

/// Why a file beside `key.bin` cannot be used. Its sentence goes on from the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BesideError {
    /// A value that no version writes.
    #[error("is damaged")]
    Damaged,
    /// A later version wrote it.
    #[error("has format {0}, which this version does not read: use a newer pgseal")]
    Newer(u16),
    /// It belongs to another master key.
    #[error("is of another key")]
    OtherKey,
    /// It was changed by somebody without the master key.
    #[error("was altered after it was written")]
    Altered,
}

/// A file whose own fields are still to be read; nothing of it is authenticated.
pub struct Beside<'a> {
    /// All that the MAC covers.
    pub body: &'a [u8],
    pub tag: &'a [u8; MAC],
    pub key_id: KeyId,
    /// How often the file was written, at least once.
    pub written: u64,
    pub fields: Reader<'a>,
}

/// Decodes what is before a file's own fields. `format` is the newest that is known.
pub fn open<'a>(
    bytes: &'a [u8],
    magic: &[u8; MAGIC],
    format: u16,
    most: usize,
) -> Result<Beside<'a>, BesideError> {
    if bytes.len() > most {
        return Err(BesideError::Damaged);
    }
    let (body, tag) = bytes.split_last_chunk().ok_or(BesideError::Damaged)?;
    let mut fields = Reader::new(body);
    let (found, theirs) = (fields.array(), fields.u16());
    match theirs.filter(|_| found == Some(magic)) {
        Some(theirs) if theirs == format => {}
        Some(theirs) if theirs > format => return Err(BesideError::Newer(theirs)),
        _ => return Err(BesideError::Damaged),
    }
    let key_id = fields.array().map(|bytes| KeyId(*bytes));
    let written = fields.u64().filter(|count| (1..u64::MAX).contains(count));
    let (key_id, written) = key_id.zip(written).ok_or(BesideError::Damaged)?;
    Ok(Beside {
        body,
        tag,
        key_id,
        written,
        fields,
    })
}

/// Begins the bytes of a file.
pub fn begin(magic: &[u8; MAGIC], format: u16, master: &MasterKey, written: u64) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.extend_from_slice(&format.to_le_bytes());
    out.extend_from_slice(&master.key_id().0);
    out.extend_from_slice(&written.to_le_bytes());
    out
}
