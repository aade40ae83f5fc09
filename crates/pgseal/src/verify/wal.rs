//! WAL segments.
//!
//! A segment is empty (made ahead, all zeros), recycled (its first page is that of the segment it
//! was, the rest is noise), or in use: then it has pages with their own address up to the last that
//! was written, and after that zeros or noise. So a page without its address is damaged if one
//! with it follows.

use indicatif::ProgressBar;
use pgseal_storage::layout::PAGE;
use pgseal_storage::scratch::Scratch;
use pgseal_storage::wal::{LongHeader, WalName, LONG_HEADER};

use super::reader::{is_zero, pages, Pair};
use super::{Checked, Cluster, Fault};
use crate::pages::Page;
use crate::scan::raw::Raw;

/// What the first page says of its segment.
enum Use {
    Empty,
    Recycled,
    /// With the magic number of its pages.
    Live([u8; 2]),
}

impl Cluster<'_> {
    pub(super) fn wal_segment(
        &self,
        name: WalName,
        disk: &Raw,
        scratch: &mut Scratch,
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
        let mut found = None;
        let mut doubtful = Vec::new();
        pages(disk, &self.sealed(&spec), scratch, bar, |block, page| {
            let pair = match page {
                Ok(pair) => pair,
                Err(errno) => return checked.fault(block, Fault::unreadable(errno)),
            };
            if block == 0 {
                match self.first_page(&pair, start) {
                    Ok(usage) => found = Some(usage),
                    Err(fault) => checked.fault(0, fault),
                }
            } else if let Some(Use::Live(magic)) = found {
                let address = start + block * PAGE;
                if is_page(pair.clear, magic, address) {
                    doubtful
                        .drain(..)
                        .for_each(|block| checked.fault(block, Fault::WalHeader));
                } else if is_page(pair.stored, magic, address) {
                    checked.fault(block, Fault::Clear);
                } else {
                    doubtful.push(block);
                }
            }
        });
    }

    fn first_page(&self, pair: &Pair<'_>, start: u64) -> Result<Use, Fault> {
        if is_zero(pair.clear) {
            return Ok(Use::Empty);
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
        Ok(if header.page_address == start {
            Use::Live([pair.clear[0], pair.clear[1]])
        } else {
            Use::Recycled
        })
    }
}

fn long_header(page: &Page) -> Option<LongHeader> {
    let head: &[u8; LONG_HEADER] = page.first_chunk()?;
    LongHeader::parse(head)
}

/// Magic number and 64 bits of address cannot be right by chance.
fn is_page(page: &Page, magic: [u8; 2], address: u64) -> bool {
    page[..2] == magic && page[8..16] == address.to_le_bytes()
}
