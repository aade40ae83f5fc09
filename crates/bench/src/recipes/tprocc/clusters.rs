//! Clusters with the warehouses in them, and the driver's runs on them.
//!
//! The servers of a round take turns (`host/load.rs`), each with a driver of its own, whose users
//! stay. Time, also that of the curves, is a server's own turns.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::driver::{self, Driver, Outcome};
use super::probe::{self, Probe, Reading};
use super::{Step, TprocC};
use crate::error::BenchError;
use crate::host::cluster::{Cluster, Mark, Server, Settings};
use crate::host::contender::{Contender, Kind};
use crate::host::load::Load;
use crate::host::Host;
use crate::model::{Sample, STOCK};
use crate::recipes::{Runs, Samples, Set};

/// Points of a curve, at most.
const POINTS: u32 = 60;
/// The first reading: the users have connected.
const FIRST: Duration = Duration::from_millis(500);
/// Upon which the driver says what it has done.
const TIME_IS_OVER: Signal = Signal::SIGINT;
/// Loads with more threads than processors gain little.
const LOADERS: u32 = 8;
/// One of the conditions asks for each customer's payments, for which the load has no index: with
/// it a warehouse takes a second, without it half a minute.
const CHECK_INDEX: &str = "CREATE INDEX check_payments ON history (h_c_w_id, h_c_d_id, h_c_id)";
const NO_CHECK_INDEX: &str = "DROP INDEX check_payments";

/// One cluster a contender.
pub(super) struct Clusters {
    recipe: TprocC,
    driver: Driver,
    clusters: BTreeMap<String, Cluster>,
}

/// Fills a plain cluster, and one for each foreign contender.
pub(super) fn load(
    recipe: &TprocC,
    driver: &Driver,
    host: &Host,
) -> Result<BTreeMap<String, Cluster>, BenchError> {
    let mut loaded = BTreeMap::new();
    for contender in &host.contenders {
        if matches!(contender.kind, Kind::Stock | Kind::Peer) {
            let name = contender.name().to_owned();
            host.note(format!(
                "filling {} warehouses for {name}",
                recipe.warehouses
            ));
            let home = host.work.join(format!("loaded-{name}"));
            let cluster = Cluster::init(contender, &home, &recipe.cluster_settings(), host)?;
            let mut server = cluster.start(contender, host)?;
            let mut prepare = recipe.loader(driver, "prepare", &server, host);
            // It commits every thousand rows.
            prepare.env("PGOPTIONS", "-c synchronous_commit=off");
            server.run(prepare.arg("--no-check"))?;
            server.sql(&["VACUUM (FREEZE, ANALYZE)"])?;
            let output = recipe.checked(driver, &mut server, &["--check-all"], host)?;
            driver::loaded(&output, recipe.warehouses)
                .map_err(|line| inconsistent(contender, line))?;
            server.stop()?;
            loaded.insert(name, cluster);
        }
    }
    Ok(loaded)
}

impl Clusters {
    pub(super) fn make(
        recipe: TprocC,
        driver: Driver,
        home: &Path,
        host: &Host,
    ) -> Result<Self, BenchError> {
        let settings = recipe.cluster_settings();
        let mut clusters = BTreeMap::new();
        for contender in &host.contenders {
            let name = contender.name();
            host.note(format!("copying the cluster of {name}"));
            let from = match contender.kind {
                Kind::Peer => &recipe.loaded[name],
                _ => &recipe.loaded[STOCK],
            };
            let copy = Cluster::copy(from, contender, &home.join(name), &settings, host)?;
            copy.number(clusters.len())?;
            clusters.insert(name.to_owned(), copy);
        }
        nix::unistd::sync();
        Ok(Self {
            recipe,
            driver,
            clusters,
        })
    }

    fn begin<'a>(
        &'a self,
        contender: &Contender,
        host: &'a Host,
    ) -> Result<Running<'a>, BenchError> {
        let cluster = &self.clusters[contender.name()];
        cluster.warm(host)?;
        let mut server = cluster.start(contender, host)?;
        let probe = Probe::open(contender.major(), &server, host)?;
        let mark = server.mark()?;
        server.pause();
        Ok(Running {
            probe,
            server,
            mark,
            readings: Vec::new(),
        })
    }

    /// All conditions hold, and the tables are as tidy as before.
    fn check(&self, contender: &Contender, host: &Host) -> Result<(), BenchError> {
        let mut server = self.clusters[contender.name()].start(contender, host)?;
        let output = self.recipe.checked(&self.driver, &mut server, &[], host)?;
        driver::consistent(&output, self.recipe.warehouses)
            .map_err(|line| inconsistent(contender, line))?;
        server.sql(&["VACUUM (ANALYZE)"])?;
        server.stop()
    }

    /// Alternates the load between the contenders, and takes the readings meanwhile.
    fn watched(
        &self,
        running: &mut [Running<'_>],
        runs: &Runs<'_>,
        ticks: &[Duration],
    ) -> Result<Vec<Outcome>, BenchError> {
        let step = &self.recipe.steps[runs.case];
        let (mut loads, mut probes) = (Vec::new(), Vec::new());
        for one in running {
            let run = self
                .recipe
                .runner(&self.driver, step, &one.server, runs.host);
            loads.push(Load::new(&mut one.server, run));
            probes.push((&mut one.probe, &mut one.readings));
        }
        for tick in ticks {
            runs.by_turns(&mut loads, Some(*tick))?;
            for (load, (probe, readings)) in loads.iter_mut().zip(&mut probes) {
                readings.push(load.beside(|at| probe.read(at))?);
            }
        }
        let end = |load: Load<'_, '_>| {
            let done = load.end(|client| client.signal(TIME_IS_OVER), runs.host)?;
            let outcome = driver::outcome(&done.output);
            outcome.map_err(|line| failed("go-tpc run", "a transaction failed", line))
        };
        loads.into_iter().map(end).collect()
    }
}

