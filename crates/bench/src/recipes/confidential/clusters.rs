//! A set of clusters, and sysbench's runs on them.
//!
//! The servers of a round take turns (`host/load.rs`), each with a proxy, an evaluator and a
//! sysbench of its own. What is measured begins when every thread has run transactions: connecting,
//! preparing and the first look at pages lie before. The processor time is that of the server and
//! of its
//! evaluator; the proxy's is beside it. The shutdown checkpoint is not in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::{files, BenchError};
use crate::host::account;
use crate::host::cluster::{Cluster, Server};
use crate::host::contender::Contender;
use crate::host::load::Load;
use crate::host::process::{Cpu, Program};
use crate::host::Host;
use crate::model::{Pages, Sample};
use crate::recipes::companions::{self, Proxy};
use crate::recipes::confidential::board::Board;
use crate::recipes::confidential::schema::{self, Loaded};
use crate::recipes::confidential::stack::Stack;
use crate::recipes::confidential::{Cell, EncryptedColumns};
use crate::recipes::{Runs, Samples, Set};

const SCRIPT: &str = include_str!("load.lua");
const SCRIPT_NAME: &str = "load.lua";
/// The time that a run may take to begin beyond the warm-up.
const BEGIN_LIMIT: Duration = Duration::from_secs(60);
const MORE: Duration = Duration::from_millis(500);

/// One set of them, by contenders' names.
pub(super) struct Clusters {
    recipe: EncryptedColumns,
    members: BTreeMap<String, Member>,
    identity: PathBuf,
}

/// A contender's cluster.
struct Member {
    stack: Stack,
    cluster: Cluster,
    /// The socket of its evaluator, if it has one.
    evaluator: PathBuf,
}

/// A server with what is beside it.
struct Running<'a> {
    server: Server<'a>,
    beside: Beside,
}

/// The part of [`Running`] that is not the server.
struct Beside {
    stack: Stack,
    cluster: Cluster,
    postmaster: u32,
    server_port: String,
    evaluator: Option<Program>,
    proxy: Option<Proxy>,
    board: Board,
}

/// The state of a run at one time, while its server is stopped.
struct Reading {
    transactions: u64,
    ran: Duration,
    server: Cpu,
    evaluator: Cpu,
    proxy: Cpu,
    pages: Pages,
}

impl Clusters {
    /// Copies the filled clusters for each contender.
    pub(super) fn make(
        recipe: EncryptedColumns,
        loaded: &Loaded,
        home: &Path,
        host: &Host,
    ) -> Result<Self, BenchError> {
        let mut members = BTreeMap::new();
        for (number, contender) in host.contenders.iter().enumerate() {
            host.note(format!("making the cluster {}", contender.name()));
            let member = Member::make(&recipe, loaded, (number, contender), home, host)?;
            members.insert(contender.name().to_owned(), member);
        }
        let script = host.work.join(SCRIPT_NAME);
        fs::write(&script, SCRIPT).map_err(files(script))?;
        nix::unistd::sync();
        Ok(Self {
            recipe,
            members,
            identity: loaded.identity.clone(),
        })
    }

