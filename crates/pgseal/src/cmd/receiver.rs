//! `pgseal receiver grant`: a token for a receiver that does not hold the cluster's key. Whoever
//! shows it to the server, as that role and before that time, is given clear pages and WAL.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pgseal_format::ReceiverToken;

use crate::cli::GrantArgs;
use crate::cluster::Root;
use crate::control_file;
use crate::exit::Failure;
use crate::output;
use crate::unlock::unlock;

pub fn grant(args: &GrantArgs) -> Result<ExitCode, Failure> {
    let cluster = &args.cluster;
    let opened = unlock(Root::required(&cluster.pgdata)?, &cluster.unlock.ways())?;
    let (master, length) = (&opened.master, opened.header.length);
    let control = control_file::read(&opened.root.path, master, length)?.said?;
    let role = args.role.as_bytes();
    let token = ReceiverToken::grant(master, control.system_id, role, args.until);
    output::print(format_args!("{}\n", String::from_utf8_lossy(&token)))?;
    Ok(ExitCode::SUCCESS)
}

/// A time to come, in seconds since 1970: `12h`, `30days`, or `2027-01-31T12:00:00Z`.
pub fn parse_until(text: &str) -> Result<u64, String> {
    let now = SystemTime::now();
    let until = match humantime::parse_duration(text) {
        Ok(after) => now.checked_add(after),
        Err(_) => humantime::parse_rfc3339_weak(text).ok(),
    };
    until
        .filter(|until| *until > now)
        .and_then(|until| until.duration_since(UNIX_EPOCH).ok())
        .as_ref()
        .map(Duration::as_secs)
        .ok_or_else(|| {
            "give a time to come, such as 12h, 30days or 2027-01-31T12:00:00Z".to_owned()
        })
}
