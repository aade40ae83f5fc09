//! `pgseal status`: what a data directory is. Reads only.
//!
//! Exit codes: 0 sealed, and the key opens if that was tried; 1 the key does not open; 2 not a data
//! directory; 3 it cannot be told, because something is missing or may not be read; 4 not sealed; 5
//! sealed, but its key file is missing or damaged; 9 it is being converted. A plugin of Nagios has
//! other ones: 0 OK, 1 warning, 2 critical, 3 unknown.

use std::process::ExitCode;

use pgseal_check::status::{of_failure, without_answer, Question, Status};
use pgseal_check::versions::Library;
use pgseal_keys::exit::{Code, Failure};

use crate::cli::{StatusArgs, StatusFormat};
use crate::{output, VERSION};

pub fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let answer = Status::of(&Question {
        command: VERSION,
        data: &args.cluster.pgdata,
        ways: args.cluster.unlock.ways(),
        shows_commands: args.show,
        opens_key: args.check,
        library: &Library::installed(),
    });
    match (args.json, args.format) {
        (true, _) | (_, StatusFormat::Json) => in_words(&answer?, true),
        (_, StatusFormat::Text) => in_words(&answer?, false),
        (_, StatusFormat::Prometheus) => prometheus(args, answer),
        (_, StatusFormat::Nagios) => nagios(&answer),
    }
}

fn in_words(status: &Status, as_json: bool) -> Result<ExitCode, Failure> {
    output::report(status, as_json)?;
    Ok(code(status))
}

/// A data directory that cannot be looked at has a metric, too: an alert needs one.
fn prometheus(args: &StatusArgs, answer: Result<Status, Failure>) -> Result<ExitCode, Failure> {
    match answer {
        Ok(status) => {
            output::print(status.prometheus())?;
            Ok(code(&status))
        }
        Err(failure) => {
            output::print(without_answer(&args.cluster.pgdata))?;
            Err(failure)
        }
    }
}

fn nagios(answer: &Result<Status, Failure>) -> Result<ExitCode, Failure> {
    let (level, line) = match answer {
        Ok(status) => status.nagios(),
        Err(failure) => of_failure(failure),
    };
    output::print(line)?;
    Ok(level.number().into())
}

fn code(status: &Status) -> ExitCode {
    match (status.is_sealed(), status.is_locked()) {
        (false, _) => Code::NotSealed.into(),
        (true, true) => Code::Found.into(),
        (true, false) => ExitCode::SUCCESS,
    }
}
