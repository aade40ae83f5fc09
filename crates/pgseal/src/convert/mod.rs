//! Converting a stopped cluster in place: `seal`, `unseal` and `rekey` (docs/format/conversion.md).
//!
//! The order of writes is that of the pure crate; here are the file system, the locks, the keys,
//! the threads and what the operator sees.

mod estimate;
mod key_directory;
mod lock;
mod obstacle;
mod report;
mod survey;
mod tree;

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use indicatif::ProgressBar;
use pgseal_check::scan::walk::{walk, WalkError};
use pgseal_check::scan::{pool, progress};
use pgseal_check::verify::printable;
use pgseal_convert::copy::Work;
use pgseal_convert::plan::{Geometry, Plan, Task, CONTROL};
use pgseal_convert::steps::{self, ControlFailed, Ends, Failed, Key};
use pgseal_convert::{Journal, KeyDirectory, Kind, Phase};
use pgseal_crypto::KeyId;
use pgseal_keys::cluster::Root;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::keybin::{KeyDir, DIR};
use pgseal_keys::new_key::{new_key, KeyProtection, NewKey};
use pgseal_keys::raw::words;
use pgseal_keys::server;
use pgseal_keys::unlock::{unlock_from, Unlocked, Ways};
use pgseal_storage::control::{Control, ControlError, State};
use pgseal_storage::scratch::Scratch;
use pgseal_storage::wal::ClearWal;
use pgseal_storage::Errno;

use crate::output;
use key_directory::Keys;
use lock::Lock;
use obstacle::Obstacle;
use pgseal_keys::conversion::{self, Converting};
use report::{Done, Outlook, Stage};
use survey::{Survey, SurveyError};
use tree::Tree;

/// Why a cluster is not converted.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    #[error("{} is sealed already: `pgseal rekey` gives it another key", .0.display())]
    AlreadySealed(PathBuf),
    #[error("{} cannot be read: {} {}: {}", .0.display(), .1.doing, printable(&.1.name), words(.1.errno))]
    ReadControl(PathBuf, Failed),
    #[error("{}: {}", .0.display(), .1)]
    Control(PathBuf, ControlError),
    #[error("{}: {}{}", .0.display(), .1[0], more(.1.len() - 1))]
    Obstacles(PathBuf, Vec<String>),
    #[error("the key at hand is not that of the interrupted `pgseal {}`: restore {DIR} of {}", .1.command(), .0.display())]
    OtherKey(PathBuf, Kind),
    #[error("{} says that its cluster is decrypted almost to the end, and pg_control is encrypted: if the data directory is a copy, and no conversion of it runs, remove this file", .0.display())]
    OtherCopy(PathBuf),
    #[error("{DIR} of {} cannot be written ({}): fix that and try again", .0.display(), .1)]
    Begin(PathBuf, io::Error),
    #[error("cannot {} {} ({}): nothing is lost; fix that and run `pgseal {}` again", .0.doing, printable(&.0.name), words(.0.errno), .1.command())]
    Step(Failed, Kind),
    #[error(transparent)]
    Survey(#[from] SurveyError),
    #[error(transparent)]
    Walk(#[from] WalkError),
}

impl Exit for ConvertError {
    fn code(&self) -> Code {
        match self {
            Self::AlreadySealed(_) => Code::Usage,
            Self::Control(..) | Self::Obstacles(..) => Code::Found,
            Self::OtherKey(..) => Code::WrongKey,
            Self::OtherCopy(_) => Code::KeyFile,
            Self::ReadControl(..)
            | Self::Begin(..)
            | Self::Step(..)
            | Self::Survey(_)
            | Self::Walk(_) => Code::Io,
        }
    }
}

fn more(others: usize) -> String {
    match others {
        0 => String::new(),
        n => format!(" (and {n} more: see --check)"),
    }
}

/// The request for a conversion: seal has a new key, unseal an old one, rekey both.
pub struct Request {
    pub data: PathBuf,
    /// Nothing is changed: what would be done is said.
    pub check: bool,
    /// Lets a server run on the cluster, with `check`; it shall be stopped later. So nothing is
    /// locked, and what a stop and `pg_checksums --enable` change is no obstacle.
    pub beside_server: bool,
    /// Threads, if not one for each core.
    pub jobs: Option<NonZeroUsize>,
    /// The report is for machines.
    pub json: bool,
    pub shows_progress: bool,
    /// How the key that the files are under opens.
    pub old: Option<Ways>,
    /// The length and the protection of the key that they get.
    pub new: Option<KeyProtection>,
}

/// The keys at both ends.
#[derive(Default)]
struct Secrets {
    from: Option<Unlocked>,
    to: Option<Unlocked>,
}

impl Secrets {
    fn ends(&self) -> Ends<'_> {
        Ends {
            from: key(self.from.as_ref()),
            to: key(self.to.as_ref()),
        }
    }
}

