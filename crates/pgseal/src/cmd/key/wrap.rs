//! `pgseal key add`: one more slot. `pgseal key wrap`: the same, or another in the place of one.

use std::process::ExitCode;

use pgseal_keys::exit::Failure;

use super::slots::{change, Replace};
use crate::cli::key::{AddArgs, WrapArgs};

pub fn run(args: WrapArgs) -> Result<ExitCode, Failure> {
    let replace = args.replace.map_or(Replace::None, Replace::Slot);
    change(&args.cluster, &args.new, replace, None)?;
    Ok(ExitCode::SUCCESS)
}

pub fn add(args: &AddArgs) -> Result<ExitCode, Failure> {
    change(&args.cluster, &args.new, Replace::None, None)?;
    Ok(ExitCode::SUCCESS)
}
