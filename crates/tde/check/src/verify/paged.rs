//! Files of whole pages: relations and SLRUs.

use indicatif::ProgressBar;
use pgseal_crypto::UNIT;
use pgseal_keys::raw::Raw;
use pgseal_storage::disk::read_full;
use pgseal_storage::scratch::Scratch;
use pgseal_storage::{SealedFile, Transfer};

use super::reader::{is_zero, pages, Pair};
use super::segments::segment_number;
use super::{Checked, Cluster, Fault};
use crate::pages::checksum::{checksum, stored};
use crate::pages::header;
use crate::pages::randomness::{look, look_between_holes, Look, BLOCK};
use crate::pages::Page;

impl Cluster<'_> {
    pub(super) fn relation(
        &self,
        sealed: &SealedFile<'_>,
        transfer: &mut Transfer<Raw>,
        bar: &ProgressBar,
        checked: &mut Checked,
    ) {
        let segment = segment_number(&checked.name).1;
        let first = u64::from(segment) * u64::from(self.segment_pages);
        let checksums = self.has_checksums();
        let judge = |block: u64, pair: &Pair<'_>| {
            // PostgreSQL counts blocks of a relation in 32 bits, and so does the checksum.
            let number = u32::try_from(first + block).unwrap_or(u32::MAX);
            relation_page(pair, number, checksums)
        };
        paged(sealed, transfer, bar, checked, judge);
    }

    pub(super) fn slru(
        &self,
        sealed: &SealedFile<'_>,
        transfer: &mut Transfer<Raw>,
        bar: &ProgressBar,
        checked: &mut Checked,
    ) {
        // Payloads of NOTIFY are the users' bytes, which may be as random as they like.
        let structured = !checked.name.starts_with("pg_notify/");
        let judge = |_, pair: &Pair<'_>| slru_page(pair, structured);
        paged(sealed, transfer, bar, checked, judge);
    }
}

fn paged(
    sealed: &SealedFile<'_>,
    transfer: &mut Transfer<Raw>,
    bar: &ProgressBar,
    checked: &mut Checked,
    judge: impl Fn(u64, &Pair<'_>) -> Option<Fault>,
) {
    if checked.bytes % UNIT as u64 != 0 {
        checked.file_fault(Fault::Size(checked.bytes));
    }
    pages(sealed, transfer, bar, |block, page| match page {
        Err(errno) => checked.fault(block, Fault::unreadable(errno)),
        Ok(pair) if pair.is_hole() => checked.hole(block),
        Ok(pair) => {
            checked.written = block + 1;
            if let Some(fault) = judge(block, &pair) {
                checked.fault(block, fault);
            }
        }
    });
}

/// Does the first page of a relation read as noise? A hole shows nothing.
pub(super) fn begins_with_noise(
    sealed: &SealedFile<'_>,
    transfer: &mut Transfer<Raw>,
) -> Option<bool> {
    let Scratch { run, unit } = transfer.scratch;
    let have = read_full(transfer.disk, &mut run[..UNIT], 0).ok()?;
    let stored: &Page = run[..have].try_into().ok()?;
    unit.copy_from_slice(stored);
    sealed.open_in_place(unit, 0);
    let pair = Pair {
        stored,
        clear: unit,
    };
    let noise = || matches!(relation_page(&pair, 0, false), Some(Fault::Noise));
    (!pair.is_hole()).then(noise)
}

fn relation_page(pair: &Pair<'_>, block: u32, checksums: bool) -> Option<Fault> {
    let fault = clear_fault(pair.clear, block, checksums)?;
    let in_clear = header::is_plausible(pair.stored)
        || look_between_holes(pair.stored, BLOCK) == Some(Look::Clear);
    Some(match fault {
        _ if in_clear => Fault::Clear,
        _ if pair.has_stored_zeros() => Fault::ZeroedInPart,
        Fault::Header if look(pair.clear) == Look::Random => Fault::Noise,
        fault => fault,
    })
}

/// As PostgreSQL judges a page when it reads it.
fn clear_fault(page: &Page, block: u32, checksums: bool) -> Option<Fault> {
    if is_zero(page) {
        return None;
    }
    if !header::is_plausible(page) {
        return Some(Fault::Header);
    }
    if !checksums {
        return None;
    }
    let (stored, computed) = (stored(page), checksum(page, block));
    (stored != computed).then_some(Fault::Checksum { stored, computed })
}

fn slru_page(pair: &Pair<'_>, structured: bool) -> Option<Fault> {
    if look_between_holes(pair.stored, BLOCK) == Some(Look::Clear) {
        Some(Fault::Clear)
    } else if pair.has_stored_zeros() {
        Some(Fault::ZeroedInPart)
    } else if structured && look(pair.clear) == Look::Random {
        Some(Fault::Noise)
    } else {
        None
    }
}
