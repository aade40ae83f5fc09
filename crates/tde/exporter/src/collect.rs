//! The metrics of all clusters and audit logs, as one look finds them.
//!
//! The version of the library, for which a process starts, and the findings of `doctor` are kept
//! for a minute, because they take longer than reading a few files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pgseal_check::discover::{discover, real};
use pgseal_check::doctor::{self, examine, Finding, Verdict};
use pgseal_check::metrics::{name, Metrics, OfDirectory};
use pgseal_check::status::{Question, Status};
use pgseal_check::unlisted::{logs, unlisted};
use pgseal_check::versions::Library;
use pgseal_keys::audit;
use pgseal_keys::exit::{sentence, Failure};
use pgseal_keys::keybin::{KeyDir, DIR};
use pgseal_keys::unlock::Ways;

use crate::evaluators;
use crate::log::Log;

/// The time for which the slower parts are kept.
const KEPT: Duration = Duration::from_secs(60);

/// The things that an exporter measures.
pub struct Sources {
    /// The version of the command.
    pub command: &'static str,
    /// Data directories; if there is none, those that are found on the machine.
    pub directories: Vec<PathBuf>,
    /// Audit logs beside the machine's logs of keys.
    pub audit_logs: Vec<PathBuf>,
    /// Directories of evaluators' logs; if there is none, that of the packaged unit.
    pub evaluator_logs: Vec<PathBuf>,
}

/// The state that is remembered from one look to the next.
pub struct Collector {
    sources: Sources,
    library: Option<Kept<Result<Library, Failure>>>,
    findings: BTreeMap<PathBuf, Kept<Result<Vec<Finding>, Failure>>>,
    logs: BTreeMap<PathBuf, Log>,
    complaints: BTreeSet<String>,
}

/// A value and when it was found.
struct Kept<T> {
    value: T,
    since: Instant,
}

impl<T> Kept<T> {
    fn new(value: T) -> Self {
        let since = Instant::now();
        Self { value, since }
    }

    fn is_fresh(&self) -> bool {
        self.since.elapsed() < KEPT
    }
}

impl Collector {
    /// Returns a collector that has looked at nothing.
    pub fn new(sources: Sources) -> Self {
        Self {
            sources,
            library: None,
            findings: BTreeMap::new(),
            logs: BTreeMap::new(),
            complaints: BTreeSet::new(),
        }
    }

    /// Looks at all clusters and logs, and returns the metrics as text.
    pub fn text(&mut self) -> String {
        let mut metrics = Metrics::default();
        let mut complaints = BTreeSet::new();
        let version = [("version", self.sources.command)];
        metrics.add(&name::BUILD_INFO, &version, true);
        let clusters = self.clusters(&mut metrics, &mut complaints);
        self.findings
            .retain(|data, kept| clusters.contains(data) && kept.is_fresh());
        self.library = self.library.take().filter(Kept::is_fresh);
        for data in &clusters {
            let mut part = Part {
                to: metrics.of(data),
                data,
                complaints: &mut complaints,
            };
            self.measure(&mut part);
        }
        self.measure_logs(&mut metrics, &mut complaints);
        self.complain(complaints);
        metrics.to_string()
    }

    fn clusters(&self, to: &mut Metrics, complaints: &mut BTreeSet<String>) -> BTreeSet<PathBuf> {
        let given = &self.sources.directories;
        let (clusters, errors) = match given.is_empty() {
            true => {
                let found = discover(Path::new("/"));
                (found.clusters, found.errors)
            }
            false => (
                given.iter().map(|data| real(data)).collect(),
                BTreeSet::new(),
            ),
        };
        to.add(&name::CLUSTERS, &[], count(clusters.len()));
        to.add(&name::DISCOVERY_ERRORS, &[], count(errors.len()));
        complaints.extend(errors);
        clusters
    }

    fn measure(&mut self, part: &mut Part<'_>) {
        let library = self
            .library
            .get_or_insert_with(|| Kept::new(Library::installed()));
        part.to.add(&name::READABLE, &[], is_readable(part.data));
        let status = Status::of(&Question {
            command: self.sources.command,
            data: part.data,
            ways: Ways::default(),
            shows_commands: false,
            opens_key: false,
            library: &library.value,
        });
        let version = library.value.as_ref().map(|_| ());
        part.collected("library", version);
        match &status {
            Ok(status) => status.measure(&mut part.to),
            Err(_) => part.to.add(&name::STATUS_OK, &[], false),
        }
        let is_sealed = status.as_ref().is_ok_and(Status::is_sealed);
        part.collected("status", status.as_ref().map(|_| ()));
        if is_sealed {
            part.clear_files();
            self.doctor(part);
        }
    }

