//! `pgseal bench tprocc`: new orders per minute of a TPC-C load, at a ramp of virtual users and at
//! a steady number, with the server's curves over time.
//!
//! All contenders of a set begin on the same pages: the driver fills a plain cluster once, and each
//! gets a copy of its own, sealed where it shall be, since a run adds orders; for a foreign one the
//! driver fills its own. After every run the driver checks the standard's consistency conditions,
//! and the recipe ends if one does not hold.

mod clusters;
mod driver;
mod probe;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::BenchError;
use crate::host::cluster::Cluster;
use crate::host::contender::{Contender, Kind};
use crate::host::requirements::Needs;
use crate::host::Host;
use crate::model::{Case, Metric, Origin, Published};
use crate::options::RunOptions;
use crate::recipes::{Recipe, Set};
use crate::schedule::Defaults;
use clusters::Clusters;
use driver::Driver;

/// The bytes that a loaded warehouse takes, with its indexes.
const BYTES_PER_WAREHOUSE: u64 = 110 << 20;
/// 36 GB for 2000 warehouses, as published: a sixth of the data.
const BUFFERS_MB_PER_WAREHOUSE: u32 = 18;
/// More than a virtual user orders in a minute, and what an order leaves in tables and in WAL.
const ORDERS_PER_MINUTE: u64 = 20_000;
const BYTES_PER_ORDER: u64 = 1500;
const WAL_PER_ORDER: u64 = 10_000;
/// Catalogs, and WAL that is kept for the next.
const BYTES_PER_CLUSTER: u64 = 1200 << 20;
const BYTES_PER_USER: u64 = 12 << 20;

/// Options of `tprocc`.
#[derive(Debug, Args)]
pub struct Tprocc {
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// The published shape: 2000 warehouses, 5 to 95 users in steps of 5 for 20 minutes each, then
    /// 75 users for an hour after 5 minutes of warm-up, with the published settings
    #[arg(long, conflicts_with = "quick")]
    published: bool,
    /// Number of warehouses, about 100 MB each [default: 10; --quick: 2]
    #[arg(short = 'w', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    warehouses: Option<u32>,
    /// Virtual users in the steady state, without think time [default: 8; --quick: 4]
    #[arg(short = 'u', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    users: Option<u32>,
    /// Seconds of warm-up [default: 10; --quick: 1]
    #[arg(long, value_name = "SECONDS")]
    ramp_up: Option<u32>,
    /// Seconds of the steady state [default: 120; --quick: 4]
    #[arg(short = 'T', long = "time", value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..))]
    time: Option<u32>,
    /// Numbers of virtual users in the ramp, or none [default: 2:8:2; --quick: none]
    #[arg(long, value_name = "FROM:TO:STEP", value_parser = ramp)]
    ramp: Option<Ramp>,
    /// Seconds of each step of the ramp [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    ramp_time: Option<u32>,
    /// shared_buffers in MB [default: 18 for each warehouse, as published]
    #[arg(long, value_name = "SIZE_MB", value_parser = clap::value_parser!(u32).range(16..))]
    shared_buffers: Option<u32>,
    /// Line of postgresql.conf; repeatable
    #[arg(long, value_name = "NAME = VALUE")]
    setting: Vec<String>,
    /// Path of go-tpc [default: the one that scripts/fetch-go-tpc.sh builds]
    #[arg(long, value_name = "PROGRAM")]
    driver: Option<PathBuf>,
}

/// Numbers of virtual users, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ramp(Vec<u32>);

/// The values of options that were not given.
struct Shape {
    warehouses: u32,
    users: u32,
    ramp_up: u32,
    time: u32,
    ramp: (u32, u32, u32),
    ramp_time: u32,
    settings: &'static [&'static str],
    defaults: Defaults,
}

const QUICK: Shape = Shape {
    warehouses: 2,
    users: 4,
    ramp_up: 1,
    time: 4,
    ramp: (1, 0, 1),
    ramp_time: 6,
    settings: &[],
    defaults: Defaults {
        rounds: 6,
        rounds_per_set: 1,
        key_lengths: &[256],
    },
};

