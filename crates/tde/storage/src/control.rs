//! `pg_control`: the few fields that decide something.
//!
//! `pgseal` reads them from a clear page (identifier, sizes, state), and so does the preload
//! library (a sealed server runs only with data checksums or `wal_log_hints`). Offsets are those
//! of catalog/pg_control.h of PostgreSQL 15 (and 13, 14, 16), 17, 18 and 19 on 64-bit
//! little-endian machines.
//!
//! Invariant: no field is believed before the page's CRC fits.

use crate::layout::PAGE;
use crate::version::majors;
use crate::wal::{is_segment_size, le32, le64};

/// State of a cluster (DBState).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Starting for the first time.
    Startup,
    /// Shut down cleanly.
    ShutDown,
    /// A standby that was shut down cleanly.
    ShutDownInRecovery,
    /// On its way down, or stopped in the middle of that.
    ShuttingDown,
    /// Recovering from a crash, or stopped in the middle of that.
    InCrashRecovery,
    /// A running standby, or one that was not shut down.
    InArchiveRecovery,
    /// Running, or crashed.
    InProduction,
}

impl State {
    const ALL: [Self; 7] = [
        Self::Startup,
        Self::ShutDown,
        Self::ShutDownInRecovery,
        Self::ShuttingDown,
        Self::InCrashRecovery,
        Self::InArchiveRecovery,
        Self::InProduction,
    ];
}

/// The fields of a `pg_control` that decide something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The cluster's system identifier.
    pub system_id: u64,
    /// Layout of `pg_control`: 1300, 1700, 1800 or 1905.
    pub version: u32,
    /// Version of the system catalogs.
    pub catalog_version: u32,
    /// Running, stopped or crashed.
    pub state: State,
    /// The position where the record of the last checkpoint begins. In a cluster that was shut
    /// down, that record is the last one.
    pub checkpoint: u64,
    /// The timeline of that checkpoint.
    pub timeline: u32,
    /// Bytes of a block of a relation.
    pub block_size: u32,
    /// Bytes of a block of WAL.
    pub wal_block_size: u32,
    /// Bytes of a WAL segment.
    pub wal_segment_size: u32,
    /// Do pages carry checksums?
    pub data_checksums: bool,
    /// Does WAL hold an image of a page whose hint bits change?
    pub wal_log_hints: bool,
}

/// Why a `pg_control` cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Too few bytes.
    #[error("pg_control has only {0} bytes: restore it from a backup")]
    Cut(usize),
    /// A layout that is not known here.
    #[error(
        "pg_control has version {0}, and pgseal encrypts clusters of PostgreSQL {majors} only: use \
         one of these",
        majors = majors()
    )]
    Version(u32),
    /// Damaged, or opened with a wrong key.
    #[error("incorrect checksum in pg_control: it is damaged, or sealed with another key")]
    Checksum,
    /// A value that PostgreSQL does not write.
    #[error("pg_control holds an impossible {0}: restore it from a backup")]
    Value(&'static str),
    /// Blocks of another size than the pages of sealed files. Processes that write neighbouring
    /// smaller blocks would undo each other, because each rewrites the whole page.
    #[error(
        "this PostgreSQL has {0} blocks of {1} bytes, and only such of 8192 can be sealed: use one \
         built with --with-blocksize=8 and --with-wal-blocksize=8, and move data there by pg_dump \
         (of a sealed cluster after pgseal unseal)"
    )]
    Blocks(&'static str, u32),
}

const VERSION: usize = 8;
const CATALOG_VERSION: usize = 12;
const STATE: usize = 16;
const CHECKPOINT: usize = 32;
const TIMELINE: usize = 48;
const CRC: usize = 4;
/// The size in bytes that PostgreSQL promises not to exceed, so that the file fits one disk
/// sector.
pub(crate) const MAX_SIZE: usize = 512;

/// Offsets of the fields that are not at the same place in every version.
struct Offsets {
    wal_log_hints: usize,
    block_size: usize,
    wal_block_size: usize,
    wal_segment_size: usize,
    checksum_version: usize,
    /// The CRC covers all before it.
    crc: usize,
}