fn key(unlocked: Option<&Unlocked>) -> Option<Key<'_>> {
    unlocked.map(|unlocked| Key {
        master: &unlocked.master,
        length: unlocked.header.length,
    })
}

fn key_id(unlocked: Option<&Unlocked>) -> Option<KeyId> {
    unlocked.map(|unlocked| unlocked.header.key_id)
}

/// One conversion of one cluster.
struct Conversion<'a> {
    data: PathBuf,
    kind: Kind,
    request: &'a Request,
    tree: Tree,
    keys: Keys,
    jobs: NonZeroUsize,
}

/// Does what is asked for, or says what it would be.
pub fn run(request: &Request) -> Result<ExitCode, Failure> {
    let kind = match (&request.old, &request.new) {
        (None, _) => Kind::Seal,
        (Some(_), None) => Kind::Unseal,
        (Some(_), Some(_)) => Kind::Rekey,
    };
    let data = Root::pending(&request.data)?.path;
    let ended = kind == Kind::Unseal && Keys::of(&data).has_ended();
    if kind != Kind::Seal && !ended {
        Root::required(&data)?;
    }
    let conversion = Conversion {
        tree: Tree(data.clone()),
        keys: Keys::of(&data),
        jobs: pool::jobs(request.jobs),
        data,
        kind,
        request,
    };
    if request.check && request.beside_server {
        return conversion.look_beside_server();
    }
    let mut lock = Lock::take(&conversion.data)?;
    conversion.run(&mut lock)
}

