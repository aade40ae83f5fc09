//! How far WAL is read, and which segments must be there.
//!
//! After a power cut pages behind the end of WAL are in any state, because nobody had synced them,
//! and stay so until the server writes there again. So a page without its header is damage only
//! where somebody may still read it:
//! - on a timeline that the cluster has left, up to the point where the next one begins;
//! - on the cluster's own, up to the shutdown checkpoint of a server that was stopped in order. Of
//!   any other server the control file says how far WAL must reach at least: what is behind that
//!   may be the end of WAL or damage, and the finding says so;
//! - on other timelines, and in general, in each segment that another in use follows: PostgreSQL
//!   syncs a segment before it begins the next.
//!
//! WAL before the last checkpoint is not read by this server, but by standbys, slots and archives.
//!
//! The segments from the checkpoint's redo point to the checkpoint itself must be in `pg_wal`
//! unless the server takes WAL from elsewhere: one that goes by a backup label, a standby, one that
//! recovers from an archive. Of which timeline they are does not matter, because a segment that two
//! of them share is the same up to where they part.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use pgseal_storage::control::{Control, State};

use super::{le32, Checked, Fault};

/// Where `pg_control` says, in all versions, where the checkpoint is, where recovery from it
/// begins, on which timeline it was made, how far recovery got, and on which timeline.
const PLACE: usize = 32;
const REDO: usize = 40;
const TIMELINE: usize = 48;
const REACHED: usize = 136;
const REACHED_TIMELINE: usize = 144;
/// Bytes of a checkpoint's record: header, length, and the structure CheckPoint.
const CHECKPOINT_RECORD: u64 = 24 + 2 + 88;

/// The files that send a server elsewhere for WAL.
const ELSEWHERE: [&str; 3] = ["backup_label", "recovery.signal", "standby.signal"];

/// A segment of WAL, as far as it can be judged by itself.
#[derive(Debug)]
pub struct WalSegment {
    pub timeline: u32,
    /// Its first LSN.
    pub start: u64,
    /// Its first page is its own.
    pub in_use: bool,
    /// The faults that count if recovery reads the page: the block, the LSN and the fault.
    pub gaps: Vec<(u64, u64, Fault)>,
}

/// The WAL that recovery, and the servers that follow this one, read.
pub struct Recovery {
    timeline: u32,
    /// Where each timeline that this one comes from ends.
    ancestors: HashMap<u32, u64>,
    /// WAL reaches at least so far.
    reached: u64,
    /// It ends there.
    ends: bool,
    /// Segments that must be there: the first LSN of each, and its name.
    needed: Vec<(u64, String)>,
}

impl Recovery {
    /// Returns the WAL that is needed by `control`, which was read from `page`.
    pub fn of(data: &Path, control: &Control, page: &[u8]) -> Self {
        let made_on = le32(&page[TIMELINE..]);
        let timeline = made_on.max(le32(&page[REACHED_TIMELINE..]));
        let behind_checkpoint = le64(&page[PLACE..]).saturating_add(CHECKPOINT_RECORD);
        Self {
            timeline,
            ancestors: ancestors(data, timeline),
            reached: behind_checkpoint.max(le64(&page[REACHED..])),
            ends: control.state == State::ShutDown,
            needed: needed(data, control, page, made_on),
        }
    }

    /// Puts down the pages that somebody may read. Marks segments that must be there and are not
    /// in use, if nothing else is wrong with them; returns the names of those that are missing.
    pub fn mark(&self, checked: &mut [Checked]) -> Vec<String> {
        let last = last_in_use(checked);
        for file in checked.iter_mut() {
            let Some(wal) = &mut file.wal else { continue };
            let followed = last
                .get(&wal.timeline)
                .is_some_and(|last| *last > wal.start);
            for (block, address, fault) in std::mem::take(&mut wal.gaps) {
                let found = self.fault(wal.timeline, address, followed, fault);
                file.faults.extend(found.map(|found| (Some(block), found)));
            }
        }
        let missing = self.needed.iter();
        missing
            .filter_map(|(start, name)| must_be_in_use(*start, name, checked))
            .collect()
    }

    /// Returns the fault of a page at `address` that lacks its header, if that is one.
    fn fault(&self, timeline: u32, address: u64, followed: bool, fault: Fault) -> Option<Fault> {
        if let Some(end) = self.ancestors.get(&timeline) {
            return (address < *end).then_some(fault);
        }
        let own = timeline == self.timeline;
        if own && address < self.reached {
            return Some(fault);
        }
        match own && self.ends {
            true => None,
            false if followed => Some(fault),
            false => (timeline >= self.timeline).then_some(Fault::WalEnds),
        }
    }
}

/// Counts all pages, for use when it is not known how far WAL reaches.
pub fn mark_all(checked: &mut [Checked]) {
    for file in checked {
        let gaps = file.wal.iter_mut().flat_map(|wal| wal.gaps.drain(..));
        file.faults
            .extend(gaps.map(|(block, _, fault)| (Some(block), fault)));
    }
}

