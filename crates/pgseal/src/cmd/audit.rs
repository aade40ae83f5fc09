//! `pgseal audit`: looks for canaries and for clear pages in raw files. Needs no key, reads only,
//! and may run beside the server.
//!
//! Exit codes: 0 no hit; 1 hits, each named by file and offset, or something was not read.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use pgseal_keys::exit::{Code, Failure};

use crate::audit::{audit, Canaries, Canary, CanaryError, Report, Unread};
use crate::cli::AuditArgs;
use crate::output;
use crate::scan::{pool, progress, walk};
use crate::unlisted::unlisted;

pub fn run(args: &AuditArgs) -> Result<ExitCode, Failure> {
    let list = canaries(args)?;
    let (count, start) = (list.len(), Instant::now());
    let canaries = Canaries::new(list)?;
    let (mut files, mut unread) = (Vec::new(), Vec::new());
    let directories = [&args.pgdata[..], &args.directories].concat();
    for directory in &directories {
        let found = walk::walk(directory)?;
        files.extend(found.files);
        let odd = found.others.iter().filter(|odd| odd.holds_data);
        unread.extend(odd.map(|odd| Unread::link(&odd.path)));
        unread.extend(found.dangling.iter().map(|odd| Unread::dangling(&odd.path)));
    }
    let shown = args.scan.shows_progress();
    let bar = progress::bar(files.iter().map(|file| file.len).sum(), shown);
    let work = |found: &_, buffer: &mut Vec<u8>| audit(found, &canaries, buffer, &bar);
    let audited = pool::map(&files, pool::jobs(args.scan.jobs), Vec::new, work);
    bar.finish_and_clear();
    let time = start.elapsed();
    let mut report = Report::new(
        &directories,
        &files,
        audited,
        &canaries,
        count,
        unread,
        time,
    );
    let names = directories.iter().map(|path| not_postgresqls(path));
    report.unlisted = names.flatten().collect();
    output::report(&report, args.scan.json)?;
    Ok(if report.is_finding() {
        ExitCode::from(Code::Found)
    } else {
        ExitCode::SUCCESS
    })
}

/// The clear names of a data directory. Other directories, such as archives, have their own names.
fn not_postgresqls(directory: &Path) -> BTreeSet<String> {
    match directory.join("PG_VERSION").exists() && directory.join("base").exists() {
        true => unlisted(directory).unwrap_or_default(),
        false => BTreeSet::new(),
    }
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
