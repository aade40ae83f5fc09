//! `pgseal verify`: decrypts and checks every page of a stopped cluster. Reads only.
//!
//! Exit codes: 0 nothing bad found; 1 something bad, each named by file and block; 7 the key
//! is another cluster's; 8 its blocks are not of 8 kB; 9 a server runs.

use std::process::ExitCode;

use pgseal_check::verify::{refuse_running, verify, Options, Verdict};
use pgseal_keys::cluster::Root;
use pgseal_keys::exit::{Code, Failure};
use pgseal_keys::unlock::unlock;

use crate::cli::VerifyArgs;
use crate::output;

pub fn run(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let root = Root::required(&args.cluster.pgdata)?;
    refuse_running(&root.path)?;
    let unlocked = unlock(root, &args.cluster.unlock.ways().or_agent())?;
    let report = verify(&unlocked, &options(args))?;
    output::report(&report, args.scan.json)?;
    Ok(match report.results.verdict() {
        Verdict::Good => ExitCode::SUCCESS,
        Verdict::Bad => ExitCode::from(Code::Found),
    })
}

fn options(args: &VerifyArgs) -> Options {
    Options {
        strict: args.strict,
        jobs: args.scan.jobs,
        shows_progress: args.scan.shows_progress(),
    }
}
