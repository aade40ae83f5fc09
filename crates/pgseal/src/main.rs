//! `pgseal`: keys, sealed twins of PostgreSQL's programs, and a look at sealed clusters.
//!
//! Every subcommand is one file in `cmd/`; exit codes are decided in `exit.rs` alone.
//! Nothing here is `unsafe`, and no secret is in an argument, the environment or a message.

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

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    match cmd::run(cli.command) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
