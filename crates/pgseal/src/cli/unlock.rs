//! Options that say how a cluster's key opens, and how it shall be protected.

use std::path::PathBuf;

use clap::Args;
use pgseal_keys::cost::memory_kib;
use pgseal_keys::new_key::{key_length, KeyProtection, NewKeyError};
use pgseal_keys::new_slot::Hardening;
use pgseal_keys::passphrase::Source;
use pgseal_keys::unlock::Ways;

/// The cluster, and how to open it.
#[derive(Args)]
pub struct ClusterOptions {
    /// The data directory
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR", env = "PGDATA")]
    pub pgdata: PathBuf,
    #[command(flatten)]
    pub unlock: UnlockOptions,
}

/// The demands on a new passphrase.
#[derive(Args)]
pub struct HardeningOptions {
    /// Memory that the passphrase takes to open the key, from 64MiB to 4GiB [default: about a
    /// second's worth, at most an eighth of this machine's]
    #[arg(long, value_name = "SIZE", value_parser = memory_kib)]
    pub argon2_memory: Option<u32>,
    /// Accept a passphrase of fewer than 8 bytes
    #[arg(long)]
    pub allow_weak: bool,
}

impl HardeningOptions {
    /// Returns the options as making a slot takes them.
    pub fn hardening(&self) -> Hardening {
        Hardening {
            memory_kib: self.argon2_memory,
            allow_weak: self.allow_weak,
        }
    }
}

/// How to open a cluster's key.
#[derive(Args)]
pub struct UnlockOptions {
    /// Command that unwraps the key: it reads "%p" and prints the key
    #[arg(long, value_name = "COMMAND")]
    pub key_unwrap_command: Option<String>,
    /// Command that prints the key-encryption key
    #[arg(short = 'K', long, value_name = "COMMAND")]
    pub encryption_key_command: Option<String>,
    /// URI of the key in a service or device, if not the slot's own
    #[arg(long, value_name = "URI")]
    pub key_provider: Option<String>,
    /// File that contains the passphrase
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// Open descriptor to read the passphrase from
    #[arg(long, value_name = "FD", conflicts_with = "passphrase_file")]
    pub passphrase_fd: Option<i32>,
}

impl UnlockOptions {
    /// Returns the options as unlocking takes them.
    pub fn ways(&self) -> Ways {
        Ways {
            unwrap_command: self.key_unwrap_command.clone(),
            key_command: self.encryption_key_command.clone(),
            key_provider: self.key_provider.clone(),
            passphrase: Source::of_options(self.passphrase_file.clone(), self.passphrase_fd)
                .by_option("--passphrase-file"),
            agent: false,
        }
    }
}

/// The key of a cluster that shall be sealed, as initdb takes it.
#[derive(Args)]
pub struct KeyChoice {
    /// Length of the AES keys in bits: 128, 192 or 256 [default: 256]
    #[arg(short = 'y', long, value_name = "BITS")]
    pub data_encryption: Option<String>,
    /// Command that wraps the key: it reads the key and writes "%p" [default: $PGDATAKEYWRAPCMD]
    #[arg(long, value_name = "COMMAND")]
    pub key_wrap_command: Option<String>,
    /// Command that unwraps the key: it reads "%p" and prints the key [default:
    /// $PGDATAKEYUNWRAPCMD]
    #[arg(long, value_name = "COMMAND")]
    pub key_unwrap_command: Option<String>,
    /// Store the unencrypted key in key.bin: no protection
    #[arg(long)]
    pub no_key_wrap: bool,
    /// Command that prints a key-encryption key in hexadecimal
    #[arg(short = 'K', long, value_name = "COMMAND")]
    pub encryption_key_command: Option<String>,
    /// URI of a key in a service or device: vault://..., pkcs11:...
    #[arg(long, value_name = "URI")]
    pub key_provider: Option<String>,
    /// Prompt for a passphrase, or read it from $PGSEAL_PASSPHRASE_FILE
    #[arg(long)]
    pub key_passphrase: bool,
    /// Use the passphrase in FILE
    #[arg(long, value_name = "FILE")]
    pub key_passphrase_file: Option<String>,
    #[command(flatten)]
    pub hardening: HardeningOptions,
    /// Store the unencrypted key in FILE, outside the data directory
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<String>,
}

impl KeyChoice {
    /// The length and the protection of the new key.
    pub fn protection(&self) -> Result<KeyProtection, NewKeyError> {
        let length = self.data_encryption.as_deref().map(key_length);
        Ok(KeyProtection {
            length: length.transpose()?,
            wrap_command: self.key_wrap_command.clone(),
            unwrap_command: self.key_unwrap_command.clone(),
            key_command: self.encryption_key_command.clone(),
            key_provider: self.key_provider.clone(),
            passphrase: self.key_passphrase,
            passphrase_file: self.key_passphrase_file.clone().map(PathBuf::from),
            hardening: self.hardening.hardening(),
            key_file: self.key_file.clone().map(PathBuf::from),
            plain: self.no_key_wrap,
            copy_from: None,
            same_as: None,
        })
    }
}

/// How to open the key that a cluster has until now.
#[derive(Args)]
pub struct OldUnlockOptions {
    /// Command that unwraps the present key: it reads "%p" and prints the key
    #[arg(long, value_name = "COMMAND")]
    pub old_key_unwrap_command: Option<String>,
    /// Command that prints the present key-encryption key
    #[arg(long, value_name = "COMMAND")]
    pub old_encryption_key_command: Option<String>,
    /// URI of the present key in a service or device, if not the slot's own
    #[arg(long, value_name = "URI")]
    pub old_key_provider: Option<String>,
    /// File that contains the present passphrase
    #[arg(long, value_name = "FILE")]
    pub old_passphrase_file: Option<PathBuf>,
}

impl OldUnlockOptions {
    /// Returns the options as unlocking takes them.
    pub fn ways(&self) -> Ways {
        Ways {
            unwrap_command: self.old_key_unwrap_command.clone(),
            key_command: self.old_encryption_key_command.clone(),
            key_provider: self.old_key_provider.clone(),
            passphrase: Source::of_options(self.old_passphrase_file.clone(), None)
                .by_option("--old-passphrase-file"),
            agent: false,
        }
    }
}
