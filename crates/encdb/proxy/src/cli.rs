//! The command lines of `pgseal proxy` and `pgseal client exec`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser};
use pgseal_options::{ConnectionOptions, EvidenceOptions, ListOptions, PoolOptions};

use crate::{Address, TlsFiles};

/// The first argument by which `pgseal` says that it is `pgseal client exec`.
pub const CLIENT_EXEC: &str = "client-exec";

/// Encrypt and decrypt columns for any driver, between it and its server
///
/// Drivers connect to the proxy as to the server, with the same role, database and password. Run
/// it on the machine of the application, never on that of the database: it holds the owner's keys.
#[derive(Parser)]
#[command(
    name = "pgseal-proxy",
    bin_name = "pgseal proxy",
    version = env!("PGSEAL_BUILD"),
    override_usage = "pgseal proxy --listen <ADDRESS>... --server <CONNSTR> [OPTIONS]\n       \
        pgseal proxy --config <FILE>",
    mut_arg("policy", |policy| policy.required_unless_present_any(["accept", "config"])),
    term_width = 80
)]
pub struct Proxy {
    /// Configuration file, in place of all other options
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address for drivers: the path of a unix socket, such as
    /// /run/user/1000/.s.PGSQL.5432, or HOST:PORT, which is loopback or needs
    /// --tls-cert; repeatable
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<Address>,
    /// Server, as a connection string: its host, port, and how TLS checks it
    #[arg(long, value_name = "CONNSTR", required_unless_present = "config")]
    pub server: Option<String>,
    /// The identity file
    #[arg(
        short,
        long,
        value_name = "FILE",
        env = "PGSEAL_IDENTITY",
        required_unless_present = "config"
    )]
    pub identity: Option<PathBuf>,
    /// Which evaluators get the keys.
    #[command(flatten)]
    pub evidence: EvidenceOptions,
    /// Who says which columns are encrypted.
    #[command(flatten)]
    pub list: ListOptions,
    /// Pools before the server.
    #[command(flatten)]
    pub pool: PoolOptions,
    /// TLS with drivers.
    #[command(flatten)]
    pub tls: TlsOptions,
    /// Address for metrics and health over HTTP: a path, or HOST:PORT, which is
    /// loopback
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<Address>,
}

impl Proxy {
    /// Reads a command line. Beside a configuration file it has nothing else; variables, which may
    /// be set for other commands, do not count then.
    pub fn of(words: Vec<OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(words)?;
        let is_given = |name: &&str| {
            *name != "config" && matches.value_source(name) == Some(ValueSource::CommandLine)
        };
        let names: Vec<_> = command
            .get_arguments()
            .map(|it| it.get_id().as_str())
            .collect();
        let other = names.into_iter().find(is_given).map(str::to_owned);
        let proxy = Self::from_arg_matches(&matches)?;
        match other.filter(|_| proxy.config.is_some()) {
            None => Ok(proxy),
            Some(name) => {
                let name = name.replace('_', "-");
                let text = format!("--{name} has no place beside --config: write it into the file");
                Err(command.error(ErrorKind::ArgumentConflict, text))
            }
        }
    }
}

/// TLS with drivers.
#[derive(Args)]
pub struct TlsOptions {
    /// Certificate for drivers that connect over TCP, in PEM; they must use TLS then
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Authorities of drivers' certificates, in PEM; a driver must have one then
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
}

impl TlsOptions {
    /// Returns the files, if there are any.
    pub fn files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificate: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
            client_ca: self.tls_client_ca.clone(),
        })
    }
}

/// Run one program whose connections encrypt and decrypt columns
///
/// The program finds a proxy of its own in PGHOST and DATABASE_URL, which ends with it. No other
/// user can connect to that. A program that names a host itself does not use the proxy.
#[derive(Parser)]
#[command(
    name = "pgseal-proxy",
    bin_name = "pgseal client exec",
    override_usage = "pgseal client exec [OPTIONS] -- <COMMAND>...",
    disable_help_flag = true,
    term_width = 80
)]
pub struct Exec {
    /// The identity file
    #[arg(short, long, value_name = "FILE", env = "PGSEAL_IDENTITY")]
    pub identity: PathBuf,
    /// The server.
    #[command(flatten)]
    pub connection: ConnectionOptions,
    /// Which evaluators get the keys.
    #[command(flatten)]
    pub evidence: EvidenceOptions,
    /// Who says which columns are encrypted.
    #[command(flatten)]
    pub list: ListOptions,
    /// Pools before the server.
    #[command(flatten)]
    pub pool: PoolOptions,
    /// Load a library into the program in place of a proxy beside it: faster, and for programs
    /// that connect by libpq
    #[arg(long)]
    pub in_process: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
    /// Program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_fits_80_columns() {
        for command in [Proxy::command(), Exec::command()] {
            assert_eq!(pgseal_usage::wide_help(command), (1, Vec::new()));
        }
    }

    #[test]
    fn a_configuration_file_has_all_settings() {
        let parsed = |line: &str| Proxy::of(line.split(' ').map(OsString::from).collect());
        assert!(parsed("pgseal-proxy --config f").is_ok());
        for line in [
            "--config f --listen s",
            "--config f --accept software",
            "--listen s",
        ] {
            assert!(parsed(&format!("pgseal-proxy {line}")).is_err(), "{line}");
        }
    }

    #[test]
    fn options_behind_the_command_are_its_own() {
        let words = "pgseal-proxy -i f --accept software -d shop psql -h db --help";
        let exec = Exec::try_parse_from(words.split(' ')).expect("a command line");
        assert_eq!(exec.command, ["psql", "-h", "db", "--help"]);
        assert_eq!(exec.connection.dbname.as_deref(), Some("shop"));
    }
}