    fn begin<'a>(
        &'a self,
        contender: &Contender,
        host: &'a Host,
    ) -> Result<Running<'a>, BenchError> {
        let member = &self.members[contender.name()];
        let stack = member.stack;
        member.cluster.warm(host)?;
        let mut server = member.cluster.start(contender, host)?;
        let port = server.port();
        let evaluator = stack
            .is_isolated()
            .then(|| companions::evaluator(&member.evaluator, host));
        let proxy = stack
            .is_proxied()
            .then(|| Proxy::start(&port, &self.identity, host));
        let beside = Beside {
            stack,
            cluster: member.cluster.clone(),
            postmaster: server.pid(),
            evaluator: evaluator.transpose()?,
            proxy: proxy.transpose()?,
            board: Board::make(&host.work.join(format!("board.{port}")))?,
            server_port: port,
        };
        beside.programs().for_each(|one| server.accompanied_by(one));
        server.sql(&["CHECKPOINT"])?;
        server.pause();
        Ok(Running { server, beside })
    }

    /// sysbench, which is told where to connect.
    fn program(&self, beside: &Beside, host: &Host) -> Command {
        let sysbench = &self.recipe.sysbench;
        if !beside.stack.is_in_process() {
            let mut command = host.command(sysbench);
            command.arg(format!("--pgsql-host={}", host.work.display()));
            command.arg(format!("--pgsql-port={}", beside.port()));
            return command;
        }
        let mut command = host.command(&host.tools.pgseal);
        let server = format!("host={} port={}", host.work.display(), beside.server_port);
        command.args(["client", "exec", "--in-process", "-d", &server, "--"]);
        companions::owner(&mut command, &self.identity);
        // sysbench does not read PGHOST.
        let connect = r#"exec "$0" --pgsql-host="$PGHOST" --pgsql-port="$PGPORT" "$@""#;
        command.args(["/bin/sh", "-c", connect]).arg(sysbench);
        command
    }

    /// sysbench's command.
    fn sysbench(&self, cell: &Cell, beside: &Beside, runs: &Runs<'_>) -> Command {
        let (recipe, host) = (&self.recipe, runs.host);
        let database = schema::database(cell.scenario, beside.stack.is_encrypted());
        let mut sysbench = self.program(beside, host);
        sysbench.arg(host.work.join(SCRIPT_NAME)).args([
            "--db-driver=pgsql".to_owned(),
            "--pgsql-user=postgres".to_owned(),
            format!("--pgsql-db={database}"),
            "--time=0".to_owned(),
            "--events=0".to_owned(),
            "--histogram=off".to_owned(),
            format!("--rand-seed={}", runs.seed),
            format!("--threads={}", cell.threads),
            format!("--tables={}", recipe.tables),
            format!("--rows={}", recipe.rows),
            format!("--kind={}", cell.kind),
            format!("--column={}", cell.column()),
            format!("--board={}", beside.board.path().display()),
        ]);
        sysbench.arg("run");
        sysbench
    }

    /// Lets the loads run until all of their threads have begun, and then as long as was asked for.
    fn measure(
        &self,
        cell: &Cell,
        besides: &[&Beside],
        loads: &mut [Load<'_, '_>],
        runs: &Runs<'_>,
    ) -> Result<Vec<Sample>, BenchError> {
        let mut warm = Duration::from_secs(self.recipe.warm_up.into());
        let limit = warm + BEGIN_LIMIT;
        runs.by_turns(loads, Some(warm))?;
        while !begun(besides, loads, cell.threads, warm >= limit)? {
            warm += MORE;
            runs.by_turns(loads, Some(warm))?;
        }
        let readings = |loads: &[Load<'_, '_>]| {
            let each = besides.iter().zip(loads);
            let readings = each.map(|(beside, load)| beside.read(cell.threads, load.ran()));
            readings.collect::<Result<Vec<_>, _>>()
        };
        let before = readings(loads)?;
        let time = Duration::from_secs(self.recipe.seconds.into());
        runs.by_turns(loads, Some(warm + time))?;
        let after = readings(loads)?;
        Ok(before.iter().zip(&after).map(|(a, b)| b.since(a)).collect())
    }
}

impl Set for Clusters {
    fn run(&mut self, runs: &Runs<'_>) -> Result<Samples, BenchError> {
        let cell = &self.recipe.cells[runs.case];
        let mut running = Vec::new();
        for contender in runs.contenders {
            running.push(self.begin(contender, runs.host)?);
        }
        let (mut loads, mut besides) = (Vec::new(), Vec::new());
        for Running { server, beside } in &mut running {
            loads.push(Load::new(server, self.sysbench(cell, beside, runs)));
            besides.push(&*beside);
        }
        let measured = self.measure(cell, &besides, &mut loads, runs);
        for (load, beside) in loads.into_iter().zip(&besides) {
            beside.board.stop()?;
            // Where a client failed, its own words say why.
            load.end(|_| (), runs.host)?;
        }
        let samples = measured?;
        for Running { server, beside } in running {
            // The proxy's connections end before the server waits for them.
            drop(beside);
            server.stop()?;
        }
        Ok(runs.samples(samples.into_iter()))
    }
}

