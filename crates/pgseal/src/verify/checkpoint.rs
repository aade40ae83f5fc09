//! The segment of WAL with the last checkpoint, where a server begins to read when it starts.
//!
//! It must be in `pg_wal` unless the server takes WAL from elsewhere: one that goes by a backup
//! label, a standby, one that recovers from an archive. Of which timeline it is does not matter,
//! because a segment that two of them share is the same up to where they part.

use std::path::Path;

use pgseal_storage::control::Control;

use super::{le32, Checked, Fault};

/// Where `pg_control` says, in all versions, where the checkpoint is and on which timeline.
const PLACE: usize = 32;
const TIMELINE: usize = 48;

/// What sends a server elsewhere for WAL.
const ELSEWHERE: [&str; 3] = ["backup_label", "recovery.signal", "standby.signal"];

/// A segment that must be there.
pub struct Checkpoint {
    start: u64,
    name: String,
}

impl Checkpoint {
    /// By `control`, which was read from `page`.
    pub fn of(data: &Path, control: &Control, page: &[u8]) -> Option<Self> {
        if ELSEWHERE.iter().any(|name| data.join(name).exists()) {
            return None;
        }
        let (low, high) = (le32(&page[PLACE..]), le32(&page[PLACE + 4..]));
        let segment = low / control.wal_segment_size;
        let start = u64::from(segment) * u64::from(control.wal_segment_size);
        Some(Self {
            start: (u64::from(high) << 32) + start,
            name: format!(
                "pg_wal/{:08X}{high:08X}{segment:08X}",
                le32(&page[TIMELINE..])
            ),
        })
    }

    /// Marks the segment if it is not in use and nothing else is wrong with it; returns its name if
    /// it is missing.
    pub fn mark(&self, checked: &mut [Checked]) -> Option<String> {
        let in_use = |file: &Checked| file.wal_in_use == Some(self.start);
        if checked.iter().any(in_use) {
            return None;
        }
        let Some(file) = checked.iter_mut().find(|file| file.name == self.name) else {
            return Some(self.name.clone());
        };
        if file.faults.is_empty() {
            file.file_fault(Fault::NoCheckpoint);
        }
        None
    }
}
