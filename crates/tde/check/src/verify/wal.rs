//! WAL segments.
//!
//! A segment is empty (made ahead, all zeros), recycled (its first page is that of the segment it
//! was, the rest is noise), or in use: then it has pages with their own address up to the last that
//! was written, and after that zeros or noise. So something is wrong with a page without its
//! address if one with it follows, and with a first page of zeros if anything follows: whether
//! that is damage depends on [how far WAL is read](super::recovery).

use indicatif::ProgressBar;
use pgseal_keys::raw::Raw;
use pgseal_storage::layout::PAGE;
use pgseal_storage::wal::{LongHeader, WalName, LONG_HEADER};
use pgseal_storage::Transfer;

use super::reader::{is_zero, pages, Pair};
use super::recovery::WalSegment;
use super::{Checked, Cluster, Fault};
use crate::pages::Page;

/// The kind of a segment, judged by the pages so far.
enum Segment {
    /// Nothing but zeros.
    Empty,
    /// Recycled, or its first page is damaged: the others can be anything.
    Unjudged,
    InUse {
        /// That of its pages.
        magic: [u8; 2],
        /// Pages without their address, after which none with it came yet.
        doubtful: Vec<u64>,
    },
}

impl Cluster<'_> {
    pub(super) fn wal_segment(
        &self,
        name: WalName,
        transfer: &mut Transfer<Raw>,
        bar: &ProgressBar,
        checked: &mut Checked,
    ) {
        // Without pg_control the file's own size is as good a guess.
        let said = self
            .control
            .as_ref()
            .map(|control| u64::from(control.wal_segment_size));
        let size = said.unwrap_or(checked.bytes);
        let place = name.spec(size).zip(name.start(size));
        let Some((spec, start)) = place.filter(|_| checked.bytes == size) else {
            return checked.file_fault(Fault::WalSize(checked.bytes));
        };
        let mut wal = WalSegment {
            timeline: timeline(&checked.name),
            start,
            in_use: false,
            gaps: Vec::new(),
        };
        let mut segment = Segment::Unjudged;
        pages(
            &self.sealed(&spec),
            transfer,
            bar,
            |block, page| match page {
                Err(errno) => checked.fault(block, Fault::unreadable(errno)),
                Ok(pair) if block == 0 => match self.first_page(&pair, start) {
                    Ok(known) => segment = known,
                    Err(Fault::WalHeader) => wal.gaps.push((0, start, Fault::WalHeader)),
                    Err(fault) => checked.fault(0, fault),
                },
                Ok(pair) => segment.page(block, &pair, checked, &mut wal),
            },
        );
        wal.in_use = matches!(segment, Segment::InUse { .. });
        checked.wal = Some(wal);
    }

    fn first_page(&self, pair: &Pair<'_>, start: u64) -> Result<Segment, Fault> {
        if is_zero(pair.clear) {
            return Ok(Segment::Empty);
        }
        let Some(header) = long_header(pair.clear) else {
            let in_clear = long_header(pair.stored).is_some();
            return Err(if in_clear {
                Fault::Clear
            } else {
                Fault::WalHeader
            });
        };
        let own = self.control.as_ref().map(|control| control.system_id);
        if own.is_ok_and(|own| own != header.system_id) {
            return Err(Fault::WalForeign);
        }
        Ok(match header.page_address == start {
            true => Segment::InUse {
                magic: [pair.clear[0], pair.clear[1]],
                doubtful: Vec::new(),
            },
            false => Segment::Unjudged,
        })
    }
}

impl Segment {
    fn page(&mut self, block: u64, pair: &Pair<'_>, checked: &mut Checked, wal: &mut WalSegment) {
        let address = wal.start + block * PAGE;
        match self {
            Self::Empty if !is_zero(pair.clear) => {
                wal.gaps.push((0, wal.start, Fault::WalZeroed));
                *self = Self::Unjudged;
            }
            Self::Empty | Self::Unjudged => {}
            Self::InUse { magic, .. } if is_page(pair.stored, *magic, address) => {
                checked.fault(block, Fault::Clear);
            }
            Self::InUse { magic, doubtful } if is_page(pair.clear, *magic, address) => {
                let gaps = doubtful.drain(..);
                let start = wal.start;
                let gap = |block| (block, start + block * PAGE, Fault::WalHeader);
                wal.gaps.extend(gaps.map(gap));
            }
            Self::InUse { doubtful, .. } => doubtful.push(block),
        }
    }
}

/// The first eight digits of a segment's name.
fn timeline(name: &str) -> u32 {
    let name = name.rsplit('/').next().unwrap_or(name);
    let digits = name.get(..8);
    digits
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .unwrap_or_default()
}

fn long_header(page: &Page) -> Option<LongHeader> {
    let head: &[u8; LONG_HEADER] = page.first_chunk()?;
    LongHeader::parse(head)
}

/// Magic number and 64 bits of address cannot be right by chance.
fn is_page(page: &Page, magic: [u8; 2], address: u64) -> bool {
    page[..2] == magic && page[8..16] == address.to_le_bytes()
}
