//! `pgseal key rotate`: a new way to open the key in the place of the present one.
//!
//! This changes who can open *this* key.bin from now on. Whoever has an old key.bin and its old
//! secret opens all data, old and new, until the master key changes.

use std::process::ExitCode;

use pgseal_keys::exit::Failure;

use super::slots::{change, Replace};
use crate::cli::key::RotateArgs;

pub fn run(args: RotateArgs) -> Result<ExitCode, Failure> {
    let replace = args.slot.map_or(Replace::Opened, Replace::Slot);
    change(&args.cluster, &args.new, replace)?;
    Ok(ExitCode::SUCCESS)
}
