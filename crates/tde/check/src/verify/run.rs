//! Going over a cluster: which files there are, what each is checked for, and the report.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pgseal_keys::check::CheckError;
use pgseal_keys::control_file;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::keybin::{KeyDir, DIR, SETTINGS};
use pgseal_keys::server;
use pgseal_keys::unlock::Unlocked;
use pgseal_storage::scratch::Scratch;

use super::{printable, Cluster, Fault, Plan, Report, Results};
use crate::scan::{pool, progress, walk};

/// The choices of a run.
pub struct Options {
    /// Whether what may be the trace of a crash counts as bad.
    pub strict: bool,
    /// The number of threads; one for each core if there is none.
    pub jobs: Option<NonZeroUsize>,
    pub shows_progress: bool,
}

/// The pages change while they are read.
#[derive(Debug, thiserror::Error)]
#[error(
    "a server is running on {0} (process {1}): stop it, for its files change while they are read"
)]
pub struct ServerRuns(PathBuf, u32);

impl Exit for ServerRuns {
    fn code(&self) -> Code {
        Code::Busy
    }
}

/// Refuses a data directory on which a server runs.
pub fn refuse_running(data: &Path) -> Result<(), Failure> {
    match server::of(data)?.pid() {
        Some(pid) => Err(ServerRuns(data.to_owned(), pid).into()),
        None => Ok(()),
    }
}

/// Checks every file of an unlocked cluster.
pub fn verify(unlocked: &Unlocked, options: &Options) -> Result<Report, Failure> {
    let data = &unlocked.root.path;
    let cluster = Cluster::open(data, &unlocked.master, unlocked.header.length)?;
    if let Ok(control) = &cluster.control {
        control.check_blocks()?;
    }
    let start = Instant::now();
    let found = walk::walk(data)?;
    let unmounted = unmounted(&found, &cluster);
    let plan = Plan::new(found.files, &cluster);
    if cluster.is_of_another_key(&plan.tasks) {
        return Err(CheckError::WrongKey(control_file::path(data), data.join(DIR)).into());
    }
    let shown = options.shows_progress;
    let bar = progress::bar(plan.tasks.iter().map(|task| task.found.len).sum(), shown);
    let jobs = pool::jobs(options.jobs);
    let check = |task: &_, scratch: &mut Box<Scratch>| cluster.check(task, scratch, &bar);
    let mut checked = pool::map(&plan.tasks, jobs, || Box::new(Scratch::new()), check);
    bar.finish_and_clear();
    let missing = cluster.mark_together(&mut checked);
    let copy = KeyDir::of(data).check_copy(&unlocked.header).err();
    let dangling = found.dangling.iter();
    let absent = dangling
        .map(|odd| (printable(&odd.name), Fault::Dangling))
        .chain(unmounted.into_iter().map(|name| (name, Fault::Unmounted)))
        .chain(missing.into_iter().map(|name| (name, Fault::WalMissing)))
        .chain(copy.map(|error| (format!("{DIR}/{SETTINGS}"), Fault::HeaderCopy(error))));
    let results = Results::new(checked, absent.collect(), options.strict);
    let time = start.elapsed();
    Ok(Report {
        data_directory: data.clone(),
        shut_down: cluster.is_at_rest(),
        data_checksums: cluster.has_checksums(),
        gigabytes_per_second: results.rate(time),
        results,
        shared: plan.shared(),
        unknown: plan.unknown,
        odd: names(&found.others),
        clear_files: plan.clear,
        skipped_files: plan.skipped,
        threads: jobs.get(),
        seconds: time.as_secs_f64(),
    })
}

/// Known by the version of the catalogs only.
fn unmounted(found: &walk::Walk, cluster: &Cluster<'_>) -> Vec<String> {
    let control = cluster.control.iter();
    let names = control.flat_map(|control| found.unmounted(control.catalog_version));
    names.map(printable).collect()
}

fn names(odd: &[walk::Odd]) -> Vec<String> {
    odd.iter().map(|odd| printable(&odd.name)).collect()
}
