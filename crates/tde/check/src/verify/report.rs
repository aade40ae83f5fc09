//! The final report of `verify`: findings, notes, a table, one sentence; or the same as JSON.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::HumanBytes;
use serde::Serialize;

use super::remedy::Remedy;
use super::segments::holes_below_writing;
use super::{Checked, Fault, Shared, Sort};
use crate::report;

/// All of it, as JSON has it.
#[derive(Serialize)]
pub struct Report {
    #[serde(serialize_with = "report::lossy")]
    pub data_directory: PathBuf,
    /// Whether the cluster was shut down in order; otherwise pages may be torn.
    pub shut_down: bool,
    pub data_checksums: bool,
    #[serde(flatten)]
    pub results: Results,
    pub unknown: Vec<Unknown>,
    /// Relations that are stored under one key.
    pub shared: Vec<Shared>,
    /// Not looked into: links in odd places, sockets, devices.
    pub odd: Vec<String>,
    pub clear_files: u64,
    pub skipped_files: u64,
    pub threads: usize,
    pub seconds: f64,
    pub gigabytes_per_second: f64,
}

/// The sums over the checked files.
#[derive(Serialize)]
pub struct Results {
    relations: Sum,
    slrus: Sum,
    wal: Sum,
    others: Sum,
    total: Sum,
    bad: Vec<Finding>,
    /// Zero pages below the last written one.
    holes: Vec<Hole>,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Sum {
    files: u64,
    pages: u64,
    zero_pages: u64,
    bad: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Finding {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<u64>,
    reason: String,
    remedy: Remedy,
}

#[derive(Serialize)]
struct Hole {
    file: String,
    first_block: u64,
    pages: u64,
}

/// A name that the class table does not know.
#[derive(Serialize)]
pub struct Unknown {
    pub file: String,
    pub sealed: bool,
}

/// The verdict that the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Bad,
}

impl Results {
    /// Sums up. `absent` is what cannot be checked and should be there; holes below written pages
    /// are findings if `strict`.
    pub fn new(mut checked: Vec<Checked>, absent: Vec<(String, Fault)>, strict: bool) -> Self {
        checked.sort_by(|a, b| a.name.cmp(&b.name));
        let holes = holes(&checked);
        if strict {
            add_holes(&mut checked, &holes);
        }
        let bad: Vec<_> = absent
            .into_iter()
            .map(|(file, fault)| Finding::new(file, None, &fault))
            .chain(findings(&checked))
            .collect();
        let sum = |sort| Sum::of(checked.iter().filter(|file| file.sort == sort));
        Self {
            relations: sum(Sort::Relation),
            slrus: sum(Sort::Slru),
            wal: sum(Sort::Wal),
            others: sum(Sort::Other),
            total: Sum {
                bad: bad.len() as u64,
                ..Sum::of(checked.iter())
            },
            bad,
            holes,
        }
    }

    pub fn verdict(&self) -> Verdict {
        if self.bad.is_empty() {
            Verdict::Good
        } else {
            Verdict::Bad
        }
    }

    /// Bytes that were read, in billions a second.
    #[allow(clippy::cast_precision_loss)] // a rate for people
    pub fn rate(&self, time: Duration) -> f64 {
        self.total.bytes as f64 / 1e9 / time.as_secs_f64()
    }
}

/// The report as text, for people.
impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.findings(f)?;
        self.notes(f)?;
        self.table(f)?;
        writeln!(
            f,
            "{:.2} s, {:.2} GiB/s on {} threads; not read: {} unencrypted files, {} that this \
            key does not open",
            self.seconds,
            report::gibibytes(self.gigabytes_per_second),
            self.threads,
            self.clear_files,
            self.skipped_files
        )?;
        self.sentences(f)
    }
}

impl Report {
    fn findings(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for Finding {
            file,
            block,
            reason,
            ..
        } in &self.results.bad
        {
            match block {
                Some(block) => writeln!(f, "{file}: block {block}: {reason}")?,
                None => writeln!(f, "{file}: {reason}")?,
            }
        }
        Ok(())
    }

