//! The identity of a file: the part of a key's derivation that differs between files.
//!
//! An identity survives copies, hard links and pg_upgrade; it holds no tablespace and no path of
//! the machine. Which file has which identity the storage crate decides; the bytes are fixed here.
//!
//! Invariant: two different identities of a class never have the same bytes.

use std::fmt;

/// The kinds of file that an identity names. The numbers are part of every key's derivation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// a permanent or unlogged relation
    Relation = 1,
    /// a temporary relation
    TempRelation = 2,
    /// the write-ahead log
    Wal = 3,
    /// a simple LRU area, such as `pg_xact`
    Slru = 4,
    /// any other file, by its name
    Named = 5,
}

/// A fork of a relation, with PostgreSQL's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fork {
    /// the rows
    Main = 0,
    /// the free space map
    Fsm = 1,
    /// the visibility map
    Vm = 2,
    /// what an unlogged relation is reset to
    Init = 3,
}

/// The longest identity: its length is one byte.
const MAX: usize = 255;

/// The identity of a file. Not secret; kept inline, so that making one allocates nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct FileId {
    class: Class,
    len: u8,
    bytes: [u8; MAX],
}

impl FileId {
    /// A segment of a permanent or unlogged relation. `relation` is the file's number.
    pub fn relation(database: u32, relation: u32, fork: Fork, segment: u32) -> Self {
        Self::from_parts(
            Class::Relation,
            &[
                &database.to_be_bytes(),
                &relation.to_be_bytes(),
                &[fork as u8],
                &segment.to_be_bytes(),
            ],
        )
    }

    /// A segment of a temporary relation of a backend: `t3_16400` may live beside `16400`.
    pub fn temp_relation(
        backend: u32,
        database: u32,
        relation: u32,
        fork: Fork,
        segment: u32,
    ) -> Self {
        Self::from_parts(
            Class::TempRelation,
            &[
                &backend.to_be_bytes(),
                &database.to_be_bytes(),
                &relation.to_be_bytes(),
                &[fork as u8],
                &segment.to_be_bytes(),
            ],
        )
    }

    /// A tebibyte of WAL: `epoch` is the LSN >> 40. No timeline: the same bytes are stored again
    /// under later timelines.
    pub fn wal(epoch: u64) -> Self {
        Self::from_parts(Class::Wal, &[&epoch.to_be_bytes()])
    }

    /// A segment of an SLRU by its path below the data directory, such as `pg_xact/0000`.
    pub fn slru(path: &[u8]) -> Option<Self> {
        Self::from_path(Class::Slru, path)
    }

    /// Any other protected file by its path below the data directory; the caller maps names of
    /// temporary files to the final ones.
    pub fn named(path: &[u8]) -> Option<Self> {
        Self::from_path(Class::Named, path)
    }

    /// Returns the kind of the file.
    pub fn class(&self) -> Class {
        self.class
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns `None` for an empty path and for one of more than 255 bytes.
    fn from_path(class: Class, path: &[u8]) -> Option<Self> {
        (1..=MAX)
            .contains(&path.len())
            .then(|| Self::from_parts(class, &[path]))
    }

    fn from_parts(class: Class, parts: &[&[u8]]) -> Self {
        let mut bytes = [0; MAX];
        let mut end = 0;
        for part in parts {
            bytes[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        let len = u8::try_from(end).expect("no identity is longer than 255 bytes");
        Self { class, len, bytes }
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({})", self.class, self.bytes().escape_ascii())
    }
}
