//! `pgseal enable` and `pgseal disable`: everything between a plain cluster of this machine and a
//! sealed one that its server is started as (docs/operations/enable.md).
//!
//! `plan.rs` decides the steps and `settings.rs` the texts; both are pure. `host.rs` is how the
//! machine runs clusters, `child.rs` how programs are run, and here facts are found and steps done.
//! The conversion is that of `pgseal seal` and `pgseal unseal`, as the server's user, in the
//! environment that the server is started with: so a key that cannot be opened at the next start
//! is noticed before anything is encrypted.

mod child;
mod error;
mod facts;
mod host;
mod passphrase;
mod plan;
mod report;
mod settings;

use std::fs::{self, File};
use std::io::{self, BufRead, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use pgseal_convert::Kind;
use pgseal_keys::exit::{Code, Failure};
use pgseal_keys::keybin::KeyDir;
use pgseal_keys::postgres::check_cluster;
use pgseal_keys::server::{self, Server};

use crate::cli::enable::{EnableKey, TargetOptions};
use crate::output;
use child::Program;
pub use error::EnableError;
use facts::{Found, Protection};
use host::Host;
use plan::{State, Step};

/// Runs of this command for any cluster exclude each other: wrappers belong to many.
const LOCK: &str = "/run/pgseal-enable.lock";

/// Seals a cluster, or says what that would do.
pub fn enable(target: &TargetOptions, key: &EnableKey) -> Result<ExitCode, Failure> {
    let (host, _lock) = begin(target)?;
    check_cluster(&host.data).map_err(EnableError::Version)?;
    let found = facts::find(&host, Protection::of_new(&host, key)?)?;
    let run = Run {
        host: &host,
        command: "enable",
        found,
    };
    let steps = plan::enable(&run.found.facts).map_err(|kind| run.other(kind))?;
    if steps.is_empty() {
        return run.nothing_to_do();
    }
    run.check_or_do(&steps, target)
}

/// Takes a cluster back, or says what that would do.
pub fn disable(target: &TargetOptions, passphrase: Option<&Path>) -> Result<ExitCode, Failure> {
    let (host, _lock) = begin(target)?;
    let found = facts::find(&host, Protection::of_present(&host, passphrase)?)?;
    let run = Run {
        host: &host,
        command: "disable",
        found,
    };
    let steps = plan::disable(&run.found.facts).map_err(|kind| run.other(kind))?;
    if steps.is_empty() && !run.found.facts.owes_start {
        return Err(EnableError::Plain(host.name()).into());
    }
    run.check_or_do(&steps, target)
}

fn begin(target: &TargetOptions) -> Result<(Host, Flock<File>), Failure> {
    if !geteuid().is_root() {
        return Err(EnableError::NotRoot.into());
    }
    let lock = File::create(LOCK).map_err(|error| EnableError::Write(LOCK.into(), error))?;
    let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock);
    let lock = lock.map_err(|_| EnableError::Busy)?;
    Ok((Host::of(target)?, lock))
}

/// One run of one command.
struct Run<'a> {
    host: &'a Host,
    command: &'static str,
    found: Found,
}

