//! The command line. What an option means is in the file of its subcommand.

pub mod archive;
pub mod client;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use self::archive::{WalGetArgs, WalPutArgs};
use crate::cmd::receiver::parse_until;
use crate::passphrase::Source;
use crate::twin::options::{Name, Split};
use crate::unlock::Ways;

/// Transparent encryption for unmodified PostgreSQL.
#[derive(Parser)]
#[command(name = "pgseal", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Write sealed twins of PostgreSQL's programs into a directory for PATH
    Bindir(BindirArgs),
    /// Run one program sealed
    Exec(ExecArgs),
    /// Copy a running cluster into a sealed standby
    #[command(disable_help_flag = true)]
    Clone(CloneArgs),
    /// Tell whether a cluster is sealed, how, and whether its key opens
    Status(StatusArgs),
    /// Tell what on this machine, or around a cluster, stops or weakens sealed servers
    Doctor(DoctorArgs),
    /// Decrypt and check every page of a stopped cluster
    Verify(VerifyArgs),
    /// Make a stopped plain cluster a sealed one, in place
    Seal(SealArgs),
    /// Make a stopped sealed cluster a plain one, in place
    Unseal(UnsealArgs),
    /// Give a stopped sealed cluster another master key, in place
    Rekey(RekeyArgs),
    /// Look for clear text in the raw files of data directories; needs no key
    Audit(AuditArgs),
    /// Protect the key of a cluster in another way, or check how it is protected
    #[command(subcommand)]
    Key(KeyCommand),
    /// Let receivers have clear pages and WAL from a sealed server
    #[command(subcommand)]
    Receiver(ReceiverCommand),
    /// Work with encrypted columns as their owner: identities, keys, grants, values
    #[command(subcommand)]
    Client(client::ClientCommand),
    /// Bring a WAL file from an archive that may have another key (for restore_command)
    WalGet(WalGetArgs),
    /// Store a WAL file in an archive that may have another key (for archive_command)
    WalPut(WalPutArgs),
    /// Measure what encryption costs on this machine, on throw-away clusters beside stock
    #[command(subcommand)]
    Bench(pgseal_bench::cli::Command),
    /// Hand a cluster's key to the library (which calls this)
    #[command(hide = true)]
    Unlock(UnlockArgs),
}

#[derive(Subcommand)]
pub enum KeyCommand {
    /// Add a way to open the key, or replace one
    Wrap(WrapArgs),
    /// Print the key's payload, for other tools
    Unwrap(UnwrapArgs),
    /// Try whether the key opens
    Check(CheckArgs),
    /// Replace the way that opens the key by a new one
    Rotate(RotateArgs),
}

#[derive(Subcommand)]
pub enum ReceiverCommand {
    /// Print a token for a receiver that does not hold the cluster's key
    Grant(GrantArgs),
}

/// The cluster, and how to open it.
#[derive(Args)]
pub struct ClusterOptions {
    /// The data directory
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR", env = "PGDATA")]
    pub pgdata: PathBuf,
    #[command(flatten)]
    pub unlock: UnlockOptions,
}

/// How to open a cluster's key.
#[derive(Args)]
pub struct UnlockOptions {
    /// The command that unwraps the key: reads "%p", prints it
    #[arg(long, value_name = "COMMAND")]
    pub key_unwrap_command: Option<String>,
    /// The command that prints the key that the cluster's key is protected by
    #[arg(short = 'K', long, value_name = "COMMAND")]
    pub encryption_key_command: Option<String>,
    /// A file that holds the passphrase
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// An open descriptor that gives the passphrase
    #[arg(long, value_name = "FD", conflicts_with = "passphrase_file")]
    pub passphrase_fd: Option<i32>,
}

impl UnlockOptions {
    /// As unlocking takes them.
    pub fn ways(&self) -> Ways {
        Ways {
            unwrap_command: self.key_unwrap_command.clone(),
            key_command: self.encryption_key_command.clone(),
            passphrase: Source::of_options(self.passphrase_file.clone(), self.passphrase_fd)
                .by_option("--passphrase-file"),
        }
    }
}

