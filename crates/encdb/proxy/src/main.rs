//! `pgseal-proxy`: the program behind `pgseal proxy`. Drivers connect to it as to a server; it
//! seals what they send to encrypted columns, and opens what comes back, with the owner's keys.
//!
//! It runs on the owner's side, for a process that reads its memory reads the keys. Messages name
//! `pgseal`, which people start.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod listener;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use pgseal_client::{ConnectOptions, Identity, IdentityFile, Kept, Policy};
use pgseal_engine::{Owner, Owners};
use pgseal_keys::exit::{Code, Failure};
use pgseal_options::EvidenceOptions;

use listener::Address;
use serve::ProxyError;

/// Encrypt and decrypt columns for any driver, between it and its server
///
/// Drivers connect to the proxy as to the server, with the same role, database and password. Run
/// it on the machine of the application, never on that of the database: it holds the owner's keys.
#[derive(Parser)]
#[command(
    name = "pgseal-proxy",
    bin_name = "pgseal proxy",
    version = env!("PGSEAL_BUILD"),
    override_usage = "pgseal proxy --listen <ADDRESS>... --server <CONNSTR> [OPTIONS]",
    term_width = 80
)]
struct Cli {
    /// Address for drivers: the path of a unix socket, such as
    /// /run/user/1000/.s.PGSQL.5432, or HOST:PORT; repeatable
    #[arg(long, value_name = "ADDRESS", required = true)]
    listen: Vec<Address>,
    /// Server, as a connection string: its host, port, and how TLS checks it
    #[arg(long, value_name = "CONNSTR")]
    server: String,
    /// The identity file
    #[arg(short, long, value_name = "FILE", env = "PGSEAL_IDENTITY")]
    identity: PathBuf,
    #[command(flatten)]
    evidence: EvidenceOptions,
}

/// The one owner whose keys a proxy has.
struct OneOwner {
    identity: Arc<Identity>,
    kept: Kept,
    policy: Arc<Policy>,
}

impl Owners for OneOwner {
    fn owner(&self, user: &str, database: &str) -> Option<Owner> {
        Some(Owner {
            identity: Arc::clone(&self.identity),
            policy: Arc::clone(&self.policy),
            list: self.kept.database(database),
            keyname: format!("|{user}|{database}|"),
        })
    }
}

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => match run(cli) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => Failure::from(failure).report(),
        },
        Err(error) => match pgseal_usage::print(&error) {
            false => ExitCode::SUCCESS,
            true => Code::Usage.into(),
        },
    }
}

fn run(cli: Cli) -> Result<(), ProxyError> {
    let options = ConnectOptions {
        dbname: Some(cli.server),
        ..ConnectOptions::default()
    };
    let target = options.target()?;
    let IdentityFile { identity, kept, .. } = IdentityFile::load(&cli.identity)?;
    let owner = OneOwner {
        identity: Arc::new(identity),
        kept,
        policy: Arc::new(cli.evidence.policy()?),
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(serve::serve(&cli.listen, target, Arc::new(owner)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help_fits_80_columns() {
        let (commands, wide) = pgseal_usage::wide_help(Cli::command());
        assert_eq!((commands, wide), (1, Vec::new()));
    }
}
