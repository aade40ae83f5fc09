//! An audit log as it grows: each look reads the records that came since the last one, follows
//! their chain, and counts them. Logs of keys and of evaluators have one form.
//!
//! Invariant: a log that was seen not to hold stays so until another file has its name. Records
//! that were read before are not read again: `pgseal key audit --verify` reads all of them.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pgseal_chain::Follower;
use pgseal_check::metrics::{name, Metrics};
use serde::Deserialize;

/// The most bytes that one look reads.
const MOST: u64 = 64 << 20;
/// The most bytes of a line, as writers have it.
const MAX_LINE: u64 = 16 << 10;
/// The most events of data directories that are told apart: a log may name any number. Behind them
/// events are counted without their directory.
const MAX_SERIES: usize = 1000;

/// A log, as far as it was read.
pub struct Log {
    path: PathBuf,
    /// The device and inode that were read.
    file: Option<(u64, u64)>,
    offset: u64,
    unread: u64,
    follower: Follower,
    counts: Counts,
    broken: Option<String>,
    unreadable: Option<io::Error>,
}

#[derive(Default)]
struct Counts {
    /// Counts by event and data directory.
    events: BTreeMap<(String, String), Count>,
    /// Counts by what an evaluator did with cells.
    cells: BTreeMap<&'static str, u64>,
    /// Counts by SQLSTATE.
    refusals: BTreeMap<String, u64>,
    /// Counts by the operation that a grant allowed.
    uses: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Count {
    records: u64,
    /// Seconds since 1970.
    last: u64,
}

/// A record; members that only some events have may be missing.
#[derive(Deserialize)]
struct Record {
    time: u64,
    event: String,
    #[serde(default)]
    data: String,
    #[serde(default)]
    compared: u64,
    #[serde(default)]
    hashed: u64,
    #[serde(default)]
    ranked: u64,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    operation: Option<String>,
    #[serde(default)]
    count: u64,
}

impl Log {
    /// Returns a log of which nothing was read.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            offset: 0,
            unread: 0,
            follower: Follower::default(),
            counts: Counts::default(),
            broken: None,
            unreadable: None,
        }
    }

    /// Reads what came since the last look.
    pub fn look(&mut self) {
        self.unreadable = self.read().err();
    }

    /// Returns what is wrong with the log.
    pub fn complaint(&self) -> Option<String> {
        let path = self.path.display();
        let broken = self.broken.as_ref();
        let broken = broken.map(|why| format!("the audit log {path} does not hold: {why}"));
        let unreadable = self.unreadable.as_ref();
        broken.or(unreadable.map(|error| format!("the audit log {path} cannot be read ({error})")))
    }

    fn read(&mut self) -> io::Result<()> {
        let file = File::open(&self.path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        self.begin_if_other(&metadata);
        if self.broken.is_some() {
            return Ok(());
        }
        if metadata.len() < self.offset {
            self.broken = Some("records at its end are missing".to_owned());
            return Ok(());
        }
        self.read_on(file, metadata.len())
    }

    /// Begins anew if another file has the name.
    fn begin_if_other(&mut self, metadata: &Metadata) {
        let file = Some((metadata.dev(), metadata.ino()));
        if self.file != file {
            *self = Self::new(&self.path);
            self.file = file;
        }
    }

    fn read_on(&mut self, mut file: File, len: u64) -> io::Result<()> {
        file.seek(SeekFrom::Start(self.offset))?;
        let mut lines = BufReader::new(file.take(MOST.min(len - self.offset)));
        let mut line = Vec::new();
        loop {
            line.clear();
            lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            match self.follower.follow(&line) {
                Ok(text) => self.counts.take(text),
                Err(why) => {
                    self.broken = Some(why.to_string());
                    break;
                }
            }
            self.offset += u64::try_from(line.len()).unwrap_or(0);
        }
        if u64::try_from(line.len()).is_ok_and(|len| len == MAX_LINE) {
            self.broken = Some("a line is longer than records are".to_owned());
        }
        self.unread = len - self.offset;
        Ok(())
    }

    /// Adds the log to the metrics.
    pub fn measure(&self, to: &mut Metrics) {
        let path = self.path.to_string_lossy();
        let log = ("log", &*path);
        to.add(&name::LOG_READABLE, &[log], self.unreadable.is_none());
        if self.file.is_none() {
            return;
        }
        to.add(&name::LOG_OK, &[log], self.broken.is_none());
        to.add(&name::LOG_UNREAD, &[log], self.unread);
        for ((event, data), count) in &self.counts.events {
            let labels = [log, ("event", event), ("data_directory", data)];
            to.add(&name::LOG_RECORDS, &labels, count.records);
            to.add(&name::LOG_LAST, &labels, count.last);
        }
        for (operation, count) in &self.counts.cells {
            to.add(
                &name::EVALUATOR_CELLS,
                &[log, ("operation", operation)],
                *count,
            );
        }
        let labelled = [
            (&name::EVALUATOR_REFUSALS, "sqlstate", &self.counts.refusals),
            (&name::EVALUATOR_USES, "operation", &self.counts.uses),
        ];
        for (metric, label, counts) in labelled {
            for (value, count) in counts {
                to.add(metric, &[log, (label, value)], *count);
            }
        }
    }
}

