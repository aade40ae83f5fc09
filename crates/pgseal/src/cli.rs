//! The command line. What an option means is in the file of its subcommand.

mod agent;
pub mod archive;
pub mod client;
pub mod enable;
mod exporter;
#[cfg(test)]
mod help;
pub mod key;
pub mod receiver;
mod status;
pub mod unlock;
mod until;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::agent::AgentArgs;
use self::archive::{WalGetArgs, WalPutArgs};
use self::enable::{DisableArgs, EnableArgs};
pub use self::exporter::ExporterArgs;
use self::key::KeyCommand;
use self::receiver::ReceiverCommand;
pub use self::status::{StatusArgs, StatusFormat};
use self::unlock::{ClusterOptions, HardeningOptions, KeyChoice, OldUnlockOptions, UnlockOptions};
use crate::convert::Request;

/// Transparent encryption for unmodified PostgreSQL.
#[derive(Parser)]
#[command(
    name = "pgseal",
    version = crate::VERSION,
    arg_required_else_help = true,
    after_help = "`pgseal help topics` lists texts on keys, exit codes and environment variables.",
    term_width = 80
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Create wrappers of PostgreSQL's programs in a directory for PATH
    Bindir(BindirArgs),
    /// Run one program with access to an encrypted cluster
    Exec(ExecArgs),
    /// Create an encrypted standby of a running cluster
    #[command(disable_help_flag = true)]
    Clone(CloneArgs),
    /// Show whether a cluster is encrypted, and whether its key opens
    Status(StatusArgs),
    /// Serve metrics of all clusters of this machine for Prometheus; needs no key
    Exporter(ExporterArgs),
    /// Check this machine and a cluster for problems and weaknesses
    Doctor(DoctorArgs),
    /// Decrypt and check every page of a stopped cluster
    Verify(VerifyArgs),
    /// Encrypt a cluster of this machine, with its server's start, in one command
    Enable(EnableArgs),
    /// Decrypt what `enable` encrypted, and take back the server's start
    Disable(DisableArgs),
    /// Encrypt a stopped cluster in place
    Seal(SealArgs),
    /// Decrypt a stopped cluster in place
    Unseal(UnsealArgs),
    /// Encrypt a stopped cluster anew, under another master key
    Rekey(RekeyArgs),
    /// Search stored files for unencrypted data; needs no key
    Audit(AuditArgs),
    /// Manage the key slots of a cluster
    #[command(subcommand)]
    Key(KeyCommand),
    /// Hold the keys of clusters that were opened once, for the programs of this user
    Agent(AgentArgs),
    /// Authorize standbys and backup clients to receive decrypted data
    #[command(subcommand)]
    Receiver(ReceiverCommand),
    /// Manage and query encrypted columns as their owner
    #[command(subcommand)]
    Client(client::ClientCommand),
    /// Fetch a WAL file from an archive (for restore_command)
    WalGet(WalGetArgs),
    /// Store a WAL file in an archive (for archive_command)
    WalPut(WalPutArgs),
    /// Measure the cost of encryption on this machine
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Bench(ProgramArgs),
    /// Encrypt and decrypt columns for any driver, before its server
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Proxy(ProgramArgs),
    /// Pass a cluster's key to the library (which calls this)
    #[command(hide = true)]
    Unlock(UnlockArgs),
}

