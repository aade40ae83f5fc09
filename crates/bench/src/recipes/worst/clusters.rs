//! Clusters with the table in them, and the tasks' runs on them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use super::tasks::{base, Load};
use super::WorstCases;
use crate::error::{files, BenchError};
use crate::figures::median;
use crate::host::cluster::{Cluster, Server, Settings, Spent};
use crate::host::contender::{Contender, Kind};
use crate::host::process::Cpu;
use crate::host::Host;
use crate::model::{Sample, STOCK};
use crate::recipes::pgbench::Throughput;
use crate::recipes::Set;

/// Runs from which the fixed cost is taken, at least.
const FIXED_COST_RUNS: usize = 5;

/// The clusters that contenders run on, by their names.
pub(super) struct Clusters {
    pub(super) recipe: WorstCases,
    clusters: BTreeMap<String, Cluster>,
    script: PathBuf,
}

/// What a load did.
struct Done {
    value: f64,
    work: f64,
}

impl Clusters {
    pub(super) fn make(recipe: WorstCases, home: &Path, host: &Host) -> Result<Self, BenchError> {
        let mut clusters: BTreeMap<String, Cluster> = BTreeMap::new();
        let settings = recipe.settings();
        for contender in &host.contenders {
            let name = contender.cluster();
            if clusters.contains_key(name) {
                continue;
            }
            host.note(format!("making the cluster of {name}"));
            let place = home.join(name);
            let cluster = match (contender.kind, clusters.get(STOCK)) {
                (Kind::Sealed, Some(stock)) => {
                    Cluster::copy(stock, contender, &place, &settings, host)?
                }
                _ => recipe.filled(contender, &place, &settings, host)?,
            };
            clusters.insert(name.to_owned(), cluster);
        }
        nix::unistd::sync();
        Ok(Self {
            recipe,
            clusters,
            script: home.join("script.sql"),
        })
    }

    /// What a run costs beside its task: sessions, and the server's end. Contenders differ by less
    /// than the clock's ticks there, so it is the median over all of them.
    pub(super) fn fixed_cost(&mut self, host: &Host) -> Result<Cpu, BenchError> {
        host.note("measuring what a run costs beside its task");
        let nothing = Load::Statements {
            before: Vec::new(),
            database: "postgres",
            timed: vec!["SELECT 1".to_owned()],
        };
        let mut runs = Vec::new();
        while runs.len() < FIXED_COST_RUNS {
            let own = host.contenders.iter().filter(|one| one.kind != Kind::Peer);
            for contender in own {
                runs.push(self.run(&nothing, contender, host)?.1.cpu);
            }
        }
        let of = |part: fn(&Cpu) -> f64| median(&runs.iter().map(part).collect::<Vec<_>>());
        Ok(Cpu {
            user_s: of(|cpu| cpu.user_s),
            system_s: of(|cpu| cpu.system_s),
        })
    }

    /// Start, preparation, load, stop.
    fn run(
        &self,
        load: &Load,
        contender: &Contender,
        host: &Host,
    ) -> Result<(Done, Spent), BenchError> {
        let cluster = &self.clusters[contender.cluster()];
        cluster.warm(host)?;
        let mut server = cluster.start(contender, host)?;
        if let Load::Statements { before, .. } = load {
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            server.sql(&before)?;
        }
        server.sql(&["CHECKPOINT"])?;
        let mark = server.mark()?;
        let done = self.load(load, &mut server, host)?;
        Ok((done, server.finish(mark)?))
    }

    fn load(&self, load: &Load, server: &mut Server<'_>, host: &Host) -> Result<Done, BenchError> {
        match load {
            Load::Statements {
                database, timed, ..
            } => {
                let mut psql = host.client("psql");
                psql.args([
                    "-X",
                    "-q",
                    "-A",
                    "-t",
                    "-v",
                    "ON_ERROR_STOP=1",
                    "-d",
                    database,
                ]);
                psql.args(["-c", "\\timing on"]);
                for statement in timed {
                    psql.args(["-c", statement]);
                }
                Ok(Done {
                    value: seconds(&server.run(&mut psql)?),
                    work: 1.0,
                })
            }
            Load::Pgbench {
                script,
                clients,
                transactions,
                option,
                settings,
            } => {
                fs::write(&self.script, script).map_err(files(&self.script))?;
                let threads = thread::available_parallelism().map_or(1, usize::from);
                let mut pgbench = host.client("pgbench");
                pgbench.args(["-n", "--client", &clients.to_string()]);
                pgbench.args(["--jobs", &threads.min(*clients as usize).to_string()]);
                pgbench.args(["--transactions", &transactions.to_string()]);
                pgbench.arg("--file").arg(&self.script);
                pgbench.args(*option).env("PGOPTIONS", settings);
                let done = Throughput::read(&server.run(&mut pgbench)?)?;
                Ok(Done {
                    value: done.tps,
                    work: done.transactions,
                })
            }
        }
    }
}

impl Set for Clusters {
    fn sample(
        &mut self,
        case: usize,
        contender: &Contender,
        _seed: u64,
        host: &Host,
    ) -> Result<Sample, BenchError> {
        let (done, spent) = self.run(&self.recipe.tasks[case].load, contender, host)?;
        let cpu = spent.cpu.since(self.recipe.fixed.unwrap_or_default());
        Ok(Sample {
            value: done.value,
            work: done.work,
            user_s: cpu.user_s,
            system_s: cpu.system_s,
            pages: spent.pages,
            ..Sample::default()
        })
    }
}

impl WorstCases {
    fn settings(&self) -> Settings {
        let conf = format!(
            "shared_buffers = {}MB\nmax_connections = {}\nwork_mem = 1MB\n\
             max_parallel_workers_per_gather = 0\nmax_parallel_maintenance_workers = 0\n",
            self.size.buffers_mb,
            self.size.writers + 20
        );
        Settings {
            checksums: true,
            conf,
        }
    }

    fn filled(
        &self,
        contender: &Contender,
        home: &Path,
        settings: &Settings,
        host: &Host,
    ) -> Result<Cluster, BenchError> {
        let cluster = Cluster::init(contender, home, settings, host)?;
        let mut server = cluster.start(contender, host)?;
        let statements = base(self.size);
        server.sql(&statements.iter().map(String::as_str).collect::<Vec<_>>())?;
        server.stop()?;
        Ok(cluster)
    }
}

/// The sum of what psql's \timing printed: `Time: 1234.567 ms (00:01.235)`.
fn seconds(output: &str) -> f64 {
    let times = output
        .lines()
        .filter_map(|line| line.strip_prefix("Time: "));
    let milliseconds = times.filter_map(|rest| rest.split_once(" ms")?.0.parse::<f64>().ok());
    milliseconds.sum::<f64>() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_added() {
        let output = "1\nTime: 0.250 ms\nTime: 1234.500 ms (00:01.235)\n";
        assert!((seconds(output) - 1.23475).abs() < 1e-12);
        assert_eq!(seconds("1\n"), 0.0);
    }
}
