//! Clusters filled by `pgbench -i`, and pgbench's runs on them.
//!
//! pgbench and psql are stock's in every variant. The servers of a round take turns
//! (`host/load.rs`), each with a pgbench of its own, whose sessions stay. A run is pgbench's
//! protocol `prepared`; it begins with a checkpoint, tidied tables and, where the data fits, full
//! buffers. Sessions and the server's end cost some 50 ms of CPU beside the transactions. The
//! variants differ by less than the clock's ticks there, so the median over all of them is taken
//! off every run, or slow runs would look dearer.

use std::collections::btree_map::Entry;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::error::{files, BenchError};
use crate::host::cluster::{Cluster, Mark, Server, Settings, Spent};
use crate::host::contender::{Contender, Kind};
use crate::host::load::{Done, Load};
use crate::host::process::{Cpu, Program};
use crate::host::Host;
use crate::model::Sample;
use crate::recipes::pgbench::{Cell, Pgbench, Script, BUFFERS_MB_PER_SCALE};
use crate::recipes::{Runs, Samples, Set};
use crate::statistics::median;

/// A run by time, which is ended by what pgbench itself sets a timer for.
const ENDLESS: [&str; 2] = ["-T", "86400"];
const TIME_IS_OVER: Signal = Signal::SIGALRM;
/// Runs from which the fixed cost is taken, at least.
const FIXED_COST_RUNS: usize = 5;

/// Every heap page of the accounts and their index comes through the ordinary buffers, not through
/// a scan's small ring.
const FILL_BUFFERS: [&str; 5] = [
    "SET enable_seqscan = off",
    "SET enable_bitmapscan = off",
    "SET enable_indexonlyscan = off",
    "SET max_parallel_workers_per_gather = 0",
    "SELECT sum(abalance) FROM pgbench_accounts WHERE aid > 0",
];
/// The statements that remove what the last run left behind.
const TIDY: [&str; 4] = [
    "VACUUM pgbench_branches",
    "VACUUM pgbench_tellers",
    "VACUUM pgbench_accounts",
    "TRUNCATE pgbench_history",
];
const REINDEX: [&str; 3] = [
    "REINDEX TABLE pgbench_branches",
    "REINDEX TABLE pgbench_tellers",
    "REINDEX TABLE pgbench_accounts",
];
const HIT_RATE: &str = "SELECT blks_hit::float8 / greatest(blks_hit + blks_read, 1)
    FROM pg_stat_database WHERE datname = current_database()";

/// Which cluster a contender runs a cell on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    contender: String,
    /// pgbench's scale factor.
    pub scale: u32,
    checksums: bool,
}

impl Key {
    fn of(contender: &Contender, cell: &Cell) -> Self {
        Self {
            contender: contender.name().to_owned(),
            scale: cell.scale,
            checksums: cell.checksums,
        }
    }

    fn directory(&self) -> String {
        let checksums = if self.checksums { "checksums" } else { "none" };
        format!("{}-{}-{checksums}", self.contender, self.scale)
    }
}

/// The clusters of a set, each with a contender that runs on it.
pub fn keys<'a>(
    cells: &'a [Cell],
    contenders: &'a [Contender],
) -> impl Iterator<Item = (Key, &'a Contender)> {
    let all = cells.iter().flat_map(move |cell| {
        let of = move |contender: &'a Contender| (Key::of(contender, cell), contender);
        contenders.iter().map(of)
    });
    let mut first = BTreeMap::new();
    all.for_each(|(key, contender)| {
        first.entry(key).or_insert(contender);
    });
    first.into_iter()
}

/// One set of them.
pub struct Clusters {
    /// The recipe that runs on them.
    pub recipe: Pgbench,
    clusters: BTreeMap<Key, Cluster>,
}