impl Set for Clusters {
    fn run(&mut self, runs: &Runs<'_>) -> Result<Samples, BenchError> {
        let (step, host) = (&self.recipe.steps[runs.case], runs.host);
        let mut running = Vec::new();
        for contender in runs.contenders {
            running.push(self.begin(contender, host)?);
        }
        let (before, ticks) = ticks(self.recipe.ramp_up, step.seconds);
        let outcomes = self.watched(&mut running, runs, &ticks)?;
        let ended = running.into_iter().zip(outcomes);
        let ended = ended.map(|(one, outcome)| one.end(&outcome, before));
        let samples: Vec<Sample> = ended.collect::<Result<_, _>>()?;
        for contender in runs.contenders {
            self.check(contender, host)?;
        }
        Ok(runs.samples(samples.into_iter()))
    }
}

/// A server that is paused while it is not its turn, and what was read of it.
struct Running<'a> {
    /// Goes before the server.
    probe: Probe,
    server: Server<'a>,
    mark: Mark,
    readings: Vec<Reading>,
}

impl Running<'_> {
    /// Stops the server. So many intervals between readings lie before those that count.
    fn end(mut self, outcome: &Outcome, before: usize) -> Result<Sample, BenchError> {
        self.server.resume();
        drop(self.probe);
        let spent = self.server.finish(self.mark)?;
        let intervals: Vec<_> = probe::intervals(&self.readings).collect();
        Ok(Sample {
            value: probe::new_orders_per_minute(&intervals[before..]),
            work: outcome.transactions as f64,
            user_s: spent.cpu.user_s,
            system_s: spent.cpu.system_s,
            pages: spent.pages,
            extra: BTreeMap::from([("deadlocks".to_owned(), outcome.deadlocks as f64)]),
            curves: probe::curves(&intervals, POINTS as usize),
            ..Sample::default()
        })
    }
}

impl TprocC {
    /// A command of the driver that goes through all warehouses.
    fn loader(&self, driver: &Driver, verb: &str, server: &Server<'_>, host: &Host) -> Command {
        let threads = self.warehouses.min(LOADERS);
        driver.command(verb, self.warehouses, threads, server, host)
    }

    /// A command of the driver that runs a step's users.
    fn runner(&self, driver: &Driver, step: &Step, server: &Server<'_>, host: &Host) -> Command {
        let mut run = driver.command("run", self.warehouses, step.users, server, host);
        run.args(["--time=8760h", "--interval=8760h", "--ignore-error"]);
        run
    }

    /// Returns what the driver prints when it checks the data.
    fn checked(
        &self,
        driver: &Driver,
        server: &mut Server<'_>,
        options: &[&str],
        host: &Host,
    ) -> Result<String, BenchError> {
        server.sql(&[CHECK_INDEX])?;
        let mut check = self.loader(driver, "check", server, host);
        let output = server.run(check.args(options))?;
        server.sql(&[NO_CHECK_INDEX])?;
        Ok(output)
    }

    fn cluster_settings(&self) -> Settings {
        let users = self.steps.iter().map(|step| step.users).max();
        let connections = users.unwrap_or(0) + 20;
        let own: String = self
            .settings
            .iter()
            .map(|line| format!("{line}\n"))
            .collect();
        Settings {
            checksums: true,
            conf: format!(
                "shared_buffers = {}MB\nmax_connections = {connections}\n{own}",
                self.buffers_mb
            ),
        }
    }
}

/// When to read, and how many intervals between readings lie before those that count: intervals of
/// a second, longer ones where that would be more than points of a curve.
fn ticks(ramp_up: u32, seconds: u32) -> (usize, Vec<Duration>) {
    let parts = |from: Duration, seconds: u32| {
        let intervals = seconds.min(POINTS);
        let length = Duration::from_secs(seconds.into());
        let tick = move |at| from + length * at / intervals.max(1);
        (1..=intervals).map(tick).collect::<Vec<_>>()
    };
    let before = parts(FIRST, ramp_up);
    let counted = parts(FIRST + Duration::from_secs(ramp_up.into()), seconds);
    (before.len(), [vec![FIRST], before, counted].concat())
}

fn inconsistent(contender: &Contender, line: String) -> BenchError {
    let name = contender.name();
    failed(
        "go-tpc check",
        &format!("the data of {name} is inconsistent"),
        line,
    )
}

fn failed(program: &str, status: &str, output: String) -> BenchError {
    BenchError::Program {
        program: program.to_owned(),
        status: status.to_owned(),
        output,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_a_second_apart_or_as_many_as_points() {
        let of = |ramp_up, seconds| {
            let (before, ticks) = ticks(ramp_up, seconds);
            let ticks = ticks.iter().map(Duration::as_secs_f64);
            (before, ticks.collect::<Vec<_>>())
        };
        assert_eq!(of(2, 3), (2, vec![0.5, 1.5, 2.5, 3.5, 4.5, 5.5]));
        assert_eq!(of(0, 2), (0, vec![0.5, 1.5, 2.5]));
        let (before, ticks) = of(300, 3600);
        assert_eq!((before, ticks.len()), (60, 121));
        assert_eq!(ticks[59..62], [295.5, 300.5, 360.5]);
    }
}
