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
mod free_space;
mod output;

use std::env;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use pgseal_keys::exit::Code;
use pgseal_keys::{interrupt, memory};

/// The version, the commit and the profile of this build.
const VERSION: &str = env!("PGSEAL_BUILD");

/// `pgseal SUBCOMMAND …`
pub fn command() -> ExitCode {
    memory::keep();
    interrupt::heed_children();
    match cli::Cli::try_parse() {
        Ok(cli) => cmd::run(cli.command).unwrap_or_else(|failure| failure.report()),
        Err(error) => usage(&error),
    }
}

/// Prints what is wrong with the command line, or the help that it asks for.
fn usage(error: &clap::Error) -> ExitCode {
    let restores = env::args_os().nth(1).is_some_and(|arg| arg == "wal-get");
    // Nobody is left to hear that the message cannot be printed.
    let _ = print_usage(error);
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if restores => Code::Usage.to_recovery(),
        _ => Code::Usage.into(),
    }
}

/// The parser calls its errors `error:`; ours name the program, as all of its messages do.
fn print_usage(error: &clap::Error) -> io::Result<()> {
    if !error.use_stderr() {
        return error.print();
    }
    let mut stderr = io::stderr();
    let text = match stderr.is_terminal() {
        true => error.render().ansi().to_string(),
        false => error.render().to_string(),
    };
    stderr.write_all(text.replacen("error:", "pgseal:", 1).as_bytes())
}
