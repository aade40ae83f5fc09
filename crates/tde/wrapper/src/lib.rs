//! The wrappers of PostgreSQL's programs.
//!
//! A wrapper unlocks the clusters that its command line names, and becomes the real program with
//! the library inside. It keeps its own path as the program's name, so that PostgreSQL finds the
//! other wrappers beside it.
//!
//! Tools such as initdb and `pg_ctl start` start other wrappers, which inherit the descriptor that
//! `PGSEAL_KEYS_FD` names. So a passphrase is never asked for twice, or away from the terminal.

#![forbid(unsafe_code)]
// They abort when they fail, and standard output is the program's.
#![deny(clippy::print_stdout, clippy::print_stderr)]
// The variants of an error are explained by their sentences.
#![allow(missing_docs)]

pub mod ask;
pub mod basebackup;
mod combinebackup;
pub mod getopt;
mod help;
pub mod initdb;
pub mod installed;
pub mod launch;
pub mod options;
pub mod paths;
pub mod programs;
pub mod receivewal;
pub mod running;
pub mod source;
pub mod start;
mod supervise;
mod verifybackup;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pgseal_contract::program::{self, Role};
use pgseal_keys::approved;
use pgseal_keys::cluster::Root;
use pgseal_keys::conversion::refuse_converting;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::key_set::KeySet;
use pgseal_keys::keybin::KeyDir;
use pgseal_keys::new_key::WRAP_COMMAND;
use pgseal_keys::pin::{self, PinError};
use pgseal_keys::server::PID_FILE;
use pgseal_keys::unlock::{unlock, unlock_from, unlock_named, Unlocked, Ways, UNWRAP_COMMAND};

use crate::ask::{ask, Answer};
use crate::launch::Sealed;
use getopt::{Given, PG_CTL};
use options::{Name, OptionError, Split};
use source::{Source, SourceError};

/// The wrappers' program was not started by a wrapper.
#[derive(Debug, thiserror::Error)]
#[error("pgseal-twin is started only by wrappers: create them with `pgseal bindir`, and run those")]
pub struct NotAWrapper;

impl Exit for NotAWrapper {
    fn code(&self) -> Code {
        Code::Usage
    }
}

/// Runs a wrapper. The arguments are those that wrappers pass: the program's path, the wrapper's,
/// and then the program's arguments.
pub fn run(mut args: impl Iterator<Item = OsString>) -> Result<ExitCode, Failure> {
    let (program, argv0) = args.next().zip(args.next()).ok_or(NotAWrapper)?;
    let program = beside(Path::new(&program), Path::new(&argv0)).ok_or(NotAWrapper)?;
    let name = program.file_name().ok_or(NotAWrapper)?;
    let wrapper = Wrapper {
        name: name.to_string_lossy().into_owned(),
        program,
        argv0,
    };
    wrapper.run(args.collect())
}

/// Returns the path of a wrapper's program. A relative one begins where the wrapper is, so that a
/// copy of a whole directory runs the programs in the copy. None if there is no such wrapper.
pub fn beside(program: &Path, wrapper: &Path) -> Option<PathBuf> {
    if program.is_absolute() {
        return Some(program.to_owned());
    }
    Some(wrapper.canonicalize().ok()?.parent()?.join(program))
}

/// A program of PostgreSQL, and the name that its wrapper was called by.
pub struct Wrapper {
    pub program: PathBuf,
    pub name: String,
    pub argv0: OsString,
}

impl Wrapper {
    /// Does what the program does, sealed.
    pub fn run(&self, args: Vec<OsString>) -> Result<ExitCode, Failure> {
        if help::is_asked_for(&self.name, &args) {
            return help::show(self, &args);
        }
        approved::check_build()?;
        match self.name.as_str() {
            "initdb" => initdb::run(self, args),
            "pg_basebackup" => basebackup::run(self, args),
            "pg_combinebackup" => combinebackup::run(self, args),
            "pg_receivewal" => receivewal::run(self, args),
            "pg_verifybackup" => verifybackup::run(self, args),
            _ => self.tool(options::split(&self.name, args)?),
        }
    }

    /// Becomes the program, with the keys of the clusters that its arguments name.
    fn tool(&self, split: Split) -> Result<ExitCode, Failure> {
        let role = program::role(&self.name);
        if let (Role::PgCtl, Some(option)) = (role, split.first()) {
            // It starts our initdb, without what was taken out here.
            if is_told(&split.rest, &["init", "initdb"]) {
                return Err(OptionError::NotForInitdb(option).into());
            }
        }
        let mut sealed = self.sealed(&split.rest)?;
        if role == Role::Tool {
            // The library knows PostgreSQL's own by their names. Another's program, or a copy under
            // another name, would read what is stored.
            sealed.act();
        }
        let inherited = KeySet::inherited()?;
        if role == Role::Dump {
            if let Some(keys) = &inherited {
                sealed.keys(keys)?;
            }
        } else if needs_keys(role, &split.rest) && !self.will_refuse(&split.rest)? {
            let keys = keys(role, &split, inherited)?;
            if let Some(keys) = &keys {
                sealed.keys(keys)?;
            }
            if role == Role::Server {
                start::check(keys.as_ref(), &paths::of_program(role, &split.rest))?;
            }
            // A server whose configuration alone names its cluster opens that later; until then the
            // library keeps the commands from its children.
            if role == Role::Server && keys.is_some() {
                sealed.scrub(WRAP_COMMAND);
                sealed.scrub(UNWRAP_COMMAND);
            }
        }
        Err(sealed.exec())
    }

