//! The options of `wal-get` and `wal-put`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use pgseal_contract::variable;
use pgseal_storage::wal::ClearWal;

use super::unlock::UnlockOptions;

#[derive(Args)]
pub struct WalGetArgs {
    /// Directory of the archive, or the file itself
    #[arg(long, value_name = "ARCHIVE")]
    pub from: PathBuf,
    /// Key file (key.bin) of another cluster that wrote to the archive; repeatable
    #[arg(long, value_name = "FILE")]
    pub key_file_name: Vec<PathBuf>,
    /// Accept unencrypted segments, all or up to TIMELINE:LSN; safe only if nobody else can write
    /// to the archive
    #[arg(
        long,
        value_name = "TIMELINE:LSN",
        env = variable::CLEAR_WAL.as_str(),
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "accept"
    )]
    pub accept_clear: Option<ClearWal>,
    /// Options to open those key files: this cluster's own key opens by itself, or by /etc/pgseal
    #[command(flatten)]
    pub unlock: UnlockOptions,
    /// Name of the file: %f
    #[arg(value_name = "%f")]
    pub file: OsString,
    /// Destination: %p, in the cluster's pg_wal
    #[arg(value_name = "%p")]
    pub path: PathBuf,
}

#[derive(Args)]
pub struct WalPutArgs {
    /// Directory of the archive
    #[arg(long, value_name = "ARCHIVE")]
    pub to: PathBuf,
    /// Key file (key.bin) of the archive's cluster, if it is another one
    #[arg(long, value_name = "FILE")]
    pub key_file_name: Option<PathBuf>,
    /// Options to open that key file; this cluster's own opens by itself or by /etc/pgseal
    #[command(flatten)]
    pub unlock: UnlockOptions,
    /// File: %p, in the cluster's pg_wal
    #[arg(value_name = "%p")]
    pub path: PathBuf,
    /// Name of the file: %f
    #[arg(value_name = "%f")]
    pub file: OsString,
}
