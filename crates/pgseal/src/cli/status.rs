//! The options of `pgseal status`.

use clap::{Args, ValueEnum};

use super::unlock::ClusterOptions;

#[derive(Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Open the key, too: run a key command or prompt for a passphrase if need be
    #[arg(long)]
    pub check: bool,
    /// Print the stored commands; run none
    #[arg(long, conflicts_with = "check")]
    pub show: bool,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = StatusFormat::Text)]
    pub format: StatusFormat,
    /// Print JSON, as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// The forms of a status.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatusFormat {
    /// Lines for people
    Text,
    /// JSON
    Json,
    /// Metrics for Prometheus, by node_exporter's textfile collector
    Prometheus,
    /// One line and the exit codes 0 to 3 of a Nagios plugin
    Nagios,
}