    /// Whether the program itself will refuse before it needs a key. Fails here if a server would
    /// refuse with its key at hand.
    fn will_refuse(&self, args: &[OsString]) -> Result<bool, Failure> {
        if programs::refuses_user(&self.name, &self.program) {
            return Ok(true);
        }
        match program::role(&self.name) {
            role @ Role::Server => refuse_second(role, args).map(|()| false),
            role @ Role::PgCtl if is_told(args, &["start"]) => {
                refuse_second(role, args).map(|()| false)
            }
            Role::Tool if self.name == "pg_resetwal" => {
                // It takes one data directory, and the file is enough for it.
                let roots = paths::sealed_roots(&paths::candidates(args))?;
                Ok(roots.iter().any(|root| root.path.join(PID_FILE).exists()))
            }
            _ => Ok(false),
        }
    }

    /// Asks the server about itself. None if it does not answer, and nothing says that its data
    /// must be sealed. Then the program itself says what is wrong; it declares nothing, so a
    /// sealed server refuses it.
    fn ask(&self, split: &Split, given: &Given) -> Result<Option<Source>, Failure> {
        match Source::ask(self, given) {
            Err(failure)
                if is_silent(&failure) && split.first().is_none() && pin::expected()?.is_none() =>
            {
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    /// Runs the program as PostgreSQL does, with a server that is not sealed. Fails if the
    /// operator expects a sealed one.
    fn plain(&self, split: &Split) -> Result<ExitCode, Failure> {
        if let Some(option) = split.first() {
            return Err(OptionError::NotSealed(option).into());
        }
        if let Some(expected) = pin::expected()? {
            return Err(PinError::PlainServer(expected).into());
        }
        Err(self.sealed(&split.rest)?.exec())
    }

    /// Asks the program itself, with the library in it, before it makes what shall be sealed.
    fn asked(&self) -> Result<Answer, Failure> {
        ask(&self.program, Path::new(&self.argv0))
    }

    /// Returns the real program with the library.
    pub fn sealed(&self, args: &[OsString]) -> Result<Sealed, Failure> {
        Ok(Sealed::new(&self.program, &self.argv0, args)?)
    }
}

/// Whether the server did not answer.
fn is_silent(failure: &Failure) -> bool {
    matches!(failure.cause(), Some(SourceError::NoAnswer(_)))
}

/// Whether the program will read or write a data directory, as far as its arguments tell. If they
/// mislead, the library asks for the key.
fn needs_keys(role: Role, args: &[OsString]) -> bool {
    let is = |words: &[&str]| {
        args.iter()
            .filter_map(|arg| arg.to_str())
            .any(|arg| words.contains(&arg))
    };
    match role {
        Role::Client | Role::Dump => false,
        Role::PgCtl => is_told(args, &["start", "restart"]),
        Role::Server => !is(&["-C", "--describe-config"]) && !help::is_informative(args),
        Role::Tool => !help::is_informative(args),
    }
}

/// Whether `pg_ctl` is told to do one of these.
fn is_told(args: &[OsString], actions: &[&str]) -> bool {
    let words = PG_CTL.read(args).words;
    let action = words.first().and_then(|word| word.to_str());
    action.is_some_and(|action| actions.contains(&action))
}

/// Refuses a second server in an encrypted data directory.
fn refuse_second(role: Role, args: &[OsString]) -> Result<(), Failure> {
    for data in paths::of_program(role, args) {
        if let Some(root) = Root::around(&data)? {
            refuse_converting(&root.path)?;
            running::refuse_second(&data)?;
        }
    }
    Ok(())
}

/// Returns the keys for a command line: those that a wrapper further up unlocked, if they are
/// enough.
fn keys(role: Role, split: &Split, inherited: Option<KeySet>) -> Result<Option<KeySet>, Failure> {
    let paths = paths::of_program(role, &split.rest);
    let roots = paths::sealed_roots(&paths)?;
    if let Some(keys) = inherited.filter(|keys| keys.covers(&roots)) {
        pin::check_keys(&keys)?;
        return Ok(Some(keys));
    }
    pin::check_plain(&paths)?;
    let clusters = unlocked(split, roots)?;
    if clusters.is_empty() {
        return Ok(None);
    }
    let keys = KeySet::of(&clusters);
    pin::check_keys(&keys)?;
    Ok(Some(keys))
}

fn unlocked(split: &Split, roots: Vec<Root>) -> Result<Vec<Unlocked>, Failure> {
    let ways = split.ways();
    if let Some(file) = split.value(Name::KeyBin) {
        return Ok(vec![named_key_file(Path::new(file), roots, &ways)?]);
    }
    let unlocked = roots.into_iter().map(|root| unlock(root, &ways));
    Ok(unlocked.collect::<Result<_, _>>()?)
}

/// Opens the key file of `pg_waldump --key-file-name`: for the cluster that the arguments name,
/// else for the one that the file is in, else for none, as beside an archive.
fn named_key_file(file: &Path, roots: Vec<Root>, ways: &Ways) -> Result<Unlocked, Failure> {
    let root = match roots.into_iter().next() {
        Some(root) => Some(root),
        None => Root::around(file)?,
    };
    match root {
        Some(root) => Ok(unlock_from(&KeyDir::around(file), root, ways)?),
        None => unlock_named(file, ways),
    }
}
