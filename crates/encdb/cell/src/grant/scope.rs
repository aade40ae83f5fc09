//! The subject, the database and the keys that a grant is limited to.

use std::fmt;

use pgseal_crypto::sign::PublicKey;

use crate::DataKeyId;
use pgseal_format::Reader;

/// The random number that names a grant in a list of revocations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(pub [u8; 16]);

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Serial({self})")
    }
}

/// The 16 bytes that the extension made to identify a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DatabaseId(pub [u8; 16]);

/// The party that may use a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The owner, in a session that the owner's own key opened.
    Owner,
    /// The client that holds the secret key of this public key.
    Client(PublicKey),
    /// Work of the server without a client: autovacuum, ANALYZE, REINDEX, replication.
    Background,
}

/// The keys that a grant covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyScope {
    /// All keys of the owner, including keys that are made later.
    All,
    /// The owner's keys in these groups.
    Groups(Vec<u32>),
    /// Only these keys.
    Keys(Vec<DataKeyId>),
}

impl KeyScope {
    /// Whether the scope covers this key of this group.
    pub fn covers(&self, group: u32, id: DataKeyId) -> bool {
        match self {
            Self::All => true,
            Self::Groups(groups) => groups.binary_search(&group).is_ok(),
            Self::Keys(keys) => keys.binary_search(&id).is_ok(),
        }
    }

    /// Sorts the scope and drops duplicates: a grant has one spelling, which is signed.
    pub(super) fn canonical(mut self) -> Self {
        match &mut self {
            Self::All => {}
            Self::Groups(groups) => {
                groups.sort_unstable();
                groups.dedup();
            }
            Self::Keys(keys) => {
                keys.sort_unstable();
                keys.dedup();
            }
        }
        self
    }

    /// Appends `kind u8 | count u16 | u32…`, the numbers ascending.
    pub(super) fn write(&self, into: &mut Vec<u8>) {
        let (kind, numbers): (u8, Vec<u32>) = match self {
            Self::All => (0, Vec::new()),
            Self::Groups(groups) => (1, groups.clone()),
            Self::Keys(keys) => (2, keys.iter().map(|id| id.0).collect()),
        };
        let count = u16::try_from(numbers.len()).expect("a scope of at most 65535 keys");
        into.push(kind);
        into.extend_from_slice(&count.to_le_bytes());
        for number in numbers {
            into.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let kind = reader.u8()?;
        let count = usize::from(reader.u16()?);
        let mut list = Reader::new(reader.take(count.checked_mul(4)?)?);
        let numbers: Vec<u32> = std::iter::from_fn(|| list.u32()).collect();
        if !numbers.is_sorted_by(|a, b| a < b) {
            return None;
        }
        match kind {
            0 => numbers.is_empty().then_some(Self::All),
            1 => Some(Self::Groups(numbers)),
            2 => Some(Self::Keys(numbers.into_iter().map(DataKeyId).collect())),
            _ => None,
        }
    }
}
