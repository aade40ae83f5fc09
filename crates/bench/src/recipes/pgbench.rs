//! The common part of the recipes that run pgbench: their cases, what these take, and their
//! options.

mod clusters;

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;

use crate::error::BenchError;
use crate::host::contender::Contender;
use crate::host::machine;
use crate::host::process::Cpu;
use crate::host::requirements::Needs;
use crate::host::Host;
use crate::model::{Case, Metric, Published};
use crate::recipes::{Recipe, Set};
use crate::schedule::Defaults;
pub(crate) use clusters::transactions;
use clusters::{keys, Clusters, Key};

/// The bytes that a branch takes on disk, with its indexes and room to grow.
const BYTES_PER_SCALE: u64 = 18 << 20;
/// About twice what its tables and indexes take.
const BUFFERS_MB_PER_SCALE: u32 = 32;
/// WAL and catalogs of a cluster.
const BYTES_PER_CLUSTER: u64 = 1200 << 20;
const BYTES_PER_CONNECTION: u64 = 12 << 20;
/// pgbench's built-in scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// -S
    Select,
    /// -N: no updates of tellers and branches
    SkipSomeUpdates,
    /// as it is, after a REINDEX
    TpcB,
}

impl Script {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Select => &["-S"],
            Self::SkipSomeUpdates => &["-N"],
            Self::TpcB => &[],
        }
    }
}

/// Options of the recipes by scale and connections.
#[derive(Debug, Args)]
pub struct Cells {
    /// pgbench's scale factors [default: 50; --quick: 10]
    #[arg(short = 's', long, value_name = "N", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..))]
    pub scale: Option<Vec<u32>>,
    /// Numbers of connections [default: 12,24,48; --quick: 2,4]
    #[arg(short = 'c', long = "client", value_name = "N", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..))]
    pub client: Option<Vec<u32>>,
    /// Seconds of a run, interleaved in slices of 0.1 s [default: 30; --quick: 4]
    #[arg(short = 'T', long = "time", value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub time: Option<u32>,
    /// shared_buffers in MB [default: all data, at most an eighth of memory]
    #[arg(long, value_name = "SIZE_MB", value_parser = clap::value_parser!(u32).range(1..))]
    pub shared_buffers: Option<u32>,
}

/// The part that a recipe adds to its scales and connections.
pub struct Load {
    /// The recipe's name.
    pub name: &'static str,
    /// The script that pgbench runs.
    pub script: Script,
    /// The loss that is aimed at.
    pub limit: f64,
    /// The figures of others for a scale and a number of connections.
    pub published: fn(u32, u32) -> Vec<Published>,
}

impl Cells {
    /// One case for each scale and number of connections.
    pub fn recipe(&self, load: Load, quick: bool) -> Pgbench {
        let or = |given: &Option<Vec<u32>>, quickly: &[u32], fully: &[u32]| {
            let default = if quick { quickly } else { fully };
            given.clone().unwrap_or_else(|| default.to_vec())
        };
        let scales = or(&self.scale, &[10], &[50]);
        let connections = or(&self.client, &[2, 4], &[12, 24, 48]);
        let largest = scales.iter().copied().max().unwrap_or(1);
        let eighth = u32::try_from(machine::memory("MemTotal:") >> 23).unwrap_or(u32::MAX);
        let room = largest.saturating_mul(BUFFERS_MB_PER_SCALE).min(eighth);
        let of_scale = |scale: &u32| {
            let cells = connections
                .iter()
                .map(|clients| load.cell(*scale, *clients));
            cells.collect::<Vec<_>>()
        };
        Pgbench {
            name: load.name,
            script: load.script,
            cells: scales.iter().flat_map(of_scale).collect(),
            seconds: self.time.unwrap_or(if quick { 4 } else { 30 }),
            buffers_mb: self.shared_buffers.unwrap_or(room.max(16)),
            defaults: Defaults {
                rounds: if quick { 6 } else { 10 },
                rounds_per_set: 1,
                key_lengths: &[256],
            },
            fixed: Vec::new(),
        }
    }
}

impl Load {
    fn cell(&self, scale: u32, clients: u32) -> Cell {
        Cell {
            scale,
            clients,
            checksums: true,
            case: Case {
                name: format!("scale {scale}, {clients} connections"),
                group: format!("scale {scale}"),
                axis: Some(("connections".to_owned(), f64::from(clients))),
                metric: Metric::TransactionsPerSecond,
                limit: self.limit,
                published: (self.published)(scale, clients),
                rounds: Vec::new(),
            },
        }
    }
}

/// A case, and what it runs on.
#[derive(Debug, Clone)]
pub struct Cell {
    /// pgbench's scale factor.
    pub scale: u32,
    /// Its connections.
    pub clients: u32,
    /// The clusters' data checksums.
    pub checksums: bool,
    /// As the report has it.
    pub case: Case,
}

/// A recipe that runs pgbench.
#[derive(Debug, Clone)]
pub struct Pgbench {
    /// The recipe's name.
    pub name: &'static str,
    /// The script that pgbench runs.
    pub script: Script,
    /// The cases.
    pub cells: Vec<Cell>,
    /// The duration of one run.
    pub seconds: u32,
    /// shared_buffers.
    pub buffers_mb: u32,
    /// Rounds, sets, key lengths.
    pub defaults: Defaults,
    /// CPU of a run beside its transactions, by case; empty until the first set is there.
    pub fixed: Vec<Cpu>,
}

impl Recipe for Pgbench {
    fn name(&self) -> &'static str {
        self.name
    }

    fn defaults(&self) -> Defaults {
        self.defaults
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        let lists = |of: fn(&Cell) -> u32| {
            let mut all: Vec<u32> = self.cells.iter().map(of).collect();
            all.dedup();
            all
        };
        BTreeMap::from([
            ("scales".to_owned(), lists(|cell| cell.scale).into()),
            ("seconds".to_owned(), self.seconds.into()),
            (
                "shared_buffers".to_owned(),
                format!("{}MB", self.buffers_mb).into(),
            ),
            ("protocol".to_owned(), "prepared".into()),
        ])
    }

    fn cases(&self) -> Vec<Case> {
        self.cells.iter().map(|cell| cell.case.clone()).collect()
    }

    fn needs(&self, contenders: &[Contender]) -> Needs {
        let disk = |key: &Key| u64::from(key.scale) * BYTES_PER_SCALE + BYTES_PER_CLUSTER;
        let connections = self.cells.iter().map(|cell| cell.clients).max();
        Needs {
            // Those that the others are copies of are there at the same time.
            disk: keys(&self.cells, contenders)
                .chain(keys(&self.cells, &contenders[..1]))
                .map(|(key, _)| disk(&key))
                .sum(),
            memory: contenders.len() as u64
                * ((u64::from(self.buffers_mb) << 20)
                    + u64::from(connections.unwrap_or(0)) * BYTES_PER_CONNECTION),
        }
    }

    fn make_set(&mut self, home: &Path, host: &Host) -> Result<Box<dyn Set>, BenchError> {
        let mut set = Clusters::make(self.clone(), home, host)?;
        if self.fixed.is_empty() {
            self.fixed = set.fixed_costs(host)?;
            set.recipe.fixed.clone_from(&self.fixed);
        }
        Ok(Box::new(set))
    }
}
