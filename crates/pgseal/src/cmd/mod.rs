//! The subcommands, one file each.

pub mod bindir;
mod exec;
mod twin;
mod unlock;

use std::process::ExitCode;

use crate::cli::Command;
use crate::exit::Failure;

/// Does what the command line says.
pub fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Bindir(args) => bindir::run(&args),
        Command::Exec(args) => exec::run(args),
        Command::Twin(args) => twin::run(args),
        Command::Unlock(args) => unlock::run(&args),
    }
}
