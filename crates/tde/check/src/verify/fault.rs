//! The faults of a page or a file, in the words that the operator reads.

use pgseal_keys::keybin::CopyError;
use pgseal_keys::raw::words;
use pgseal_storage::control::ControlError;
use pgseal_storage::Errno;

/// One finding.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("is stored unencrypted and should be encrypted")]
    Clear,
    #[error("page checksum is {stored:04x} and should be {computed:04x}: damaged")]
    Checksum { stored: u16, computed: u16 },
    #[error("page header is damaged")]
    Header,
    #[error("decrypts to random bytes: overwritten, moved, or encrypted with another key")]
    Noise,
    #[error("is zero in part")]
    ZeroedInPart,
    #[error("is all zeros, below a page that was written (--strict)")]
    Hole,
    #[error("size {0} is not a multiple of the page size: truncated or damaged")]
    Size(u64),
    #[error(
        "the segment before it is missing or incomplete, so PostgreSQL does not read this one"
    )]
    AfterGap,
    #[error("size {0} is not that of a WAL segment of this cluster")]
    WalSize(u64),
    #[error("has no WAL page header: damaged, moved, or encrypted with another key")]
    WalHeader,
    #[error("has no WAL page header, and recovery ends before it: after a power cut that may be the end of WAL, otherwise it is damaged and commits are lost")]
    WalEnds,
    #[error("holds WAL of another cluster")]
    WalForeign,
    #[error("is zeroed, and pages after it are not")]
    WalZeroed,
    #[error("belongs to the last checkpoint and is not in use: the server cannot start from it")]
    NoCheckpoint,
    #[error("is missing and belongs to the last checkpoint: the server cannot start without it")]
    WalMissing,
    #[error("{0}")]
    Control(#[from] ControlError),
    #[error("is no {0}: damaged, moved, or sealed with another key")]
    Magic(&'static str),
    #[error("incorrect checksum in {0}: damaged")]
    Crc(&'static str),
    #[error(transparent)]
    HeaderCopy(#[from] CopyError),
    #[error("is a dangling link: mount its target")]
    Dangling,
    #[error("contains no directory of this cluster: mount the right file system")]
    Unmounted,
    #[error("cannot be sealed: {0}")]
    Refused(&'static str),
    #[error("cannot be read: {0}")]
    Unreadable(&'static str),
}

impl Fault {
    pub fn unreadable(errno: Errno) -> Self {
        Self::Unreadable(words(errno))
    }
}