/// How the key shall be protected from now on.
#[derive(Args)]
pub struct NewOptions {
    /// Command that wraps the key: reads it, writes "%p" [default: $PGDATAKEYWRAPCMD]
    #[arg(long, value_name = "COMMAND", group = "new")]
    pub new_wrap_command: Option<String>,
    /// Command that unwraps it: reads "%p", prints it [default: $PGDATAKEYUNWRAPCMD, or as before]
    #[arg(
        long,
        value_name = "COMMAND",
        conflicts_with_all = [
            "new_key_command",
            "new_passphrase",
            "new_passphrase_file",
            "new_key_file",
            "new_plain",
        ]
    )]
    pub new_unwrap_command: Option<String>,
    /// Command that prints a key in hexadecimal, which the cluster's key is then protected by
    #[arg(long, value_name = "COMMAND", group = "new")]
    pub new_key_command: Option<String>,
    /// A passphrase from the terminal
    #[arg(long, group = "new")]
    pub new_passphrase: bool,
    /// The passphrase in FILE
    #[arg(long, value_name = "FILE", group = "new")]
    pub new_passphrase_file: Option<PathBuf>,
    /// The key in clear in a new file, outside the data directory
    #[arg(long, value_name = "FILE", group = "new")]
    pub new_key_file: Option<PathBuf>,
    /// No protection: the key in clear in key.bin
    #[arg(long, group = "new")]
    pub new_plain: bool,
}

/// The key of a cluster that shall be sealed, as initdb takes it.
#[derive(Args)]
pub struct KeyChoice {
    /// Bits of the AES keys: 128, 192 or 256 [default: 256]
    #[arg(short = 'y', long, value_name = "BITS")]
    pub data_encryption: Option<String>,
    /// Command that wraps the key: reads it, writes "%p" [default: $PGDATAKEYWRAPCMD]
    #[arg(long, value_name = "COMMAND")]
    pub key_wrap_command: Option<String>,
    /// Command that unwraps it: reads "%p", prints it [default: $PGDATAKEYUNWRAPCMD]
    #[arg(long, value_name = "COMMAND")]
    pub key_unwrap_command: Option<String>,
    /// No protection: the key in clear in key.bin
    #[arg(long)]
    pub no_key_wrap: bool,
    /// Command that prints a key in hexadecimal, which the cluster's key is then protected by
    #[arg(short = 'K', long, value_name = "COMMAND")]
    pub encryption_key_command: Option<String>,
    /// A passphrase from the terminal, or from the file that $PGSEAL_PASSPHRASE_FILE names
    #[arg(long)]
    pub key_passphrase: bool,
    /// The passphrase in FILE
    #[arg(long, value_name = "FILE")]
    pub key_passphrase_file: Option<String>,
    /// The key in clear in a new file, outside the data directory
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<String>,
}

impl KeyChoice {
    /// As initdb's twin has it.
    pub fn split(&self) -> Split {
        let flag = |set: bool| set.then(String::new);
        let all = [
            (Name::DataEncryption, self.data_encryption.clone()),
            (Name::WrapCommand, self.key_wrap_command.clone()),
            (Name::UnwrapCommand, self.key_unwrap_command.clone()),
            (Name::NoKeyWrap, flag(self.no_key_wrap)),
            (Name::KeyCommand, self.encryption_key_command.clone()),
            (Name::KeyPassphrase, flag(self.key_passphrase)),
            (Name::KeyPassphraseFile, self.key_passphrase_file.clone()),
            (Name::KeyFile, self.key_file.clone()),
        ];
        Split::of(all.into_iter().filter(|(_, value)| value.is_some()))
    }

    /// How a key that was made so opens.
    pub fn ways(&self) -> Ways {
        Ways {
            unwrap_command: self.key_unwrap_command.clone(),
            key_command: self.encryption_key_command.clone(),
            passphrase: Source::of_options(
                self.key_passphrase_file.clone().map(PathBuf::from),
                None,
            )
            .by_option("--key-passphrase-file"),
        }
    }
}

/// How to open the key that a cluster has until now.
#[derive(Args)]
pub struct OldUnlockOptions {
    /// The command that unwraps the present key: reads "%p", prints it
    #[arg(long, value_name = "COMMAND")]
    pub old_key_unwrap_command: Option<String>,
    /// The command that prints the key that the present key is protected by
    #[arg(long, value_name = "COMMAND")]
    pub old_encryption_key_command: Option<String>,
    /// A file that holds the present passphrase
    #[arg(long, value_name = "FILE")]
    pub old_passphrase_file: Option<PathBuf>,
}

