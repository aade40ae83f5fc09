//! `pgseal-bench`: the program behind `pgseal bench`. It is a program of its own so that charts,
//! statistics and what they need are not linked with the command, which holds keys.
//!
//! Exit codes are the command's; messages name `pgseal`, which people start.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::env;
use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;
use pgseal_bench::cli::{Cli, Command};
use pgseal_bench::error::BenchError;
use pgseal_bench::host::Tools;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::interrupt;
use pgseal_wrapper::launch::{self, LaunchError};

/// Why nothing was measured or shown.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum BenchFailure {
    /// The measuring ended early, or its results cannot be shown.
    Bench(#[from] BenchError),
    /// A program or the library is missing.
    Launch(#[from] LaunchError),
}

impl Exit for BenchFailure {
    fn code(&self) -> Code {
        let error = match self {
            Self::Bench(error) => error,
            Self::Launch(error) => return error.code(),
        };
        match error {
            BenchError::Usage(_)
            | BenchError::TooShort(_)
            | BenchError::Root
            | BenchError::Needs(_)
            | BenchError::Incomparable(_)
            | BenchError::NotAReport(..) => Code::Usage,
            BenchError::Busy => Code::Busy,
            BenchError::Interrupted => Code::Interrupted,
            BenchError::Output(error) if error.kind() == ErrorKind::BrokenPipe => Code::NoReader,
            BenchError::Files(..)
            | BenchError::Start(..)
            | BenchError::Program { .. }
            | BenchError::ServerDied { .. }
            | BenchError::Differs { .. }
            | BenchError::Output(_)
            | BenchError::Report(..) => Code::Io,
        }
    }
}

fn main() -> ExitCode {
    interrupt::heed_children();
    match Cli::try_parse() {
        Ok(cli) => run(&cli.command).unwrap_or_else(|failure| failure.report()),
        Err(error) => usage(&error),
    }
}

fn run(command: &Command) -> Result<ExitCode, Failure> {
    Ok(match pgseal_bench::main(command, tools)? {
        true => ExitCode::SUCCESS,
        false => Code::Found.into(),
    })
}

/// Finds the programs and the library that are measured. What only shows results needs none.
fn tools() -> Result<Tools, BenchFailure> {
    Ok(Tools {
        bench: env::current_exe().map_err(LaunchError::Myself)?,
        pgseal: launch::pgseal()?,
        library: launch::library()?,
    })
}

/// Answers a command line that is not run.
fn usage(error: &clap::Error) -> ExitCode {
    match pgseal_usage::print(error) {
        false => ExitCode::SUCCESS,
        true => Code::Usage.into(),
    }
}
