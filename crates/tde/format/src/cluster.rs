//! The header of a key file, which describes its cluster in clear.
//!
//! The *bound header* is the part that never changes in a cluster's life: its MAC travels inside
//! every wrapped payload, so that a wrapping fits one cluster only. The generation counts the
//! writes of the key file; it is outside, because rotation must not touch other slots.

use std::fmt;

use pgseal_crypto::{KeyId, KeyLength, Suite};

use crate::reader::Reader;

/// Bytes of the bound header.
pub const BOUND_HEADER: usize = 2 + 1 + 2 + 4 + 16 + 16 + 8;

/// A random name of a cluster, made by initdb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterId(pub [u8; 16]);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The header of a key file without its generation.
///
/// `u16 format = 1 || u8 suite || u16 key bits || u32 flags = 0 || 16 cluster id || 16 key id ||
/// u64 created`, the last in seconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// How bytes are stored.
    pub suite: Suite,
    /// The length of the AES keys.
    pub length: KeyLength,
    /// The cluster.
    pub cluster: ClusterId,
    /// The name of the master key.
    pub key_id: KeyId,
    /// When the cluster was made, in seconds since 1970.
    pub created: u64,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Cut,
    Format(u16),
    Suite(u8),
    Length(u16),
    Flags(u32),
}

impl Header {
    /// The one format that is written and read.
    pub const FORMAT: u16 = 1;

    /// The bytes that wrapped payloads are bound to.
    pub fn bound(&self) -> [u8; BOUND_HEADER] {
        let mut out = Vec::with_capacity(BOUND_HEADER);
        out.extend_from_slice(&Self::FORMAT.to_le_bytes());
        out.push(self.suite as u8);
        out.extend_from_slice(&self.length.bits().to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&self.cluster.0);
        out.extend_from_slice(&self.key_id.0);
        out.extend_from_slice(&self.created.to_le_bytes());
        out.try_into()
            .expect("the parts of a header have fixed lengths")
    }

    /// Decodes a bound header; `None` if a value is one that this version does not know.
    pub fn from_bound(bytes: &[u8; BOUND_HEADER]) -> Option<Self> {
        Self::read(&mut Reader::new(bytes)).ok()
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, HeaderError> {
        let format = reader.u16().ok_or(HeaderError::Cut)?;
        if format != Self::FORMAT {
            return Err(HeaderError::Format(format));
        }
        let suite = reader.u8().ok_or(HeaderError::Cut)?;
        if suite != Suite::AesXts as u8 {
            return Err(HeaderError::Suite(suite));
        }
        let bits = reader.u16().ok_or(HeaderError::Cut)?;
        let length = KeyLength::try_from(bits).map_err(|_| HeaderError::Length(bits))?;
        let flags = reader.u32().ok_or(HeaderError::Cut)?;
        if flags != 0 {
            return Err(HeaderError::Flags(flags));
        }
        Ok(Self {
            suite: Suite::AesXts,
            length,
            cluster: ClusterId(*reader.array().ok_or(HeaderError::Cut)?),
            key_id: KeyId(*reader.array().ok_or(HeaderError::Cut)?),
            created: reader.u64().ok_or(HeaderError::Cut)?,
        })
    }
}
