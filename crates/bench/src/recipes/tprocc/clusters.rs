//! Clusters with the warehouses in them, and the driver's runs on them.
//!
//! The servers of a round run at once, and the driver goes from one to the next every few seconds,
//! in random order. It is started anew each time, so that its users connect anew too: the first
//! moments of a slice are not measured.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::driver::{self, Driver, Outcome};
use super::probe::{self, Interval, Probe};
use super::{Step, TprocC};
use crate::error::{files, BenchError};
use crate::host::cluster::{Cluster, Mark, Server, Settings};
use crate::host::contender::{Contender, Kind};
use crate::host::{process, Host};
use crate::model::{Sample, STOCK};
use crate::recipes::{Runs, Samples, Set};

/// Points of a curve, at most.
const POINTS: usize = 60;
/// The longest turn of a server, without what comes before and after.
const SLICE: u32 = 3;
/// The driver runs before a slice is measured, and after it; and gets so long to come to its end.
const BEFORE: Duration = Duration::from_millis(500);
const BEYOND: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);
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
        Ok(Running {
            probe,
            server,
            mark,
            intervals: Vec::new(),
            outcome: Outcome::default(),
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
}

impl Set for Clusters {
    fn run(&mut self, runs: &Runs<'_>) -> Result<Samples, BenchError> {
        let (step, host) = (&self.recipe.steps[runs.case], runs.host);
        let mut running = Vec::new();
        for contender in runs.contenders {
            running.push(self.begin(contender, host)?);
        }
        let (before, slices) = slices(self.recipe.ramp_up, step.seconds);
        let number = u32::try_from(slices.len()).unwrap_or(u32::MAX);
        runs.by_turns(number, |at, slice| {
            let mut run = self
                .recipe
                .runner(&self.driver, step, &running[at].server, host);
            running[at].slice(&slices[slice as usize], &mut run, host)
        })?;
        let ended = running.into_iter().map(|one| one.end(before));
        let samples: Vec<Sample> = ended.collect::<Result<_, _>>()?;
        for contender in runs.contenders {
            self.check(contender, host)?;
        }
        Ok(runs.samples(samples.into_iter()))
    }
}

/// A server between its slices of the load, and what these were so far.
struct Running<'a> {
    /// Goes before the server.
    probe: Probe,
    server: Server<'a>,
    mark: Mark,
    intervals: Vec<Interval>,
    outcome: Outcome,
}

