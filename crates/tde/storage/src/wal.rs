//! WAL segment names, and the page header that says whose bytes a restored segment holds.
//!
//! A name is timeline, log and segment in eight hex digits each; with the segment size it gives the
//! absolute number of the segment's first page, which is its tweak. The timeline is left out: the
//! same bytes are re-stored under several. Keys are one per TiB of LSN.

use crate::layout::{Layout, Root, Spec, PAGE};
use pgseal_crypto::FileId;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Digits of a segment's name.
pub const NAME_LEN: usize = 24;
/// LSN bits below a key's scope: 1 TiB.
const EPOCH_SHIFT: u32 = 40;
/// Bytes of the long page header that starts every segment.
pub const LONG_HEADER: usize = 40;

/// Position part of a WAL segment's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalName {
    log: u32,
    segment: u32,
}

impl WalName {
    /// Parses exactly 24 upper-case hex digits.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        if name.len() != NAME_LEN {
            return None;
        }
        hex32(&name[..8])?;
        Some(Self {
            log: hex32(&name[8..16])?,
            segment: hex32(&name[16..])?,
        })
    }

    /// Returns the timeline in a segment's name. It decides nothing about how the segment is
    /// stored.
    #[must_use]
    pub fn timeline(name: &[u8]) -> Option<u32> {
        Self::parse(name)?;
        hex32(&name[..8])
    }

    /// Returns the segment's first LSN, if `segment_size` can have such a segment.
    #[must_use]
    pub fn start(self, segment_size: u64) -> Option<u64> {
        let in_log = u64::from(self.segment).checked_mul(segment_size)?;
        (is_segment_size(segment_size) && in_log < 1 << 32)
            .then(|| (u64::from(self.log) << 32) + in_log)
    }

    /// Returns the header of this very segment, if `page` begins with it in clear.
    #[must_use]
    pub fn header(self, page: &[u8]) -> Option<LongHeader> {
        let header = LongHeader::parse(page.first_chunk()?)?;
        let start = self.start(u64::from(header.segment_size));
        (start == Some(header.page_address)).then_some(header)
    }

    /// Returns the key's identity and the layout of the segment.
    #[must_use]
    pub fn spec(self, segment_size: u64) -> Option<Spec> {
        let start = self.start(segment_size)?;
        Some(Spec {
            id: FileId::wal(start >> EPOCH_SHIFT),
            root: Root::Cluster,
            layout: Layout::wal(start / PAGE),
        })
    }
}

/// Which WAL in clear a cluster takes from an archive and encrypts. Anyone who can write such an
/// archive chooses what the database becomes, so the rule comes from the operator and never from
/// files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClearWal {
    /// None: the rule of a cluster for which no other is set.
    #[default]
    Refused,
    /// Segments that end at or before this LSN, on this timeline or an earlier one: what a plain
    /// cluster archived before it was sealed. The segment with the LSN is archived later.
    Until {
        /// The last timeline.
        timeline: u32,
        /// The last LSN.
        lsn: u64,
    },
    /// Every segment, while a plain primary still writes the archive.
    Accepted,
}

/// A rule that is neither `accept` nor `TIMELINE:LSN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be `accept` or TIMELINE:LSN, such as 1:0/3000028")]
pub struct NoClearWal;

impl FromStr for ClearWal {
    type Err = NoClearWal;

    /// Reads the operator's setting; an empty one is no rule.
    fn from_str(text: &str) -> Result<Self, NoClearWal> {
        match text {
            "" => return Ok(Self::Refused),
            "accept" => return Ok(Self::Accepted),
            _ => {}
        }
        let (timeline, lsn) = text.split_once(':').ok_or(NoClearWal)?;
        let (high, low) = lsn.split_once('/').ok_or(NoClearWal)?;
        let half = |digits| u32::from_str_radix(digits, 16).map_err(|_| NoClearWal);
        Ok(Self::Until {
            timeline: timeline.parse().map_err(|_| NoClearWal)?,
            lsn: u64::from(half(high)?) << 32 | u64::from(half(low)?),
        })
    }
}

impl Display for ClearWal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => write!(f, "none"),
            Self::Until { timeline, lsn } => {
                write!(f, "{timeline}:{:X}/{:X}", lsn >> 32, lsn & 0xFFFF_FFFF)
            }
            Self::Accepted => write!(f, "accept"),
        }
    }
}

impl ClearWal {
    /// Does the rule admit a segment with this header, whose file name is or begins with `name`?
    #[must_use]
    pub fn admits(self, name: &[u8], header: &LongHeader) -> bool {
        let of = name.get(..NAME_LEN).and_then(WalName::timeline);
        let end = header
            .page_address
            .saturating_add(u64::from(header.segment_size));
        match self {
            Self::Refused => false,
            Self::Until { timeline, lsn } => of.is_some_and(|of| of <= timeline) && end <= lsn,
            Self::Accepted => true,
        }
    }
}

/// Segment sizes that initdb accepts: powers of two from 1 MB to 1 GB.
#[must_use]
pub fn is_segment_size(size: u64) -> bool {
    size.is_power_of_two() && (1 << 20..=1 << 30).contains(&size)
}

fn hex32(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value: u32, &digit| {
        let nibble = match digit {
            b'0'..=b'9' => digit - b'0',
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        Some(value << 4 | u32::from(nibble))
    })
}

/// The fields of a segment's long page header that cannot be right by chance
/// (access/xlog_internal.h, XLogLongPageHeaderData).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongHeader {
    /// LSN of the page.
    pub page_address: u64,
    /// The cluster's system identifier.
    pub system_id: u64,
    /// Bytes of a segment.
    pub segment_size: u32,
}

