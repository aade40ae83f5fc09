//! `pgseal`: keys, sealed twins of PostgreSQL's programs, and a look at sealed clusters.
//!
//! Two programs are made of this. `pgseal` is the command: every subcommand is one file in `cmd/`.
//! `pgseal-twin` is what the twins run by, once for each program that is started: it is linked
//! without the command's parser, benchmarks and client, because they would cost every start.
//!
//! Exit codes are decided in `exit.rs` alone. Nothing here is `unsafe`, and no secret is in an
//! argument, the environment or a message.

#![forbid(unsafe_code)]

mod archive;
mod audit;
mod cli;
mod cluster;
mod cmd;
mod command;
mod control_file;
mod convert;
mod cost;
mod describe;
mod exit;
mod handover;
mod keybin;
mod launch;
mod machine;
mod memfd;
mod new_slot;
mod pages;
mod passphrase;
mod scan;
mod supervise;
mod terminal;
mod twin;
mod unlock;
mod verify;
mod writer;

use std::process::ExitCode;

use clap::Parser;

/// `pgseal SUBCOMMAND …`
pub fn command() -> ExitCode {
    match cli::Cli::try_parse() {
        Ok(cli) => ended(cmd::run(cli.command)),
        Err(error) => exit::usage(&error),
    }
}

/// `pgseal-twin PROGRAM TWIN ARGUMENT…`: the kernel runs it so for a file of `pgseal bindir`.
pub fn twin() -> ExitCode {
    ended(twin::run(std::env::args_os().skip(1)))
}

fn ended(result: Result<ExitCode, exit::Failure>) -> ExitCode {
    result.unwrap_or_else(|failure| failure.report())
}
