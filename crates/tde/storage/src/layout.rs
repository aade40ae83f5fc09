//! The rules by which a class of files is stored: the identity of the key, the master key that it
//! is derived from, and the layout of cipher blocks (docs/format/files.md).

use pgseal_crypto::{FileId, UNIT};

/// Bytes of one cipher block.
pub const BLOCK: u64 = pgseal_crypto::BLOCK as u64;
/// Bytes of one data unit: a PostgreSQL page.
pub const PAGE: u64 = UNIT as u64;

/// When stored zeros read as zeros (docs/format/files.md#zeros).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    /// Only a whole, aligned 8 kB page: relations and SLRUs, where a smaller hole would be a way
    /// to delete rows or commit bits unseen. In a page that is empty otherwise, sectors too.
    Page,
    /// A whole 16-byte block: WAL and streams, which are extended at any length.
    Block,
}

/// The processes that may write a file while it is read or written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Any process writes whole pages; one process at a time writes other ranges.
    Own,
    /// As [`Writers::Own`], but WAL holds no images of the pages, so nothing restores a block that
    /// was read half written. A process that reads beside the writer reads each block until two
    /// reads agree.
    NoImages,
    /// Any process writes any range (`pg_stat_statements`' texts); such transfers lock the file.
    Many,
    /// One process appends while others read without a lock (WAL): a cut last block is read
    /// until two reads agree.
    Racing,
}

/// How the bytes of one file are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Data units of 8 kB under XTS; a tail of less than 16 bytes is masked.
    Units {
        /// When stored zeros are a hole.
        zeros: Zeros,
        /// Tweak of the file's first data unit.
        first_unit: u64,
        /// The first block is stored as it is (`pg_control`'s identifier and versions).
        clear_head: bool,
        /// Zero blocks that are written stay zeros (a WAL segment being filled for later use).
        keep_zeros: bool,
        /// The processes that may write the file at the same time.
        writers: Writers,
    },
    /// A position-only keystream: one format for body and tail, so that a crash that separates
    /// size and data loses no byte that was durable before (`pg_logical/mappings`).
    Keystream,
}

impl Layout {
    /// Relations.
    pub const PAGES: Self = Self::units(Zeros::Page);
    /// SLRUs, maps of visibility and of free space: pages that recovery changes, and does not
    /// write whole.
    pub const PAGES_WITHOUT_IMAGES: Self = Self::units(Zeros::Page).by(Writers::NoImages);
    /// Named files that are written at any length, by one process.
    pub const STREAM: Self = Self::units(Zeros::Block);

    const fn units(zeros: Zeros) -> Self {
        let (clear_head, keep_zeros) = (false, false);
        Self::Units {
            zeros,
            first_unit: 0,
            clear_head,
            keep_zeros,
            writers: Writers::Own,
        }
    }

    /// Returns the same layout for files that several processes write at once.
    #[must_use]
    pub const fn shared(self) -> Self {
        self.by(Writers::Many)
    }

    const fn by(self, writers: Writers) -> Self {
        match self {
            Self::Units {
                zeros,
                first_unit,
                clear_head,
                keep_zeros,
                ..
            } => Self::Units {
                zeros,
                first_unit,
                clear_head,
                keep_zeros,
                writers,
            },
            Self::Keystream => self,
        }
    }

    /// `pg_control`: its first block stays in clear, so that an unsealed server stops at the CRC
    /// with the right message and tools still read the system identifier.
    pub const CONTROL: Self = Self::Units {
        zeros: Zeros::Block,
        first_unit: 0,
        clear_head: true,
        keep_zeros: false,
        writers: Writers::Own,
    };

    /// A WAL segment being made; its zero fill may stay zeros.
    pub const WAL_SCRATCH: Self = Self::Units {
        zeros: Zeros::Block,
        first_unit: 0,
        clear_head: false,
        keep_zeros: true,
        writers: Writers::Own,
    };

    /// A WAL segment whose first page has the absolute number `first_page`.
    #[must_use]
    pub const fn wal(first_page: u64) -> Self {
        Self::Units {
            zeros: Zeros::Block,
            first_unit: first_page,
            clear_head: false,
            keep_zeros: false,
            writers: Writers::Racing,
        }
    }

    /// Has WAL no images of the pages?
    #[must_use]
    pub const fn lacks_images(&self) -> bool {
        matches!(
            self,
            Self::Units {
                writers: Writers::NoImages,
                ..
            }
        )
    }

    /// Bytes that are always rewritten together: a page where a hole is a page, else a block.
    #[must_use]
    pub const fn granule(&self) -> u64 {
        match self {
            Self::Units {
                zeros: Zeros::Page, ..
            } => PAGE,
            _ => BLOCK,
        }
    }
}

/// Which master key a file's key is derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The cluster's master key.
    Cluster,
    /// The key that the postmaster makes at its start, and that is stored nowhere.
    Ephemeral,
}

/// All that is needed, beside a master key, to read and write one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The key's identity.
    pub id: FileId,
    /// The master key that the file's key is derived from.
    pub root: Root,
    /// The layout of its bytes.
    pub layout: Layout,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Granule, whether readers may meet half a block that nothing restores, and both again for
    /// files that several processes write.
    #[test]
    fn granules_and_images() {
        for (layout, granule, lacks_images) in [
            (Layout::PAGES, PAGE, false),
            (Layout::PAGES_WITHOUT_IMAGES, PAGE, true),
            (Layout::STREAM, BLOCK, false),
            (Layout::CONTROL, BLOCK, false),
            (Layout::WAL_SCRATCH, BLOCK, false),
            (Layout::wal(7), BLOCK, false),
            (Layout::Keystream, BLOCK, false),
        ] {
            assert_eq!(layout.granule(), granule, "{layout:?}");
            assert_eq!(layout.lacks_images(), lacks_images, "{layout:?}");
            assert_eq!(layout.shared().granule(), granule, "{layout:?}");
            assert!(!layout.shared().lacks_images(), "{layout:?}");
        }
        assert_eq!(Layout::Keystream.shared(), Layout::Keystream);
    }
}
