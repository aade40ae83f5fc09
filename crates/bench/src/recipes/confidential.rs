//! `pgseal bench confidential`: the published load on encrypted columns, by sysbench, through
//! `pgseal proxy`, beside the same load on plain columns.
//!
//! Scenario 1 encrypts all columns except the primary key, scenario 2 all columns, and scenario 3
//! is scenario 2 asked by `k` in place of `id`. A transaction is one prepared statement. sysbench
//! gets clear values in every variant, so the client's work is in the figures.

mod board;
mod clusters;
mod published;
mod schema;
mod stack;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::error::BenchError;
use crate::host::contender::{self, Contender, Kind as Storage};
use crate::host::machine;
use crate::host::requirements::Needs;
use crate::host::Host;
use crate::model::{Case, Metric};
use crate::options::RunOptions;
use crate::recipes::{Recipe, Set};
use crate::schedule::Defaults;
use clusters::Clusters;
use schema::Loaded;
use stack::Stack;

/// The bytes that a row takes on disk with its indexes: plain, and in the two databases of an
/// encrypted cluster.
const BYTES_PER_ROW: u64 = 320;
const BYTES_PER_ENCRYPTED_ROW: u64 = 1200;
/// WAL and catalogs of a cluster.
const BYTES_PER_CLUSTER: u64 = 1200 << 20;
const BYTES_PER_CONNECTION: u64 = 12 << 20;
const MIN_BUFFERS_MB: u64 = 128;

/// Options of `confidential`.
#[derive(Debug, Args)]
pub struct Confidential {
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// Numbers of sysbench's threads [default: 1,8; --quick: 1]
    #[arg(long, value_name = "N", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Option<Vec<u32>>,
    /// Number of tables [default: 8; --quick: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tables: Option<u32>,
    /// Rows of each table [default: 100000; --quick: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..))]
    rows: Option<u32>,
    /// Seconds of a run, interleaved in slices of 0.1 s [default: 5; --quick: 1]
    #[arg(short = 'T', long = "time", value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..))]
    time: Option<u32>,
    /// Seconds that a run lasts before it is measured [default: 2; --quick: 1]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    warm_up: Option<u32>,
    /// Only these scenarios
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2, 3],
          value_parser = clap::value_parser!(u32).range(1..=3))]
    scenario: Vec<u32>,
    /// Only these kinds of statements
    #[arg(long, value_name = "KIND", value_delimiter = ',',
          default_values_t = [Kind::Point, Kind::Range, Kind::Write])]
    kind: Vec<Kind>,
    /// Only these variants beside stock [default: all; --quick: proxy, inline,
    /// isolated and isolated-in-process]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    variant: Option<Vec<Stack>>,
    /// Path of sysbench
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/bin/sysbench")]
    sysbench: PathBuf,
}

/// The kinds of statements that were published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The column `c` of one row.
    Point,
    /// The sum of `k` over a hundred rows.
    Range,
    /// Two kinds of UPDATE, DELETE and INSERT, as often.
    Write,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Point => "point",
            Self::Range => "range",
            Self::Write => "write",
        })
    }
}

/// A case, and what it runs.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    scenario: u32,
    kind: Kind,
    threads: u32,
    case: Case,
}

/// The recipe.
#[derive(Debug, Clone)]
pub struct EncryptedColumns {
    cells: Vec<Cell>,
    tables: u32,
    rows: u32,
    seconds: u32,
    warm_up: u32,
    stacks: Vec<Stack>,
    sysbench: PathBuf,
    defaults: Defaults,
    /// The filled clusters that every set copies; none before the first set is there.
    loaded: Option<Loaded>,
}

impl Confidential {
    /// The recipe that they ask for.
    pub fn recipe(&self) -> EncryptedColumns {
        let quick = self.run.quick;
        let or = |given: Option<u32>, quickly, fully| {
            given.unwrap_or(if quick { quickly } else { fully })
        };
        let usual = if quick {
            &Stack::QUICK[..]
        } else {
            &Stack::ALL
        };
        let threads = self.threads.clone();
        let threads = threads.unwrap_or_else(|| if quick { vec![1] } else { vec![1, 8] });
        EncryptedColumns {
            cells: self.cells(&threads),
            tables: or(self.tables, 2, 8),
            rows: or(self.rows, 10_000, 100_000),
            seconds: or(self.time, 1, 5),
            warm_up: or(self.warm_up, 1, 2),
            stacks: self.variant.clone().unwrap_or_else(|| usual.to_vec()),
            sysbench: self.sysbench.clone(),
            defaults: Defaults {
                rounds: 6,
                rounds_per_set: 1,
                key_lengths: &[],
            },
            loaded: None,
        }
    }

    fn cells(&self, threads: &[u32]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &scenario in &self.scenario {
            // Scenario 3 writes nothing else than scenario 2.
            let kinds = self.kind.iter().copied();
            for kind in kinds.filter(|kind| (scenario, *kind) != (3, Kind::Write)) {
                cells.extend(threads.iter().map(|&n| Cell::new(scenario, kind, n)));
            }
        }
        cells
    }
}

