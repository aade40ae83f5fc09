//! Clusters with the warehouses in them, and the driver's runs on them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::driver::{self, Driver, Outcome};
use super::probe::{self, Probe, Reading};
use super::{Step, TprocC};
use crate::error::{files, BenchError};
use crate::host::cluster::{Cluster, Server, Settings};
use crate::host::contender::{Contender, Kind};
use crate::host::{process, Host};
use crate::model::{Sample, STOCK};
use crate::recipes::Set;

/// At most so many readings of a measured time, and not more than one a second.
const READINGS: u32 = 60;
/// The driver runs so much longer than it is measured, and gets so long to come to its end.
const BEYOND: Duration = Duration::from_secs(1);
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

/// What a run gave.
struct Run {
    readings: Vec<Reading>,
    /// The first reading that counts.
    begin: usize,
    outcome: Outcome,
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
            let mut prepare = recipe.loader(driver, "prepare", host);
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
            clusters.insert(name.to_owned(), copy);
        }
        nix::unistd::sync();
        Ok(Self {
            recipe,
            driver,
            clusters,
        })
    }

    /// The users, from their first transaction to the last one, and the readings meanwhile.
    fn drive(&self, step: &Step, probe: &mut Probe, host: &Host) -> Result<Run, BenchError> {
        let (begin, ticks) = ticks(self.recipe.ramp_up, step.seconds);
        let last = ticks.last().copied().unwrap_or_default();
        let (driver, warehouses) = (&self.driver, self.recipe.warehouses);
        let mut run = driver.command("run", warehouses, step.users, host);
        run.arg(format!("--time={}s", (last + BEYOND).as_secs_f64()));
        let mut load = Load::start(run.args(["--interval=8760h", "--ignore-error"]))?;
        let start = Instant::now();
        let mut readings = Vec::new();
        for tick in ticks {
            sleep_until(start + tick, host)?;
            readings.push(probe.read()?);
        }
        let output = load.wait(host)?;
        let outcome = driver::outcome(&output)
            .map_err(|line| failed("go-tpc run", "a transaction failed", line))?;
        Ok(Run {
            readings,
            begin,
            outcome,
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
    fn sample(
        &mut self,
        case: usize,
        contender: &Contender,
        _seed: u64,
        host: &Host,
    ) -> Result<Sample, BenchError> {
        let step = &self.recipe.steps[case];
        let cluster = &self.clusters[contender.name()];
        cluster.warm(host)?;
        let mut server = cluster.start(contender, host)?;
        let mut probe = Probe::open(contender.major(), server.pid(), host)?;
        let mark = server.mark()?;
        let run = self.drive(step, &mut probe, host);
        drop(probe);
        let run = run.map_err(|error| server.explain(error))?;
        let spent = server.finish(mark)?;
        self.check(contender, host)?;
        let last = run.readings.last().copied().unwrap_or_default();
        Ok(Sample {
            value: probe::new_orders_per_minute(&run.readings[run.begin], &last),
            work: run.outcome.transactions as f64,
            user_s: spent.cpu.user_s,
            system_s: spent.cpu.system_s,
            pages: spent.pages,
            extra: BTreeMap::from([("deadlocks".to_owned(), run.outcome.deadlocks as f64)]),
            curves: probe::curves(&run.readings),
        })
    }
}

impl TprocC {
    /// A command of the driver that goes through all warehouses.
    fn loader(&self, driver: &Driver, verb: &str, host: &Host) -> std::process::Command {
        driver.command(verb, self.warehouses, self.warehouses.min(LOADERS), host)
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
        let mut check = self.loader(driver, "check", host);
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

/// When to read, and the first reading that counts: equal distances, one of them at the end of the
/// ramp-up and one at the end.
fn ticks(ramp_up: u32, seconds: u32) -> (usize, Vec<Duration>) {
    let parts = seconds.min(READINGS);
    let distance = Duration::from_secs(seconds.into()) / parts;
    let ramp_up = Duration::from_secs(ramp_up.into());
    let mut at = ramp_up;
    let mut before = Vec::new();
    while at >= distance {
        at -= distance;
        before.push(at);
    }
    let counted = (0..=parts).map(|part| ramp_up + distance * part);
    (
        before.len(),
        before.iter().rev().copied().chain(counted).collect(),
    )
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
    fn start(command: &mut std::process::Command) -> Result<Self, BenchError> {
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
    fn readings_meet_the_begin_and_the_end_of_what_counts() {
        let of = |ramp_up, seconds| {
            let (begin, ticks) = ticks(ramp_up, seconds);
            let ticks: Vec<f64> = ticks.iter().map(Duration::as_secs_f64).collect();
            (begin, ticks)
        };
        assert_eq!(of(2, 3), (2, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
        assert_eq!(of(0, 1), (0, vec![0.0, 1.0]));
        let (begin, ticks) = of(300, 3600);
        assert_eq!((begin, ticks.len()), (5, 66));
        assert_eq!((ticks[begin], ticks[65]), (300.0, 3900.0));
        let (begin, ticks) = of(5, 120);
        assert_eq!((begin, &ticks[..3]), (2, &[1.0, 3.0, 5.0][..]));
    }
}
