//! The command line of `pgseal-evaluator`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Computes with encrypted values for PostgreSQL servers that cannot read them.
#[derive(Parser)]
#[command(version = env!("PGSEAL_BUILD"), args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// Something else than serving.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Serving.
    #[command(flatten)]
    pub serve: Serve,
}

/// How to serve.
#[derive(Args)]
pub struct Serve {
    /// Where backends connect: a path for a Unix socket
    #[arg(long, value_name = "PATH", required = true)]
    pub socket: Option<PathBuf>,
    /// Who may connect: a user's name or number; may be repeated
    #[arg(long, value_name = "USER", required = true)]
    pub allow_uid: Vec<String>,
    /// Become this user before serving (needs root)
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Write audit logs into this directory; it must exist
    #[arg(long, value_name = "DIR")]
    pub log: Option<PathBuf>,
    /// What is shown to clients of the machine
    #[arg(long, value_enum, default_value = "software")]
    pub evidence: EvidenceKind,
    /// Sign the evidence with the key in this file, by which clients know this evaluator;
    /// it is made if it is not there
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_connections: u32,
    /// Serve even if memory cannot be locked: keys may then reach the swap
    #[arg(long)]
    pub unlocked: bool,
    /// Opened cells that each connection keeps at most
    #[arg(long, value_name = "CELLS", default_value_t = 16_384)]
    pub cache: usize,
    /// Aggregates' states that each connection keeps at most
    #[arg(long, value_name = "STATES", default_value_t = 262_144)]
    pub states: usize,
    /// Megabytes that sessions, aggregates and large requests of all connections take at most
    #[arg(long, value_name = "MB", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u64).range(256..=1_048_576))]
    pub memory: u64,
    /// Pages of indexes that are kept for all connections at most, up to 32 kB each
    #[arg(long, value_name = "PAGES", default_value_t = 16_384)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=16_777_216))]
    pub pages: u32,
}

/// Back ends of evidence.
#[derive(Clone, Copy, ValueEnum)]
pub enum EvidenceKind {
    /// An ordinary process: proves nothing about hardware, and says so
    Software,
}

/// Something else than serving.
#[derive(Subcommand)]
pub enum Command {
    /// Look at audit logs
    Log {
        /// What to do
        #[command(subcommand)]
        command: LogCommand,
    },
}

/// What is done with audit logs.
#[derive(Subcommand)]
pub enum LogCommand {
    /// Recompute the chain of logs, given in their order
    Verify {
        /// Logs, oldest first
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The hash that the last record must have, from a place that the log's writer cannot reach
        #[arg(long, value_name = "HEX")]
        head: Option<String>,
    },
}
