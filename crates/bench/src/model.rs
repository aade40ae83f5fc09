//! The measurements of a recipe: its JSON file is a [`Report`], and reports are made from nothing
//! else.
//!
//! Raw rounds are kept, figures are not: a reader of the file computes them again. A round of a
//! case runs every variant once, in random order; only samples of one round are compared, because
//! they shared the state of the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The layout that [`Report::format`] numbers.
pub const FORMAT: u32 = 1;

/// The reference that every variant is compared with, by name.
pub const STOCK: &str = "stock";

/// One run of one recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Layout of this file; a published number never changes its meaning.
    pub format: u32,
    /// `readonly`, `tpcb`, `checksums`, `tprocc`, `upgrade`, `worst`, `confidential`, `tpch` or
    /// `cipher`.
    pub recipe: String,
    /// Where it ran.
    pub machine: Machine,
    /// The parameters asked for, and what followed from them (scale, seconds, settings …), for the
    /// reader.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// How long it was to go on; older files do not say it.
    #[serde(default)]
    pub asked: Option<Asked>,
    /// The seed of the order of variants and of the loads' own randomness.
    pub seed: u64,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// Why it ended early: interrupted, time limit, a server that died. None: all was run.
    pub ended_early: Option<String>,
    /// The variants, in the order of tables; [`STOCK`] is one of them.
    pub variants: Vec<Variant>,
    /// The cases, in the order of tables.
    pub cases: Vec<Case>,
    /// The cipher's own speed in the same run, before and after, by key length.
    pub cipher: Vec<CipherSpeed>,
}

/// How many rounds were wanted, as the command line said it or as is usual for the recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// `--quick`: small sizes, where the command line says no others.
    pub quick: bool,
    /// `--rounds`; with `--until-ci` at least.
    pub rounds: u32,
    /// Rounds that share a set of clusters, after `--sets`.
    pub rounds_per_set: u32,
    /// `--until-ci`, as a fraction.
    pub until_ci: Option<f64>,
    /// `--time-limit`, in seconds.
    pub time_limit_s: Option<u64>,
}

/// A measured variant: stock or one beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// `stock`, `loaded` (the library preloaded, nothing sealed), `sealed-256` …, or a peer's name.
    pub name: String,
    /// Key length in bits, of the sealed ones.
    pub bits: Option<u16>,
    /// `postgres --version` of its programs; of a cipher, whose it is.
    pub postgres: String,
}

/// The machine, as far as a figure depends on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Processors that the run could use.
    pub cores: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// Linux release.
    pub kernel: String,
    /// Type of the file system that held the data.
    pub file_system: String,
    /// Load averages over 1, 5 and 15 minutes when the run began.
    pub load: [f64; 3],
}

/// One cell of a published table: one load at one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// As tables show it: `scale 50, 12 connections`.
    pub name: String,
    /// The group of cases that share a chart or table: `scale 50`. Empty: all cases are one group.
    pub group: String,
    /// Place on the group's axis, if it has one: (`connections`, 12).
    pub axis: Option<(String, f64)>,
    /// The meaning of [`Sample::value`].
    pub metric: Metric,
    /// The loss that is aimed at, as a fraction: 0.005 is half a per cent.
    pub limit: f64,
    /// The losses that others published for this case, or had when we ran them: fractions of their
    /// stock.
    pub published: Vec<Published>,
    /// One per round that was finished.
    pub rounds: Vec<Round>,
}

/// The quantity that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Transactions per second: more is better.
    TransactionsPerSecond,
    /// New orders per minute: more is better.
    NewOrdersPerMinute,
    /// Seconds that a task takes: less is better.
    Seconds,
    /// Seconds that a query takes: less is better, and a ratio says more than a loss.
    QuerySeconds,
    /// Nanoseconds that a page takes: less is better.
    NanosecondsPerPage,
}

impl Case {
    /// Returns the microseconds that a client waits for a transaction at so many transactions per
    /// second. None where the metric is another, or the number of clients is not known.
    pub fn transaction_us(&self, tps: f64) -> Option<f64> {
        let (_, clients) = self.axis.as_ref()?;
        let known = self.metric == Metric::TransactionsPerSecond;
        known.then(|| transaction_us(*clients, tps))
    }
}

/// The microseconds that each of so many clients waits for a transaction.
pub fn transaction_us(clients: f64, tps: f64) -> f64 {
    clients * 1e6 / tps
}

impl Metric {
    /// Is a larger value the better one?
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::TransactionsPerSecond | Self::NewOrdersPerMinute)
    }

    /// As a table's head says it.
    pub fn unit(self) -> &'static str {
        match self {
            Self::TransactionsPerSecond => "tps",
            Self::NewOrdersPerMinute => "NOPM",
            Self::Seconds | Self::QuerySeconds => "s",
            Self::NanosecondsPerPage => "ns/page",
        }
    }
}

/// The source of a figure of another product.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Its makers, or others, published it. Files that do not say it have no others.
    #[default]
    Published,
    /// We ran that product.
    OurRun,
}

/// A figure of another product beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Was it published at all?
    #[serde(default)]
    pub origin: Origin,
    /// Whose: `pg_tde, 2026-07`.
    pub source: String,
    /// The variant that was measured there: `TDE-9 on`, `128 bits, checksums`.
    pub variant: String,
    /// Their stock's figure, in the case's metric, where it was published.
    pub stock: Option<f64>,
    /// The encrypted figure, in the case's metric, where it was published.
    pub encrypted: Option<f64>,
    /// The loss as a fraction of stock: 0.073 is 7.3 %; negative is a gain.
    pub loss: f64,
    /// Microseconds that a client waits longer for a transaction than on stock, where the number of
    /// clients was published; older files do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_us: Option<f64>,
}

/// All variants once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The number of the round, counted from 0.
    pub number: u32,
    /// Which set of clusters it ran on, from 0: clusters made alike differ by some per cent.
    pub set: u32,
    /// The samples, by name of variant.
    pub samples: BTreeMap<String, Sample>,
}

/// One run of one variant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The measured value, in the case's metric.
    pub value: f64,
    /// Transactions, or tasks, that the processor time below was spent on.
    pub work: f64,
    /// User seconds of the whole server (or tool) without the fixed cost of a run.
    pub user_s: f64,
    /// System seconds, likewise.
    pub system_s: f64,
    /// The pages that the library counted; zeros where none was loaded.
    pub pages: Pages,
    /// Other figures worth a column: `hit_rate` …
    pub extra: BTreeMap<String, f64>,
    /// Over the run: name to (seconds since its begin, value); names carry their unit:
    /// `wal_write_kb_s`.
    pub curves: BTreeMap<String, Vec<(f64, f64)>>,
    /// The SQLSTATE of a query that the variant does not run: then there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Counted by the library during a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pages {
    /// Data units decrypted.
    pub opened: u64,
    /// Data units encrypted.
    pub sealed: u64,
}

/// The cost of one page of 8 kB for the cipher alone, on one thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CipherSpeed {
    /// Key length in bits.
    pub bits: u16,
    /// Nanoseconds to decrypt a page: before the rounds, after them.
    pub open_ns: [f64; 2],
    /// Nanoseconds to encrypt a page, likewise.
    pub seal_ns: [f64; 2],
}
