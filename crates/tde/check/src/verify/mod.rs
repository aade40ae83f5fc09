//! Checking every file of a stopped, sealed cluster with its key.
//!
//! What is checked, by sort of file:
//! - relations: each page that is not a hole has a possible header and, where the cluster has data
//!   checksums, the right checksum for its place; segments before the last are whole;
//! - SLRUs, which carry no checksum: no page is stored in clear, zeroed in part, or reads as noise
//!   (as a page does that was moved, or sealed with another key);
//! - WAL: the first page has a header of this cluster, or all pages are zeros; in a segment that is
//!   in use every page before the last written one has its own address (the records' CRCs are left
//!   to recovery); the segment of the last checkpoint is there, and in use;
//! - `pg_control`, two-phase state, logical snapshots, WAL summaries: their CRCs;
//! - every other sealed file: it can be read, and is not stored in clear.
//!
//! What cannot be checked: a page that is older than it should be, a whole page that was zeroed
//! (counted, and listed if a later page was written), 16 garbled bytes of a page without checksum.

mod fault;
mod named;
mod paged;
mod reader;
mod recovery;
mod remedy;
mod report;
mod run;
mod segments;
mod shared;
mod wal;

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use indicatif::ProgressBar;
use pgseal_crypto::{FileCipher, KeyLength, MasterKey, UNIT};
use pgseal_keys::control_file::{self, ControlReadError, Read};
use pgseal_keys::raw::Raw;
use pgseal_storage::classify::{classify, Class, Kind};
use pgseal_storage::control::{Control, ControlError, State};
use pgseal_storage::layout::{Root, Spec};
use pgseal_storage::scratch::Scratch;
use pgseal_storage::{Errno, SealedFile, Transfer};

use crate::scan::walk::Found;
pub use fault::Fault;
use recovery::{Recovery, WalSegment};
pub use report::{Report, Results, Unknown, Verdict};
pub use run::{refuse_running, verify, Options, ServerRuns};
pub use shared::Shared;

/// The rows of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    Relation,
    Slru,
    Wal,
    Other,
}

/// A file that is to be checked.
pub struct Task {
    pub found: Found,
    kind: Option<Kind>,
    class: Class,
}

/// The result of the check of one file.
#[derive(Debug)]
pub struct Checked {
    pub name: String,
    pub sort: Sort,
    pub bytes: u64,
    pub pages: u64,
    /// Whole pages of stored zeros.
    pub holes: Vec<Range<u64>>,
    /// One more than the last page that is no hole.
    pub written: u64,
    /// If it is a segment of WAL, what only shows when all are known.
    wal: Option<WalSegment>,
    /// The faults, each with its block if it is in one.
    pub faults: Vec<(Option<u64>, Fault)>,
}

impl Checked {
    fn new(task: &Task, sort: Sort) -> Self {
        Self {
            name: printable(&task.found.name),
            sort,
            bytes: task.found.len,
            pages: task.found.len.div_ceil(UNIT as u64),
            holes: Vec::new(),
            written: 0,
            wal: None,
            faults: Vec::new(),
        }
    }

    fn hole(&mut self, block: u64) {
        match self.holes.last_mut() {
            Some(last) if last.end == block => last.end += 1,
            _ => self.holes.push(block..block + 1),
        }
    }

    fn fault(&mut self, block: u64, fault: Fault) {
        self.faults.push((Some(block), fault));
    }

    fn file_fault(&mut self, fault: Fault) {
        self.faults.push((None, fault));
    }
}

/// A cluster, with the key and what `pg_control` says.
pub struct Cluster<'k> {
    master: &'k MasterKey,
    length: KeyLength,
    pub control: Result<Control, ControlError>,
    /// Pages of a whole segment file of a relation.
    segment_pages: u32,
    /// How far WAL is read, if `pg_control` says it.
    recovery: Option<Recovery>,
}

impl<'k> Cluster<'k> {
    /// Opens `pg_control`; a damaged one is a finding like others.
    pub fn open(
        data: &Path,
        master: &'k MasterKey,
        length: KeyLength,
    ) -> Result<Self, ControlReadError> {
        /// Where `pg_control` says how many pages a segment has, in all versions.
        const SEGMENT_PAGES: usize = 220;
        const DEFAULT_SEGMENT_PAGES: u32 = 131_072;
        let Read {
            said: control,
            page,
        } = control_file::read(data, master, length)?;
        let said = control.as_ref().ok();
        let segment_pages = said
            .map(|_| le32(&page[SEGMENT_PAGES..]))
            .filter(|pages| *pages > 0);
        Ok(Self {
            master,
            length,
            segment_pages: segment_pages.unwrap_or(DEFAULT_SEGMENT_PAGES),
            recovery: said.map(|control| Recovery::of(data, control, &page)),
            control,
        })
    }

    /// Was the server shut down in order? Otherwise pages may be torn until it has recovered.
    pub fn is_at_rest(&self) -> bool {
        let at_rest = |control: &Control| {
            matches!(control.state, State::ShutDown | State::ShutDownInRecovery)
        };
        self.control.as_ref().map_or(true, at_rest)
    }

    /// Do pages carry checksums?
    pub fn has_checksums(&self) -> bool {
        self.control
            .as_ref()
            .is_ok_and(|control| control.data_checksums)
    }