const USUAL: Shape = Shape {
    warehouses: 10,
    users: 8,
    ramp_up: 10,
    time: 120,
    ramp: (2, 8, 2),
    ramp_time: 30,
    ..QUICK
};

const PUBLISHED: Shape = Shape {
    warehouses: 2000,
    users: 75,
    ramp_up: 300,
    time: 3600,
    ramp: (5, 95, 5),
    ramp_time: 1200,
    settings: &[
        "autovacuum = on",
        "checkpoint_completion_target = 0.93",
        "checkpoint_timeout = 30min",
        "max_wal_size = 300GB",
        "effective_cache_size = 100GB",
        "random_page_cost = 1",
        "seq_page_cost = 1",
        "effective_io_concurrency = 200",
    ],
    defaults: Defaults {
        rounds: 1,
        rounds_per_set: u32::MAX,
        ..QUICK.defaults
    },
};

impl Tprocc {
    /// The recipe that they ask for.
    pub fn recipe(&self) -> TprocC {
        let shape = match (self.run.quick, self.published) {
            (true, _) => QUICK,
            (_, true) => PUBLISHED,
            _ => USUAL,
        };
        let warehouses = self.warehouses.unwrap_or(shape.warehouses);
        let (from, to, by) = shape.ramp;
        let ramp = self.ramp.clone().unwrap_or_else(|| Ramp::new(from, to, by));
        let ramp_time = self.ramp_time.unwrap_or(shape.ramp_time);
        let mut steps: Vec<_> = ramp
            .0
            .iter()
            .map(|&users| of_ramp(users, ramp_time))
            .collect();
        let time = self.time.unwrap_or(shape.time);
        steps.push(steady(self.users.unwrap_or(shape.users), time));
        let rounds = self.run.rounds.unwrap_or(shape.defaults.rounds);
        let own = self.setting.iter().map(String::as_str);
        TprocC {
            warehouses,
            ramp_up: self.ramp_up.unwrap_or(shape.ramp_up),
            steps,
            buffers_mb: self
                .shared_buffers
                .unwrap_or(warehouses.saturating_mul(BUFFERS_MB_PER_WAREHOUSE)),
            settings: shape
                .settings
                .iter()
                .copied()
                .chain(own)
                .map(str::to_owned)
                .collect(),
            driver: self.driver.clone(),
            rounds_per_set: rounds.div_ceil(self.run.sets.unwrap_or(rounds)),
            loaded: BTreeMap::new(),
            defaults: shape.defaults,
        }
    }
}

impl Ramp {
    /// None if `from` is more than `to`.
    fn new(from: u32, to: u32, step: u32) -> Self {
        Self((from..=to).step_by(step as usize).collect())
    }
}

/// `FROM:TO:STEP`, or `none`.
fn ramp(text: &str) -> Result<Ramp, String> {
    let numbers: Option<Vec<u32>> = text.split(':').map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        _ if text == "none" => Ok(Ramp(Vec::new())),
        Some(&[from, to, step]) if 0 < from && from <= to && step > 0 => {
            Ok(Ramp::new(from, to, step))
        }
        _ => Err("write it as FROM:TO:STEP, such as 5:95:5, or none".to_owned()),
    }
}

/// A case, and what it runs.
#[derive(Debug, Clone)]
struct Step {
    users: u32,
    seconds: u32,
    case: Case,
}

fn of_ramp(users: u32, seconds: u32) -> Step {
    let published = (60 < users && users <= 95).then(|| Published {
        origin: Origin::Published,
        source: "Advanced Server 15".to_owned(),
        variant: "60 to 95 users, 2000 warehouses".to_owned(),
        stock: None,
        encrypted: None,
        loss: 0.025,
        added_us: None,
    });
    step(users, seconds, "ramp", published.into_iter().collect())
}

fn steady(users: u32, seconds: u32) -> Step {
    let (stock, encrypted) = (1_447_296.0, 1_341_344.0);
    let published = Published {
        origin: Origin::Published,
        source: "Advanced Server 15".to_owned(),
        variant: "75 users, 2000 warehouses, 1 hour".to_owned(),
        stock: Some(stock),
        encrypted: Some(encrypted),
        loss: 1.0 - encrypted / stock,
        added_us: None,
    };
    step(users, seconds, "steady state", vec![published])
}