impl Counts {
    /// Counts a record whose chain holds; `text` lacks the brace that ends it.
    fn take(&mut self, text: &[u8]) {
        let text = [text, b"}"].concat();
        let Ok(record) = serde_json::from_slice::<Record>(&text) else {
            return;
        };
        let counted = match &*record.event {
            "refused" => record.refusal.clone().zip(Some(&mut self.refusals)),
            "use" => record.operation.clone().zip(Some(&mut self.uses)),
            _ => None,
        };
        if let Some((name, counts)) = counted {
            let count = counts.entry(name).or_default();
            *count = count.saturating_add(record.count.max(1));
        }
        if record.event == "cells" {
            self.take_cells(&record);
        }
        let mut key = (record.event, record.data);
        if self.events.len() >= MAX_SERIES && !self.events.contains_key(&key) {
            key.1.clear();
        }
        let count = self.events.entry(key).or_default();
        count.records += 1;
        count.last = record.time / 1_000_000;
    }

    fn take_cells(&mut self, record: &Record) {
        for (operation, count) in [
            ("compared", record.compared),
            ("hashed", record.hashed),
            ("ranked", record.ranked),
        ] {
            let sum = self.cells.entry(operation).or_default();
            *sum = sum.saturating_add(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use pgseal_chain::Chain;

    use super::*;

    struct Writer {
        _dir: tempfile::TempDir,
        path: PathBuf,
        chain: Chain,
    }

    impl Writer {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("log");
            let chain = Chain::new();
            fs::write(&path, "").expect("a file");
            Self {
                _dir: dir,
                path,
                chain,
            }
        }

        fn append(&mut self, text: &str) {
            let mut options = OpenOptions::new();
            let mut file = options.append(true).open(&self.path).expect("a file");
            file.write_all(text.as_bytes()).expect("room");
        }

        fn record(&mut self, event: &str, number: (&str, u64)) {
            let line = self.chain.append(7_000_000, event, |fields| {
                fields.text("data", "/d");
                fields.number(number.0, number.1);
            });
            self.append(&line);
        }
    }

    fn text(log: &Log) -> String {
        let mut metrics = Metrics::default();
        log.measure(&mut metrics);
        metrics.to_string()
    }

    #[test]
    fn each_look_counts_what_is_new() {
        let mut writer = Writer::new();
        let mut log = Log::new(&writer.path);
        for expected in 1..=3 {
            writer.record("unlocked", ("slot", 1));
            log.look();
            let events = &log.counts.events;
            let count = &events[&("unlocked".to_owned(), "/d".to_owned())];
            assert_eq!((count.records, count.last), (expected, 7));
        }
        writer.record("cells", ("compared", 5));
        writer.record("cells", ("compared", 6));
        log.look();
        assert_eq!(log.counts.cells["compared"], 11);
        assert!(text(&log).contains("event=\"unlocked\",data_directory=\"/d\"} 3\n"));
        assert_eq!(log.complaint(), None);
    }

    #[test]
    fn a_line_that_is_being_written_is_awaited() {
        let mut writer = Writer::new();
        let mut log = Log::new(&writer.path);
        let line = writer.chain.append(1, "start", |_| ());
        let (begin, end) = line.split_at(20);
        writer.append(begin);
        log.look();
        assert_eq!((log.offset, log.unread, log.complaint()), (0, 20, None));
        writer.append(end);
        log.look();
        assert_eq!((log.unread, log.complaint()), (0, None));
    }

    #[test]
    fn a_log_that_does_not_hold_stays_so() {
        let mut writer = Writer::new();
        writer.record("unlocked", ("slot", 1));
        let mut log = Log::new(&writer.path);
        log.look();
        let whole = fs::read(&writer.path).expect("a log");
        fs::write(&writer.path, &whole[..10]).expect("it is ours");
        log.look();
        fs::write(&writer.path, &whole).expect("it is ours");
        log.look();
        let complaint = log.complaint().expect("records were missing");
        assert!(
            complaint.ends_with("records at its end are missing"),
            "{complaint}"
        );
        fs::rename(&writer.path, writer.path.with_extension("1")).expect("it is ours");
        fs::write(&writer.path, whole).expect("a new file");
        log.look();
        assert_eq!(log.complaint(), None);
    }

    #[test]
    fn a_foreign_line_is_seen() {
        let mut writer = Writer::new();
        writer.record("unlocked", ("slot", 1));
        writer.append("{\"record\":2}\n");
        let mut log = Log::new(&writer.path);
        log.look();
        assert!(text(&log).contains("pgseal_audit_log_ok{"));
        assert!(log
            .complaint()
            .is_some_and(|why| why.contains("line 2 is not")));
    }

    #[test]
    fn a_log_that_is_missing_has_a_metric() {
        let mut log = Log::new(Path::new("/nonexistent/log"));
        log.look();
        assert!(text(&log).ends_with("pgseal_audit_log_readable{log=\"/nonexistent/log\"} 0\n"));
    }
}