impl Running<'_> {
    /// The users, from their first transaction to the last one, and the readings meanwhile.
    fn slice(
        &mut self,
        ticks: &[Duration],
        run: &mut Command,
        host: &Host,
    ) -> Result<(), BenchError> {
        let last = ticks.last().copied().unwrap_or_default();
        run.arg(format!("--time={}s", (last + BEYOND).as_secs_f64()));
        let outcome = self.watched(ticks, run, host);
        let outcome = outcome.map_err(|error| self.server.explain(error))?;
        self.outcome.transactions += outcome.transactions;
        self.outcome.deadlocks += outcome.deadlocks;
        Ok(())
    }

    fn watched(
        &mut self,
        ticks: &[Duration],
        run: &mut Command,
        host: &Host,
    ) -> Result<Outcome, BenchError> {
        let mut load = Load::start(run)?;
        let start = Instant::now();
        let mut readings = Vec::new();
        for tick in ticks {
            sleep_until(start + *tick, host)?;
            readings.push(self.probe.read()?);
        }
        let output = load.wait(host)?;
        self.intervals.extend(probe::intervals(&readings));
        driver::outcome(&output).map_err(|line| failed("go-tpc run", "a transaction failed", line))
    }

    /// Stops the server. So many intervals lie before those that count.
    fn end(self, before: usize) -> Result<Sample, BenchError> {
        drop(self.probe);
        let spent = self.server.finish(self.mark)?;
        Ok(Sample {
            value: probe::new_orders_per_minute(&self.intervals[before..]),
            work: self.outcome.transactions as f64,
            user_s: spent.cpu.user_s,
            system_s: spent.cpu.system_s,
            pages: spent.pages,
            extra: BTreeMap::from([("deadlocks".to_owned(), self.outcome.deadlocks as f64)]),
            curves: probe::curves(&self.intervals, POINTS),
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
        run.args(["--interval=8760h", "--ignore-error"]);
        run
    }

    /// What the driver prints when it checks the data.
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

/// When to read in each slice, and how many intervals between readings lie before those that count.
fn slices(ramp_up: u32, seconds: u32) -> (usize, Vec<Vec<Duration>>) {
    let parts = |seconds: u32| {
        let slices = seconds.div_ceil(SLICE);
        // A long run has one interval a slice, a short one some of about a second.
        let intervals = if seconds as usize > POINTS {
            1
        } else {
            seconds / slices.max(1)
        };
        let length = Duration::from_secs(seconds.into()) / slices.max(1);
        let ticks = (0..=intervals).map(|tick| BEFORE + length * tick / intervals.max(1));
        (
            slices * intervals,
            vec![ticks.collect::<Vec<_>>(); slices as usize],
        )
    };
    let ((before, first), (_, counted)) = (parts(ramp_up), parts(seconds));
    (before as usize, [first, counted].concat())
}

fn sleep_until(then: Instant, host: &Host) -> Result<(), BenchError> {
    while let Some(left) = then.checked_duration_since(Instant::now()) {
        if host.stop.is_set() {
            return Err(BenchError::Interrupted);
        }
        thread::sleep(left.min(LOOK));
    }
    Ok(())
}

/// The driver while it runs; dropped before its end, as on an error, it is ended.
struct Load {
    child: Option<Child>,
    output: File,
}

impl Load {
    fn start(command: &mut Command) -> Result<Self, BenchError> {
        let program = command.get_program().to_owned();
        let unstartable = |error| BenchError::Start(program.clone().into(), error);
        let output = tempfile::tempfile().map_err(unstartable)?;
        let errors = output.try_clone().map_err(unstartable)?;
        let lines = output.try_clone().map_err(unstartable)?;
        command.stdin(Stdio::null()).stdout(lines).stderr(errors);
        let child = process::spawn(command).map_err(unstartable)?;
        Ok(Self {
            child: Some(child),
            output,
        })
    }

    /// Until it has ended by itself: what it printed.
    fn wait(&mut self, host: &Host) -> Result<String, BenchError> {
        if let Some(child) = self.child.as_mut() {
            if !process::wait_until_ended(child, Some(PATIENCE), &host.stop) {
                return Err(match host.stop.is_set() {
                    true => BenchError::Interrupted,
                    false => failed("go-tpc run", "its users came to no end", String::new()),
                });
            }
            process::reap(child).map_err(files("go-tpc"))?;
            self.child = None;
        }
        let mut bytes = Vec::new();
        let read = self
            .output
            .rewind()
            .and_then(|()| self.output.read_to_end(&mut bytes));
        read.map_err(files("go-tpc's output"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(child) = self.child.as_mut() {
            process::end(child, Signal::SIGTERM);
        }
    }
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
    fn readings_are_at_the_begin_and_the_end_of_each_slice() {
        let of = |ramp_up, seconds| {
            let (before, slices) = slices(ramp_up, seconds);
            let seconds = |ticks: &Vec<Duration>| {
                let ticks = ticks.iter().map(Duration::as_secs_f64);
                ticks.collect::<Vec<_>>()
            };
            (before, slices.iter().map(seconds).collect::<Vec<_>>())
        };
        let (two, three) = (vec![0.5, 1.5, 2.5], vec![0.5, 1.5, 2.5, 3.5]);
        assert_eq!(of(2, 3), (2, vec![two.clone(), three]));
        assert_eq!(of(0, 4), (0, vec![two.clone(), two]));
        assert_eq!(of(1, 5).1[1], [0.5, 1.75, 3.0]);
        let (before, slices) = of(300, 3600);
        assert_eq!((before, slices.len()), (100, 1300));
        assert_eq!(slices[1299], [0.5, 3.5]);
    }
}