    fn doctor(&mut self, part: &mut Part<'_>) {
        let command = self.sources.command;
        let kept = self.findings.entry(part.data.to_owned());
        let kept = kept.or_insert_with(|| Kept::new(findings(command, part.data)));
        part.collected("doctor", kept.value.as_ref().map(|_| ()));
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        for finding in kept.value.iter().flatten() {
            let verdict = match finding.verdict {
                Verdict::Good => "good",
                Verdict::Advice => "advice",
                Verdict::Wrong => "wrong",
            };
            *counts.entry((finding.about, verdict)).or_default() += 1;
        }
        for ((about, verdict), count) in counts {
            let labels = [("about", about), ("verdict", verdict)];
            part.to.add(&name::FINDINGS, &labels, count);
        }
    }

    fn measure_logs(&mut self, to: &mut Metrics, complaints: &mut BTreeSet<String>) {
        let of_machine = audit::logs();
        to.add(&name::LOGS_KNOWN, &[], of_machine.is_ok());
        if let Err(error) = &of_machine {
            complaints.insert(sentence(error));
        }
        let mut paths = evaluators::logs(&self.sources.evaluator_logs, to, complaints);
        paths.extend(of_machine.into_iter().flatten());
        paths.extend(self.sources.audit_logs.iter().cloned());
        self.logs.retain(|path, _| paths.contains(path));
        for path in paths {
            let log = self.logs.entry(path);
            let log = log.or_insert_with_key(|path| Log::new(path));
            log.look();
            log.measure(to);
            complaints.extend(log.complaint().map(|why| sentence(&why)));
        }
    }

    /// Says on standard error what is wrong since this look.
    fn complain(&mut self, complaints: BTreeSet<String>) {
        for complaint in complaints.difference(&self.complaints) {
            // Metrics say it as well, if standard error has no reader.
            let _ = writeln!(io::stderr(), "pgseal: {complaint}");
        }
        self.complaints = complaints;
    }
}

/// The metrics of one cluster while they are collected.
struct Part<'a> {
    to: OfDirectory<'a>,
    data: &'a Path,
    complaints: &'a mut BTreeSet<String>,
}

impl Part<'_> {
    /// Adds whether something could be collected, and remembers why not.
    fn collected(&mut self, collector: &str, result: Result<(), &Failure>) {
        let labels = [("collector", collector)];
        let code = result.map_or_else(|failure| failure.code().number(), |()| 0);
        self.to.add(&name::COLLECTOR_OK, &labels, code == 0);
        self.to.add(&name::COLLECTOR_CODE, &labels, code);
        if let Err(failure) = result {
            let data = self.data.display();
            let why = sentence(failure);
            self.complaints
                .insert(format!("{data}: no {collector}: {why}"));
        }
    }

    fn clear_files(&mut self) {
        match unlisted(self.data) {
            Ok(names) => self.to.add(&name::CLEAR_FILES, &[], count(names.len())),
            // The status could be read a moment ago.
            Err(_) => return,
        }
        let logs = logs(self.data);
        self.to.add(&name::CLEAR_LOGS, &[], count(logs.len()));
    }
}

fn findings(command: &'static str, data: &Path) -> Result<Vec<Finding>, Failure> {
    let report = examine(&doctor::Question {
        command,
        pgdata: Some(data),
        ways: Ways::default(),
        opens_key: false,
        max_age: None,
    })?;
    Ok(report.into_findings())
}

/// Whether the data directory, the key directory and the key file may be read, if they exist.
fn is_readable(data: &Path) -> bool {
    let dir = data.join(DIR);
    let is_open = |result: io::Result<()>| match result {
        Ok(()) => true,
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    let key = KeyDir::of(data).key_bin();
    fs::read_dir(data).is_ok()
        && is_open(fs::read_dir(dir).map(drop))
        && is_open(fs::File::open(key).map(drop))
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
