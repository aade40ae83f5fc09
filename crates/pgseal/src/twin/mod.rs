//! The sealed twins of PostgreSQL's programs.
//!
//! A twin unlocks the clusters that its command line names, and becomes the real program with the
//! library inside. It keeps its own path as the program's name, so that PostgreSQL finds the other
//! twins beside it. Keys that a twin further up has unlocked come in `PGSEAL_INHERIT_FD`.

pub mod initdb;
pub mod options;
pub mod paths;
pub mod pin;
mod programs;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use nix::unistd::close;
use pgseal_format::handover::decode;
use zeroize::Zeroizing;

use crate::cluster::Root;
use crate::exit::Failure;
use crate::handover::{self, HandoverFdError};
use crate::launch::{Sealed, INHERIT_FD, KEYS_FD};
use crate::unlock::{unlock, Unlocked};
use options::Split;
use programs::Role;

/// A program of PostgreSQL, and the name that its twin was called by.
pub struct Twin {
    pub program: PathBuf,
    pub name: String,
    pub argv0: OsString,
}

impl Twin {
    /// Does what the program does, sealed.
    pub fn run(&self, args: Vec<OsString>) -> Result<ExitCode, Failure> {
        let role = programs::role(&self.name);
        if role == Role::Initdb {
            return initdb::run(self, args);
        }
        let split = options::split(&self.name, args)?;
        let mut sealed = self.sealed(&split.rest)?;
        let only_talks = matches!(role, Role::Client | Role::PgCtl) || asks_about_itself(&split);
        if !only_talks {
            self.give_keys(&split, &mut sealed)?;
        }
        Err(sealed.exec())
    }

    /// The real program with the library.
    fn sealed(&self, args: &[OsString]) -> Result<Sealed, Failure> {
        Ok(Sealed::new(&self.program, &self.argv0, args)?)
    }

    fn give_keys(&self, split: &Split, sealed: &mut Sealed) -> Result<(), Failure> {
        let roots = paths::sealed_roots(&paths::candidates(&split.rest))?;
        if let Some(record) = inherited()? {
            if covers(&record, &roots) {
                return sealed.pass(KEYS_FD, &record);
            }
        }
        let clusters = roots
            .into_iter()
            .map(unlock)
            .collect::<Result<Vec<Unlocked>, _>>()?;
        if !clusters.is_empty() {
            sealed.keys(&clusters)?;
        }
        Ok(())
    }
}

/// `--help` and its like read no data directory.
fn asks_about_itself(split: &Split) -> bool {
    let first = split.rest.first().and_then(|arg| arg.to_str());
    matches!(
        first,
        Some("--help" | "-?" | "--version" | "-V" | "--describe-config")
    )
}

/// The record that a twin further up left open; it is closed here.
fn inherited() -> Result<Option<Zeroizing<Vec<u8>>>, HandoverFdError> {
    let Some(fd) = env::var(INHERIT_FD).ok().and_then(|text| text.parse().ok()) else {
        return Ok(None);
    };
    let record = handover::read_from(fd)?;
    // Closed already, if the program between did so: nothing is left open either way.
    let _ = close(fd);
    Ok(Some(record))
}

/// Whether the record has a key for each root.
fn covers(record: &[u8], roots: &[Root]) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let listed: Vec<_> = match decode(record) {
        Ok(entries) => entries.map(|entry| entry.root).collect(),
        Err(_) => return false,
    };
    roots
        .iter()
        .all(|root| listed.contains(&root.path.as_os_str().as_bytes()))
}
