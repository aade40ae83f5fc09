//! `pgseal key rotate`: a new way to open the key in the place of the present one.
//!
//! This changes who can open *this* key.bin from now on. Anyone who has an old key.bin and its old
//! secret opens all data, old and new, until the master key changes.
//!
//! With `--older-than` it is for timers: it ends with exit code 0 and changes nothing while the
//! slot is young enough.

use std::process::ExitCode;

use pgseal_keys::exit::Failure;

use super::slots::{change, Replace};
use crate::cli::key::RotateArgs;

pub fn run(args: RotateArgs) -> Result<ExitCode, Failure> {
    let replace = args.slot.map_or(Replace::Opened, Replace::Slot);
    change(&args.cluster, &args.new, replace, args.older_than)?;
    Ok(ExitCode::SUCCESS)
}
