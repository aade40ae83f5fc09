//! `pgseal key unwrap`: the payload, for tools that wrap it themselves.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use pgseal_format::Payload;
use pgseal_keys::audit::{self, Event};
use pgseal_keys::cluster::Root;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::unlock::unlock;

use crate::cli::key::UnwrapArgs;
use crate::output;

/// A secret does not belong on a screen.
#[derive(Debug, thiserror::Error)]
#[error("this prints the unencrypted key: send it to a pipe or file, or give --reveal")]
pub struct OnTerminal;

impl Exit for OnTerminal {
    fn code(&self) -> Code {
        Code::Usage
    }
}

pub fn run(args: &UnwrapArgs) -> Result<ExitCode, Failure> {
    if io::stdout().is_terminal() && !args.reveal {
        return Err(OnTerminal.into());
    }
    let opened = unlock(
        Root::required(&args.cluster.pgdata)?,
        &args.cluster.unlock.ways(),
    )?;
    audit::record(&opened.root.path, Some(&opened.header), Event::Exported);
    let mut payload = Payload::encode(&opened.master, &opened.header);
    payload.push(b'\n');
    output::print_bytes(&payload)?;
    Ok(ExitCode::SUCCESS)
}