fn step(users: u32, seconds: u32, group: &str, published: Vec<Published>) -> Step {
    Step {
        users,
        seconds,
        case: Case {
            name: format!("{group}, {users} virtual users"),
            group: group.to_owned(),
            axis: Some(("virtual users".to_owned(), f64::from(users))),
            metric: Metric::NewOrdersPerMinute,
            limit: 0.02,
            published,
            rounds: Vec::new(),
        },
    }
}

/// The recipe.
#[derive(Debug, Clone)]
pub struct TprocC {
    warehouses: u32,
    ramp_up: u32,
    steps: Vec<Step>,
    buffers_mb: u32,
    settings: Vec<String>,
    driver: Option<PathBuf>,
    rounds_per_set: u32,
    /// The clusters that the driver has filled, by contender. All sets are copies of them.
    loaded: BTreeMap<String, Cluster>,
    defaults: Defaults,
}

impl Recipe for TprocC {
    fn name(&self) -> &'static str {
        "tprocc"
    }

    fn defaults(&self) -> Defaults {
        self.defaults
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        let seconds: Vec<u32> = self.steps.iter().map(|step| step.seconds).collect();
        BTreeMap::from([
            ("driver".to_owned(), driver::NAME.into()),
            ("warehouses".to_owned(), self.warehouses.into()),
            ("seconds_before".to_owned(), self.ramp_up.into()),
            ("seconds".to_owned(), seconds.into()),
            (
                "shared_buffers".to_owned(),
                format!("{}MB", self.buffers_mb).into(),
            ),
            ("settings".to_owned(), self.settings.clone().into()),
        ])
    }

    fn cases(&self) -> Vec<Case> {
        self.steps.iter().map(|step| step.case.clone()).collect()
    }

    fn needs(&self, contenders: &[Contender]) -> Needs {
        let orders = |step: &Step| {
            let seconds = u64::from(self.ramp_up) + u64::from(step.seconds);
            u64::from(step.users) * seconds * ORDERS_PER_MINUTE / 60
        };
        let all: u64 = self.steps.iter().map(orders).sum();
        let most = self.steps.iter().map(orders).max().unwrap_or(0);
        let loaded = u64::from(self.warehouses) * BYTES_PER_WAREHOUSE + BYTES_PER_CLUSTER;
        let cluster = loaded
            + all * u64::from(self.rounds_per_set) * BYTES_PER_ORDER
            + (most * WAL_PER_ORDER).min(16 << 30);
        let users = self.steps.iter().map(|step| step.users).max();
        let foreign = |one: &&Contender| one.kind == Kind::Peer;
        let kept = 1 + contenders.iter().filter(foreign).count() as u64;
        Needs {
            disk: cluster * contenders.len() as u64 + loaded * kept,
            memory: contenders.len() as u64 * (u64::from(self.buffers_mb) << 20)
                + u64::from(users.unwrap_or(0)) * BYTES_PER_USER,
        }
    }

    fn make_set(&mut self, home: &Path, host: &Host) -> Result<Box<dyn Set>, BenchError> {
        let driver = Driver::find(self.driver.as_deref())?;
        if self.loaded.is_empty() {
            self.loaded = clusters::load(self, &driver, host)?;
        }
        Ok(Box::new(Clusters::make(self.clone(), driver, home, host)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_is_from_to_and_step() {
        let of = |text| ramp(text).map(|ramp| ramp.0);
        assert_eq!(of("2:8:2"), Ok(vec![2, 4, 6, 8]));
        assert_eq!(of("5:95:5").map(|users| users.len()), Ok(19));
        assert_eq!(of("3:3:1"), Ok(vec![3]));
        assert_eq!(of("none"), Ok(vec![]));
        for wrong in ["8:2:2", "2:8", "2:8:0", "0:8:1", "a:b:c", ""] {
            assert!(ramp(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_published_figures_stand_where_they_were_measured() {
        let loss = steady(75, 1).case.published[0].loss;
        assert!((loss - 0.0732).abs() < 1e-4, "{loss}");
        let published = |users| of_ramp(users, 1).case.published.len();
        assert_eq!([60, 65, 95, 100].map(published), [0, 1, 1, 0]);
    }
}