impl Clusters {
    /// Fills a plain cluster, which nobody runs on: stock's and pgseal's are copies of it, the
    /// sealed ones sealed in place. Peers fill their own.
    pub fn make(recipe: Pgbench, home: &Path, host: &Host) -> Result<Self, BenchError> {
        let mut clusters = BTreeMap::new();
        let mut filled_ones: BTreeMap<(u32, bool), Cluster> = BTreeMap::new();
        for (key, contender) in keys(&recipe.cells, &host.contenders) {
            host.note(format!("making the cluster {}", key.directory()));
            let settings = Settings {
                checksums: key.checksums,
                conf: recipe.conf(),
            };
            let directory = home.join(key.directory());
            let cluster = if contender.kind == Kind::Peer {
                filled(contender, &directory, &settings, key.scale, host)?
            } else {
                let from = match filled_ones.entry((key.scale, key.checksums)) {
                    Entry::Occupied(there) => there.into_mut(),
                    Entry::Vacant(none) => {
                        let home = home.join(format!("filled-{}", key.directory()));
                        let stock = &host.contenders[0];
                        none.insert(filled(stock, &home, &settings, key.scale, host)?)
                    }
                };
                Cluster::copy(from, contender, &directory, &settings, host)?
            };
            cluster.number(clusters.len())?;
            clusters.insert(key, cluster);
        }
        for filled in filled_ones.into_values() {
            std::fs::remove_dir_all(&filled.data).map_err(files(&filled.data))?;
        }
        nix::unistd::sync();
        Ok(Self { recipe, clusters })
    }

    /// Returns, for each case, the cost of a run beside its transactions.
    pub fn fixed_costs(&mut self, host: &Host) -> Result<Vec<Cpu>, BenchError> {
        (0..self.recipe.cells.len())
            .map(|case| self.fixed_cost(case, host))
            .collect()
    }

    fn fixed_cost(&mut self, case: usize, host: &Host) -> Result<Cpu, BenchError> {
        host.note("measuring what a run costs beside its transactions");
        let own = host.contenders.iter().filter(|one| one.kind != Kind::Peer);
        let own: Vec<_> = own.collect();
        let runs = Runs {
            case,
            contenders: &own,
            seed: 0,
            host,
        };
        let mut costs = Vec::new();
        while costs.len() < FIXED_COST_RUNS {
            for run in self.runs(&runs, &["-t", "1"], None)? {
                costs.push(run.spent.cpu);
            }
        }
        let of = |part: fn(&Cpu) -> f64| median(&costs.iter().map(part).collect::<Vec<_>>());
        Ok(Cpu {
            user_s: of(|cpu| cpu.user_s),
            system_s: of(|cpu| cpu.system_s),
        })
    }

    /// A run of each contender: start and warm-up of all, the load interleaved, stop.
    fn runs(
        &self,
        runs: &Runs<'_>,
        length: &[&str],
        time: Option<Duration>,
    ) -> Result<Vec<Run>, BenchError> {
        let (cell, host) = (&self.recipe.cells[runs.case], runs.host);
        let mut running = Vec::new();
        for contender in runs.contenders {
            running.push(self.begin(cell, contender, host)?);
        }
        let mut loads = Vec::new();
        for (server, _) in &mut running {
            let mut pgbench = self.recipe.pgbench(cell, host);
            pgbench
                .args(length)
                .arg(format!("--random-seed={}", runs.seed));
            loads.push(Load::new(server, pgbench));
        }
        runs.by_turns(&mut loads, time)?;
        let time_is_over = |client: &Program| client.signal(TIME_IS_OVER);
        let ended = loads.into_iter().map(|load| load.end(time_is_over, host));
        let done: Vec<Done> = ended.collect::<Result<_, _>>()?;
        let ended = running.into_iter().zip(done);
        ended.map(|(one, done)| Run::end(one, &done)).collect()
    }

    fn begin<'a>(
        &'a self,
        cell: &Cell,
        contender: &Contender,
        host: &'a Host,
    ) -> Result<(Server<'a>, Mark), BenchError> {
        let cluster = &self.clusters[&Key::of(contender, cell)];
        cluster.warm(host)?;
        let mut server = cluster.start(contender, host)?;
        self.recipe.warm_up(&mut server, cell)?;
        let mark = server.mark()?;
        server.pause();
        Ok((server, mark))
    }

    fn sample_of(&self, case: usize, run: &Run) -> Sample {
        let cpu = run.spent.cpu.since(self.recipe.fixed[case]);
        Sample {
            value: run.transactions / run.elapsed_s,
            work: run.transactions,
            user_s: cpu.user_s,
            system_s: cpu.system_s,
            pages: run.spent.pages,
            extra: BTreeMap::from([("hit_rate".to_owned(), run.hit_rate)]),
            ..Sample::default()
        }
    }
}

