//! The reports of a conversion: before, with `--check`, and after.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::HumanBytes;
use nix::sys::resource::{getrusage, UsageWho};
use nix::sys::time::TimeValLike;
use pgseal_check::report::{gibibytes, lossy};
use pgseal_check::unlisted::listed;
use pgseal_convert::plan::Plan;
use pgseal_convert::Kind;
use pgseal_storage::wal::ClearWal;
use serde::Serialize;

use super::survey::{Space, Survey};

/// How far the conversion has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The conversion has not begun.
    New,
    /// It was interrupted before the first file was stored.
    Begun,
    /// It was interrupted while files were stored.
    Storing,
    /// It was interrupted when all files were stored, and not all of them had their names.
    Placing,
    /// An unseal is complete except for its leftovers.
    Ended,
}

impl Stage {
    /// Returns the state of the cluster, in words.
    fn state(self) -> Option<&'static str> {
        match self {
            Self::New => None,
            Self::Begun => Some(
                "nothing is converted yet: the interrupted conversion would \
                continue",
            ),
            Self::Storing => Some("partly converted: the interrupted conversion would continue"),
            Self::Placing => Some(
                "all files are converted, but not all have their names: the interrupted \
                conversion would continue",
            ),
            Self::Ended => Some("decrypted: only the rest of its key directory would be removed"),
        }
    }
}

/// The report before a conversion: what would be done.
#[derive(Serialize)]
pub struct Outlook<'a> {
    command: &'static str,
    /// The verb for the command's work on files, for people.
    #[serde(skip)]
    verb: &'static str,
    #[serde(serialize_with = "lossy")]
    data_directory: &'a Path,
    /// An interrupted conversion goes on.
    resumes: bool,
    stage: Stage,
    files: usize,
    bytes: u64,
    files_to_delete: usize,
    space: &'a [Space],
    /// Reading and encrypting; writing may take longer.
    seconds_at_least: Option<f64>,
    /// One sentence for each.
    obstacles: Vec<String>,
    /// Names at the top that are none of PostgreSQL's, and stay as they are.
    unlisted: &'a BTreeSet<String>,
}

impl<'a> Outlook<'a> {
    pub fn new(
        kind: Kind,
        data: &'a Path,
        survey: &'a Survey,
        stage: Stage,
        bytes_per_second: Option<f64>,
    ) -> Self {
        let bytes = bytes(&survey.plan);
        Self {
            command: kind.command(),
            verb: kind.verb(),
            data_directory: data,
            resumes: stage != Stage::New,
            stage,
            files: survey.plan.store.len(),
            bytes,
            files_to_delete: survey.plan.delete.len(),
            space: &survey.space,
            seconds_at_least: bytes_per_second.map(|speed| bytes as f64 / speed),
            obstacles: survey.obstacles.iter().map(ToString::to_string).collect(),
            unlisted: &survey.unlisted,
        }
    }
}

impl Display for Outlook<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let data = self.data_directory.display();
        if let Some(state) = self.stage.state() {
            writeln!(f, "{data}: {state}")?;
        }
        writeln!(
            f,
            "{}: would {} {} files ({}) and delete {} temporary files",
            self.command,
            self.verb,
            self.files,
            HumanBytes(self.bytes),
            self.files_to_delete
        )?;
        for space in self.space {
            writeln!(
                f,
                "space: {}: {} for copies, {} free",
                space.path.display(),
                HumanBytes(space.needed),
                HumanBytes(space.available)
            )?;
        }
        if let Some(seconds) = self.seconds_at_least {
            writeln!(f, "time: at least {seconds:.1} s; writing may take longer")?;
        }
        if !self.unlisted.is_empty() {
            let names = listed(self.unlisted);
            writeln!(f, "not files of PostgreSQL, and not encrypted: {names}")?;
        }
        for obstacle in &self.obstacles {
            writeln!(f, "blocker: {obstacle}")?;
        }
        if self.obstacles.is_empty() {
            writeln!(f, "nothing blocks it")?;
        }
        Ok(())
    }
}

/// The report after a conversion: what was done.
#[derive(Serialize)]
pub struct Done {
    command: &'static str,
    #[serde(serialize_with = "lossy")]
    data_directory: PathBuf,
    files: usize,
    pub bytes: u64,
    deleted_files: usize,
    threads: usize,
    seconds: f64,
    cpu_seconds: f64,
    gigabytes_per_second: f64,
    /// Where the key file is that opens what was archived and backed up before.
    kept_key_file: Option<String>,
    /// Up to where WAL is in clear that was archived before, if this run can tell.
    clear_wal: Option<String>,
}

impl Done {
    pub fn new(
        kind: Kind,
        data: &Path,
        jobs: NonZeroUsize,
        kept_key_file: Option<PathBuf>,
    ) -> Self {
        Self {
            command: kind.command(),
            data_directory: data.to_owned(),
            files: 0,
            bytes: 0,
            deleted_files: 0,
            threads: jobs.get(),
            seconds: 0.0,
            cpu_seconds: 0.0,
            gigabytes_per_second: 0.0,
            kept_key_file: kept_key_file.map(|path| path.to_string_lossy().into_owned()),
            clear_wal: None,
        }
    }

    /// Counts the files that this run stores and deletes.
    pub fn count(&mut self, plan: &Plan) {
        self.files = plan.store.len();
        self.bytes = bytes(plan);
        self.deleted_files = plan.delete.len();
    }

    pub fn end(&mut self, time: Duration, clear_wal: Option<ClearWal>) {
        self.clear_wal = clear_wal.map(|until| until.to_string());
        self.seconds = time.as_secs_f64();
        self.gigabytes_per_second = self.bytes as f64 / 1e9 / self.seconds;
        self.cpu_seconds = cpu_seconds();
    }
}

impl Display for Done {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} files, {} in {:.2} s ({:.2} GiB/s, {:.2} s of CPU time) on {} threads",
            self.command,
            self.files,
            HumanBytes(self.bytes),
            self.seconds,
            gibibytes(self.gigabytes_per_second),
            self.cpu_seconds,
            self.threads
        )?;
        if let Some(path) = &self.kept_key_file {
            writeln!(
                f,
                "the old key file is {path}: keep it while WAL archives and backups need it"
            )?;
        }
        if let Some(until) = &self.clear_wal {
            writeln!(
                f,
                "WAL that was archived before is not encrypted: a recovery that needs it accepts \
                it with PGSEAL_CLEAR_WAL={until}"
            )?;
        }
        Ok(())
    }
}

fn bytes(plan: &Plan) -> u64 {
    plan.store.iter().map(|task| task.len).sum()
}

/// Returns the processor time of this process so far, user and system, in seconds.
fn cpu_seconds() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return 0.0;
    };
    let microseconds = (usage.user_time() + usage.system_time()).num_microseconds();
    Duration::from_micros(microseconds.unsigned_abs()).as_secs_f64()
}
