//! `pgseal enable` and `pgseal disable`: which cluster, and how its key shall be protected.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// The cluster, as this machine starts it.
#[derive(Args)]
pub struct TargetOptions {
    /// Debian: the cluster's version, as pg_lsclusters lists it
    #[arg(value_name = "VERSION", requires = "cluster", conflicts_with_all = ["pgdata", "unit"])]
    pub version: Option<String>,
    /// Debian: the cluster's name
    #[arg(value_name = "CLUSTER")]
    pub cluster: Option<String>,
    /// Elsewhere: the data directory
    #[arg(short = 'D', long, value_name = "DATADIR", requires = "unit")]
    pub pgdata: Option<PathBuf>,
    /// Elsewhere: the systemd unit that runs the server
    #[arg(long, value_name = "UNIT", requires = "pgdata")]
    pub unit: Option<String>,
    /// Change nothing: print the steps, their time, and what blocks them
    #[arg(long)]
    pub check: bool,
    /// Do not ask before the first step
    #[arg(long)]
    pub yes: bool,
}

#[derive(Args)]
#[command(
    group(clap::ArgGroup::new("target").args(["version", "pgdata"]).required(true)),
    override_usage = "pgseal enable VERSION CLUSTER [OPTIONS]\n       \
                      pgseal enable --pgdata DATADIR --unit UNIT [OPTIONS]"
)]
pub struct EnableArgs {
    #[command(flatten)]
    pub target: TargetOptions,
    /// Take it back, however far it has come: as `pgseal disable`
    #[arg(long)]
    pub undo: bool,
    #[command(flatten)]
    pub key: EnableKey,
}

#[derive(Args)]
#[command(
    group(clap::ArgGroup::new("target").args(["version", "pgdata"]).required(true)),
    override_usage = "pgseal disable VERSION CLUSTER [OPTIONS]\n       \
                      pgseal disable --pgdata DATADIR --unit UNIT [OPTIONS]"
)]
pub struct DisableArgs {
    #[command(flatten)]
    pub target: TargetOptions,
    #[command(flatten)]
    pub key: DisableKey,
}

/// The ways to protect a new key with which a server starts without a person.
#[derive(Args)]
pub struct EnableKey {
    /// Length of the AES keys in bits: 128, 192 or 256 [default: 256]
    #[arg(short = 'y', long, value_name = "BITS")]
    pub data_encryption: Option<String>,
    /// Use the passphrase in FILE, which the server's user may read [default: a new random one in
    /// /etc/pgseal]
    #[arg(long, value_name = "FILE")]
    pub key_passphrase_file: Option<PathBuf>,
    /// URI of a key in a service or device: vault://..., pkcs11:...
    #[arg(long, value_name = "URI")]
    pub key_provider: Option<String>,
    /// Command that wraps the key: it reads the key and writes "%p"
    #[arg(long, value_name = "COMMAND", requires = "key_unwrap_command")]
    pub key_wrap_command: Option<String>,
    /// Command that unwraps the key: it reads "%p" and prints the key
    #[arg(long, value_name = "COMMAND", requires = "key_wrap_command")]
    pub key_unwrap_command: Option<String>,
}

impl EnableKey {
    /// Returns the options but that of the passphrase, as `pgseal seal` takes them.
    pub fn arguments(&self) -> Vec<OsString> {
        let options = [
            ("--key-provider", &self.key_provider),
            ("--key-wrap-command", &self.key_wrap_command),
            ("--key-unwrap-command", &self.key_unwrap_command),
        ];
        let given = options
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        given
            .map(|(name, value)| format!("{name}={value}").into())
            .collect()
    }
}

/// How the key of a sealed cluster opens, if not by what its server is started with.
#[derive(Args)]
pub struct DisableKey {
    /// File that contains the passphrase [default: the one that the server is started with]
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}