impl OldUnlockOptions {
    /// As unlocking takes them.
    pub fn ways(&self) -> Ways {
        Ways {
            unwrap_command: self.old_key_unwrap_command.clone(),
            key_command: self.old_encryption_key_command.clone(),
            passphrase: Source::of_options(self.old_passphrase_file.clone(), None)
                .by_option("--old-passphrase-file"),
        }
    }
}

/// What all have that go through a whole cluster.
#[derive(Args)]
pub struct ScanOptions {
    /// Threads [default: one for each core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// For machines
    #[arg(long)]
    pub json: bool,
    /// No bar on a terminal
    #[arg(long)]
    pub no_progress: bool,
}

impl ScanOptions {
    /// Is a bar wanted, and is there somebody to see it?
    pub fn shows_progress(&self) -> bool {
        !self.no_progress && !self.json && io::stderr().is_terminal()
    }
}

/// What all conversions have.
#[derive(Args)]
pub struct ConvertOptions {
    /// The data directory
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR", env = "PGDATA")]
    pub pgdata: PathBuf,
    /// Change nothing: say what would be done, what stands in the way, and what it takes
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub scan: ScanOptions,
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
    /// The data directory of a sealed cluster [default: the machine alone]
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR", env = "PGDATA")]
    pub pgdata: Option<PathBuf>,
    #[command(flatten)]
    pub unlock: UnlockOptions,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Do not try whether the key opens: run no command, ask nothing
    #[arg(long)]
    pub no_check: bool,
    /// Print the stored commands, and run none
    #[arg(long)]
    pub show: bool,
    /// For machines
    #[arg(long)]
    pub json: bool,
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
    /// The same, as other subcommands take it; repeatable
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR")]
    pub pgdata: Vec<PathBuf>,
    /// A text that must not be found in clear; repeatable
    #[arg(long, value_name = "TEXT")]
    pub canary: Vec<String>,
    /// The same in hexadecimal; repeatable
    #[arg(long, value_name = "HEX")]
    pub canary_hex: Vec<String>,
    /// A file with one such text a line; repeatable
    #[arg(long, value_name = "FILE")]
    pub canary_file: Vec<PathBuf>,
    #[command(flatten)]
    pub scan: ScanOptions,
}

#[derive(Args)]
pub struct WrapArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub new: NewOptions,
    /// The slot to replace; without it one is added
    #[arg(long, value_name = "SLOT", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub replace: Option<u8>,
}

#[derive(Args)]
pub struct RotateArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub new: NewOptions,
    /// The slot to replace [default: the one that opens]
    #[arg(long, value_name = "SLOT", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub slot: Option<u8>,
}

#[derive(Args)]
pub struct UnwrapArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Print the secret even to a terminal
    #[arg(long)]
    pub reveal: bool,
}

#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Print the slots and their commands, and run none
    #[arg(long)]
    pub show: bool,
    /// Try every slot, not only until one opens
    #[arg(long, conflicts_with = "show")]
    pub all: bool,
    /// A file that holds the passphrase of another slot; repeatable
    #[arg(long, value_name = "FILE", requires = "all")]
    pub more_passphrase_file: Vec<PathBuf>,
}

#[derive(Args)]
pub struct GrantArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// The role that the receiver connects as
    #[arg(long, value_name = "ROLE", value_parser = NonEmptyStringValueParser::new())]
    pub role: String,
    /// How long the token holds: 12h, 30days, or until 2027-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_until)]
    pub until: u64,
}

#[derive(Args)]
pub struct BindirArgs {
    /// The directory of PostgreSQL's programs, such as /usr/lib/postgresql/15/bin
    #[arg(long, value_name = "PGBIN")]
    pub pg: PathBuf,
    /// The directory for the twins; it is made if it does not exist, and nothing in it is
    /// overwritten but twins
    #[arg(long, value_name = "DIR")]
    pub into: PathBuf,
}

