//! The options of `pgseal key …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use pgseal_recovery::Count;

use super::unlock::{ClusterOptions, HardeningOptions};

#[derive(Subcommand)]
pub enum KeyCommand {
    /// List the key slots; needs no secret
    List(ListArgs),
    /// Add a key slot
    Add(AddArgs),
    /// Remove a key slot, after another was seen to open
    Remove(RemoveArgs),
    /// Give a key slot a label
    Label(LabelArgs),
    /// Copy the key file, or make recovery sheets, and prove that they open
    Backup(BackupArgs),
    /// Make key.bin anew, from a copy, a recovery sheet or shares
    #[command(
        override_usage = "pgseal key restore [OPTIONS] <--from FILE|--sheet FILE|--share FILE>"
    )]
    Restore(RestoreArgs),
    /// Verify an audit log of keys
    Audit(AuditLogArgs),
    /// Add a key slot, or replace one
    Wrap(WrapArgs),
    /// Print the key's payload, for other tools
    Unwrap(UnwrapArgs),
    /// Check that the key opens
    Check(CheckArgs),
    /// Replace a key slot by a new one
    Rotate(RotateArgs),
}

/// How the key shall be protected from now on.
#[derive(Args)]
pub struct NewOptions {
    /// Command that wraps the key: it reads the key and writes "%p" [default: $PGDATAKEYWRAPCMD]
    #[arg(long, value_name = "COMMAND", group = "new")]
    pub new_wrap_command: Option<String>,
    /// Command that unwraps the key: it reads "%p" and prints the key [default:
    /// $PGDATAKEYUNWRAPCMD, or as before]
    #[arg(
        long,
        value_name = "COMMAND",
        conflicts_with_all = [
            "new_key_command",
            "new_provider",
            "new_passphrase",
            "new_passphrase_file",
            "new_key_file",
            "new_plain",
        ]
    )]
    pub new_unwrap_command: Option<String>,
    /// Command that prints a key-encryption key in hexadecimal
    #[arg(long, value_name = "COMMAND", group = "new")]
    pub new_key_command: Option<String>,
    /// URI of a key in a service or device: vault://..., pkcs11:...
    #[arg(long, value_name = "URI", group = "new")]
    pub new_provider: Option<String>,
    /// Prompt for a passphrase
    #[arg(long, group = "new")]
    pub new_passphrase: bool,
    /// Use the passphrase in FILE
    #[arg(long, value_name = "FILE", group = "new")]
    pub new_passphrase_file: Option<PathBuf>,
    /// Store the unencrypted key in FILE, outside the data directory
    #[arg(long, value_name = "FILE", group = "new")]
    pub new_key_file: Option<PathBuf>,
    /// Store the unencrypted key in key.bin: no protection
    #[arg(long, group = "new")]
    pub new_plain: bool,
    #[command(flatten)]
    pub hardening: HardeningOptions,
    /// Label of the new slot [default: that of the replaced one]
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
}

impl NewOptions {
    /// Whether the command line asks for a slot.
    pub fn is_any(&self) -> bool {
        self.new_wrap_command.is_some()
            || self.new_unwrap_command.is_some()
            || self.new_key_command.is_some()
            || self.new_provider.is_some()
            || self.new_passphrase
            || self.new_passphrase_file.is_some()
            || self.new_key_file.is_some()
            || self.new_plain
            || self.label.is_some()
    }
}

#[derive(Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Open the key, and check that labels, dates and users are what pgseal noted
    #[arg(long)]
    pub verify: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct BackupArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// The new file: a copy of key.bin, with all its slots
    #[arg(value_name = "FILE", required_unless_present = "sheet")]
    pub file: Option<PathBuf>,
    /// Write a recovery sheet, a text to print: it is as good as the key
    #[arg(long, value_name = "FILE")]
    pub sheet: Option<PathBuf>,
    /// Draw the sheet's lines as a QR code, as SVG
    #[arg(long, value_name = "FILE", requires = "sheet")]
    pub qr: Option<PathBuf>,
    /// Write N shares instead of one sheet, any K of which rebuild the key
    #[arg(long, value_name = "K/N", requires = "sheet", value_parser = Count::parse)]
    pub shares: Option<Count>,
    #[command(flatten)]
    pub proof: ProofOptions,
    /// Copy a key.bin that holds the key unencrypted
    #[arg(long)]
    pub allow_clear: bool,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

#[derive(Args)]
#[group(id = "source", required = true, multiple = false, args = ["from", "sheet", "share", "from_server"])]
pub struct RestoreArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Copy of key.bin; the options above open it
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Text with the lines of a recovery sheet
    #[arg(long, value_name = "FILE")]
    pub sheet: Option<PathBuf>,
    /// Text with the lines of one share; repeatable
    #[arg(long, value_name = "FILE")]
    pub share: Vec<PathBuf>,
    /// Take the key from the running server, as root: key.bin must be missing
    #[arg(long)]
    pub from_server: bool,
    #[command(flatten)]
    pub new: NewOptions,
    /// Replace a key.bin that is whole
    #[arg(long)]
    pub force: bool,
}

/// Which slots must open.
#[derive(Args)]
pub struct ProofOptions {
    /// Check every slot, not only until one opens
    #[arg(long)]
    pub all: bool,
    /// File that contains the passphrase of another slot; repeatable
    #[arg(long, value_name = "FILE", requires = "all")]
    pub more_passphrase_file: Vec<PathBuf>,
}

#[derive(Args)]
pub struct AuditLogArgs {
    /// Logs to verify, oldest first; each must begin where the one before it ended
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    pub verify: Vec<PathBuf>,
    /// Hash that the last record must have, as an earlier run printed it
    #[arg(long, value_name = "HASH")]
    pub head: Option<String>,
}

#[derive(Args)]
pub struct AddArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub new: NewOptions,
}

#[derive(Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Slot to remove
    #[arg(long, value_name = "SLOT", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub slot: u8,
}

#[derive(Args)]
pub struct LabelArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Slot to label
    #[arg(long, value_name = "SLOT", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub slot: u8,
    /// The label; an empty one removes it
    #[arg(value_name = "TEXT")]
    pub text: String,
}

#[derive(Args)]
pub struct WrapArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub new: NewOptions,
    /// Slot to replace [default: add one]
    #[arg(long, value_name = "SLOT", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub replace: Option<u8>,
}

#[derive(Args)]
pub struct RotateArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub new: NewOptions,
    /// Slot to replace [default: the one that opens]
    #[arg(long, value_name = "SLOT", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub slot: Option<u8>,
    /// Do nothing unless the slot is older than this, such as 90d, or its provider has a newer
    /// version of the key
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    pub older_than: Option<Duration>,
}

#[derive(Args)]
pub struct UnwrapArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Print the secret even if the output is a terminal
    #[arg(long)]
    pub reveal: bool,
}

#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Print the slots and their commands; run none
    #[arg(long, conflicts_with = "all")]
    pub show: bool,
    #[command(flatten)]
    pub proof: ProofOptions,
}
