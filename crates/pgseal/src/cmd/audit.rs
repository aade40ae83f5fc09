//! `pgseal audit`: looks for canaries and for clear pages in raw files. Needs no key, reads only,
//! and may run beside the server.
//!
//! Exit codes: 0 no hit; 1 hits, each named by file and offset, or something was not read.

use std::process::ExitCode;

use pgseal_check::audit::{audit_all, Canary, CanaryError, Options};
use pgseal_keys::exit::{Code, Failure};

use crate::cli::AuditArgs;
use crate::output;

pub fn run(args: &AuditArgs) -> Result<ExitCode, Failure> {
    let directories = [&args.pgdata[..], &args.directories].concat();
    let options = Options {
        jobs: args.scan.jobs,
        shows_progress: args.scan.shows_progress(),
    };
    let report = audit_all(&directories, canaries(args)?, &options)?;
    output::report(&report, args.scan.json)?;
    Ok(if report.is_finding() {
        ExitCode::from(Code::Found)
    } else {
        ExitCode::SUCCESS
    })
}

fn canaries(args: &AuditArgs) -> Result<Vec<Canary>, CanaryError> {
    let texts = args.canary.iter().map(|text| Canary::text(text));
    let bytes = args.canary_hex.iter().map(|digits| Canary::hex(digits));
    let mut list = texts.chain(bytes).collect::<Result<Vec<_>, _>>()?;
    for path in &args.canary_file {
        list.extend(Canary::file(path)?);
    }
    Ok(list)
}