/// The arguments of a program of its own, which has its own help.
#[derive(Args)]
pub struct ProgramArgs {
    /// Arguments of the program; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// The options of commands that go through a whole cluster.
#[derive(Args)]
pub struct ScanOptions {
    /// Number of threads [default: one for each core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Do not show a progress bar
    #[arg(long)]
    pub no_progress: bool,
}

impl ScanOptions {
    /// Is a bar wanted, and is there somebody to see it?
    pub fn shows_progress(&self) -> bool {
        !self.no_progress && !self.json && io::stderr().is_terminal()
    }
}

/// The options of all conversions.
#[derive(Args)]
pub struct ConvertOptions {
    /// The data directory
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR", env = "PGDATA")]
    pub pgdata: PathBuf,
    /// Change nothing: report what would be done, and what blocks it
    #[arg(long)]
    pub check: bool,
    /// Let the server run meanwhile, with --check
    #[arg(long, hide = true, requires = "check")]
    pub beside_server: bool,
    #[command(flatten)]
    pub scan: ScanOptions,
}

impl ConvertOptions {
    /// The choices that the options make, without keys.
    pub fn request(&self) -> Request {
        Request {
            data: self.pgdata.clone(),
            check: self.check,
            beside_server: self.beside_server,
            jobs: self.scan.jobs,
            json: self.scan.json,
            shows_progress: self.scan.shows_progress(),
            old: None,
            new: None,
        }
    }
}

#[derive(Args)]
pub struct SealArgs {
    #[command(flatten)]
    pub convert: ConvertOptions,
    #[command(flatten)]
    pub key: KeyChoice,
}

#[derive(Args)]
pub struct UnsealArgs {
    #[command(flatten)]
    pub convert: ConvertOptions,
    #[command(flatten)]
    pub unlock: UnlockOptions,
}

#[derive(Args)]
pub struct RekeyArgs {
    #[command(flatten)]
    pub convert: ConvertOptions,
    #[command(flatten)]
    pub key: KeyChoice,
    #[command(flatten)]
    pub old: OldUnlockOptions,
}

#[derive(Args)]
pub struct DoctorArgs {
    /// The data directory of an encrypted cluster [default: check the machine only]
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR", env = "PGDATA")]
    pub pgdata: Option<PathBuf>,
    #[command(flatten)]
    pub unlock: UnlockOptions,
    /// Call key slots wrong that are older than this, such as 90d
    #[arg(long, value_name = "AGE", requires = "pgdata", value_parser = humantime::parse_duration)]
    pub max_age: Option<Duration>,
    /// Print the findings as a checklist of this standard, with what is to be shown by hand
    #[arg(long, value_enum, value_name = "STANDARD", requires = "pgdata")]
    pub profile: Option<Profile>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A standard whose checklist doctor fills in.
#[derive(Clone, Copy, ValueEnum)]
pub enum Profile {
    /// PCI DSS 4.0.1
    Pci,
    /// CIS PostgreSQL Benchmark
    Cis,
}

#[derive(Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Fail on zero pages below the last written page, too; PostgreSQL leaves some in hash indexes,
    /// and from version 16 on where it reserved space
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub scan: ScanOptions,
}

#[derive(Args)]
pub struct AuditArgs {
    /// Data directories, or copies of them; tablespaces and pg_wal are found by their links
    #[arg(value_name = "DATADIR", required_unless_present = "pgdata")]
    pub directories: Vec<PathBuf>,
    /// Data directory, as for other subcommands; repeatable
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR")]
    pub pgdata: Vec<PathBuf>,
    /// Text that must not be found unencrypted; repeatable
    #[arg(long, value_name = "TEXT")]
    pub canary: Vec<String>,
    /// Bytes that must not be found, in hexadecimal; repeatable
    #[arg(long, value_name = "HEX")]
    pub canary_hex: Vec<String>,
    /// File with one such text per line; repeatable
    #[arg(long, value_name = "FILE")]
    pub canary_file: Vec<PathBuf>,
    #[command(flatten)]
    pub scan: ScanOptions,
}

#[derive(Args)]
pub struct BindirArgs {
    /// Directory of PostgreSQL's programs, such as /usr/lib/postgresql/15/bin
    #[arg(long, value_name = "PGBIN")]
    pub pg: PathBuf,
    /// Directory for the wrappers, created if missing; only wrappers in it are overwritten
    #[arg(long, value_name = "DIR")]
    pub into: PathBuf,
    /// Name the programs by their paths from DIR, which PGBIN is below: a copy of DIR then runs
    /// the programs in the copy
    #[arg(long)]
    pub relative: bool,
}

#[derive(Args)]
pub struct ExecArgs {
    /// Data directory to unlock, in addition to those in the command; repeatable
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR")]
    pub pgdata: Vec<PathBuf>,
    #[command(flatten)]
    pub unlock: UnlockOptions,
    /// Data that are decrypted for the program and its children [default: all for the program, none
    /// for its children]; keys are found as for a server that is started without options
    #[arg(
        long,
        value_enum,
        value_name = "VIEW",
        requires_if("backup", "pgdata"),
        conflicts_with_all = ["key_unwrap_command", "encryption_key_command", "passphrase_file", "passphrase_fd"]
    )]
    pub view: Option<View>,
    /// Program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub command: Vec<OsString>,
}