#[derive(Args)]
pub struct ExecArgs {
    /// A data directory to unlock, beside those that the command line names; repeatable
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR")]
    pub pgdata: Vec<PathBuf>,
    #[command(flatten)]
    pub unlock: UnlockOptions,
    /// What the program and its children see in clear [default: all, and its children nothing];
    /// keys come from where a server takes them that is started without options
    #[arg(
        long,
        value_enum,
        value_name = "VIEW",
        requires_if("backup", "pgdata"),
        conflicts_with_all = ["key_unwrap_command", "encryption_key_command", "passphrase_file", "passphrase_fd"]
    )]
    pub view: Option<View>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub command: Vec<OsString>,
}

/// What a program sees that must not see everything.
#[derive(Clone, Copy, ValueEnum)]
pub enum View {
    /// pg_control of DATADIR in clear, all other files as they are stored: what a backup tool needs
    Backup,
    /// Nothing in clear: what a program needs that copies the files of a running server.
    /// PostgreSQL's own programs read in clear in either view
    Stored,
}

/// Connection options are pg_basebackup's.
#[derive(Args)]
pub struct CloneArgs {
    /// The directory of PostgreSQL's programs [default: where PATH finds pg_basebackup]
    #[arg(long, value_name = "PGBIN")]
    pub pg: Option<PathBuf>,
    /// The new data directory
    #[arg(short = 'D', long = "pgdata", value_name = "TARGET")]
    pub pgdata: PathBuf,
    /// The primary's host or socket directory
    #[arg(short = 'h', long, value_name = "HOSTNAME")]
    pub host: Option<OsString>,
    /// Its port
    #[arg(short = 'p', long, value_name = "PORT")]
    pub port: Option<OsString>,
    /// The role to connect as
    #[arg(short = 'U', long, value_name = "NAME")]
    pub username: Option<OsString>,
    /// A connection string
    #[arg(short = 'd', long, value_name = "CONNSTR")]
    pub dbname: Option<OsString>,
    /// Never prompt for a password
    #[arg(short = 'w', long)]
    pub no_password: bool,
    /// Prompt for a password
    #[arg(short = 'W', long)]
    pub password: bool,
    /// The command that unwraps the key: reads "%p", prints it
    #[arg(long, value_name = "COMMAND")]
    pub key_unwrap_command: Option<String>,
    /// Seal the standby under a key of its own; always so if the primary is not sealed
    #[arg(long)]
    pub new_key: bool,
    #[command(flatten)]
    pub protection: CloneProtection,
    /// Bits of the new key [default: 256]
    #[arg(long, value_name = "BITS", requires = "new_key")]
    pub data_encryption: Option<u16>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
    /// More options for pg_basebackup, after --
    #[arg(last = true, value_name = "OPTION")]
    pub more: Vec<OsString>,
}

/// How a clone's new key shall be protected: initdb's options.
#[derive(Args)]
pub struct CloneProtection {
    /// The command that wraps the new key: reads it, writes "%p"
    #[arg(long, value_name = "COMMAND")]
    pub key_wrap_command: Option<String>,
    /// Protect the new key by a passphrase from the terminal
    #[arg(long)]
    pub key_passphrase: bool,
    /// Protect it by the passphrase in FILE
    #[arg(long, value_name = "FILE")]
    pub key_passphrase_file: Option<PathBuf>,
    /// Keep it in FILE, outside the data directory
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Leave it unprotected, for tests
    #[arg(long)]
    pub no_key_wrap: bool,
}

impl CloneProtection {
    /// Whether anything is said.
    pub fn is_given(&self) -> bool {
        !self.arguments().is_empty()
    }

    /// As a twin takes it.
    pub fn arguments(&self) -> Vec<OsString> {
        let path = |path: &Option<PathBuf>| path.clone().map(PathBuf::into_os_string);
        let with_value = [
            (
                "--key-wrap-command",
                self.key_wrap_command.clone().map(OsString::from),
            ),
            ("--key-passphrase-file", path(&self.key_passphrase_file)),
            ("--key-file", path(&self.key_file)),
        ];
        let given = with_value
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let mut arguments: Vec<_> = given
            .flat_map(|(name, value)| [name.into(), value])
            .collect();
        arguments.extend(self.key_passphrase.then(|| "--key-passphrase".into()));
        arguments.extend(self.no_key_wrap.then(|| "--no-key-wrap".into()));
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
