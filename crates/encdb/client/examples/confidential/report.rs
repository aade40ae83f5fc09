//! The cases, the rounds, and the report that `pgseal bench report` shows.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;
use pgseal_bench::host::account;
use pgseal_bench::host::machine;
use pgseal_bench::host::process::Cpu;
use pgseal_bench::model::{
    Asked, Case, Metric, Origin, Published, Report, Round, Sample, Variant, FORMAT, STOCK,
};

use crate::load::{Done, Load, Worker};
use crate::sessions::{connect, Database};
use crate::{Form, Kind, Outcome, Run};

const ENCRYPTED: &str = "encrypted";
const PAGED: &str = "encdb_btree";
const BYTES: &str = "bytes as long";

/// The number of turns that a variant has in each second.
const TURNS_A_SECOND: u32 = 10;

/// A published row, at 8 threads, in transactions per second, and the losses that are aimed at.
struct Row {
    scenario: u32,
    kind: Kind,
    plain: f64,
    encrypted: f64,
    paged: Option<f64>,
    /// Inline, isolated
    limits: [f64; 2],
}

const fn row(scenario: u32, kind: Kind, tps: [f64; 3], limits: [f64; 2]) -> Row {
    let [plain, encrypted, paged] = tps;
    Row {
        scenario,
        kind,
        plain,
        encrypted,
        paged: if paged > 0.0 { Some(paged) } else { None },
        limits,
    }
}

const ROWS: [Row; 8] = [
    row(1, Kind::Point, [46990.0, 39940.0, 0.0], [0.08, 0.08]),
    row(1, Kind::Range, [14810.0, 12090.0, 0.0], [0.12, 0.12]),
    row(1, Kind::Write, [6620.0, 6370.0, 0.0], [0.04, 0.04]),
    row(2, Kind::Point, [46990.0, 18310.0, 0.0], [0.20, 0.45]),
    row(2, Kind::Range, [14810.0, 2830.0, 0.0], [0.45, 0.70]),
    row(2, Kind::Write, [6620.0, 2670.0, 0.0], [0.30, 0.50]),
    row(3, Kind::Point, [47270.0, 18490.0, 27860.0], [0.20, 0.40]),
    row(3, Kind::Range, [14970.0, 2830.0, 7800.0], [0.45, 0.48]),
];

impl Row {
    fn case(&self, form: Form) -> Case {
        let by = if self.scenario == 3 { " on k" } else { "" };
        let published = |variant: &str, tps: f64| Published {
            origin: Origin::Published,
            source: "always-confidential, PostgreSQL 13, 8 threads".to_owned(),
            variant: variant.to_owned(),
            stock: Some(self.plain),
            encrypted: Some(tps),
            loss: 1.0 - tps / self.plain,
        };
        let mut all = vec![published(ENCRYPTED, self.encrypted)];
        all.extend(self.paged.map(|tps| published(PAGED, tps)));
        Case {
            name: format!("scenario {} {}{by}, {form}", self.scenario, self.kind),
            group: form.to_string(),
            axis: None,
            metric: Metric::TransactionsPerSecond,
            limit: self.limits[usize::from(form == Form::Isolated)],
            published: all,
            rounds: Vec::new(),
        }
    }

    fn variants(&self) -> Vec<(&'static str, Database)> {
        let (encrypted, paged) = match self.scenario {
            1 => (Database::Columns, Database::ColumnsPaged),
            _ => (Database::Whole, Database::WholePaged),
        };
        let mut variants = vec![
            (STOCK, Database::Plain),
            (ENCRYPTED, encrypted),
            (PAGED, paged),
        ];
        if self.scenario > 1 {
            variants.push((BYTES, Database::Bytes));
        }
        variants
    }
}

pub async fn run(run: &Run) -> Outcome<()> {
    let server = Server::find(run).await?;
    let asked = |row: &&Row| run.scenario.contains(&row.scenario) && run.kind.contains(&row.kind);
    let of_row = |row| run.form.iter().map(move |form| (row, *form));
    let cells: Vec<(&Row, Form)> = ROWS.iter().filter(asked).flat_map(of_row).collect();
    let mut report = empty(run, &server, &cells);
    let mut rng = Rng::with_seed(run.seed);
    for number in 0..run.rounds {
        let mut order: Vec<usize> = (0..cells.len()).collect();
        rng.shuffle(&mut order);
        for at in order {
            let (row, form) = cells[at];
            let failed = |error| format!("{}: {error}", report.cases[at].name);
            let samples = samples(run, (row, form), &mut rng, &server).await;
            let round = Round {
                number,
                set: 0,
                samples: samples.map_err(failed)?,
            };
            report.cases[at].rounds.push(round);
        }
        eprintln!("round {} of {}", number + 1, run.rounds);
    }
    serde_json::to_writer_pretty(io::stdout().lock(), &report)?;
    Ok(writeln!(io::stdout())?)
}

/// The server that is measured.
struct Server {
    data: PathBuf,
    postmaster: u32,
    version: String,
}

