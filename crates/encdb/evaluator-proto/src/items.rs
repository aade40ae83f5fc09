//! Lists of byte strings in requests and responses: cells of a page, rows of keys.

use crate::wire::{put_bytes, put_len, Malformed, Out, Reader};

/// A list of byte strings; each has its length before it.
#[derive(Clone, Copy)]
pub enum Items<'a> {
    /// As the sender has them.
    Listed(&'a [&'a [u8]]),
    /// As they were received: that there are just so many was checked.
    Received {
        /// How many
        count: u32,
        /// All of them
        bytes: &'a [u8],
    },
}

impl<'a> Items<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Listed(list) => list.len(),
            Self::Received { count, .. } => usize::try_from(*count).unwrap_or(usize::MAX),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the items one after the other.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let (listed, mut received) = match *self {
            Self::Listed(list) => (list, Reader::new(&[])),
            Self::Received { bytes, .. } => (&[][..], Reader::new(bytes)),
        };
        listed
            .iter()
            .copied()
            .chain(std::iter::from_fn(move || received.bytes().ok()))
    }

    /// Takes so many items off the front.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn take(&mut self, count: usize) -> Result<Self, Malformed> {
        match self {
            Self::Listed(list) => {
                let (taken, rest) = list.split_at_checked(count).ok_or(Malformed)?;
                *list = rest;
                Ok(Self::Listed(taken))
            }
            Self::Received { count: left, bytes } => {
                let count = u32::try_from(count).map_err(|_| Malformed)?;
                *left = left.checked_sub(count).ok_or(Malformed)?;
                let mut walk = Reader::new(bytes);
                for _ in 0..count {
                    walk.bytes()?;
                }
                let (taken, rest) = bytes.split_at(bytes.len() - walk.rest().len());
                *bytes = rest;
                Ok(Self::Received {
                    count,
                    bytes: taken,
                })
            }
        }
    }

    pub(crate) fn write(&self, into: &mut impl Out) {
        match self {
            Self::Listed(list) => {
                put_len(into, list.len());
                list.iter().for_each(|item| put_bytes(into, item));
            }
            Self::Received { count, bytes } => {
                into.extend_from_slice(&count.to_le_bytes());
                into.extend_from_slice(bytes);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let count = reader.u32()?;
        let all = reader.rest();
        let mut walk = *reader;
        for _ in 0..count {
            walk.bytes()?;
        }
        let bytes = reader.take(all.len() - walk.rest().len())?;
        Ok(Self::Received { count, bytes })
    }
}

impl PartialEq for Items<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl std::fmt::Debug for Items<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Items({})", self.len())
    }
}

/// A row of the table of data keys, as an item: `name | wrapped key`, both counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRow<'a> {
    /// The key name
    pub name: &'a str,
    /// The key, wrapped
    pub wrapped: &'a [u8],
}

impl<'a> KeyRow<'a> {
    /// The item.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.name.len() + self.wrapped.len());
        put_bytes(&mut out, self.name.as_bytes());
        put_bytes(&mut out, self.wrapped);
        out
    }

    /// The row of an item.
    pub fn parse(item: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(item);
        let row = Self {
            name: reader.text()?,
            wrapped: reader.bytes()?,
        };
        reader.end()?;
        Ok(row)
    }
}
