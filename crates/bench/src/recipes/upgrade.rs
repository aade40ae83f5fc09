//! `pgseal bench upgrade`: pg_upgrade in copy mode of one plain cluster, into plain and sealed
//! ones.
//!
//! The old cluster is filled by pgbench once for a set; every run upgrades it into a new cluster
//! that is made before the clock starts and goes after it stopped. Both cases are of the same
//! runs. CPU is that of pg_upgrade and all that it starts, servers too: pg_ctl leaves these to
//! this process, which waits for them. `loaded` is pg_upgrade by the wrappers, with nothing sealed.

use pgseal_contract::variable;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::{files, BenchError};
use crate::host::cluster::{Cluster, Settings};
use crate::host::contender::{self, Contender, Kind};
use crate::host::process::{self, Cpu};
use crate::host::requirements::Needs;
use crate::host::Host;
use crate::model::{Case, Metric, Origin, Published, Sample};
use crate::options::RunOptions;
use crate::recipes::{Recipe, Runs, Samples, Set};
use crate::schedule::Defaults;

const BYTES_PER_SCALE: u64 = 16 << 20;
/// Catalogs and WAL, of the old cluster and of the new one.
const BYTES_PER_CLUSTER: u64 = 1200 << 20;
const MEMORY: u64 = 512 << 20;
/// 300 GB, as published.
const PUBLISHED_SCALE: u32 = 20_000;

/// Options of `upgrade`.
#[derive(Debug, Args)]
pub struct Upgrade {
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// Use the published size, 300 GB
    #[arg(long, conflicts_with = "quick")]
    published: bool,
    /// pgbench's scale factor of the old cluster [default: 80; --quick: 20]
    #[arg(short = 's', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    scale: Option<u32>,
    /// Directory of the old version's programs [default: that of --pg]
    #[arg(long, value_name = "PGBIN")]
    old_pg: Option<PathBuf>,
}

impl Upgrade {
    /// The recipe that they ask for.
    pub fn recipe(&self) -> PgUpgrade {
        let scale = match (self.run.quick, self.published) {
            (true, _) => 20,
            (_, true) => PUBLISHED_SCALE,
            _ => 80,
        };
        PgUpgrade {
            scale: self.scale.unwrap_or(scale),
            old_pg: self.old_pg.clone().unwrap_or_else(|| self.run.pg.clone()),
            rounds: if self.published { 1 } else { 6 },
        }
    }
}

/// The recipe.
#[derive(Debug, Clone)]
pub struct PgUpgrade {
    scale: u32,
    old_pg: PathBuf,
    rounds: u32,
}

/// The index of the case of elapsed time, in the order of the cases.
const ELAPSED: usize = 0;

impl Recipe for PgUpgrade {
    fn name(&self) -> &'static str {
        "upgrade"
    }

    fn defaults(&self) -> Defaults {
        Defaults {
            rounds: self.rounds,
            rounds_per_set: u32::MAX,
            key_lengths: &[256],
        }
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        BTreeMap::from([
            ("scale".to_owned(), self.scale.into()),
            (
                "old_pg".to_owned(),
                self.old_pg.display().to_string().into(),
            ),
            ("mode".to_owned(), "copy".into()),
        ])
    }

    fn cases(&self) -> Vec<Case> {
        vec![
            case("elapsed", 0.01, 0.003),
            case("user and system CPU", 0.11, 0.11),
        ]
    }

    fn needs(&self, _contenders: &[Contender]) -> Needs {
        Needs {
            disk: 2 * (u64::from(self.scale) * BYTES_PER_SCALE + BYTES_PER_CLUSTER),
            memory: MEMORY,
        }
    }

    fn make_set(&mut self, home: &Path, host: &Host) -> Result<Box<dyn Set>, BenchError> {
        host.note(format!("making the old cluster, scale {}", self.scale));
        let contender = contender::plain("old", &self.old_pg)?;
        let old = Cluster::init(&contender, &home.join("old"), &settings(), host)?;
        let mut server = old.start(&contender, host)?;
        let scale = self.scale.to_string();
        server.run(host.client("pgbench").args(["-i", "-q", "-s", &scale]))?;
        server.stop()?;
        Ok(Box::new(Upgrades {
            old_pg: contender.bindir,
            old,
            new: home.join("new"),
            other: BTreeMap::new(),
        }))
    }
}

