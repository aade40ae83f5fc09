//! `pgseal status`: what a data directory is. Reads only.
//!
//! Exit codes: 0 sealed, and the key opens if that was tried; 1 the key does not open; 2 not a data
//! directory; 3 it cannot be told, because something is missing or may not be read; 4 not sealed; 5
//! sealed, but its key file is missing or damaged; 9 it is being converted.

use std::process::ExitCode;

use pgseal_check::status::{Question, Status};
use pgseal_keys::exit::{Code, Failure};

use crate::cli::StatusArgs;
use crate::{output, VERSION};

pub fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let status = Status::of(&Question {
        command: VERSION,
        data: &args.cluster.pgdata,
        ways: args.cluster.unlock.ways(),
        shows_commands: args.show,
        opens_key: !args.no_check,
    })?;
    output::report(&status, args.json)?;
    Ok(match (status.is_sealed(), status.is_locked()) {
        (false, _) => Code::NotSealed.into(),
        (true, true) => Code::Found.into(),
        (true, false) => ExitCode::SUCCESS,
    })
}
