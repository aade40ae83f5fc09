//! Going over directories: their files, what was not read, and the report.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pgseal_keys::exit::Failure;

use super::{audit, Canaries, Canary, Report, Unread};
use crate::scan::{pool, progress, walk};
use crate::unlisted::unlisted;

/// The choices of a run.
pub struct Options {
    /// The number of threads; one for each core if there is none.
    pub jobs: Option<NonZeroUsize>,
    pub shows_progress: bool,
}

/// Searches the files below these directories.
pub fn audit_all(
    directories: &[PathBuf],
    canaries: Vec<Canary>,
    options: &Options,
) -> Result<Report, Failure> {
    let (count, start) = (canaries.len(), Instant::now());
    let canaries = Canaries::new(canaries)?;
    let (mut files, mut unread) = (Vec::new(), Vec::new());
    for directory in directories {
        let found = walk::walk(directory)?;
        files.extend(found.files);
        let odd = found.others.iter().filter(|odd| odd.holds_data);
        unread.extend(odd.map(|odd| Unread::link(&odd.path)));
        unread.extend(found.dangling.iter().map(|odd| Unread::dangling(&odd.path)));
    }
    let total = files.iter().map(|file| file.len).sum();
    let bar = progress::bar(total, options.shows_progress);
    let work = |found: &_, buffer: &mut Vec<u8>| audit(found, &canaries, buffer, &bar);
    let audited = pool::map(&files, pool::jobs(options.jobs), Vec::new, work);
    bar.finish_and_clear();
    let time = start.elapsed();
    let mut report = Report::new(directories, &files, audited, &canaries, count, unread, time);
    let names = directories.iter().map(|path| not_postgresqls(path));
    report.unlisted = names.flatten().collect();
    Ok(report)
}

/// The clear names of a data directory. Other directories, such as archives, have their own names.
fn not_postgresqls(directory: &Path) -> BTreeSet<String> {
    match directory.join("PG_VERSION").exists() && directory.join("base").exists() {
        true => unlisted(directory).unwrap_or_default(),
        false => BTreeSet::new(),
    }
}