/// The view of a program that must not see everything.
#[derive(Clone, Copy, ValueEnum)]
pub enum View {
    /// pg_control of DATADIR decrypted, all other files as they are stored: for backup tools
    Backup,
    /// All files as they are stored: for programs that copy the files of a running server.
    /// PostgreSQL's own programs read decrypted data in either view
    Stored,
}

/// Connection options are pg_basebackup's.
#[derive(Args)]
pub struct CloneArgs {
    /// Directory of PostgreSQL's programs [default: where PATH finds pg_basebackup]
    #[arg(long, value_name = "PGBIN")]
    pub pg: Option<PathBuf>,
    /// The new data directory
    #[arg(short = 'D', long = "pgdata", alias = "datadir", value_name = "TARGET")]
    pub pgdata: PathBuf,
    /// The primary's host or socket directory
    #[arg(short = 'h', long, value_name = "HOSTNAME")]
    pub host: Option<OsString>,
    /// Port of the primary
    #[arg(short = 'p', long, value_name = "PORT")]
    pub port: Option<OsString>,
    /// Role to connect as
    #[arg(short = 'U', long, value_name = "NAME")]
    pub username: Option<OsString>,
    /// Connection string
    #[arg(short = 'd', long, alias = "connstring", value_name = "CONNSTR")]
    pub dbname: Option<OsString>,
    /// Never prompt for a password
    #[arg(short = 'w', long)]
    pub no_password: bool,
    /// Prompt for a password
    #[arg(short = 'W', long)]
    pub password: bool,
    #[command(flatten)]
    pub copy: CopyOptions,
    #[command(flatten)]
    pub patroni: PatroniOptions,
    /// Command that unwraps the key: it reads "%p" and prints the key
    #[arg(long, value_name = "COMMAND")]
    pub key_unwrap_command: Option<String>,
    /// Command that prints the key-encryption key
    #[arg(short = 'K', long, value_name = "COMMAND")]
    pub encryption_key_command: Option<String>,
    /// URI of the key in a service or device: it unwraps the primary's key, or wraps the new key
    #[arg(long, value_name = "URI")]
    pub key_provider: Option<String>,
    /// Encrypt the standby under its own key; required if the primary is not encrypted
    #[arg(long)]
    pub new_key: bool,
    #[command(flatten)]
    pub protection: CloneProtection,
    /// Length of the new AES keys in bits [default: 256]
    #[arg(long, value_name = "BITS", requires = "new_key")]
    pub data_encryption: Option<u16>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
    /// More options for pg_basebackup, after --
    #[arg(last = true, value_name = "OPTION")]
    pub more: Vec<OsString>,
}

/// These options of pg_basebackup say how the primary's files are copied.
#[derive(Args)]
pub struct CopyOptions {
    /// Replication slot that the standby uses
    #[arg(short = 'S', long, value_name = "NAME")]
    pub slot: Option<OsString>,
    /// Create the slot
    #[arg(short = 'C', long, requires = "slot")]
    pub create_slot: bool,
    /// Highest rate of the copy, in kB/s or with a suffix k or M
    #[arg(short = 'r', long, value_name = "RATE")]
    pub max_rate: Option<OsString>,
    /// Put the tablespace in OLD into NEW; repeatable
    #[arg(short = 'T', long, value_name = "OLD=NEW")]
    pub tablespace_mapping: Vec<OsString>,
    /// Show a bar, also where standard error is no terminal
    #[arg(short = 'P', long)]
    pub progress: bool,
}

