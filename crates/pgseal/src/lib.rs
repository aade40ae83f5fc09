//! `pgseal`, the command: every subcommand is one file in `cmd/`.
//!
//! Unlocking is pgseal-keys', and running PostgreSQL's programs pgseal-wrapper's. Each error says
//! its exit code; standard output is written in `output.rs`.
//! Nothing here is `unsafe`, and no secret is in an argument, the environment, a message or a core.

#![forbid(unsafe_code)]
// They abort when they fail: standard output is for `output.rs`, and an error for the caller.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod archive;
mod cli;
mod cmd;
mod convert;
mod enable;
mod free_space;
mod output;
pub mod topic;

use std::env;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use pgseal_keys::exit::{Code, Failure};
use pgseal_keys::{approved, interrupt, memory};

/// The version, the commit and the profile of this build.
const VERSION: &str = env!("PGSEAL_BUILD");

/// `pgseal SUBCOMMAND …`
pub fn command() -> ExitCode {
    memory::keep();
    interrupt::heed_children();
    if let Some(text) = topic::asked(env::args_os().skip(1)) {
        return told(&text);
    }
    match cli::Cli::try_parse() {
        Ok(cli) => run(cli.command),
        Err(error) => usage(&error),
    }
}

/// Returns the parser of command lines, from which packages make man pages and completions.
pub fn parser() -> clap::Command {
    cli::Cli::command()
}

fn run(command: cli::Command) -> ExitCode {
    let restores = matches!(command, cli::Command::WalGet(_));
    match approved::check_build() {
        Ok(_) => cmd::run(command).unwrap_or_else(|failure| failure.report()),
        Err(failure) => {
            let code = failure.report();
            match restores {
                true => failure.code().to_recovery(),
                false => code,
            }
        }
    }
}

/// Prints a topic of the help.
fn told(text: &str) -> ExitCode {
    match output::print(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => Failure::from(error).report(),
    }
}

/// Answers a command line that is not run.
fn usage(error: &clap::Error) -> ExitCode {
    let restores = env::args_os().nth(1).is_some_and(|arg| arg == "wal-get");
    match pgseal_usage::print(error) {
        false => ExitCode::SUCCESS,
        true if restores => Code::Usage.to_recovery(),
        true => Code::Usage.into(),
    }
}
