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
use pgseal_bench::model::{Case, Metric, Published, Report, Round, Sample, Variant, FORMAT, STOCK};

use crate::load::{Done, Kind, Load, Worker};
use crate::sessions::{connect, Database};
use crate::{Form, Outcome, Run};

const ENCRYPTED: &str = "encrypted";
const PAGED: &str = "encdb_btree";

/// One published row, at 8 threads, in transactions per second, and the losses that are aimed at.
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
        let kind = format!("{:?}", self.kind).to_lowercase();
        let by = if self.scenario == 3 { " on k" } else { "" };
        let published = |variant: &str, tps: f64| Published {
            source: "always-confidential, PostgreSQL 13, 8 threads".to_owned(),
            variant: variant.to_owned(),
            stock: Some(self.plain),
            encrypted: Some(tps),
            loss: 1.0 - tps / self.plain,
        };
        let mut all = vec![published(ENCRYPTED, self.encrypted)];
        all.extend(self.paged.map(|tps| published(PAGED, tps)));
        Case {
            name: format!("scenario {} {kind}{by}, {form}", self.scenario),
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
        vec![
            (STOCK, Database::Plain),
            (ENCRYPTED, encrypted),
            (PAGED, paged),
        ]
    }
}

pub async fn run(run: &Run) -> Outcome<()> {
    let server = Server::find(run).await?;
    let asked = |row: &&Row| run.scenario.contains(&row.scenario);
    let of_row = |row| run.form.iter().map(move |form| (row, *form));
    let cells: Vec<(&Row, Form)> = ROWS.iter().filter(asked).flat_map(of_row).collect();
    let mut report = empty(run, &server, &cells);
    let mut rng = Rng::with_seed(run.seed);
    for number in 0..run.rounds {
        let mut order: Vec<usize> = (0..cells.len()).collect();
        rng.shuffle(&mut order);
        for at in order {
            let (row, form) = cells[at];
            let mut variants = row.variants();
            rng.shuffle(&mut variants);
            let (seed, mut samples) = (rng.u64(..), BTreeMap::new());
            for (name, database) in variants {
                let load = Load {
                    run,
                    database,
                    form,
                    kind: row.kind,
                    by_k: row.scenario == 3,
                };
                let sample = sample(load, seed, &server).await;
                let failed = |error| format!("{}, {name}: {error}", report.cases[at].name);
                samples.insert(name.to_owned(), sample.map_err(failed)?);
            }
            let set = 0;
            let round = Round {
                number,
                set,
                samples,
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

async fn sample(load: Load<'_>, seed: u64, server: &Server) -> Outcome<Sample> {
    let mut workers = Vec::new();
    for number in 0..load.run.connections {
        workers.push(Worker::new(load, number, seed).await?);
    }
    let client = connect(&load.run.options, "postgres", load.form).await?;
    client.batch_execute("CHECKPOINT").await?;
    let time = Duration::from_secs(u64::from(load.run.seconds));
    let (before, start) = (server.cpu(load.run, load.form)?, Instant::now());
    let (kind, mut tasks) = (load.kind, Vec::new());
    for mut worker in workers {
        tasks.push(tokio::task::spawn_local(async move {
            let done = worker.work(kind, time).await;
            done.map(|done| (worker, done))
                .map_err(|error| error.to_string())
        }));
    }
    let (mut total, mut workers) = (Done::default(), Vec::new());
    for task in tasks {
        let (worker, done) = task.await??;
        total.transactions += done.transactions;
        total.rows += done.rows;
        workers.push(worker);
    }
    let elapsed = start.elapsed().as_secs_f64();
    let spent = server.cpu(load.run, load.form)?.since(before);
    for worker in &mut workers {
        worker.restore().await?;
    }
    Ok(sample_of(total, elapsed, spent))
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
        seed: run.seed,
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        ended_early: None,
        variants: [STOCK, ENCRYPTED, PAGED].map(variant).to_vec(),
        cases: cells.iter().map(|(row, form)| row.case(*form)).collect(),
        cipher: Vec::new(),
    }
}