impl Conversion<'_> {
    fn run(&self, lock: &mut Lock) -> Result<ExitCode, Failure> {
        let journal = conversion::journal(&self.data)?;
        if let Some(other) = journal.as_ref().filter(|journal| journal.kind != self.kind) {
            return Err(Converting::Begun(self.data.clone(), other.kind).into());
        }
        if journal.is_none() && self.kind == Kind::Seal && self.data.join(DIR).exists() {
            return Err(ConvertError::AlreadySealed(self.data.clone()).into());
        }
        if self.kind == Kind::Unseal && self.keys.has_ended() {
            return self.clear_up(lock);
        }
        let dir = KeyDir::of(&self.data);
        let _keys = match self.kind {
            Kind::Seal => None,
            Kind::Unseal | Kind::Rekey => Some(dir.lock()?),
        };
        match journal {
            None => self.begin(lock),
            Some(journal) => self.go_on(journal, lock),
        }
    }

    /// `--check` while a server may run. The new key is made as a test that it can be.
    fn look_beside_server(&self) -> Result<ExitCode, Failure> {
        if let Some(journal) = conversion::journal(&self.data)? {
            let rest = Survey::of_rest(&self.data, &journal).map_err(ConvertError::Survey)?;
            return self.tell(&rest, self.stage(journal.phase));
        }
        let from = self.open_old()?;
        let mut survey = self.survey_of_changing(from.as_ref())?;
        let runs = server::of(&self.data)?.pid().is_some();
        survey.obstacles.retain(|obstacle| match obstacle {
            Obstacle::NotShutDown => !runs,
            Obstacle::NoChecksums => false,
            _ => true,
        });
        if let Some(new) = &self.request.new {
            new_key(new, Root::pending(&self.data)?)?;
        }
        self.tell(&survey, Stage::New)
    }

    /// An unseal that is complete except for its leftovers. A plain server may have run since.
    fn clear_up(&self, lock: &mut Lock) -> Result<ExitCode, Failure> {
        let control = self.control(None)?;
        if self.request.check {
            let obstacles = obstacle::state(self.kind, &self.data, &control);
            let rest = Survey {
                obstacles,
                ..Survey::default()
            };
            return self.tell(&rest, Stage::Ended);
        }
        self.refuse_for(&obstacle::state(self.kind, &self.data, &control))?;
        self.keep_servers_out(lock, None)?;
        let removed = self.keys.remove_leftovers();
        removed.map_err(|error| ConvertError::Begin(self.data.clone(), error))?;
        self.tell_done(&Done::new(self.kind, &self.data, self.jobs, None))
    }

    /// A cluster that no conversion has touched.
    fn begin(&self, lock: &mut Lock) -> Result<ExitCode, Failure> {
        let from = self.open_old()?;
        let survey = self.survey(from.as_ref(), false)?;
        if !self.request.check {
            self.refuse_for(&survey.obstacles)?;
        }
        let new = self.request.new.as_ref().map(|new| {
            let root = Root::pending(&self.data)?;
            Ok::<_, Failure>(new_key(new, root)?)
        });
        let new = new.transpose()?;
        if self.request.check {
            return self.tell(&survey, Stage::New);
        }
        let control = self.keep_servers_out(lock, from.as_ref())?;
        let to = new.as_ref().map(|new| new.cluster.header.key_id);
        let journal = Journal::new(&control, key_id(from.as_ref()), to);
        let journal = journal.expect("a request has a key");
        let begun = match (&new, self.kind) {
            (Some(new), Kind::Seal) => {
                let header = &new.cluster.header;
                self.keys.begin_sealing(&new.image, header, &journal)
            }
            (Some(new), _) => self.keys.prepare_next(&new.image, &new.cluster.header),
            (None, _) => self.keys.remove_leftovers(),
        };
        // If it failed when all was in place, the key counts.
        let counts = begun.is_ok() || !matches!(conversion::journal(&self.data), Ok(None));
        let to = new.filter(|_| counts).map(NewKey::keep);
        begun.map_err(|error| ConvertError::Begin(self.data.clone(), error))?;
        self.convert(journal, &Secrets { from, to })
    }

    /// A conversion that was interrupted.
    fn go_on(&self, journal: Journal, lock: &mut Lock) -> Result<ExitCode, Failure> {
        let mut rest = Survey::of_rest(&self.data, &journal).map_err(ConvertError::Survey)?;
        rest.obstacles.extend(self.of_plain_server(&journal)?);
        if self.request.check {
            return self.tell(&rest, self.stage(journal.phase));
        }
        self.refuse_for(&rest.obstacles)?;
        if journal.phase == Phase::Placing {
            lock.keep_servers_out()?;
            self.refuse_for(&self.of_plain_server(&journal)?)?;
            return self.convert(journal, &Secrets::default());
        }
        let secrets = Secrets {
            from: self.open_old()?,
            to: self.open_next()?,
        };
        let ids = (key_id(secrets.from.as_ref()), key_id(secrets.to.as_ref()));
        if ids != (journal.from, journal.to) {
            return Err(ConvertError::OtherKey(self.data.clone(), self.kind).into());
        }
        if self.tree.path(CONTROL).exists() {
            // The gate was not shut: a plain server may have run.
            self.refuse_for(&self.survey(secrets.from.as_ref(), true)?.obstacles)?;
            let control = self.keep_servers_out(lock, secrets.from.as_ref())?;
            // So may pg_resetwal: nothing is stored yet, and what is counts by the journal.
            let journal = Journal::new(&control, ids.0, ids.1).expect("as it was");
            let written = self.keys.write_journal(&journal);
            let failed = |errno: Errno| io::Error::from_raw_os_error(errno.0);
            written.map_err(|errno| ConvertError::Begin(self.data.clone(), failed(errno)))?;
            return self.convert(journal, &secrets);
        }
        lock.keep_servers_out()?;
        self.convert(journal, &secrets)
    }

    fn stage(&self, phase: Phase) -> Stage {
        match phase {
            Phase::Placing => Stage::Placing,
            Phase::Storing if self.tree.path(CONTROL).exists() => Stage::Begun,
            Phase::Storing => Stage::Storing,
        }
    }

    /// An unseal that is almost through has a `pg_control` in clear, or none. Where it is in clear
    /// a plain server may have run, and crashed. Where it is sealed, the journal is not of these
    /// files: the key directory is elsewhere.
    fn of_plain_server(&self, journal: &Journal) -> Result<Vec<Obstacle>, ConvertError> {
        let is_in_clear = self.kind == Kind::Unseal && journal.phase == Phase::Placing;
        if !is_in_clear || !self.tree.path(CONTROL).exists() {
            return Ok(Vec::new());
        }
        let journal = || self.data.join(DIR).join(conversion::JOURNAL);
        let control = { self.control(None) }.map_err(|_| ConvertError::OtherCopy(journal()))?;
        Ok(obstacle::state(self.kind, &self.data, &control))
    }

    fn open_old(&self) -> Result<Option<Unlocked>, Failure> {
        let Some(ways) = &self.request.old else {
            return Ok(None);
        };
        let root = Root::pending(&self.data)?;
        Ok(Some(unlock_from(&KeyDir::of(&self.data), root, ways)?))
    }

    /// The new key, from where it waits.
    fn open_next(&self) -> Result<Option<Unlocked>, Failure> {
        let Some(new) = &self.request.new else {
            return Ok(None);
        };
        let root = Root::pending(&self.data)?;
        Ok(Some(unlock_from(&self.keys.next(), root, &new.ways())?))
    }

    fn survey(&self, from: Option<&Unlocked>, begun: bool) -> Result<Survey, ConvertError> {
        let control = self.control(from)?;
        Ok(Survey::new(
            &self.data,
            (self.kind, begun),
            &control,
            self.jobs,
        )?)
    }

    /// A server removes files between the look at a directory and that at its files.
    fn survey_of_changing(&self, from: Option<&Unlocked>) -> Result<Survey, ConvertError> {
        const LOOKS: usize = 5;
        let has_changed = |error: &ConvertError| match error {
            ConvertError::Survey(SurveyError::Look(_, error)) => {
                error.kind() == io::ErrorKind::NotFound
            }
            ConvertError::Control(_, error) => *error == ControlError::Checksum,
            _ => false,
        };
        for _ in 1..LOOKS {
            match self.survey(from, false) {
                Err(error) if has_changed(&error) => {}
                survey => return survey,
            }
        }
        self.survey(from, false)
    }

    fn control(&self, from: Option<&Unlocked>) -> Result<Control, ConvertError> {
        let path = || self.data.join("global/pg_control");
        let control = steps::read_control(&self.tree, key(from), &mut Scratch::new());
        control.map_err(|error| match error {
            ControlFailed::Read(failed) => ConvertError::ReadControl(path(), failed),
            ControlFailed::Content(error) => ConvertError::Control(path(), error),
        })
    }

    fn refuse_for(&self, obstacles: &[Obstacle]) -> Result<(), ConvertError> {
        if obstacles.is_empty() {
            return Ok(());
        }
        let said = obstacles.iter().map(ToString::to_string).collect();
        Err(ConvertError::Obstacles(self.data.clone(), said))
    }

    /// Keeps servers from starting from here on. Fails if one ran since the cluster was looked at
    /// and is not shut down.
    fn keep_servers_out(
        &self,
        lock: &mut Lock,
        from: Option<&Unlocked>,
    ) -> Result<Control, Failure> {
        lock.keep_servers_out()?;
        let control = self.control(from)?;
        self.refuse_for(&obstacle::state(self.kind, &self.data, &control))?;
        Ok(control)
    }

    /// `--check`.
    fn tell(&self, survey: &Survey, stage: Stage) -> Result<ExitCode, Failure> {
        let speed = estimate::bytes_per_second(&self.tree, &survey.plan, self.jobs);
        let outlook = Outlook::new(self.kind, &self.data, survey, stage, speed);
        output::report(&outlook, self.request.json)?;
        Ok(match survey.obstacles.is_empty() {
            true => ExitCode::SUCCESS,
            false => Code::Found.into(),
        })
    }

    /// Runs the conversion to its end, from where `journal` says.
    fn convert(&self, mut journal: Journal, secrets: &Secrets) -> Result<ExitCode, Failure> {
        let start = Instant::now();
        let geometry = Geometry::from(&journal);
        let kept = self.keys.kept(&journal);
        let mut done = Done::new(self.kind, &self.data, self.jobs, kept);
        if journal.phase == Phase::Storing {
            let plan = self.plan(&geometry)?;
            done.count(&plan);
            let shown = self.request.shows_progress;
            let bar = progress::bar(done.bytes, shown);
            let ends = secrets.ends();
            let store_all = |batches: Vec<_>| self.store_all(&batches, &ends, &bar);
            let now = (&plan, &mut journal);
            steps::storing(&self.tree, &self.keys, now, &ends, store_all)
                .map_err(|failed| ConvertError::Step(failed, self.kind))?;
            bar.finish_and_clear();
        }
        let plan = self.plan(&geometry)?;
        steps::placing(&self.tree, &self.keys, &plan, &journal)
            .map_err(|failed| ConvertError::Step(failed, self.kind))?;
        done.end(start.elapsed(), self.clear_wal(secrets.to.as_ref()));
        self.tell_done(&done)
    }

    /// Up to where the cluster wrote WAL in clear. A standby's primary may do so still.
    fn clear_wal(&self, to: Option<&Unlocked>) -> Option<ClearWal> {
        let sealed = to.filter(|_| self.kind == Kind::Seal)?;
        let control = self.control(Some(sealed)).ok()?;
        (control.state == State::ShutDown).then_some(ClearWal::Until {
            timeline: control.timeline,
            lsn: control.checkpoint,
        })
    }

    fn tell_done(&self, done: &Done) -> Result<ExitCode, Failure> {
        match self.request.json {
            true => output::print_done(output::json(done))?,
            false => output::print_done(done)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn plan(&self, geometry: &Geometry) -> Result<Plan, ConvertError> {
        Ok(survey::plan(&walk(&self.data)?, geometry))
    }

    /// On all threads; the first failure keeps the others from beginning another batch.
    fn store_all(
        &self,
        batches: &[Vec<Task>],
        ends: &Ends<'_>,
        bar: &ProgressBar,
    ) -> Result<(), Failed> {
        let stop = AtomicBool::new(false);
        let store = |batch: &Vec<Task>, work: &mut Box<Work>| {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let stored = steps::store(&self.tree, ends, batch, work, &|bytes| bar.inc(bytes));
            stop.fetch_or(stored.is_err(), Ordering::Relaxed);
            stored
        };
        let results = pool::map(batches, self.jobs, Box::default, store);
        results.into_iter().collect()
    }
}