impl LongHeader {
    /// Reads a header, if `page` can be the first page of a segment.
    #[must_use]
    pub fn parse(page: &[u8; LONG_HEADER]) -> Option<Self> {
        const XLP_LONG_HEADER: u16 = 2;
        let long = u16::from_le_bytes([page[2], page[3]]) & XLP_LONG_HEADER != 0;
        let header = Self {
            page_address: le64(page, 8),
            system_id: le64(page, 24),
            segment_size: le32(page, 32),
        };
        let plausible = page[1] == 0xD1
            && long
            && u64::from(le32(page, 36)) == PAGE
            && is_segment_size(u64::from(header.segment_size))
            && header.page_address % u64::from(header.segment_size) == 0;
        plausible.then_some(header)
    }
}

pub(crate) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_the_page_number_for_every_segment_size() {
        let name = WalName::parse(b"0000000300000002000000FF").expect("a name");
        assert_eq!(name.start(16 << 20), Some(0x2_FF00_0000));
        assert_eq!(name.start(1 << 20), Some(0x2_0FF0_0000));
        assert_eq!(
            name.start(64 << 20),
            None,
            "segment 255 of 64 MB lies beyond its log"
        );
        let next = WalName::parse(b"000000030000000200000100").expect("a name");
        assert_eq!(next.start(16 << 20), None, "the first beyond its log");
        assert_eq!(name.start(3 << 20), None, "no segment size");
        let highest = WalName::parse(b"FFFFFFFFFFFFFFFFFFFFFFFF").expect("a name");
        assert_eq!(highest.start(1 << 30), None, "far beyond the last log");
    }

    #[test]
    fn the_timeline_is_not_part_of_the_identity() {
        let on = |tli: &str| WalName::parse(format!("{tli}0000010000000001").as_bytes());
        let spec = |tli| on(tli).and_then(|name| name.spec(16 << 20));
        assert!(spec("00000001").is_some());
        assert_eq!(spec("00000001"), spec("00000002"));
    }

    #[test]
    fn clear_wal_is_bounded_by_timeline_and_position() {
        let rule = |text: &str| text.parse::<ClearWal>();
        let admits = |rule: ClearWal, name: &str, page_address| {
            let header = LongHeader {
                page_address,
                system_id: 1,
                segment_size: 16 << 20,
            };
            rule.admits(name.as_bytes(), &header)
        };
        let first = "000000020000000A00000002";
        assert!(!admits(ClearWal::default(), first, 0));
        assert_eq!(rule("accept"), Ok(ClearWal::Accepted));
        assert!(admits(ClearWal::Accepted, first, 0xA_0200_0000));
        let until = rule("2:A/3000028").expect("a rule");
        assert_eq!(until.to_string(), "2:A/3000028");
        assert!(admits(until, first, 0xA_0200_0000));
        assert!(admits(
            until,
            "000000010000000A00000002.partial",
            0xA_0200_0000
        ));
        assert!(!admits(until, "000000020000000A00000003", 0xA_0300_0000));
        assert!(!admits(until, "000000030000000A00000002", 0xA_0200_0000));
        assert!(!admits(until, "RECOVERYXLOG", 0));
        assert_eq!(rule(""), Ok(ClearWal::Refused));
        for text in [
            "off",
            " ",
            "acept",
            "1",
            "1:3000028",
            "x:0/1",
            "1:0/",
            "1:0/123456789",
            "1:0/1/2",
        ] {
            assert_eq!(rule(text), Err(NoClearWal), "{text}");
        }
    }

    #[test]
    fn the_timeline_in_a_name() {
        assert_eq!(WalName::timeline(b"0000000A00000002000000FF"), Some(10));
        assert_eq!(WalName::timeline(b"0000000A00000002000000FG"), None);
    }

    /// The header of the first page of 000000010000000A00000002, in segments of 16 MB.
    fn page() -> [u8; LONG_HEADER] {
        let mut page = [0; LONG_HEADER];
        page[..4].copy_from_slice(&[0x10, 0xD1, 2, 0]);
        page[8..16].copy_from_slice(&0xA_0200_0000_u64.to_le_bytes());
        page[24..32].copy_from_slice(&7_000_000_000_000_000_001_u64.to_le_bytes());
        page[32..36].copy_from_slice(&(16u32 << 20).to_le_bytes());
        page[36..].copy_from_slice(&8192u32.to_le_bytes());
        page
    }

    #[test]
    fn the_first_page_of_a_segment_has_a_header() {
        let header = LongHeader {
            page_address: 0xA_0200_0000,
            system_id: 7_000_000_000_000_000_001,
            segment_size: 16 << 20,
        };
        let name = WalName::parse(b"000000010000000A00000002").expect("a name");
        assert_eq!(LongHeader::parse(&page()), Some(header));
        assert_eq!(name.header(&page()), Some(header));
        assert_eq!(name.header(&page()[1..]), None, "too short");
        let next = WalName::parse(b"000000010000000A00000003").expect("a name");
        assert_eq!(next.header(&page()), None, "of another segment");
    }

    /// Each of these pages has one field that cannot be right.
    #[test]
    fn other_pages_have_none() {
        for (at, bytes, why) in [
            (1, &[0xD2][..], "another magic"),
            (2, &[1], "a short header"),
            (9, &[0x20], "a page in the middle of a segment"),
            (32, &[0, 0, 8, 0], "segments of 512 kB"),
            (32, &[0, 0, 0, 0], "segments of no bytes"),
            (36, &[0, 0x10, 0, 0], "pages of 4 kB"),
        ] {
            let mut page = page();
            page[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(LongHeader::parse(&page), None, "{why}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "00000001000000000000000",
            "0000000100000000000000001",
            "00000001000000000000000g",
            "00000001000000000000000a",
        ] {
            assert_eq!(WalName::parse(name.as_bytes()), None, "{name}");
        }
    }
}