impl Cell {
    fn new(scenario: u32, kind: Kind, threads: u32) -> Self {
        let by = if scenario == 3 { " on k" } else { "" };
        let group = format!("scenario {scenario} {kind}{by}");
        let published = published::nearest(scenario, kind, threads);
        Self {
            scenario,
            kind,
            threads,
            case: Case {
                name: format!(
                    "{group}, {threads} {}",
                    if threads == 1 { "thread" } else { "threads" }
                ),
                group,
                axis: Some(("threads".to_owned(), f64::from(threads))),
                metric: Metric::TransactionsPerSecond,
                limit: published.first().map_or(0.0, |first| first.loss),
                published,
                rounds: Vec::new(),
            },
        }
    }

    /// The column that statements ask by.
    fn column(&self) -> &'static str {
        match self.scenario {
            3 => "k",
            _ => "id",
        }
    }
}

impl EncryptedColumns {
    /// Buffers for all rows, at most an eighth of memory.
    fn buffers_mb(&self) -> u64 {
        let all = (self.all_rows() * BYTES_PER_ENCRYPTED_ROW) >> 20;
        let eighth = machine::memory("MemTotal:") >> 23;
        all.min(eighth).max(MIN_BUFFERS_MB)
    }

    fn all_rows(&self) -> u64 {
        u64::from(self.tables) * u64::from(self.rows)
    }

    fn most_threads(&self) -> u32 {
        self.cells
            .iter()
            .map(|cell| cell.threads)
            .max()
            .unwrap_or(0)
    }
}

impl Recipe for EncryptedColumns {
    fn name(&self) -> &'static str {
        "confidential"
    }

    fn defaults(&self) -> Defaults {
        self.defaults
    }

    fn contenders(
        &self,
        options: &RunOptions,
        wrappers: &Path,
    ) -> Result<Vec<Contender>, BenchError> {
        if !options.peer.is_empty() {
            let text = "confidential compares variants of one PostgreSQL: leave --peer out";
            return Err(BenchError::Usage(text.to_owned()));
        }
        let stored = contender::all(options, &[], wrappers)?;
        let mut all = vec![stored[0].clone()];
        for stack in &self.stacks {
            all.push(stack.contender(&stored[0]));
        }
        let sealed = stored.iter().filter(|one| one.kind == Storage::Sealed);
        for (stored, stack) in sealed.flat_map(|one| self.stacks.iter().map(move |s| (one, s))) {
            all.push(stack.contender(stored));
        }
        Ok(all)
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        BTreeMap::from([
            ("tables".to_owned(), self.tables.into()),
            ("rows".to_owned(), self.rows.into()),
            ("seconds".to_owned(), self.seconds.into()),
            ("seconds_before".to_owned(), self.warm_up.into()),
            (
                "shared_buffers".to_owned(),
                format!("{}MB", self.buffers_mb()).into(),
            ),
        ])
    }

    fn cases(&self) -> Vec<Case> {
        self.cells.iter().map(|cell| cell.case.clone()).collect()
    }

    fn needs(&self, contenders: &[Contender]) -> Needs {
        let bytes = |encrypted| {
            let row = if encrypted {
                BYTES_PER_ENCRYPTED_ROW
            } else {
                BYTES_PER_ROW
            };
            self.all_rows() * row + BYTES_PER_CLUSTER
        };
        let copies = contenders
            .iter()
            .map(|one| bytes(Stack::of(one).is_encrypted()));
        let connection = u64::from(self.most_threads()) * BYTES_PER_CONNECTION;
        Needs {
            disk: copies.sum::<u64>() + bytes(false) + bytes(true),
            memory: contenders.len() as u64 * ((self.buffers_mb() << 20) + connection),
        }
    }

    fn make_set(&mut self, home: &Path, host: &Host) -> Result<Box<dyn Set>, BenchError> {
        let loaded = match self.loaded.take() {
            Some(loaded) => loaded,
            None => schema::load(self, host)?,
        };
        let loaded = self.loaded.insert(loaded).clone();
        Ok(Box::new(Clusters::make(self.clone(), &loaded, home, host)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_row_is_a_case() {
        let of = |scenario, kind| Cell::new(scenario, kind, 8).case;
        let name = |case: Case| case.name;
        assert_eq!(name(of(1, Kind::Point)), "scenario 1 point, 8 threads");
        assert_eq!(name(of(3, Kind::Range)), "scenario 3 range on k, 8 threads");
        let limits = [Kind::Point, Kind::Range, Kind::Write].map(|kind| of(2, kind).limit);
        let rounded = limits.map(|limit| (limit * 1000.0).round());
        assert_eq!(rounded, [610.0, 809.0, 597.0]);
    }
}
