//! Clusters with the table in them, and the tasks' runs on them.
//!
//! Everything that a task needs is prepared on all servers of a round; then they take turns at it
//! (`host/load.rs`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use nix::sys::signal::Signal;

use super::tasks::{base, Load, Session};
use super::WorstCases;
use crate::error::{files, BenchError};
use crate::host::cluster::{Cluster, Mark, Server, Settings, Spent};
use crate::host::contender::{Contender, Kind};
use crate::host::load::{Done, Load as Turns};
use crate::host::process::Cpu;
use crate::host::Host;
use crate::model::{Metric, Sample};
use crate::recipes::pgbench::transactions;
use crate::recipes::{Runs, Samples, Set};
use crate::statistics::median;

/// Runs from which the fixed cost is taken, at least.
const FIXED_COST_RUNS: usize = 5;

/// The clusters that contenders run on, by their names.
pub(super) struct Clusters {
    pub(super) recipe: WorstCases,
    clusters: BTreeMap<String, Cluster>,
    script: PathBuf,
}

/// The cost of a run beside its task: CPU of all its sessions and of the server's end, and the
/// time in which one client starts and connects.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fixed {
    cpu: Cpu,
    seconds: f64,
}

/// The work of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Work {
    /// Tasks, or transactions.
    done: f64,
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

    /// Returns the fixed cost over all contenders, which differ by less than the clock's ticks: the
    /// median of the CPU, and the shortest time. A start that something else on the machine delays
    /// would otherwise be taken from a task that nothing delays.
    pub(super) fn fixed_cost(&self, host: &Host) -> Result<Fixed, BenchError> {
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
            sessions: vec![Session::of("SELECT 1"); self.recipe.size.repeats()],
        };
        let mut costs = Vec::new();
        while costs.len() < FIXED_COST_RUNS {
            costs.extend(self.runs(&nothing, &runs)?);
        }
        type Run = (Work, Spent);
        let of = |part: fn(&Run) -> f64| median(&costs.iter().map(part).collect::<Vec<_>>());
        Ok(Fixed {
            cpu: Cpu {
                user_s: of(|(_, spent)| spent.cpu.user_s),
                system_s: of(|(_, spent)| spent.cpu.system_s),
            },
            seconds: costs
                .iter()
                .map(|(work, _)| work.seconds / work.done)
                .fold(f64::INFINITY, f64::min),
        })
    }

    /// Start and preparation of all, the load interleaved, stop.
    fn runs(&self, load: &Load, runs: &Runs<'_>) -> Result<Vec<(Work, Spent)>, BenchError> {
        let host = runs.host;
        let mut running = Vec::new();
        for contender in runs.contenders {
            running.push(self.begin(load, contender, host)?);
        }
        for client in 0..load.clients() {
            let mut turns = Vec::new();
            for one in &mut running {
                let command = self.client(load, client, host)?;
                turns.push(Turns::new(&mut one.server, command));
            }
            runs.by_turns(&mut turns, None)?;
            let ended = turns
                .into_iter()
                .map(|one| one.end(|client| client.signal(Signal::SIGTERM), host));
            let done: Vec<Done> = ended.collect::<Result<_, _>>()?;
            for (one, done) in running.iter_mut().zip(done) {
                one.work.seconds += done.seconds;
                one.work.done += load.work(&done.output)?;
            }
        }
        let finish = |one: Running<'_>| Ok((one.work, one.server.finish(one.mark)?));
        running.into_iter().map(finish).collect()
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
        server.pause();
        Ok(Running {
            server,
            mark,
            work: Work::default(),
        })
    }

    /// Returns the command of a load's client, by its number.
    fn client(&self, load: &Load, number: usize, host: &Host) -> Result<Command, BenchError> {
        match load {
            Load::Statements { sessions, .. } => {
                let Session { database, timed } = &sessions[number];
                let mut psql = host.client("psql");
                psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
                psql.args(["-d", database]);
                for statement in timed {
                    psql.args(["-c", statement]);
                }
                Ok(psql)
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
                Ok(pgbench)
            }
        }
    }
}

impl Set for Clusters {
    fn run(&mut self, runs: &Runs<'_>) -> Result<Samples, BenchError> {
        let task = &self.recipe.tasks[runs.case];
        let fixed = self.recipe.fixed.unwrap_or_default();
        let done = self.runs(&task.load, runs)?;
        let clients = task.load.clients() as f64;
        let sample = |(work, spent): &(Work, Spent)| {
            let cpu = spent.cpu.since(fixed.cpu);
            let too_short = || BenchError::TooShort(task.case.name.clone());
            let work = work
                .without(clients * fixed.seconds)
                .ok_or_else(too_short)?;
            Ok(Sample {
                value: work.value(task.case.metric),
                work: work.done,
                user_s: cpu.user_s,
                system_s: cpu.system_s,
                pages: spent.pages,
                ..Sample::default()
            })
        };
        let samples = done
            .iter()
            .map(sample)
            .collect::<Result<Vec<_>, BenchError>>()?;
        Ok(runs.samples(samples.into_iter()))
    }
}

/// A server that is paused while it is not its turn.
struct Running<'a> {
    server: Server<'a>,
    mark: Mark,
    work: Work,
}

impl Load {
    /// Returns the work of one of its clients.
    fn work(&self, output: &str) -> Result<f64, BenchError> {
        match self {
            Self::Statements { .. } => Ok(1.0),
            Self::Pgbench { .. } => transactions(output),
        }
    }
}

impl Work {
    /// Returns the work less the seconds of its clients' starts; None if nothing is left.
    fn without(self, seconds: f64) -> Option<Self> {
        let seconds = self.seconds - seconds;
        (seconds > 0.0).then_some(Self { seconds, ..self })
    }

    fn value(self, metric: Metric) -> f64 {
        match metric.more_is_better() {
            true => self.done / self.seconds,
            false => self.seconds / self.done,
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
    fn a_task_as_short_as_its_start_has_no_time() {
        let work = Work {
            done: 4.0,
            seconds: 2.0,
        };
        let left = work.without(0.5);
        assert_eq!(left.map(|left| left.seconds), Some(1.5));
        assert_eq!((work.without(2.0), work.without(2.5)), (None, None));
    }

    #[test]
    fn turns_give_the_time_of_one_task_or_the_mean_throughput() {
        let work = Work {
            done: 4.0,
            seconds: 2.0,
        };
        assert_eq!(work.value(Metric::Seconds), 0.5);
        assert_eq!(work.value(Metric::TransactionsPerSecond), 2.0);
    }
}
