//! The options of `wal-get` and `wal-put`.

use pgseal_contract::variable;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use pgseal_storage::wal::ClearWal;

use super::UnlockOptions;

#[derive(Args)]
pub struct WalGetArgs {
    /// The archive's directory, or the file itself
    #[arg(long, value_name = "ARCHIVE")]
    pub from: PathBuf,
    /// A key file (key.bin) of a cluster that wrote to the archive, if not of this one; repeatable
    #[arg(long, value_name = "FILE")]
    pub key_file_name: Vec<PathBuf>,
    /// Take segments in clear, all or up to TIMELINE:LSN, from an archive that nobody else writes
    #[arg(
        long,
        value_name = "TIMELINE:LSN",
        env = variable::CLEAR_WAL.as_str(),
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "accept"
    )]
    pub accept_clear: Option<ClearWal>,
    /// For those key files: this cluster's own key opens by itself, or by /etc/pgseal
    #[command(flatten)]
    pub unlock: UnlockOptions,
    /// The file's name: %f
    #[arg(value_name = "%f")]
    pub file: OsString,
    /// Where the server wants it: %p, in the cluster's pg_wal
    #[arg(value_name = "%p")]
    pub path: PathBuf,
}

#[derive(Args)]
pub struct WalPutArgs {
    /// The archive's directory
    #[arg(long, value_name = "ARCHIVE")]
    pub to: PathBuf,
    /// The key file (key.bin) of the archive's cluster, if it is not this one
    #[arg(long, value_name = "FILE")]
    pub key_file_name: Option<PathBuf>,
    /// For that key file; this cluster's own opens by itself or by /etc/pgseal
    #[command(flatten)]
    pub unlock: UnlockOptions,
    /// The file: %p, in the cluster's pg_wal
    #[arg(value_name = "%p")]
    pub path: PathBuf,
    /// Its name: %f
    #[arg(value_name = "%f")]
    pub file: OsString,
}