fn case(what: &str, limit: f64, loss: f64) -> Case {
    Case {
        name: format!("pg_upgrade, {what}"),
        group: "pg_upgrade".to_owned(),
        axis: None,
        metric: Metric::Seconds,
        limit,
        published: vec![Published {
            origin: Origin::Published,
            source: "14 to 15, 300 GB".to_owned(),
            variant: "encrypted, --copy-by-block".to_owned(),
            stock: None,
            encrypted: None,
            loss,
            added_us: None,
        }],
        rounds: Vec::new(),
    }
}

/// Both versions have data checksums, as published.
fn settings() -> Settings {
    Settings {
        checksums: true,
        conf: String::new(),
    }
}

/// The old cluster, and the place of the new one.
struct Upgrades {
    old_pg: PathBuf,
    old: Cluster,
    new: PathBuf,
    /// Runs that the other case of the round still has to come for, by contender.
    other: BTreeMap<String, (usize, Sample)>,
}

impl Set for Upgrades {
    fn run(&mut self, runs: &Runs<'_>) -> Result<Samples, BenchError> {
        runs.one_by_one(|contender| self.sample(runs.case, contender, runs.host))
    }
}

impl Upgrades {
    fn sample(
        &mut self,
        case: usize,
        contender: &Contender,
        host: &Host,
    ) -> Result<Sample, BenchError> {
        let sample = match self.other.remove(contender.name()) {
            Some((of, sample)) if of != case => sample,
            _ => {
                let sample = self.upgrade(contender, host)?;
                let kept = (case, sample.clone());
                self.other.insert(contender.name().to_owned(), kept);
                sample
            }
        };
        let cpu = sample.user_s + sample.system_s;
        Ok(match case {
            ELAPSED => sample,
            _ => Sample {
                value: cpu,
                ..sample
            },
        })
    }

    /// One upgrade into a new cluster, which goes again.
    fn upgrade(&self, contender: &Contender, host: &Host) -> Result<Sample, BenchError> {
        let new = Cluster::init(contender, &self.new, &settings(), host)?;
        self.old.warm(host)?;
        nix::unistd::sync();
        let programs = match contender.kind {
            Kind::Loaded => &host.wrappers,
            _ => &contender.bindir,
        };
        let mut command = host.command(&programs.join("pg_upgrade"));
        command
            .current_dir(&self.new)
            .env(variable::COUNTERS.as_str(), &new.counters);
        command.args(["-U", "postgres"]).arg("-s").arg(&host.work);
        command.arg("-b").arg(&self.old_pg).arg("-B").arg(programs);
        command
            .arg("-d")
            .arg(&self.old.data)
            .arg("-D")
            .arg(&new.data);
        let sample = measured(&mut command, &new, host)?;
        fs::remove_dir_all(&self.new).map_err(files(&self.new))?;
        Ok(sample)
    }
}

fn measured(
    command: &mut std::process::Command,
    new: &Cluster,
    host: &Host,
) -> Result<Sample, BenchError> {
    process::reap_orphans(&host.stop)?;
    let before = children_cpu()?;
    let done = host.run(command)?;
    process::reap_orphans(&host.stop)?;
    let cpu = children_cpu()?.since(before);
    Ok(Sample {
        value: done.elapsed.as_secs_f64(),
        work: 1.0,
        user_s: cpu.user_s,
        system_s: cpu.system_s,
        pages: new.pages(),
        ..Sample::default()
    })
}

fn children_cpu() -> Result<Cpu, BenchError> {
    process::children_cpu().map_err(files("getrusage"))
}
