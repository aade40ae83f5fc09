//! `pgseal unseal`: a stopped sealed cluster becomes a plain one, in place.
//!
//! Exit codes: as those of `seal`; 4 it is not sealed; 5 to 7 its key does not open.

use std::process::ExitCode;

use pgseal_keys::exit::Failure;

use crate::cli::UnsealArgs;
use crate::convert::{self, Request};

pub fn run(args: &UnsealArgs) -> Result<ExitCode, Failure> {
    convert::run(&Request {
        old: Some(args.unlock.ways()),
        new: None,
        ..args.convert.request()
    })
}
