//! `pgseal audit`: looks for canaries and for clear pages in raw files. Needs no key, reads only,
//! and may run beside the server.
//!
//! Exit codes: 0 no hit; 1 hits, each named by file and offset.

use std::process::ExitCode;
use std::time::Instant;

use crate::audit::{audit, Canaries, Canary, CanaryError, Report};
use crate::cli::AuditArgs;
use crate::exit::{Failure, FOUND};
use crate::output;
use crate::scan::{pool, progress, walk};

pub fn run(args: &AuditArgs) -> Result<ExitCode, Failure> {
    let list = canaries(args)?;
    let (count, start) = (list.len(), Instant::now());
    let canaries = Canaries::new(list)?;
    let mut files = Vec::new();
    for directory in &args.directories {
        files.extend(walk::walk(directory)?.files);
    }
    let shown = args.scan.shows_progress();
    let bar = progress::bar(files.iter().map(|file| file.len).sum(), shown);
    let work = |found: &_, buffer: &mut Vec<u8>| audit(found, &canaries, buffer, &bar);
    let audited = pool::map(&files, pool::jobs(args.scan.jobs), Vec::new, work);
    bar.finish_and_clear();
    let time = start.elapsed();
    let report = Report::new(&args.directories, &files, audited, &canaries, count, time);
    output::report(&report, args.scan.json)?;
    Ok(if report.has_hits() {
        ExitCode::from(FOUND)
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
