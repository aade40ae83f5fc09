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
    /// It was said that the disk is nearly full.
    warned: bool,
}

/// The log warns when less than one block in so many of the disk is free.
const NEARLY_FULL: u64 = 10;

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

    /// Appends events, in microseconds since 1970. Whoever cannot log must not go on: the process
    /// ends if it fails.
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
        let is_low = disk.blocks_available() < disk.blocks() / NEARLY_FULL;
        if is_low && !self.warned {
            let left = disk.blocks_available().saturating_mul(disk.fragment_size()) >> 10;
            eprintln!(
                "pgseal-evaluator: {left} kB are left for the audit log: make room, because this \
                process ends when it cannot write it"
            );
        }
        self.warned = is_low;
    }
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