    fn notes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for Hole {
            file,
            first_block,
            pages,
        } in &self.results.holes
        {
            writeln!(
                f,
                "note: {file}: {pages} zero pages from block {first_block} on, below written ones"
            )?;
        }
        for Shared { files } in &self.shared {
            writeln!(
                f,
                "warning: {}: one key, so a copy shows where they are equal; VACUUM FULL or REINDEX of \
                 one of them gives it another",
                files.join(" and ")
            )?;
        }
        for Unknown { file, sealed } in &self.unknown {
            let how = if *sealed { "encrypted" } else { "unencrypted" };
            writeln!(
                f,
                "warning: {file}: no rule names this file; it is stored {how}"
            )?;
        }
        for name in &self.odd {
            writeln!(
                f,
                "warning: {name}: not a file, or a link where PostgreSQL has none: not read"
            )?;
        }
        if !self.data_checksums {
            writeln!(f, "note: data checksums are off, or pg_control is damaged: only page headers could be checked")?;
        }
        if !self.shut_down {
            writeln!(f, "warning: the server was not shut down: pages may be torn until it has recovered; start it, stop it, and verify again")?;
        }
        Ok(())
    }

    fn table(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<10} {:>8} {:>12} {:>12} {:>8} {:>16}",
            "", "files", "pages", "zero pages", "bad", "size"
        )?;
        for (name, sum) in [
            ("relations", self.results.relations),
            ("SLRUs", self.results.slrus),
            ("WAL", self.results.wal),
            ("others", self.results.others),
            ("total", self.results.total),
        ] {
            let Sum {
                files,
                pages,
                zero_pages,
                bad,
                bytes,
            } = sum;
            let size = HumanBytes(bytes).to_string();
            writeln!(
                f,
                "{name:<10} {files:>8} {pages:>12} {zero_pages:>12} {bad:>8} {size:>16}"
            )?;
        }
        Ok(())
    }

    fn sentences(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.results.bad.is_empty() {
            return writeln!(f, "nothing bad found");
        }
        for remedy in Remedy::ALL {
            let bad = self.results.bad.iter();
            match bad.filter(|finding| finding.remedy == remedy).count() {
                0 => {}
                count => writeln!(f, "{}", remedy.sentence(count, self.shut_down))?,
            }
        }
        Ok(())
    }
}

impl Finding {
    fn new(file: String, block: Option<u64>, fault: &Fault) -> Self {
        Self {
            block,
            reason: fault.to_string(),
            remedy: Remedy::of(&file, fault),
            file,
        }
    }
}

impl Sum {
    fn of<'a>(files: impl Iterator<Item = &'a Checked>) -> Self {
        files.fold(Self::default(), |sum, file| Self {
            files: sum.files + 1,
            pages: sum.pages + file.pages,
            zero_pages: sum.zero_pages
                + file
                    .holes
                    .iter()
                    .map(|hole| hole.end - hole.start)
                    .sum::<u64>(),
            bad: sum.bad + file.faults.len() as u64,
            bytes: sum.bytes + file.bytes,
        })
    }
}

fn holes(checked: &[Checked]) -> Vec<Hole> {
    let hole = |(file, range): (&str, Range<u64>)| Hole {
        file: file.to_owned(),
        first_block: range.start,
        pages: range.end - range.start,
    };
    holes_below_writing(checked).into_iter().map(hole).collect()
}

fn findings(checked: &[Checked]) -> impl Iterator<Item = Finding> + '_ {
    checked.iter().flat_map(|file| {
        let found = file.faults.iter();
        found.map(|(block, fault)| Finding::new(file.name.clone(), *block, fault))
    })
}

fn add_holes(checked: &mut [Checked], holes: &[Hole]) {
    for hole in holes {
        let file = checked.iter_mut().find(|file| file.name == hole.file);
        let file = file.expect("holes were found in these files");
        for block in hole.first_block..hole.first_block + hole.pages {
            file.fault(block, Fault::Hole);
        }
    }
}
