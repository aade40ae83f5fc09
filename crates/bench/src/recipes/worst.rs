//! `pgseal bench worst`: loads that do little else than move pages or WAL, where a cipher costs
//! most.
//!
//! Buffers are small, so that pages come from the kernel's cache and go there; nothing runs in
//! parallel. The time of a task is that of its client, less that of one which does nothing; its CPU
//! holds the shutdown checkpoint, which writes the pages that it left dirty.

mod clusters;
mod tasks;

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;

use crate::error::BenchError;
use crate::host::contender::Contender;
use crate::host::requirements::Needs;
use crate::host::Host;
use crate::model::Case;
use crate::options::RunOptions;
use crate::recipes::{Recipe, Set};
use crate::schedule::Defaults;
use clusters::{Clusters, Fixed};
use tasks::{Kind, Task};

/// Beside the table: a copy of it that an UPDATE doubles, a sort's files, and WAL of all that.
const TIMES_THE_TABLE: u64 = 8;
/// Catalogs, and WAL that is kept for the next.
const BYTES_PER_CLUSTER: u64 = 1200 << 20;
const BYTES_PER_TABLE: u64 = 64 << 10;
const BYTES_PER_CONNECTION: u64 = 12 << 20;

/// Options of `worst`.
#[derive(Debug, Args)]
pub struct Worst {
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// Run only these loads
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    task: Vec<Kind>,
    /// Size of the table in MB [default: 1000; --quick: 96]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    megabytes: Option<u32>,
    /// Connections that write WAL at once
    #[arg(long, value_name = "N", default_value_t = 32,
          value_parser = clap::value_parser!(u32).range(1..))]
    writers: u32,
    /// Number of tables that are created and used [default: 5000; --quick: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tables: Option<u32>,
    /// Connections that each run one query [default: 2000; --quick: 300]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// shared_buffers in MB
    #[arg(long, value_name = "SIZE_MB", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..))]
    shared_buffers: u32,
}

/// How much of everything there is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    megabytes: u32,
    writers: u32,
    tables: u32,
    connections: u32,
    buffers_mb: u32,
}

impl Worst {
    /// The recipe that they ask for.
    pub fn recipe(&self) -> WorstCases {
        let or = |given: Option<u32>, quickly, fully| {
            given.unwrap_or(if self.run.quick { quickly } else { fully })
        };
        let size = Size {
            megabytes: or(self.megabytes, 96, 1000),
            writers: self.writers,
            tables: or(self.tables, 100, 5000),
            connections: or(self.connections, 300, 2000),
            buffers_mb: self.shared_buffers,
        };
        let wanted = |kind: &Kind| self.task.is_empty() || self.task.contains(kind);
        let kinds = Kind::ALL.into_iter().filter(wanted);
        WorstCases {
            size,
            tasks: kinds.map(|kind| Task::of(kind, size)).collect(),
            defaults: Defaults {
                rounds: if self.run.quick { 5 } else { 10 },
                rounds_per_set: 1,
                key_lengths: &[256],
            },
            fixed: None,
        }
    }
}

/// The recipe.
#[derive(Debug, Clone)]
pub struct WorstCases {
    size: Size,
    tasks: Vec<Task>,
    defaults: Defaults,
    /// None before the first set is there.
    fixed: Option<Fixed>,
}

impl Recipe for WorstCases {
    fn name(&self) -> &'static str {
        "worst"
    }

    fn defaults(&self) -> Defaults {
        self.defaults
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        let size = self.size;
        BTreeMap::from([
            ("megabytes".to_owned(), size.megabytes.into()),
            ("writers".to_owned(), size.writers.into()),
            ("tables".to_owned(), size.tables.into()),
            ("connections".to_owned(), size.connections.into()),
            (
                "shared_buffers".to_owned(),
                format!("{}MB", size.buffers_mb).into(),
            ),
        ])
    }

    fn cases(&self) -> Vec<Case> {
        self.tasks.iter().map(|task| task.case.clone()).collect()
    }

    fn needs(&self, contenders: &[Contender]) -> Needs {
        let table = u64::from(self.size.megabytes) << 20;
        let tables = u64::from(self.size.tables) * BYTES_PER_TABLE;
        let cluster = table * TIMES_THE_TABLE + tables + BYTES_PER_CLUSTER;
        let servers = contenders.len() as u64;
        Needs {
            // The one that the others are copies of is there at the same time.
            disk: cluster * servers + table + BYTES_PER_CLUSTER,
            memory: servers * (u64::from(self.size.buffers_mb) << 20)
                + u64::from(self.size.writers) * BYTES_PER_CONNECTION,
        }
    }

    fn make_set(&mut self, home: &Path, host: &Host) -> Result<Box<dyn Set>, BenchError> {
        let mut set = Clusters::make(self.clone(), home, host)?;
        let fixed = match self.fixed {
            Some(fixed) => fixed,
            None => set.fixed_cost(host)?,
        };
        self.fixed = Some(fixed);
        set.recipe.fixed = self.fixed;
        Ok(Box::new(set))
    }
}
