//! Clusters with the table in them, and the tasks' runs on them.
//!
//! The servers of a round run at once. Everything that a task needs is prepared on all of them;
//! then its slices go from one to the next, in random order, so that what is compared was measured
//! within seconds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::tasks::{base, Load, Session};
use super::WorstCases;
use crate::error::{files, BenchError};
use crate::figures::median;
use crate::host::cluster::{Cluster, Mark, Server, Settings, Spent};
use crate::host::contender::{Contender, Kind};
use crate::host::process::Cpu;
use crate::host::Host;
use crate::model::{Metric, Sample};
use crate::recipes::pgbench::Throughput;
use crate::recipes::{Runs, Samples, Set};

/// Runs from which the fixed cost is taken, at least.
const FIXED_COST_RUNS: usize = 5;

/// The clusters that contenders run on, by their names.
pub(super) struct Clusters {
    pub(super) recipe: WorstCases,
    clusters: BTreeMap<String, Cluster>,
    script: PathBuf,
}

/// What slices of a load did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Done {
    /// Tasks, or transactions.
    work: f64,
    seconds: f64,
}

impl Clusters {
    /// Fills a plain cluster, which nobody runs on: stock's and pgseal's are copies of it, the
    /// sealed ones sealed in place. Peers fill their own.
    pub(super) fn make(recipe: WorstCases, home: &Path, host: &Host) -> Result<Self, BenchError> {
        let settings = recipe.settings();
        host.note("filling a cluster");
        let filled = recipe.filled(host.stock(), &home.join(".filled"), &settings, host)?;
        let mut clusters = BTreeMap::new();
        for contender in &host.contenders {
            let name = contender.name();
            host.note(format!("making the cluster of {name}"));
            let place = home.join(name);
            let cluster = match contender.kind {
                Kind::Peer => recipe.filled(contender, &place, &settings, host)?,
                _ => Cluster::copy(&filled, contender, &place, &settings, host)?,
            };
            cluster.number(clusters.len())?;
            clusters.insert(name.to_owned(), cluster);
        }
        fs::remove_dir_all(&filled.data).map_err(files(&filled.data))?;
        nix::unistd::sync();
        Ok(Self {
            recipe,
            clusters,
            script: home.join("script.sql"),
        })
    }

    /// What a run costs beside its task: sessions, and the server's end. Contenders differ by less
    /// than the clock's ticks there, so it is the median over all of them.
    pub(super) fn fixed_cost(&self, host: &Host) -> Result<Cpu, BenchError> {
        host.note("measuring what a run costs beside its task");
        let own = host.contenders.iter().filter(|one| one.kind != Kind::Peer);
        let runs = Runs {
            case: 0,
            contenders: &own.collect::<Vec<_>>(),
            seed: 0,
            host,
        };
        let nothing = Load::Statements {
            before: Vec::new(),
            slices: vec![Session::of("SELECT 1"); self.recipe.size.repeats()],
        };
        let mut costs = Vec::new();
        while costs.len() < FIXED_COST_RUNS {
            let done = self.runs(&nothing, &runs)?;
            costs.extend(done.into_iter().map(|(_, spent)| spent.cpu));
        }
        let of = |part: fn(&Cpu) -> f64| median(&costs.iter().map(part).collect::<Vec<_>>());
        Ok(Cpu {
            user_s: of(|cpu| cpu.user_s),
            system_s: of(|cpu| cpu.system_s),
        })
    }

    /// Start and preparation of all, slices of the load by turns, stop.
    fn runs(&self, load: &Load, runs: &Runs<'_>) -> Result<Vec<(Done, Spent)>, BenchError> {
        let host = runs.host;
        let mut running = Vec::new();
        for contender in runs.contenders {
            running.push(self.begin(load, contender, host)?);
        }
        runs.by_turns(load.slices(), |at, slice| {
            running[at].slice(self.client(load, slice, host)?)
        })?;
        running.into_iter().map(Running::end).collect()
    }

