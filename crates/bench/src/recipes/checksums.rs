//! `pgseal bench checksums`: no encryption and every key length (`--quick`: 256 bits), without data
//! checksums and with them, while nearly every transaction fetches pages from the kernel's cache.
//!
//! A sealed cluster without data checksums runs with `wal_log_hints`, because pgseal refuses it
//! otherwise; stock without them runs as PostgreSQL comes. So the column without checksums shows
//! what sealing costs who had neither.

use clap::Args;

use crate::model::{Case, Metric};
use crate::options::RunOptions;
use crate::published::checksums;
use crate::recipes::pgbench::{Cell, Pgbench, Script};
use crate::schedule::Defaults;

/// Options of `checksums`.
#[derive(Debug, Args)]
pub struct Checksums {
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// pgbench's scale factor [default: 50; --quick: 5]
    #[arg(short = 's', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    scale: Option<u32>,
    /// Number of connections
    #[arg(short = 'c', long = "client", value_name = "N", default_value = "3",
          value_parser = clap::value_parser!(u32).range(1..))]
    client: u32,
    /// Seconds of a run, interleaved in slices of 0.1 s [default: 60; --quick: 4]
    #[arg(short = 'T', long = "time", value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..))]
    time: Option<u32>,
    /// shared_buffers in MB
    #[arg(long, value_name = "SIZE_MB", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..))]
    shared_buffers: u32,
}

impl Checksums {
    /// The recipe that they ask for.
    pub fn recipe(&self) -> Pgbench {
        let quick = self.run.quick;
        let scale = self.scale.unwrap_or(if quick { 5 } else { 50 });
        Pgbench {
            name: "checksums",
            script: Script::SkipSomeUpdates,
            cells: [false, true].map(|on| self.cell(scale, on)).to_vec(),
            seconds: self.time.unwrap_or(if quick { 4 } else { 60 }),
            buffers_mb: self.shared_buffers,
            defaults: Defaults {
                rounds: if quick { 6 } else { 10 },
                rounds_per_set: 1,
                key_lengths: if quick { &[256] } else { &[128, 192, 256] },
            },
            fixed: Vec::new(),
        }
    }

    fn cell(&self, scale: u32, on: bool) -> Cell {
        let name = if on {
            "data checksums"
        } else {
            "no checksums (sealed: wal_log_hints)"
        };
        Cell {
            scale,
            clients: self.client,
            checksums: on,
            case: Case {
                name: name.to_owned(),
                group: String::new(),
                axis: None,
                metric: Metric::TransactionsPerSecond,
                limit: 0.005,
                published: checksums(on),
                rounds: Vec::new(),
            },
        }
    }
}