    /// Is the key another cluster's? It opens neither `pg_control` nor the beginning of any
    /// relation.
    pub fn is_of_another_key(&self, tasks: &[Task]) -> bool {
        /// Damage does not look so: relations of a cluster lie all over its disk.
        const LOOKED_AT: usize = 64;
        let mut scratch = Box::new(Scratch::new());
        let mut noise = tasks
            .iter()
            .filter(|task| task.kind == Some(Kind::Relation))
            .filter_map(|task| self.begins_with_noise(task, &mut scratch))
            .take(LOOKED_AT)
            .peekable();
        self.control == Err(ControlError::Checksum)
            && noise.peek().is_some()
            && noise.all(|noise| noise)
    }

    /// Does a file of this name belong to this cluster? Two clusters of different versions share
    /// tablespaces during an upgrade.
    fn owns(&self, name: &[u8]) -> bool {
        let mut parts = name.split(|&byte| byte == b'/');
        let (Ok(control), Some(b"pg_tblspc")) = (&self.control, parts.next()) else {
            return true;
        };
        let suffix = format!("_{}", control.catalog_version);
        parts
            .nth(1)
            .is_none_or(|version| version.ends_with(suffix.as_bytes()))
    }

    /// Marks what only shows when all files are known; returns files that should be there.
    pub fn mark_together(&self, checked: &mut [Checked]) -> Vec<String> {
        segments::mark_gaps(checked, self.segment_pages);
        let Some(recovery) = &self.recovery else {
            recovery::mark_all(checked);
            return Vec::new();
        };
        recovery.mark(checked)
    }

    fn sealed(&self, spec: &Spec) -> SealedFile<'k> {
        SealedFile::new(
            FileCipher::new(self.master, self.length, &spec.id),
            spec.layout,
        )
    }

    fn begins_with_noise(&self, task: &Task, scratch: &mut Scratch) -> Option<bool> {
        let Class::Sealed(spec) = &task.class else {
            return None;
        };
        let disk = Raw(File::open(&task.found.path).ok()?);
        paged::begins_with_noise(&self.sealed(spec), &mut Transfer::new(&disk, scratch))
    }

    /// Checks one file. `scratch` holds clear pages.
    pub fn check(&self, task: &Task, scratch: &mut Scratch, bar: &ProgressBar) -> Checked {
        match File::open(&task.found.path) {
            Ok(file) => self.check_open(task, &mut Transfer::new(&Raw(file), scratch), bar),
            Err(error) => {
                let mut checked = Checked::new(task, task.sort());
                let errno = error.raw_os_error().map_or(Errno::EIO, Errno);
                checked.file_fault(Fault::unreadable(errno));
                checked
            }
        }
    }

    fn check_open(&self, task: &Task, transfer: &mut Transfer<Raw>, bar: &ProgressBar) -> Checked {
        let mut checked = Checked::new(task, task.sort());
        match (&task.class, task.kind) {
            (Class::Refused(advice), _) => checked.file_fault(Fault::Refused(advice)),
            (Class::WalSegment(name), _) => {
                self.wal_segment(*name, transfer, bar, &mut checked);
            }
            (Class::Sealed(spec), Some(Kind::Relation)) => {
                self.relation(&self.sealed(spec), transfer, bar, &mut checked);
            }
            (Class::Sealed(spec), Some(Kind::Slru)) => {
                self.slru(&self.sealed(spec), transfer, bar, &mut checked);
            }
            (Class::Sealed(spec), kind) => {
                self.named(kind, &self.sealed(spec), transfer, bar, &mut checked);
            }
            (Class::Clear | Class::KeyDirectory | Class::WalRestored, _) => {
                unreachable!("such files are no tasks")
            }
        }
        checked
    }
}

/// The files of a cluster, by what is done with them.
#[derive(Default)]
pub struct Plan {
    pub tasks: Vec<Task>,
    /// Not sealed, by the class table.
    pub clear: u64,
    /// Sealed with a key that ended with the server, or of another cluster: not read.
    pub skipped: u64,
    /// Names that no row of the class table knows.
    pub unknown: Vec<Unknown>,
}

impl Plan {
    /// Sorts the files out.
    pub fn new(files: Vec<Found>, cluster: &Cluster<'_>) -> Self {
        let mut plan = Self::default();
        for found in files {
            plan.add(found, cluster);
        }
        plan
    }

    /// Relations that have one key.
    pub fn shared(&self) -> Vec<Shared> {
        let relations = self
            .tasks
            .iter()
            .filter(|task| task.sort() == Sort::Relation);
        let names: Vec<_> = relations.map(|task| printable(&task.found.name)).collect();
        shared::among(names.iter().map(String::as_str))
    }

    fn add(&mut self, found: Found, cluster: &Cluster<'_>) {
        let classified = classify(&found.name);
        if classified.row.is_none() {
            self.unknown.push(Unknown {
                file: printable(&found.name),
                sealed: matches!(classified.class, Class::Sealed(_)),
            });
        }
        match &classified.class {
            _ if !cluster.owns(&found.name) => self.skipped += 1,
            Class::Clear | Class::KeyDirectory => self.clear += 1,
            Class::WalRestored => self.skipped += 1,
            Class::Sealed(spec) if spec.root == Root::Ephemeral => self.skipped += 1,
            _ => self.tasks.push(Task {
                found,
                kind: classified.row.map(|row| row.kind),
                class: classified.class,
            }),
        }
    }
}

impl Task {
    fn sort(&self) -> Sort {
        match self.kind {
            Some(Kind::Relation) => Sort::Relation,
            Some(Kind::Slru) => Sort::Slru,
            Some(Kind::WalSegment) => Sort::Wal,
            _ => Sort::Other,
        }
    }
}

/// The first four bytes, of those that are known to be there.
fn le32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[i]))
}

/// A name as it can be printed.
pub fn printable(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