    fn begin<'a>(
        &'a self,
        load: &Load,
        contender: &Contender,
        host: &'a Host,
    ) -> Result<Running<'a>, BenchError> {
        let cluster = &self.clusters[contender.name()];
        cluster.warm(host)?;
        let mut server = cluster.start(contender, host)?;
        let mut before: Vec<&str> = load.before().iter().map(String::as_str).collect();
        before.push("CHECKPOINT");
        server.sql(&before)?;
        let mark = server.mark()?;
        Ok(Running {
            server,
            mark,
            done: Done::default(),
        })
    }

    /// What runs a slice, and how its output is read.
    fn client(&self, load: &Load, slice: u32, host: &Host) -> Result<Client, BenchError> {
        match load {
            Load::Statements { slices, .. } => {
                let Session { database, timed } = &slices[slice as usize];
                let mut psql = host.client("psql");
                psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
                psql.args(["-d", database, "-c", "\\timing on"]);
                for statement in timed {
                    psql.args(["-c", statement]);
                }
                Ok((psql, Done::of_task))
            }
            Load::Pgbench {
                script,
                clients,
                transactions,
                option,
                settings,
                ..
            } => {
                fs::write(&self.script, script).map_err(files(&self.script))?;
                let threads = thread::available_parallelism().map_or(1, usize::from);
                let mut pgbench = host.client("pgbench");
                pgbench.args(["-n", "--client", &clients.to_string()]);
                pgbench.args(["--jobs", &threads.min(*clients as usize).to_string()]);
                pgbench.args(["--transactions", &transactions.to_string()]);
                pgbench.arg("--file").arg(&self.script);
                pgbench.args(*option).env("PGOPTIONS", settings);
                Ok((pgbench, Done::of_pgbench))
            }
        }
    }
}

impl Set for Clusters {
    fn run(&mut self, runs: &Runs<'_>) -> Result<Samples, BenchError> {
        let task = &self.recipe.tasks[runs.case];
        let fixed = self.recipe.fixed.unwrap_or_default();
        let done = self.runs(&task.load, runs)?;
        let sample = |(done, spent): &(Done, Spent)| {
            let cpu = spent.cpu.since(fixed);
            Sample {
                value: done.value(task.case.metric),
                work: done.work,
                user_s: cpu.user_s,
                system_s: cpu.system_s,
                pages: spent.pages,
                ..Sample::default()
            }
        };
        Ok(runs.samples(done.iter().map(sample)))
    }
}

type Client = (Command, fn(&str) -> Result<Done, BenchError>);

/// A server between its slices of the load.
struct Running<'a> {
    server: Server<'a>,
    mark: Mark,
    done: Done,
}

impl Running<'_> {
    fn slice(&mut self, (mut command, read): Client) -> Result<(), BenchError> {
        let done = read(&self.server.run(&mut command)?)?;
        self.done.work += done.work;
        self.done.seconds += done.seconds;
        Ok(())
    }

    fn end(self) -> Result<(Done, Spent), BenchError> {
        Ok((self.done, self.server.finish(self.mark)?))
    }
}

impl Done {
    /// One task, and the sum of what psql's \timing printed: `Time: 1234.567 ms (00:01.235)`.
    fn of_task(output: &str) -> Result<Self, BenchError> {
        let times = output
            .lines()
            .filter_map(|line| line.strip_prefix("Time: "));
        let milliseconds = times.filter_map(|rest| rest.split_once(" ms")?.0.parse::<f64>().ok());
        Ok(Self {
            work: 1.0,
            seconds: milliseconds.sum::<f64>() / 1e3,
        })
    }

    fn of_pgbench(output: &str) -> Result<Self, BenchError> {
        let read = Throughput::read(output)?;
        Ok(Self {
            work: read.transactions,
            seconds: read.transactions / read.tps,
        })
    }

    fn value(self, metric: Metric) -> f64 {
        match metric.more_is_better() {
            true => self.work / self.seconds,
            false => self.seconds / self.work,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_takes_the_sum_of_its_times() {
        let of = |output| Done::of_task(output).expect("any output will do");
        let output = "1\nTime: 0.250 ms\nTime: 1234.500 ms (00:01.235)\n";
        assert!((of(output).seconds - 1.23475).abs() < 1e-12);
        assert_eq!((of("1\n").work, of("1\n").seconds), (1.0, 0.0));
    }

    #[test]
    fn slices_give_the_time_of_one_task_or_the_mean_throughput() {
        let done = Done {
            work: 4.0,
            seconds: 2.0,
        };
        assert_eq!(done.value(Metric::Seconds), 0.5);
        assert_eq!(done.value(Metric::TransactionsPerSecond), 2.0);
    }
}
