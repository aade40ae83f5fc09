//! `pgseal bench tpch`: TPC-H's 22 queries on encrypted columns, through `pgseal proxy`, beside the
//! same queries on plain columns.
//!
//! All columns except keys are encrypted. The proxy gets the statements of the plain server, with
//! their literals, so the client's work is in the figures. Each result is compared with the plain
//! one, and a difference ends the recipe.

mod clusters;
mod data;
mod queries;
mod schema;

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Args, ValueEnum};

use crate::error::BenchError;
use crate::host::contender::{self, Contender};
use crate::host::machine;
use crate::host::requirements::Needs;
use crate::host::Host;
use crate::model::{Case, Metric, STOCK};
use crate::options::RunOptions;
use crate::recipes::{Recipe, Set};
use crate::schedule::Defaults;
use clusters::Clusters;
use data::Size;
use queries::Query;
use schema::Loaded;

/// The bytes that a plain and an encrypted cluster take at scale factor 1, with indexes and WAL.
const BYTES_PLAIN: u64 = 4_000_000_000;
const BYTES_ENCRYPTED: u64 = 16_000_000_000;
/// WAL and catalogs of a cluster.
const BYTES_PER_CLUSTER: u64 = 1200 << 20;
const BYTES_PER_CONNECTION: u64 = 512 << 20;
const MIN_BUFFERS_MB: u64 = 128;

/// Options of `tpch`.
#[derive(Debug, Args)]
pub struct Tpch {
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// Scale factor: at 1, lineitem has six million rows [default: 0.1; --quick: 0.02]
    #[arg(long, value_name = "FACTOR", value_parser = scale)]
    scale: Option<Scale>,
    /// Encrypt the keys, too
    #[arg(long)]
    keys: bool,
    /// Only these queries
    #[arg(long, value_name = "N", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=22))]
    query: Option<Vec<u32>>,
    /// Only these variants beside stock
    #[arg(long, value_name = "NAME", value_delimiter = ',',
          default_values_t = [Form::Inline, Form::Isolated])]
    variant: Vec<Form>,
    /// Times that a query runs in each round; the shortest time counts
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
}

/// The variants: where cells are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Plain columns, without the proxy.
    #[value(skip)]
    Stock,
    /// Backends compute on cells.
    Inline,
    /// A process of its own computes on cells.
    Isolated,
    /// Like `isolated`, with `encdb.read_ahead` off.
    IsolatedNoReadAhead,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Stock => STOCK,
            Self::Inline => "inline",
            Self::Isolated => "isolated",
            Self::IsolatedNoReadAhead => "isolated-no-read-ahead",
        }
    }

    /// Returns the variant of a contender of this recipe.
    fn of(contender: &Contender) -> Self {
        let all = [Self::Inline, Self::Isolated, Self::IsolatedNoReadAhead];
        let found = all.into_iter().find(|form| form.name() == contender.name());
        found.unwrap_or(Self::Stock)
    }

    fn is_encrypted(self) -> bool {
        self != Self::Stock
    }

    fn is_isolated(self) -> bool {
        matches!(self, Self::Isolated | Self::IsolatedNoReadAhead)
    }
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A scale factor, in thousandths: so a table has a whole number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale(u32);

impl Scale {
    /// Returns what there is at this scale, of something of which there is so much at scale 1.
    fn of(self, at_one: u64) -> u64 {
        at_one * u64::from(self.0) / 1000
    }

