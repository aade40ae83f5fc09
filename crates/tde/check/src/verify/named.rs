//! Files that are sealed under their own names: `pg_control`, streams, tuple moves.
//!
//! Where PostgreSQL gave a file a checksum of its own it is checked.

use indicatif::ProgressBar;
use pgseal_crypto::UNIT;
use pgseal_keys::raw::Raw;
use pgseal_storage::classify::Kind;
use pgseal_storage::control::Control;
use pgseal_storage::disk::read_full;
use pgseal_storage::layout::PAGE;
use pgseal_storage::{Errno, SealedFile, Transfer};

use super::{le32, Checked, Cluster, Fault};
use crate::pages::randomness::{look_between_holes, Look, BLOCK};

/// A file with a format that can be checked.
#[derive(Clone, Copy)]
enum Format {
    Control,
    TwoPhase,
    Snapshot,
    Summary,
    Statistics,
    Incremental,
}

impl Format {
    fn of(name: &str, kind: Option<Kind>) -> Option<Self> {
        let file = name.rsplit('/').next().unwrap_or(name);
        match kind {
            Some(Kind::Control) => Some(Self::Control),
            Some(Kind::Stream) if name.starts_with("pg_twophase/") => {
                (!file.ends_with(".tmp")).then_some(Self::TwoPhase)
            }
            Some(Kind::Stream) if name.starts_with("pg_logical/snapshots/") => {
                file.ends_with(".snap").then_some(Self::Snapshot)
            }
            Some(Kind::StreamAs(_)) if name.starts_with("pg_wal/summaries/") => {
                (file != "temp.summary").then_some(Self::Summary)
            }
            Some(Kind::Stream) if name == "pg_stat/pgstat.stat" => Some(Self::Statistics),
            Some(Kind::Stream) if file.starts_with("INCREMENTAL.") => Some(Self::Incremental),
            _ => None,
        }
    }

    /// Does the whole file have to be in memory? The others show by their first bytes.
    fn wants_all(self) -> bool {
        !matches!(self, Self::Statistics | Self::Incremental)
    }

    fn check(self, bytes: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Control => Control::parse(bytes).map(drop).map_err(Fault::Control),
            Self::TwoPhase => {
                let what = "two-phase state";
                magic(bytes, &0x57F9_4534_u32.to_le_bytes(), what)?;
                let total = bytes.get(4..8).map(le32);
                if total.map(u64::from) != Some(bytes.len() as u64) {
                    return Err(Fault::Crc(what));
                }
                crc_at_end(bytes, what)
            }
            Self::Snapshot => {
                let what = "logical decoding snapshot";
                magic(bytes, &0x51A1_E001_u32.to_le_bytes(), what)?;
                match bytes.split_at_checked(8) {
                    Some((head, rest)) if crc32c::crc32c(rest) == le32(&head[4..]) => Ok(()),
                    _ => Err(Fault::Crc(what)),
                }
            }
            Self::Summary => {
                let what = "WAL summary";
                magic(bytes, &0x652B_137B_u32.to_le_bytes(), what)?;
                crc_at_end(bytes, what)
            }
            // The low byte counts the versions of the format.
            Self::Statistics => {
                let known = bytes.get(1..).unwrap_or_default();
                magic(known, &[0xBC, 0xA5, 0x01], "statistics file")
            }
            Self::Incremental => magic(bytes, &0xD3AE_1F0D_u32.to_le_bytes(), "incremental file"),
        }
    }
}

fn magic(bytes: &[u8], wanted: &[u8], what: &'static str) -> Result<(), Fault> {
    bytes
        .starts_with(wanted)
        .then_some(())
        .ok_or(Fault::Magic(what))
}

/// A CRC-32C of all before it.
fn crc_at_end(bytes: &[u8], what: &'static str) -> Result<(), Fault> {
    match bytes.len().checked_sub(4).map(|at| bytes.split_at(at)) {
        Some((body, crc)) if crc32c::crc32c(body) == le32(crc) => Ok(()),
        _ => Err(Fault::Crc(what)),
    }
}

impl Cluster<'_> {
    pub(super) fn named(
        &self,
        kind: Option<Kind>,
        sealed: &SealedFile<'_>,
        transfer: &mut Transfer<Raw>,
        bar: &ProgressBar,
        checked: &mut Checked,
    ) {
        let format = Format::of(&checked.name, kind);
        let mut bytes = Vec::new();
        let mut clear = vec![0; UNIT];
        for block in 0..checked.pages {
            match both(sealed, transfer, &mut clear, block * PAGE) {
                Err(errno) => return checked.fault(block, Fault::unreadable(errno)),
                Ok((_, true)) => return checked.fault(block, Fault::Clear),
                Ok((have, false)) => {
                    if block == 0 || format.is_some_and(Format::wants_all) {
                        bytes.extend_from_slice(&clear[..have]);
                    }
                    bar.inc(have as u64);
                }
            }
        }
        if let Some(Err(fault)) = format.map(|format| format.check(&bytes)) {
            checked.file_fault(fault);
        }
    }
}

/// Reads a page into `clear`; says its length, and whether it is clear as it is stored.
fn both(
    sealed: &SealedFile<'_>,
    transfer: &mut Transfer<Raw>,
    clear: &mut [u8],
    offset: u64,
) -> Result<(usize, bool), Errno> {
    let have = read_full(transfer.disk, clear, offset)?;
    let in_clear = look_between_holes(&clear[..have], BLOCK) == Some(Look::Clear);
    let have = sealed.read_at(transfer, clear, offset)?;
    Ok((have, in_clear))
}
