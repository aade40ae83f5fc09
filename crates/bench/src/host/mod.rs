//! The machine that is measured: what it is, what may run on it, and the programs that do.
//!
//! Invariants: programs get an environment of ours and a process group of their own, so that Ctrl-C
//! reaches this process alone, which then ends them; whatever was started has ended when a run
//! ends. If this process is killed, its servers end by themselves (`serve`), and so do clients
//! without them.

pub mod account;
pub mod cluster;
pub mod contender;
pub mod load;
pub mod lock;
pub mod machine;
pub mod process;
pub mod requirements;
pub mod serve;

use pgseal_contract::variable;
use std::path::{Path, PathBuf};
use std::process::Command;

use indicatif::ProgressBar;

use crate::error::BenchError;
use contender::{Contender, Kind};
use process::{Finished, Stop};

/// pgseal's own files, which the command knows.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The running program, `pgseal-bench`.
    pub bench: PathBuf,
    /// The command.
    pub pgseal: PathBuf,
    /// The library to preload.
    pub library: PathBuf,
}

/// Where a recipe runs, and how it runs programs.
#[derive(Debug)]
pub struct Host {
    /// The directory of stock PostgreSQL's programs.
    pub pg: PathBuf,
    /// pgseal's own files.
    pub tools: Tools,
    /// The directory of the sealed wrappers of `pg`.
    pub wrappers: PathBuf,
    /// The run's own directory; servers have their sockets in it.
    pub work: PathBuf,
    /// All that stand beside each other in a round, stock first.
    pub contenders: Vec<Contender>,
    /// Set by Ctrl-C.
    pub stop: Stop,
    /// The bar on a terminal.
    pub bar: ProgressBar,
}

impl Host {
    /// Writes the wrappers below `work`, if a contender runs them.
    pub fn make_wrappers(&self) -> Result<(), BenchError> {
        if !self.contenders.iter().any(|one| one.kind == Kind::Sealed) {
            return Ok(());
        }
        let mut bindir = self.command(&self.tools.pgseal);
        bindir.arg("bindir").arg("--pg").arg(&self.pg);
        self.run(bindir.arg("--into").arg(&self.wrappers))?;
        Ok(())
    }

    /// A program in an environment of ours: what steers PostgreSQL's clients stays outside.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs([
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("LC_ALL", "C"),
            ("TZ", "UTC"),
            ("PGUSER", "postgres"),
            ("PGDATABASE", "postgres"),
        ]);
        command
            .env("HOME", &self.work)
            .env("PGHOST", &self.work)
            .env(variable::LIBRARY.as_str(), &self.tools.library);
        command
    }

    /// One of stock PostgreSQL's programs, on the server that runs.
    pub fn client(&self, name: &str) -> Command {
        self.command(&self.pg.join(name))
    }

    /// Returns stock, which the others are compared with.
    pub fn stock(&self) -> &Contender {
        &self.contenders[0]
    }

    /// Runs a program to its end, which must be a good one.
    pub fn run(&self, command: &mut Command) -> Result<Finished, BenchError> {
        process::run(command, &self.stop)?.checked()
    }

    /// Shows what is being done, if there is a terminal to show it.
    pub fn note(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
    }
}