    fn factor(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

/// `0.02`, with at most three digits behind the point.
fn scale(text: &str) -> Result<Scale, String> {
    let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
    let thousandths = match behind.len() {
        0..=3 => format!("{whole}{behind:0<3}").parse().ok(),
        _ => None,
    };
    let sensible = thousandths.filter(|scale| (1..=100_000).contains(scale));
    let wrong = "write a number from 0.001 to 100, with three digits behind the point at most";
    sensible.map(Scale).ok_or_else(|| wrong.to_owned())
}

/// The recipe.
#[derive(Debug, Clone)]
pub struct TpcH {
    scale: Scale,
    keys: bool,
    queries: Vec<Query>,
    forms: Vec<Form>,
    repeat: u32,
    defaults: Defaults,
    /// The filled clusters that every set copies; none before the first set is there.
    loaded: Option<Loaded>,
}

impl Tpch {
    /// The recipe that they ask for.
    pub fn recipe(&self) -> TpcH {
        let usual = Scale(if self.run.quick { 20 } else { 100 });
        let scale = self.scale.unwrap_or(usual);
        let wanted = |query: &Query| match &self.query {
            Some(numbers) => numbers.contains(&query.number),
            None => true,
        };
        TpcH {
            scale,
            keys: self.keys,
            queries: queries::all(scale.factor())
                .into_iter()
                .filter(wanted)
                .collect(),
            forms: self.variant.clone(),
            repeat: self.repeat,
            defaults: Defaults {
                rounds: 3,
                rounds_per_set: u32::MAX,
                key_lengths: &[],
            },
            loaded: None,
        }
    }
}

impl TpcH {
    fn size(&self) -> Size {
        Size::of(self.scale)
    }

    /// Buffers for all rows, at most an eighth of memory. PostgreSQL passes a table of more than a
    /// quarter of them through a few, and reads it from the kernel each time: a quarter holds the
    /// largest table of either form.
    fn buffers_mb(&self) -> u64 {
        let all = self.scale.of(BYTES_ENCRYPTED) >> 20;
        let eighth = machine::memory("MemTotal:") >> 23;
        all.min(eighth).max(MIN_BUFFERS_MB)
    }
}

impl Recipe for TpcH {
    fn name(&self) -> &'static str {
        "tpch"
    }

    fn defaults(&self) -> Defaults {
        self.defaults
    }

    fn contenders(
        &self,
        options: &RunOptions,
        wrappers: &Path,
    ) -> Result<Vec<Contender>, BenchError> {
        if !options.peer.is_empty() || options.key_lengths.is_some() {
            let text = "tpch compares forms of the evaluator: leave --peer and --key-lengths out";
            return Err(BenchError::Usage(text.to_owned()));
        }
        let stock = contender::all(options, &[], wrappers)?.swap_remove(0);
        let mut all = vec![stock.clone()];
        for form in &self.forms {
            let mut contender = stock.clone();
            contender.variant.name = form.name().to_owned();
            all.push(contender);
        }
        Ok(all)
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        let encrypted = match self.keys {
            true => "all columns",
            false => "all columns except keys",
        };
        BTreeMap::from([
            ("scale".to_owned(), self.scale.factor().into()),
            ("encrypted".to_owned(), encrypted.into()),
            ("repeated".to_owned(), self.repeat.into()),
            (
                "shared_buffers".to_owned(),
                format!("{}MB", self.buffers_mb()).into(),
            ),
        ])
    }

    fn cases(&self) -> Vec<Case> {
        let case = |query: &Query| Case {
            name: query.name.clone(),
            group: String::new(),
            axis: None,
            metric: Metric::QuerySeconds,
            limit: 0.0,
            published: Vec::new(),
            rounds: Vec::new(),
        };
        self.queries.iter().map(case).collect()
    }

    fn needs(&self, contenders: &[Contender]) -> Needs {
        let bytes = |encrypted| {
            let data = if encrypted {
                BYTES_ENCRYPTED
            } else {
                BYTES_PLAIN
            };
            self.scale.of(data) + BYTES_PER_CLUSTER
        };
        let copies = contenders
            .iter()
            .map(|one| bytes(Form::of(one).is_encrypted()));
        let buffers = self.buffers_mb() << 20;
        Needs {
            disk: copies.sum::<u64>() + bytes(false) + bytes(true),
            memory: contenders.len() as u64 * (buffers + BYTES_PER_CONNECTION),
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
    fn a_scale_has_three_digits_behind_the_point() {
        let of = ["0.02", "1", "0.001", "100", "2.5"].map(scale);
        assert_eq!(
            of,
            [20, 1000, 1, 100_000, 2500].map(|scale| Ok(Scale(scale)))
        );
        for wrong in ["0", "0.0001", "-1", "nan", "inf", "x", "", ".", "100.001"] {
            assert!(scale(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Scale(20).of(1_500_000), 30_000);
    }
}
