//! The audit log as a file: one for each start, named by its time, chained to the one before it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::statvfs::fstatvfs;
use pgseal_evaluator::audit::{self, Broken, Chain, Event, Head};

/// The log of this process.
pub struct Log {
    previous: Option<Head>,
    open: Option<Mutex<Open>>,
}

struct Open {
    file: File,
    chain: Chain,
    unsynced: bool,
    /// The warning of a nearly full disk was printed.
    warned: bool,
}

/// The log warns when less than one byte in so many of the disk is free,
const LOW_FRACTION: u64 = 10;

/// and less than these bytes: a busy session writes some 20 MB a day, so the rest of a large disk
/// is room for months.
const LOW_BYTES: u64 = 1 << 30;

impl Log {
    /// No log.
    pub const fn none() -> Self {
        Self {
            previous: None,
            open: None,
        }
    }

    /// Begins a log in this directory. The one before it must hold: what follows a broken log would
    /// hide that.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let previous = last_head(directory)?;
        let name = format!("evaluator-{:016}.log", micros());
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o640)
            .open(directory.join(name))?;
        // The name is to last, too.
        File::open(directory)?.sync_all()?;
        Ok(Self {
            previous,
            open: Some(Mutex::new(Open {
                file,
                chain: Chain::new(),
                unsynced: false,
                warned: false,
            })),
        })
    }

    /// How the log before this one ended.
    pub fn previous(&self) -> Option<Head> {
        self.previous
    }

    /// Appends events of now.
    pub fn write(&self, events: &[Event]) {
        self.write_at(micros(), events);
    }

    /// Appends events, in microseconds since 1970. Anyone who cannot log must not go on: the
    /// process ends if it fails.
    pub fn write_at(&self, now: u64, events: &[Event]) {
        let (Some(open), false) = (&self.open, events.is_empty()) else {
            return;
        };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: String = events
            .iter()
            .map(|event| open.chain.append(now, event))
            .collect();
        let written = open.file.write_all(lines.as_bytes());
        end_if_failed(written);
        open.unsynced = true;
    }

    /// Sees to it that what was written is on the disk.
    pub fn sync(&self) {
        let Some(open) = &self.open else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut open.unsynced) {
            end_if_failed(open.file.sync_data());
            open.warn_if_nearly_full();
        }
    }
}

impl Open {
    /// Says so once, while there is time to make room.
    fn warn_if_nearly_full(&mut self) {
        let Ok(disk) = fstatvfs(&self.file) else {
            return;
        };
        let bytes = |blocks: u64| blocks.saturating_mul(disk.fragment_size());
        let left = bytes(disk.blocks_available());
        let is_low = is_nearly_full(left, bytes(disk.blocks()));
        if is_low && !self.warned {
            eprintln!(
                "pgseal-evaluator: {} kB are left for the audit log: make room, because this \
                process ends when it cannot write it",
                left >> 10
            );
        }
        self.warned = is_low;
    }
}

/// Whether so few bytes are left of a disk of this size that its operator must act.
fn is_nearly_full(left: u64, size: u64) -> bool {
    left < LOW_BYTES && left < size / LOW_FRACTION
}

fn end_if_failed(done: io::Result<()>) {
    if let Err(error) = done {
        eprintln!("pgseal-evaluator: the audit log cannot be written: {error}");
        process::exit(1);
    }
}

/// How the newest log of a directory that has a record ends.
fn last_head(directory: &Path) -> io::Result<Option<Head>> {
    for path in logs(directory)?.into_iter().rev() {
        match audit::verify(BufReader::new(File::open(&path)?)) {
            Ok(found) => return Ok(Some(found.head)),
            // Its evaluator was killed before it wrote.
            Err(Broken::Empty) => {}
            Err(why) => return Err(io::Error::other(format!("{}: {why}", path.display()))),
        }
    }
    Ok(None)
}

/// The logs of a directory, oldest first.
fn logs(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("evaluator-") && name.ends_with(".log") {
            logs.push(entry.path());
        }
    }
    logs.sort();
    Ok(logs)
}

fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_disk_is_nearly_full_by_its_share_and_by_its_bytes() {
        assert!(is_nearly_full(GIB - 1, 100 * GIB));
        assert!(is_nearly_full((10 << 20) - 1, 100 << 20));
        assert!(!is_nearly_full(GIB, 100 * GIB), "months of log");
        assert!(!is_nearly_full(24 * GIB, 252 * GIB), "months of log");
        assert!(
            !is_nearly_full(10 << 20, 100 << 20),
            "a small disk of its own"
        );
    }
}
