//! `pgseal doctor`: what on this machine, and around a cluster, would stop sealed servers or weaken
//! them, each with what to do. Reads only; run as the server's user, whose limits and rights count.
//!
//! Exit codes: 0 nothing is wrong, with advice or without; 1 something is; 4 not a sealed cluster.

use std::process::ExitCode;

use pgseal_check::doctor::{examine, Profile, Question};
use pgseal_keys::exit::{Code, Failure};

use crate::cli::{self, DoctorArgs};
use crate::{output, VERSION};

pub fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let report = examine(&Question {
        command: VERSION,
        pgdata: args.pgdata.as_deref(),
        ways: args.unlock.ways(),
        opens_key: true,
        max_age: args.max_age.map(|age| age.as_secs()),
    })?;
    match args.profile {
        None => output::report(&report, args.json)?,
        Some(profile) => {
            let profile = match profile {
                cli::Profile::Pci => Profile::Pci,
                cli::Profile::Cis => Profile::Cis,
            };
            output::report(&report.checklist(profile), args.json)?;
        }
    }
    Ok(match report.is_wrong() {
        true => Code::Found.into(),
        false => ExitCode::SUCCESS,
    })
}