impl Run<'_> {
    fn other(&self, kind: Kind) -> EnableError {
        let arguments = self.host.arguments();
        let first = match kind {
            Kind::Unseal => format!("pgseal disable {arguments}"),
            other => format!("pgseal {} -D {}", other.command(), self.host.data.display()),
        };
        EnableError::Other(kind, first)
    }

    fn nothing_to_do(&self) -> Result<ExitCode, Failure> {
        let name = self.host.name();
        self.check()?;
        let _ = fs::remove_file(self.host.stop_mark());
        output::print(format_args!("{name} is sealed, and runs as it is set up\n"))?;
        Ok(ExitCode::SUCCESS)
    }

    fn check_or_do(&self, steps: &[Step], target: &TargetOptions) -> Result<ExitCode, Failure> {
        let outlook = facts::Outlook::of(self.host, &self.found, steps)?;
        output::print(report::plan(self, steps, &outlook))?;
        if target.check {
            return Ok(match outlook.obstacles.is_empty() {
                true => ExitCode::SUCCESS,
                false => Code::Found.into(),
            });
        }
        if let Some(first) = outlook.obstacles.first() {
            return Err(EnableError::Blocked(self.host.name(), first.clone()).into());
        }
        self.confirm(target.yes)?;
        self.note_stop(steps)?;
        for (number, step) in steps.iter().enumerate() {
            let words = report::words(self, *step, &outlook);
            output::print(format_args!("step {}: {words}\n", number + 1))?;
            self.step(*step).map_err(|error| self.after(&error))?;
        }
        let _ = fs::remove_file(self.host.stop_mark());
        output::print_done(report::summary(self))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Asks a person, if there is one.
    fn confirm(&self, yes: bool) -> Result<(), Failure> {
        if yes || !io::stdin().is_terminal() {
            return Ok(());
        }
        output::print("Go on? [y/N] ")?;
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        let is_yes = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
        match read.is_ok() && is_yes {
            true => Ok(()),
            false => Err(EnableError::Declined.into()),
        }
    }

    fn note_stop(&self, steps: &[Step]) -> Result<(), EnableError> {
        if !steps.contains(&Step::Stop) {
            return Ok(());
        }
        let mark = self.host.stop_mark();
        fs::write(&mark, "").map_err(|error| EnableError::Write(mark, error))
    }

    fn step(&self, step: Step) -> Result<(), Failure> {
        match step {
            Step::Passphrase => self.make_passphrase()?,
            Step::Wrappers => self.host.add_wrappers()?,
            Step::Stop => self.stop()?,
            Step::Checksums => self.enable_checksums()?,
            Step::Seal => self.convert("seal", self.found.protection.seal_options())?,
            Step::Settings => self.write_settings()?,
            Step::Start => self.host.start()?,
            Step::Check => self.check().and_then(|()| self.examine())?,
            Step::Unseal => self.convert("unseal", self.found.protection.unseal_options())?,
            Step::RemoveSettings => self.host.remove_settings()?,
            Step::RemoveWrappers => self.host.remove_wrappers()?,
        }
        Ok(())
    }

    fn make_passphrase(&self) -> Result<(), EnableError> {
        let path = self.found.protection.passphrase_file.as_deref();
        let path = path.expect("the step is due for a file");
        let made = passphrase::make(path, &self.host.owner);
        made.map_err(|error| EnableError::Write(path.to_owned(), error))
    }

    fn stop(&self) -> Result<(), Failure> {
        self.host.stop()?;
        match server::of(&self.host.data)?.pid() {
            None => Ok(()),
            Some(pid) => Err(EnableError::StillRuns(self.host.data.clone(), pid).into()),
        }
    }

    fn enable_checksums(&self) -> Result<(), EnableError> {
        let program = self.host.programs().join("pg_checksums");
        Program::owner(&self.host.owner, &program, &self.found.environment)
            .args(["--enable".into(), "-D".into()])
            .arg(&self.host.data)
            .named("--enable")
            .run()
    }

    fn convert(&self, command: &str, key: Vec<std::ffi::OsString>) -> Result<(), Failure> {
        let data = &self.host.data;
        let program = Program::pgseal(&self.host.owner, &self.found.environment, command)?;
        Ok(program.arg("-D").arg(data).args(key).run()?)
    }

    fn write_settings(&self) -> Result<(), Failure> {
        let settings = facts::settings(self.host, &self.found.protection)?;
        let present = self.host.settings_text()?;
        let text = self.host.wanted_text(&present, &settings);
        Ok(self.host.write_settings(&text)?)
    }

    /// Does the server that runs have the library and this cluster's key?
    fn check(&self) -> Result<(), Failure> {
        let host = self.host;
        match server::of(&host.data)? {
            Server::RunningSealed { .. } => Ok(()),
            other => {
                let (name, arguments) = (host.name(), host.arguments());
                let state = other.to_string();
                let state = state
                    .strip_prefix("running")
                    .map_or_else(|| format!("is {state}"), |rest| format!("is running{rest}"));
                Err(EnableError::NotSealed(name, state, arguments).into())
            }
        }
    }

    /// Prints what doctor finds in the result, if anything: that is advice, and no failure.
    fn examine(&self) -> Result<(), Failure> {
        let host = self.host;
        let doctor = Program::pgseal(&host.owner, &self.found.environment, "doctor")?;
        let doctor = doctor.arg("-D").arg(&host.data);
        match doctor
            .args(self.found.protection.unseal_options())
            .output()?
        {
            (Some(0), _) => Ok(output::print("pgseal doctor finds nothing wrong\n")?),
            (_, text) => Ok(output::print(text)?),
        }
    }

    /// After a step failed: a cluster that is still plain gets its server back.
    fn after(&self, error: &Failure) -> Failure {
        let (text, code) = (error.to_string(), error.code());
        let is_plain = matches!(facts::state(&self.host.data), Ok(State::Plain));
        let runs = server::of(&self.host.data).is_ok_and(|server| server.pid().is_some());
        let ran = self.found.facts.runs || self.found.facts.owes_start;
        if !runs && is_plain && ran && self.command == "enable" && self.host.start().is_ok() {
            let _ = fs::remove_file(self.host.stop_mark());
            return EnableError::TakenBack(text, code).into();
        }
        match runs {
            true => EnableError::Failed(text, code).into(),
            false => {
                let again = format!("{} {}", self.command, self.host.arguments());
                EnableError::Stopped(text, again, code).into()
            }
        }
    }
}

/// The key that the cluster is encrypted under, as its key file names it.
fn key_id(data: &Path) -> Result<String, Failure> {
    let dir = KeyDir::of(data);
    let header = match dir.read()? {
        pgseal_format::KeyImage::File(file) => file.header().clone(),
        pgseal_format::KeyImage::Raw(_) => dir.header()?,
    };
    Ok(header.key_id.to_string())
}
