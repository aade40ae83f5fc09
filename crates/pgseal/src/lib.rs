//! `pgseal`: keys, sealed twins of PostgreSQL's programs, and a look at sealed clusters.
//!
//! Two programs are made of this. `pgseal` is the command: every subcommand is one file in `cmd/`.
//! `pgseal-twin` is what the twins run by, once for each program that is started: it is linked
//! without the command's parser, benchmarks and client, because they would cost every start.
//!
//! Exit codes are decided in `exit.rs` alone, and standard output is written in `output.rs`.
//! Nothing here is `unsafe`, and no secret is in an argument, the environment, a message or a core.

#![forbid(unsafe_code)]
// They abort when they fail: standard output is for `output.rs`, and an error for `exit.rs`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod archive;
mod ask;
mod audit;
mod cli;
mod cluster;
mod cmd;
mod command;
mod control_file;
mod convert;
mod cost;
mod describe;
mod doctor;
mod exit;
mod free_space;
mod handover;
mod interrupt;
mod keybin;
mod launch;
mod machine;
mod memfd;
mod new_slot;
mod output;
mod pages;
mod passphrase;
mod postgres;
mod scan;
mod server;
mod supervise;
mod terminal;
mod twin;
mod unlisted;
mod unlock;
mod verify;
mod writer;

use std::process::ExitCode;

use clap::Parser;
use nix::sys::prctl::set_dumpable;

/// `pgseal SUBCOMMAND …`
pub fn command() -> ExitCode {
    keep_memory();
    interrupt::heed_children();
    match cli::Cli::try_parse() {
        Ok(cli) => ended(cmd::run(cli.command)),
        Err(error) => exit::usage(&error),
    }
}

/// `pgseal-twin PROGRAM TWIN ARGUMENT…`: the kernel runs it so for a file of `pgseal bindir`.
pub fn twin() -> ExitCode {
    keep_memory();
    interrupt::heed_children();
    ended(twin::run(std::env::args_os().skip(1)))
}

/// From here on the kernel dumps no core of us, whatever the limit is and wherever cores go, and
/// shows our memory to no other process of the same user. It holds for this program alone: exec
/// gives the next one, a server or a command, what is usual there.
fn keep_memory() {
    set_dumpable(false).expect("Linux knows the attribute, and 0 is a value of it");
}

fn ended(result: Result<ExitCode, exit::Failure>) -> ExitCode {
    result.unwrap_or_else(|failure| failure.report())
}