impl CopyOptions {
    /// As a wrapper takes them.
    pub fn arguments(self) -> Vec<OsString> {
        let slot = self.slot.into_iter().map(|slot| ("-S", slot));
        let rate = self.max_rate.into_iter().map(|rate| ("-r", rate));
        let mapped = self.tablespace_mapping.into_iter().map(|pair| ("-T", pair));
        let valued = slot.chain(rate).chain(mapped);
        let mut arguments: Vec<_> = valued
            .flat_map(|(option, value)| [option.into(), value])
            .collect();
        for (option, asked) in [("-C", self.create_slot), ("-P", self.progress)] {
            arguments.extend(asked.then(|| option.into()));
        }
        arguments
    }
}

/// Patroni adds these options, beside `--datadir` and `--connstring`, when the command is one of
/// its `create_replica_methods`. The parser checks the role, and nothing else uses them.
#[derive(Args)]
pub struct PatroniOptions {
    /// Name of the Patroni cluster
    #[arg(long = "scope", hide = true)]
    _scope: Option<OsString>,
    /// Role of the new node
    #[arg(long = "role", hide = true, value_parser = ["replica"])]
    _role: Option<String>,
}

/// How a clone's new key shall be protected: initdb's options.
#[derive(Args)]
pub struct CloneProtection {
    /// Command that wraps the new key: it reads the key and writes "%p"
    #[arg(long, value_name = "COMMAND")]
    pub key_wrap_command: Option<String>,
    /// Prompt for a passphrase that protects the new key
    #[arg(long)]
    pub key_passphrase: bool,
    /// Protect the new key by the passphrase in FILE
    #[arg(long, value_name = "FILE")]
    pub key_passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    pub hardening: HardeningOptions,
    /// Use the key of another cluster's key.bin as the new key
    #[arg(long, value_name = "FILE")]
    pub copy_key_from: Option<PathBuf>,
    /// Store the unencrypted new key in FILE, outside the data directory
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Store the unencrypted new key in key.bin: for tests
    #[arg(long)]
    pub no_key_wrap: bool,
}

impl CloneProtection {
    /// Whether anything is said.
    pub fn is_given(&self) -> bool {
        !self.arguments().is_empty()
    }

    /// As a wrapper takes it.
    pub fn arguments(&self) -> Vec<OsString> {
        let path = |path: &Option<PathBuf>| path.clone().map(PathBuf::into_os_string);
        let memory = self.hardening.argon2_memory;
        let with_value = [
            (
                "--key-wrap-command",
                self.key_wrap_command.clone().map(OsString::from),
            ),
            ("--key-passphrase-file", path(&self.key_passphrase_file)),
            (
                "--argon2-memory",
                memory.map(|kib| format!("{kib}KiB").into()),
            ),
            ("--copy-key-from", path(&self.copy_key_from)),
            ("--key-file", path(&self.key_file)),
        ];
        let given = with_value
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let mut arguments: Vec<_> = given
            .flat_map(|(name, value)| [name.into(), value])
            .collect();
        for (name, asked) in [
            ("--key-passphrase", self.key_passphrase),
            ("--allow-weak", self.hardening.allow_weak),
            ("--no-key-wrap", self.no_key_wrap),
        ] {
            arguments.extend(asked.then(|| name.into()));
        }
        arguments
    }
}

#[derive(Args)]
pub struct UnlockArgs {
    /// The descriptor of a memfd or pipe that takes the handover record
    #[arg(long)]
    pub fd: i32,
    /// The data directory
    #[arg(long)]
    pub root: PathBuf,
}
