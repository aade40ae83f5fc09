//! `pgseal enable`: a cluster of this machine becomes a sealed one, and its server is started as
//! one.
//!
//! Exit codes: 0 sealed, or nothing in the way with `--check`; 1 something is in the way, or the
//! answer was no; 2 no such cluster, or not root; 3 a program of the machine failed; 9 another
//! conversion runs or must end first; those of `seal`, if that failed.

use std::process::ExitCode;

use pgseal_keys::exit::Failure;

use crate::cli::enable::EnableArgs;
use crate::enable;

pub fn run(args: &EnableArgs) -> Result<ExitCode, Failure> {
    match args.undo {
        true => enable::disable(&args.target, args.key.key_passphrase_file.as_deref()),
        false => enable::enable(&args.target, &args.key),
    }
}
