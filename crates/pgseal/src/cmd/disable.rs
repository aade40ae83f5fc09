//! `pgseal disable`: the way back from `pgseal enable`.
//!
//! Exit codes: as those of `enable`; 4 the cluster is plain, and nothing is to be taken back.

use std::process::ExitCode;

use pgseal_keys::exit::Failure;

use crate::cli::enable::DisableArgs;
use crate::enable;

pub fn run(args: &DisableArgs) -> Result<ExitCode, Failure> {
    enable::disable(&args.target, args.key.passphrase_file.as_deref())
}