impl Server {
    async fn find(run: &Run) -> Outcome<Self> {
        let client = connect(&run.options, "postgres", Form::Inline).await?;
        let text = |sql: &'static str| {
            let client = &client;
            async move { client.query_one(sql, &[]).await?.try_get::<_, String>(0) }
        };
        let data = PathBuf::from(text("SELECT current_setting('data_directory')").await?);
        let file = fs::read_to_string(data.join("postmaster.pid"))?;
        let postmaster = file.lines().next().unwrap_or_default().parse()?;
        Ok(Self {
            postmaster,
            version: text("SELECT version()").await?,
            data,
        })
    }

    fn cpu(&self, run: &Run, form: Form) -> io::Result<Cpu> {
        let server = account::of_server(self.postmaster)?;
        match run.evaluator_pid.filter(|_| form == Form::Isolated) {
            Some(evaluator) => Ok(server.plus(account::of_server(evaluator)?)),
            None => Ok(server),
        }
    }
}

/// Takes one sample of each variant, in turns: machines change faster than a sample lasts.
async fn samples(
    run: &Run,
    (row, form): (&Row, Form),
    rng: &mut Rng,
    server: &Server,
) -> Outcome<BTreeMap<String, Sample>> {
    let (seed, mut runners) = (rng.u64(..), Vec::new());
    for (name, database) in row.variants() {
        let load = Load {
            run,
            database,
            form,
            kind: row.kind,
            by_k: row.scenario == 3,
        };
        runners.push(Runner::new(name, load, seed).await?);
    }
    let client = connect(&run.options, "postgres", form).await?;
    client.batch_execute("CHECKPOINT").await?;
    for turn in 0..(run.warm + run.seconds) * TURNS_A_SECOND {
        rng.shuffle(&mut runners);
        for runner in &mut runners {
            if turn == run.warm * TURNS_A_SECOND {
                runner.begin();
            }
            runner.turn(server).await?;
        }
    }
    let mut samples = BTreeMap::new();
    for runner in runners {
        let name = runner.name.to_owned();
        samples.insert(name, runner.end().await?);
    }
    Ok(samples)
}

/// The connections of one variant, and what they have done.
struct Runner<'a> {
    name: &'static str,
    load: Load<'a>,
    workers: Vec<Worker>,
    total: Done,
    elapsed: Duration,
    spent: Cpu,
}

impl<'a> Runner<'a> {
    async fn new(name: &'static str, load: Load<'a>, seed: u64) -> Outcome<Self> {
        let mut workers = Vec::new();
        for number in 0..load.run.connections {
            workers.push(Worker::new(load, number, seed).await?);
        }
        Ok(Self {
            name,
            load,
            workers,
            total: Done::default(),
            elapsed: Duration::ZERO,
            spent: Cpu::default(),
        })
    }

    /// Begins the sample: earlier work does not count.
    fn begin(&mut self) {
        (self.total, self.elapsed, self.spent) = Default::default();
    }

    /// Lets all connections work, each until its last transaction has ended.
    async fn turn(&mut self, server: &Server) -> Outcome<()> {
        let Load {
            run, form, kind, ..
        } = self.load;
        let (before, start) = (server.cpu(run, form)?, Instant::now());
        let working = self.workers.drain(..).map(|mut worker| {
            tokio::task::spawn_local(async move {
                let done = worker
                    .work(kind, Duration::from_secs(1) / TURNS_A_SECOND)
                    .await;
                done.map(|done| (worker, done))
                    .map_err(|error| error.to_string())
            })
        });
        let (working, mut rested) = (working.collect::<Vec<_>>(), Vec::new());
        for task in working {
            let (worker, done) = task.await??;
            self.total.transactions += done.transactions;
            self.total.rows += done.rows;
            rested.push(worker);
        }
        self.elapsed += start.elapsed();
        self.spent = self.spent.plus(server.cpu(run, form)?.since(before));
        self.workers = rested;
        Ok(())
    }

    async fn end(mut self) -> Outcome<Sample> {
        for worker in &mut self.workers {
            worker.restore().await?;
        }
        Ok(sample_of(
            self.total,
            self.elapsed.as_secs_f64(),
            self.spent,
        ))
    }
}

fn sample_of(total: Done, elapsed: f64, spent: Cpu) -> Sample {
    let transactions = total.transactions as f64;
    let rows = total.rows as f64 / transactions.max(1.0);
    Sample {
        value: transactions / elapsed,
        work: transactions,
        user_s: spent.user_s,
        system_s: spent.system_s,
        extra: BTreeMap::from([("rows_per_transaction".to_owned(), rows)]),
        ..Sample::default()
    }
}

fn empty(run: &Run, server: &Server, cells: &[(&Row, Form)]) -> Report {
    let options = &run.options;
    let parameters = [
        ("connections", run.connections),
        ("seconds", run.seconds),
        ("seconds before", run.warm),
        ("tables", options.tables),
        ("rows", options.rows),
    ];
    let variant = |name: &str| Variant {
        name: name.to_owned(),
        bits: None,
        postgres: server.version.clone(),
    };
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.into()));
    Report {
        format: FORMAT,
        recipe: "confidential".to_owned(),
        machine: machine::describe(Path::new(&server.data)),
        parameters: parameters.into(),
        asked: Some(Asked {
            quick: false,
            rounds: run.rounds,
            rounds_per_set: run.rounds,
            until_ci: None,
            time_limit_s: None,
        }),
        seed: run.seed,
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        ended_early: None,
        variants: [STOCK, ENCRYPTED, PAGED, BYTES].map(variant).to_vec(),
        cases: cells.iter().map(|(row, form)| row.case(*form)).collect(),
        cipher: Vec::new(),
    }
}
