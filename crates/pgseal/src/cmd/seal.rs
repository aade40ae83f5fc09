//! `pgseal seal`: a stopped plain cluster becomes a sealed one, in place.
//!
//! Exit codes: 0 sealed, or nothing in the way with `--check`; 1 something is in the way; 2 it is
//! sealed already; 9 a server or another conversion runs.

use std::process::ExitCode;

use pgseal_keys::exit::Failure;

use crate::cli::SealArgs;
use crate::convert::{self, Request};

pub fn run(args: &SealArgs) -> Result<ExitCode, Failure> {
    convert::run(&Request {
        old: None,
        new: Some(args.key.protection()?),
        ..args.convert.request()
    })
}
