//! `pgseal key wrap`: one more way to open the key, or another in the place of one.

use std::process::ExitCode;

use pgseal_keys::exit::Failure;

use super::slots::{change, Replace};
use crate::cli::WrapArgs;

pub fn run(args: WrapArgs) -> Result<ExitCode, Failure> {
    let replace = args.replace.map_or(Replace::None, Replace::Slot);
    change(&args.cluster, &args.new, replace)?;
    Ok(ExitCode::SUCCESS)
}