/// The last segment in use of each timeline.
fn last_in_use(checked: &[Checked]) -> HashMap<u32, u64> {
    let mut last = HashMap::new();
    for wal in checked.iter().filter_map(|file| file.wal.as_ref()) {
        let known = last.entry(wal.timeline).or_default();
        if wal.in_use {
            *known = wal.start.max(*known);
        }
    }
    last
}

fn must_be_in_use(start: u64, name: &str, checked: &mut [Checked]) -> Option<String> {
    let in_use = |file: &Checked| {
        let wal = file.wal.as_ref();
        wal.is_some_and(|wal| wal.in_use && wal.start == start)
    };
    if checked.iter().any(in_use) {
        return None;
    }
    let Some(file) = checked.iter_mut().find(|file| file.name == name) else {
        return Some(name.to_owned());
    };
    if file.faults.is_empty() {
        file.file_fault(Fault::NoCheckpoint);
    }
    None
}

fn needed(data: &Path, control: &Control, page: &[u8], timeline: u32) -> Vec<(u64, String)> {
    if ELSEWHERE.iter().any(|name| data.join(name).exists()) {
        return Vec::new();
    }
    let size = u64::from(control.wal_segment_size);
    let (redo, place) = (le64(&page[REDO..]), le64(&page[PLACE..]));
    let segments = redo.min(place) / size..=place / size;
    let named = segments.map(|segment| {
        let start = segment * size;
        let (log, in_log) = (start >> 32, (start & 0xFFFF_FFFF) / size);
        (start, format!("pg_wal/{timeline:08X}{log:08X}{in_log:08X}"))
    });
    named.collect()
}

/// Reads the timeline's history file: one line for each timeline before it, with the point where
/// the next one begins. The first timeline has none.
fn ancestors(data: &Path, timeline: u32) -> HashMap<u32, u64> {
    let file = data.join(format!("pg_wal/{timeline:08X}.history"));
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(ancestor).collect()
}

fn ancestor(line: &str) -> Option<(u32, u64)> {
    let mut fields = line.split_whitespace();
    let timeline = fields.next()?.parse().ok()?;
    let (high, low) = fields.next()?.split_once('/')?;
    let half = |digits| u32::from_str_radix(digits, 16).ok().map(u64::from);
    Some((timeline, half(high)? << 32 | half(low)?))
}

fn le64(bytes: &[u8]) -> u64 {
    u64::from(le32(bytes)) | u64::from(le32(&bytes[4..])) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Timeline 3 came from 2 at 0/5000, and 2 from 1 at 0/3000; WAL reaches 0/7000 at least.
    fn recovery(ends: bool) -> Recovery {
        Recovery {
            timeline: 3,
            ancestors: [(1, 0x3000), (2, 0x5000)].into(),
            reached: 0x7000,
            ends,
            needed: Vec::new(),
        }
    }

    #[test]
    fn a_timeline_that_was_left_counts_up_to_where_the_next_begins() {
        let fault =
            |timeline, address| recovery(true).fault(timeline, address, false, Fault::WalHeader);
        assert_eq!(fault(1, 0x2000), Some(Fault::WalHeader));
        assert_eq!(fault(1, 0x3000), None);
        assert_eq!(fault(2, 0x4000), Some(Fault::WalHeader));
        assert_eq!(fault(2, 0x6000), None);
    }

    #[test]
    fn the_own_timeline_counts_up_to_its_end_if_that_is_known() {
        let fault =
            |ends, address, followed| recovery(ends).fault(3, address, followed, Fault::WalHeader);
        for ends in [true, false] {
            assert_eq!(fault(ends, 0x6000, false), Some(Fault::WalHeader));
        }
        assert_eq!(fault(true, 0x8000, true), None);
        assert_eq!(fault(false, 0x8000, true), Some(Fault::WalHeader));
        assert_eq!(fault(false, 0x8000, false), Some(Fault::WalEnds));
    }

    #[test]
    fn other_timelines_count_where_another_segment_follows() {
        let fault =
            |timeline, followed| recovery(true).fault(timeline, 0x8000, followed, Fault::WalHeader);
        assert_eq!(fault(4, true), Some(Fault::WalHeader));
        assert_eq!(fault(4, false), Some(Fault::WalEnds));
        let mut without_history = recovery(true);
        without_history.ancestors.clear();
        let fault = |followed| without_history.fault(2, 0x8000, followed, Fault::WalHeader);
        assert_eq!(fault(true), Some(Fault::WalHeader));
        assert_eq!(fault(false), None);
    }

    #[test]
    fn a_history_file() {
        let data = tempfile::tempdir().expect("a directory");
        fs::create_dir(data.path().join("pg_wal")).expect("a directory");
        let text =
            "1\t0/3000148\tno recovery target specified\n\n2\t1/A0000000\tbefore 2000-01-01\n";
        fs::write(data.path().join("pg_wal/00000003.history"), text).expect("a file");
        let expected = [(1, 0x300_0148), (2, 0x1_A000_0000)].into();
        assert_eq!(ancestors(data.path(), 3), expected);
        assert!(ancestors(data.path(), 1).is_empty());
    }
}
