//! `pgseal-bench serve`: becomes a server that ends when its benchmark does, however that ends.
//!
//! A killed process tidies up nothing, so the kernel is asked beforehand: when the benchmark is
//! gone, it sends the postmaster SIGQUIT, on which this shuts down at once with all of its
//! processes. The wish survives exec, not fork; that is why the program that becomes the postmaster
//! makes it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{getppid, Pid};

use crate::error::BenchError;
use crate::host::Host;

/// The process that becomes the server.
#[derive(Debug, Args)]
pub struct Serve {
    /// The benchmark's process id
    #[arg(long)]
    parent: i32,
    /// The library for `LD_PRELOAD`
    #[arg(long)]
    preload: Option<PathBuf>,
    program: PathBuf,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// A command that becomes `program`, to which arguments are to be added.
pub fn command(program: &Path, preload: Option<&Path>, host: &Host) -> Command {
    let mut command = host.command(&host.tools.bench);
    command.arg("serve");
    command.arg(format!("--parent={}", std::process::id()));
    if let Some(library) = preload {
        command.arg("--preload").arg(library);
    }
    command.arg(program);
    command
}

impl Serve {
    /// Comes back only if it cannot.
    pub fn run(&self) -> Result<(), BenchError> {
        let wish = prctl::set_pdeathsig(Signal::SIGQUIT);
        wish.map_err(|error| BenchError::Start(self.program.clone(), error.into()))?;
        // It may have ended before it was heard.
        if getppid() != Pid::from_raw(self.parent) {
            return Err(BenchError::Interrupted);
        }
        let mut command = Command::new(&self.program);
        if let Some(library) = &self.preload {
            command.env("LD_PRELOAD", library);
        }
        let error = command.args(&self.arguments).exec();
        Err(BenchError::Start(self.program.clone(), error))
    }
}
