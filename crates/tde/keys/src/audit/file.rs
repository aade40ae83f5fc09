//! The file of an audit log, to which many processes append, each of them once.
//!
//! A process takes the file's lock, reads the last line, and appends its own, which goes on from
//! that line's hash. A line that a killed process left without its end is cut off: it is no record.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg, OFlag};
use pgseal_chain::{hex, verify, Chain, Fields};

/// The most bytes of a line: a path of a data directory is the longest part of it.
const MAX_LINE: u64 = 16 * 1024;

/// The times, a millisecond apart, that the lock is tried. It is held for microseconds.
const TRIES: u32 = 200;

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the audit log {0} cannot be written ({1}): check its owner, mode and free space")]
    Write(PathBuf, io::Error),
    #[error("the audit log {0} is no regular file with one name: remove it or name another")]
    NotAFile(PathBuf),
    #[error("the audit log {0} does not end with a record, so nothing is appended: move it away")]
    NotALog(PathBuf),
    #[error("the audit log {0} is locked by another process: look which one holds it")]
    Locked(PathBuf),
    #[error("the audit log must be an absolute path, not {0}")]
    Relative(PathBuf),
    #[error("nothing is written to the audit log: {0}")]
    Policy(String),
}

/// Appends a record, and waits for the disk if it `lasts`.
pub fn append(
    path: &Path,
    now: u64,
    event: &str,
    lasts: bool,
    fields: impl FnOnce(&mut Fields<'_>),
) -> Result<(), LogError> {
    let failed = |error| LogError::Write(path.to_owned(), error);
    let mut file = lock(path, open(path)?)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() || metadata.nlink() > 1 {
        return Err(LogError::NotAFile(path.to_owned()));
    }
    let end = end(&file, metadata.len()).map_err(failed)?;
    let not_a_log = || LogError::NotALog(path.to_owned());
    let mut lines = String::new();
    let mut chain = match &end.last {
        Some(line) => Chain::after(line).ok_or_else(not_a_log)?,
        None => begin(path, now, &mut lines),
    };
    if !end.torn.is_empty() {
        if !is_part_of_a_record(&end.torn) {
            return Err(not_a_log());
        }
        file.set_len(end.len).map_err(failed)?;
    }
    lines.push_str(&chain.append(now, event, fields));
    if let Err(error) = file.write_all(lines.as_bytes()) {
        // A part of a line is no record, and the next process cuts it off if this fails.
        let _ = file.set_len(end.len);
        return Err(failed(error));
    }
    match lasts {
        true => file.sync_data().map_err(failed),
        false => Ok(()),
    }
}

/// Begins a log, whose first record names the last hash of the one that was rotated away.
fn begin(path: &Path, now: u64, lines: &mut String) -> Chain {
    let mut chain = Chain::new();
    let mut before = path.as_os_str().to_owned();
    before.push(".1");
    let before = File::open(before).ok();
    let before = before.and_then(|file| verify(BufReader::new(file)).ok());
    lines.push_str(&chain.append(now, "start", |fields| {
        fields.text("version", env!("CARGO_PKG_VERSION"));
        if let Some(before) = before {
            fields.text("previous", &hex(&before.head));
        }
    }));
    chain
}

fn open(path: &Path) -> Result<File, LogError> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut options = OpenOptions::new();
    let options = options.read(true).append(true).create(true).mode(0o600);
    let file = options.custom_flags(flags.bits()).open(path);
    file.map_err(|error| LogError::Write(path.to_owned(), error))
}

fn lock(path: &Path, mut file: File) -> Result<Flock<File>, LogError> {
    for _ in 0..TRIES {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err((unlocked, _)) => file = unlocked,
        }
        sleep(Duration::from_millis(1));
    }
    Err(LogError::Locked(path.to_owned()))
}

/// The end of a file.
struct End {
    /// the last whole line, if there is one
    last: Option<Vec<u8>>,
    /// the length of the whole lines
    len: u64,
    /// what follows them
    torn: Vec<u8>,
}

/// Nothing else is ever cut off.
fn is_part_of_a_record(torn: &[u8]) -> bool {
    const START: &[u8] = b"{\"record\":";
    START.starts_with(torn) || torn.starts_with(START)
}

fn end(file: &File, len: u64) -> io::Result<End> {
    let start = len.saturating_sub(MAX_LINE);
    let mut bytes = vec![0; usize::try_from(len - start).unwrap_or(0)];
    file.read_exact_at(&mut bytes, start)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n');
    let whole = whole.map_or(0, |at| at + 1);
    let torn = bytes.split_off(whole);
    let before = bytes.len().saturating_sub(1);
    let line = bytes[..before].iter().rposition(|byte| *byte == b'\n');
    let line = line.map_or(0, |at| at + 1);
    Ok(End {
        last: (!bytes.is_empty()).then(|| bytes[line..].to_vec()),
        len: start + u64::try_from(whole).unwrap_or(0),
        torn,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn record(path: &Path) -> Result<(), LogError> {
        append(path, 7, "unlocked", false, |fields| {
            fields.number("slot", 1)
        })
    }

    fn records(path: &Path) -> u64 {
        let log = fs::read(path).expect("a log");
        verify(&log[..]).expect("it holds").records
    }

    #[test]
    fn each_record_goes_on_from_the_one_before() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        (0..3).for_each(|_| record(&path).expect("it is ours"));
        assert_eq!(records(&path), 4);
    }

    #[test]
    fn many_at_once_make_one_chain() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..20).for_each(|_| record(&path).expect("it is ours")));
            }
        });
        assert_eq!(records(&path), 161);
    }

    #[test]
    fn a_torn_end_is_cut_off() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        record(&path).expect("it is ours");
        let whole = fs::read(&path).expect("a log");
        for len in [whole.len() - 1, whole.len() - 40, 5, 0] {
            fs::write(&path, &whole[..len]).expect("it is ours");
            record(&path).expect("it is ours");
            assert!(records(&path) >= 2, "{len}");
        }
    }

    #[test]
    fn what_is_no_log_is_left_as_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        let other = dir.path().join("other");
        fs::write(&other, "precious\n").expect("a file");
        symlink(&other, &path).expect("a link");
        assert!(matches!(record(&path), Err(LogError::Write(..))));
        assert!(matches!(record(&other), Err(LogError::NotALog(_))));
        fs::remove_file(&path).expect("a link");
        fs::write(&path, "no line feed").expect("a file");
        assert!(matches!(record(&path), Err(LogError::NotALog(_))));
        fs::remove_file(&path).expect("a file");
        fs::hard_link(&other, &path).expect("a link");
        assert!(matches!(record(&path), Err(LogError::NotAFile(_))));
        assert_eq!(fs::read_to_string(&other).expect("a file"), "precious\n");
    }

    #[test]
    fn a_log_that_was_rotated_away_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        record(&path).expect("it is ours");
        fs::rename(&path, dir.path().join("log.1")).expect("it is ours");
        record(&path).expect("it is ours");
        let read = |name| fs::read(dir.path().join(name)).expect("a log");
        let [old, new] = [read("log.1"), read("log")];
        let [old, new] = [&old, &new].map(|log| verify(&log[..]).expect("it holds"));
        assert_eq!(new.previous, Some(old.head));
    }

    #[test]
    fn a_full_disk_is_said() {
        let error = record(Path::new("/dev/full")).expect_err("it is full");
        assert!(matches!(error, LogError::NotAFile(_)));
        let error = record(Path::new("/nonexistent/log")).expect_err("no directory");
        assert!(error
            .to_string()
            .starts_with("the audit log /nonexistent/log cannot be written"));
    }
}