impl Set for Clusters {
    fn run(&mut self, runs: &Runs<'_>) -> Result<Samples, BenchError> {
        let time = Duration::from_secs(self.recipe.seconds.into());
        let done = self.runs(runs, &ENDLESS, Some(time))?;
        Ok(runs.samples(done.iter().map(|run| self.sample_of(runs.case, run))))
    }
}

impl Pgbench {
    fn conf(&self) -> String {
        let connections = self.cells.iter().map(|cell| cell.clients).max();
        let connections = connections.unwrap_or(0) + 10;
        let buffers = self.buffers_mb;
        format!("shared_buffers = {buffers}MB\nmax_connections = {connections}\n")
    }

    fn warm_up(&self, server: &mut Server<'_>, cell: &Cell) -> Result<(), BenchError> {
        let mut statements = Vec::new();
        if self.script == Script::TpcB {
            statements.extend(REINDEX);
        }
        if self.script != Script::Select {
            statements.extend(TIDY);
        }
        if self.buffers_mb >= cell.scale.saturating_mul(BUFFERS_MB_PER_SCALE) {
            statements.extend(FILL_BUFFERS);
        }
        statements.push("CHECKPOINT");
        server.sql(&statements)?;
        // A session counts its own pages when it ends.
        server.settle();
        server.sql(&["SELECT pg_stat_reset()"]).map(|_| ())
    }

    fn pgbench(&self, cell: &Cell, host: &Host) -> Command {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(cell.clients as usize);
        let mut pgbench = host.client("pgbench");
        pgbench
            .args(self.script.options())
            .args(["-n", "-M", "prepared"]);
        pgbench.arg(format!("--client={}", cell.clients));
        pgbench.arg(format!("--jobs={threads}"));
        pgbench
    }
}

/// initdb and pgbench's tables.
fn filled(
    contender: &Contender,
    home: &Path,
    settings: &Settings,
    scale: u32,
    host: &Host,
) -> Result<Cluster, BenchError> {
    let cluster = Cluster::init(contender, home, settings, host)?;
    let mut server = cluster.start(contender, host)?;
    let scale = scale.to_string();
    server.run(host.client("pgbench").args(["-i", "-q", "-s", &scale]))?;
    server.stop()?;
    Ok(cluster)
}

/// The sum of a server's turns.
struct Run {
    transactions: f64,
    elapsed_s: f64,
    hit_rate: f64,
    spent: Spent,
}

impl Run {
    /// Stops the server.
    fn end((mut server, mark): (Server<'_>, Mark), done: &Done) -> Result<Self, BenchError> {
        server.resume();
        let hit_rate = server.sql(&[HIT_RATE])?;
        Ok(Self {
            transactions: transactions(&done.output)?,
            elapsed_s: done.seconds,
            hit_rate: hit_rate.trim().parse().unwrap_or(0.0),
            spent: server.finish(mark)?,
        })
    }
}

/// Reads the number of transactions from pgbench's output. A run with failed transactions is an
/// error.
pub(crate) fn transactions(output: &str) -> Result<f64, BenchError> {
    let number = |name: &str| {
        let mut lines = output.lines().filter_map(|line| line.strip_prefix(name));
        let word = lines.next_back()?.trim().split([' ', '/']).next()?;
        word.parse::<f64>().ok()
    };
    let failed = number("number of failed transactions:").unwrap_or(0.0);
    match number("number of transactions actually processed:") {
        Some(done) if failed == 0.0 && done > 0.0 => Ok(done),
        _ => Err(BenchError::Program {
            program: "pgbench".to_owned(),
            status: "lost transactions, or ran none".to_owned(),
            output: output.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "scaling factor: 10
number of transactions actually processed: 6000/6000
number of failed transactions: 0 (0.000%)
latency average = 0.5 ms
initial connection time = 2 ms
tps = 2000.25 (without initial connection time)
";

    #[test]
    fn pgbench_is_read() {
        assert_eq!(transactions(REPORT).expect("it is whole"), 6000.0);
        let by_time = REPORT.replace("6000/6000", "77");
        assert_eq!(transactions(&by_time).expect("it is whole"), 77.0);
    }

    #[test]
    fn a_run_that_lost_transactions_is_none() {
        let lost = REPORT.replace("transactions: 0 (0.0", "transactions: 3 (0.1");
        assert!(transactions(&lost).is_err());
        assert!(transactions("pgbench: aborted").is_err());
    }
}
