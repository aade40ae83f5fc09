//! `pgseal rekey`: a stopped sealed cluster gets another master key, in place.
//!
//! Exit codes: as those of `seal`; 4 it is not sealed; 5 to 7 its key does not open.

use std::process::ExitCode;

use pgseal_keys::exit::Failure;

use crate::cli::RekeyArgs;
use crate::convert::{self, Request};

pub fn run(args: &RekeyArgs) -> Result<ExitCode, Failure> {
    convert::run(&Request {
        old: Some(args.old.ways()),
        new: Some(args.key.protection()?),
        ..args.convert.request()
    })
}