/// Has every thread run a transaction? A client that ended by itself is an error, and so is one
/// that does not begin.
fn begun(
    besides: &[&Beside],
    loads: &[Load<'_, '_>],
    threads: u32,
    late: bool,
) -> Result<bool, BenchError> {
    let ended = loads.iter().any(|load| load.is_through(None));
    let mut all = true;
    for beside in besides {
        all &= !beside.board.counts(threads)?.contains(&0);
    }
    if all || !(late || ended) {
        return Ok(all);
    }
    Err(BenchError::Program {
        program: "sysbench".to_owned(),
        status: "its threads do not begin".to_owned(),
        output: String::new(),
    })
}

impl Member {
    fn make(
        recipe: &EncryptedColumns,
        loaded: &Loaded,
        (number, contender): (usize, &Contender),
        home: &Path,
        host: &Host,
    ) -> Result<Self, BenchError> {
        let stack = Stack::of(contender);
        let from = match stack.is_encrypted() {
            true => &loaded.encrypted,
            false => &loaded.plain,
        };
        let (home, settings) = (home.join(contender.name()), schema::settings(recipe));
        let cluster = Cluster::copy(from, contender, &home, &settings, host)?;
        let evaluator = host.work.join(format!("evaluator.{number}"));
        cluster.number(number)?;
        if stack.is_encrypted() {
            cluster.configure(&configuration(stack, &evaluator))?;
        }
        Ok(Self {
            stack,
            cluster,
            evaluator,
        })
    }
}

fn configuration(stack: Stack, evaluator: &Path) -> String {
    let pages = if stack.has_page_requests() {
        "auto"
    } else {
        "off"
    };
    let form = if stack.is_isolated() {
        "isolated"
    } else {
        "inline"
    };
    let socket = evaluator.display();
    format!("encdb.page_requests = {pages}\nencdb.evaluator = {form}\nencdb.socket = '{socket}'\n")
}

impl Beside {
    /// The port that sysbench connects to.
    fn port(&self) -> &str {
        match &self.proxy {
            Some(proxy) => &proxy.port,
            None => &self.server_port,
        }
    }

    fn programs(&self) -> impl Iterator<Item = &Program> {
        let proxy = self.proxy.iter().map(|proxy| &proxy.program);
        self.evaluator.iter().chain(proxy)
    }

    fn read(&self, threads: u32, ran: Duration) -> Result<Reading, BenchError> {
        let cpu = |pid| account::of_server(pid).map_err(files("/proc"));
        let of = |program: Option<&Program>| match program {
            Some(program) => cpu(program.pid()),
            None => Ok(Cpu::default()),
        };
        Ok(Reading {
            transactions: self.board.counts(threads)?.iter().sum(),
            ran,
            server: cpu(self.postmaster)?,
            evaluator: of(self.evaluator.as_ref())?,
            proxy: of(self.proxy.as_ref().map(|proxy| &proxy.program))?,
            pages: self.cluster.pages(),
        })
    }
}

impl Reading {
    fn since(&self, before: &Self) -> Sample {
        let transactions = (self.transactions - before.transactions) as f64;
        let evaluator = self.evaluator.since(before.evaluator);
        let spent = self.server.since(before.server).plus(evaluator);
        let us = |cpu: Cpu| (cpu.user_s + cpu.system_s) * 1e6 / transactions;
        let mut extra = BTreeMap::new();
        let proxy = self.proxy.since(before.proxy);
        for (name, cpu) in [("evaluator_cpu_us", evaluator), ("proxy_cpu_us", proxy)] {
            if cpu != Cpu::default() {
                extra.insert(name.to_owned(), us(cpu));
            }
        }
        Sample {
            value: transactions / (self.ran - before.ran).as_secs_f64(),
            work: transactions,
            user_s: spent.user_s,
            system_s: spent.system_s,
            pages: Pages {
                opened: self.pages.opened - before.pages.opened,
                sealed: self.pages.sealed - before.pages.sealed,
            },
            extra,
            ..Sample::default()
        }
    }
}
