//! `pgseal rekey`: a stopped sealed cluster gets another master key, in place.
//!
//! Exit codes: as those of `seal`; 4 it is not sealed; 5 to 7 its key does not open.

use std::process::ExitCode;

use crate::cli::RekeyArgs;
use crate::convert::{self, Request};
use crate::exit::Failure;

pub fn run(args: &RekeyArgs) -> Result<ExitCode, Failure> {
    convert::run(&Request {
        options: &args.convert,
        old: Some(args.old.ways()),
        new: Some(&args.key),
    })
}
