//! `pgseal receiver grant`: a token for a receiver that does not hold the cluster's key. Whoever
//! shows it to the server, as that role and before that time, is given clear pages and WAL.

use std::process::ExitCode;

use pgseal_format::ReceiverToken;
use pgseal_keys::cluster::Root;
use pgseal_keys::control_file;
use pgseal_keys::exit::Failure;
use pgseal_keys::unlock::unlock;

use crate::cli::GrantArgs;
use crate::output;

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