impl Offsets {
    /// Up to version 17.
    const V1300: Self = Self {
        wal_log_hints: 176,
        block_size: 216,
        wal_block_size: 224,
        wal_segment_size: 228,
        checksum_version: 252,
        crc: 288,
    };
    /// 18 put the signedness of `char` before the nonce.
    const V1800: Self = Self {
        crc: 292,
        ..Self::V1300
    };
    /// 19 made the checkpoint 8 bytes longer, because an offset of a multixact has 64 bits. It has
    /// the size of SLRU segments before that of WAL's blocks, and the checksum version that initdb
    /// chose before the one that counts.
    const V1905: Self = Self {
        wal_log_hints: 184,
        block_size: 224,
        wal_block_size: 236,
        wal_segment_size: 240,
        checksum_version: 268,
        crc: 308,
    };

    /// Returns those of a layout; None if it is not known here.
    fn of(version: u32) -> Option<&'static Self> {
        match version {
            1300 | 1700 => Some(&Self::V1300),
            1800 => Some(&Self::V1800),
            1905 => Some(&Self::V1905),
            _ => None,
        }
    }
}

impl Control {
    /// Is this a `pg_control` in clear? The CRC of a sealed one does not fit. The CRC of one that
    /// a raw base backup carried does fit, but its values make no sense.
    #[must_use]
    pub fn is_clear(page: &[u8]) -> bool {
        Self::parse(page).is_ok()
    }

    /// Reads a clear `pg_control`, of which the first 512 bytes matter.
    pub fn parse(page: &[u8]) -> Result<Self, ControlError> {
        let page = page.get(..MAX_SIZE).ok_or(ControlError::Cut(page.len()))?;
        let version = le32(page, VERSION);
        let at = Offsets::of(version).ok_or(ControlError::Version(version))?;
        if crc32c::crc32c(&page[..at.crc]) != le32(page, at.crc) {
            return Err(ControlError::Checksum);
        }
        let wal_segment_size = le32(page, at.wal_segment_size);
        if !is_segment_size(u64::from(wal_segment_size)) {
            return Err(ControlError::Value("WAL segment size"));
        }
        let state = State::ALL.get(le32(page, STATE) as usize);
        Ok(Self {
            system_id: le64(page, 0),
            version,
            catalog_version: le32(page, CATALOG_VERSION),
            state: *state.ok_or(ControlError::Value("cluster state"))?,
            checkpoint: le64(page, CHECKPOINT),
            timeline: le32(page, TIMELINE),
            block_size: le32(page, at.block_size),
            wal_block_size: le32(page, at.wal_block_size),
            wal_segment_size,
            data_checksums: le32(page, at.checksum_version) != 0,
            wal_log_hints: page[at.wal_log_hints] != 0,
        })
    }

    /// Can the cluster be sealed, by its [blocks](check_blocks)?
    pub fn check_blocks(&self) -> Result<(), ControlError> {
        check_blocks(self.block_size, self.wal_block_size)
    }
}

/// Can a cluster be sealed that has blocks of these sizes in relations and in WAL?
pub fn check_blocks(data: u32, wal: u32) -> Result<(), ControlError> {
    for (what, size) in [("data", data), ("WAL", wal)] {
        if u64::from(size) != PAGE {
            return Err(ControlError::Blocks(what, size));
        }
    }
    Ok(())
}

/// Returns where the CRC is. None unless the CRC fits and zeros follow it, as in a control file
/// that a server checked before it sent it.
pub(crate) fn checked(page: &[u8]) -> Option<usize> {
    let head = page.get(..MAX_SIZE)?;
    let crc_at = Offsets::of(le32(head, VERSION))?.crc;
    let fits = crc32c::crc32c(&head[..crc_at]) == le32(head, crc_at);
    let ends = page[crc_at + CRC..].iter().all(|&byte| byte == 0);
    (fits && ends).then_some(crc_at)
}

/// Puts the CRC of the bytes before `crc_at` there, and zeros after it.
pub(crate) fn complete(page: &mut [u8], crc_at: usize) {
    let crc = crc32c::crc32c(&page[..crc_at]);
    page[crc_at..crc_at + CRC].copy_from_slice(&crc.to_le_bytes());
    page[crc_at + CRC..].fill(0);
}
