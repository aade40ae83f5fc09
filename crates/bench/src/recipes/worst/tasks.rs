//! The loads: what they run, and what others published for them. Pure.

use clap::ValueEnum;

use super::Size;
use crate::model::{Case, Metric, Published};

/// What a row of the table takes, its line pointer and its share of the page's header too.
const BYTES_PER_ROW: u32 = 232;
/// What a writer's transaction adds to WAL.
const MESSAGE: u64 = 8000;
/// Where the tables of `tables` are made, with a number.
const DATABASES_OF_TABLES: &str = "many";
/// A task is repeated until so much of the table has gone through it.
const ENOUGH_MB: usize = 64;
const MOST_REPEATS: usize = 4;
/// Scans, at least.
const SCANS: usize = 3;
/// A slice of pgbench takes some tenths of a second.
const STORM_SLICE_MB: u32 = 64;
const CONNECTIONS_OF_SLICE: u32 = 100;
const FEWEST_SLICES: u32 = 3;
const MOST_SLICES: u32 = 20;

/// By the name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// CREATE TABLE AS
    Ctas,
    /// ALTER TABLE that rewrites
    Rewrite,
    /// VACUUM FULL
    VacuumFull,
    /// UPDATE of all rows
    Update,
    /// Many writers of WAL
    WalStorm,
    /// A sequential scan out of the kernel's cache
    Scan,
    /// A sort that spills
    Sort,
    /// Making and using many tables
    Tables,
    /// Connections that run one query
    Connections,
}

/// A case, and what runs for it.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) case: Case,
    pub(super) load: Load,
}

/// What runs for a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Load {
    /// Sessions whose statements' time is taken, after others that prepare all of them.
    Statements {
        before: Vec<String>,
        slices: Vec<Session>,
    },
    /// pgbench with a script of ours.
    Pgbench {
        script: &'static str,
        clients: u32,
        /// Of each client, in a slice.
        transactions: u32,
        slices: u32,
        option: Option<&'static str>,
        /// Of the sessions: PGOPTIONS.
        settings: &'static str,
    },
}

/// One slice of a task that is made of statements: the whole task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) database: String,
    pub(super) timed: Vec<String>,
}

impl Session {
    pub(super) fn of(statement: &str) -> Self {
        Self {
            database: "postgres".to_owned(),
            timed: vec![statement.to_owned()],
        }
    }
}

impl Load {
    /// What prepares it; its time and its CPU do not count.
    pub(super) fn before(&self) -> &[String] {
        match self {
            Self::Statements { before, .. } => before,
            Self::Pgbench { .. } => &[],
        }
    }

    /// In how many slices it runs.
    pub(super) fn slices(&self) -> u32 {
        match self {
            Self::Statements { slices, .. } => u32::try_from(slices.len()).unwrap_or(u32::MAX),
            Self::Pgbench { slices, .. } => *slices,
        }
    }
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::Ctas,
        Self::Rewrite,
        Self::VacuumFull,
        Self::Update,
        Self::WalStorm,
        Self::Scan,
        Self::Sort,
        Self::Tables,
        Self::Connections,
    ];

    fn name(self, size: Size) -> String {
        match self {
            Self::Ctas => "CREATE TABLE AS".to_owned(),
            Self::Rewrite => "ALTER TABLE, rewrite".to_owned(),
            Self::VacuumFull => "VACUUM FULL".to_owned(),
            Self::Update => "UPDATE of all rows".to_owned(),
            Self::WalStorm => format!("WAL, {} writers", size.writers),
            Self::Scan => "cached sequential scan".to_owned(),
            Self::Sort => "sort with spill".to_owned(),
            Self::Tables => format!("{} tables, made and used", size.tables),
            Self::Connections => "cold connections".to_owned(),
        }
    }

    /// The aim is the published loss; where there is none, a tenth.
    fn limit(self) -> f64 {
        match self {
            Self::Ctas => 0.30,
            Self::Rewrite => 0.15,
            Self::VacuumFull | Self::Update => 0.10,
            Self::WalStorm => 0.20,
            Self::Scan => 0.35,
            Self::Sort | Self::Tables | Self::Connections => 0.10,
        }
    }

    fn published(self) -> Vec<Published> {
        let pg_tde = |variant: &str, loss| Published {
            source: "pg_tde, 2026-07".to_owned(),
            variant: variant.to_owned(),
            stock: None,
            encrypted: None,
            loss,
        };
        match self {
            Self::Sort | Self::Tables | Self::Connections => Vec::new(),
            Self::WalStorm => vec![
                pg_tde("32 writers", self.limit()),
                pg_tde("32 writers, before a fix", 0.40),
            ],
            Self::Scan => vec![Published {
                stock: Some(0.339),
                encrypted: Some(0.459),
                ..pg_tde("919 MB, cached", 0.459 / 0.339 - 1.0)
            }],
            _ => vec![pg_tde("32 cores", self.limit())],
        }
    }
}

impl Size {
    /// How many times a short task runs, each time on every server.
    pub(super) fn repeats(self) -> usize {
        (ENOUGH_MB / self.megabytes as usize).clamp(1, MOST_REPEATS)
    }
}

impl Task {
    pub(super) fn of(kind: Kind, size: Size) -> Self {
        let load = load(kind, size);
        let (group, metric) = match load {
            Load::Statements { .. } => ("tasks", Metric::Seconds),
            Load::Pgbench { .. } => ("throughput", Metric::TransactionsPerSecond),
        };
        Self {
            case: Case {
                name: kind.name(size),
                group: group.to_owned(),
                axis: None,
                metric,
                limit: kind.limit(),
                published: kind.published(),
                rounds: Vec::new(),
            },
            load,
        }
    }
}

fn load(kind: Kind, size: Size) -> Load {
    let repeats = size.repeats();
    let again = |statement: &str| vec![Session::of(statement); repeats];
    let each = |of: fn(usize) -> String| (0..repeats).map(|n| Session::of(&of(n))).collect();
    let statements = |before, slices| Load::Statements { before, slices };
    match kind {
        Kind::Ctas => statements(drop_copies(), each(copy)),
        // An expression makes it rewrite, although the type stays. What was rewritten can be again.
        Kind::Rewrite => {
            let rewrite = "ALTER TABLE work0 ALTER n TYPE integer USING n + 1";
            statements(copies(1), again(rewrite))
        }
        Kind::VacuumFull => statements(copies(1), again("VACUUM FULL work0")),
        Kind::Update => {
            let update = |n| format!("UPDATE work{n} SET n = n + 1");
            statements(copies(repeats), each(update))
        }
        Kind::Scan => {
            let scans = repeats.max(SCANS);
            let scan = Session::of("SELECT sum(n) FROM base");
            statements(Vec::new(), vec![scan; scans])
        }
        Kind::Sort => {
            let sorted = "SELECT key, filler FROM base ORDER BY key OFFSET 0";
            let sort = format!("SELECT sum(length(filler)) FROM ({sorted}) AS sorted");
            statements(Vec::new(), again(&sort))
        }
        Kind::Tables => tables(size),
        Kind::WalStorm => storm(size),
        Kind::Connections => connections(size),
    }
}

/// Each slice makes them in a database of its own.
fn tables(size: Size) -> Load {
    let database = |n: usize| format!("{DATABASES_OF_TABLES}{n}");
    let all = || (0..size.repeats()).map(database);
    let drop = (0..MOST_REPEATS).map(|n| format!("DROP DATABASE IF EXISTS {}", database(n)));
    let create = all().map(|name| format!("CREATE DATABASE {name}"));
    let slice = |database| Session {
        database,
        timed: make_and_use(size.tables),
    };
    Load::Statements {
        before: drop.chain(create).collect(),
        slices: all().map(slice).collect(),
    }
}

/// Four times the table as WAL, in all.
fn storm(size: Size) -> Load {
    let slices = (size.megabytes / STORM_SLICE_MB).clamp(FEWEST_SLICES, MOST_SLICES);
    let messages = 4 * u64::from(size.megabytes) * (1_000_000 / MESSAGE);
    let of_each = messages / u64::from(size.writers) / u64::from(slices);
    Load::Pgbench {
        script: "SELECT pg_logical_emit_message(true, 'storm', repeat('x', 8000));",
        clients: size.writers,
        transactions: u32::try_from(of_each).unwrap_or(u32::MAX).max(1),
        slices,
        option: None,
        settings: "-c synchronous_commit=off",
    }
}

fn connections(size: Size) -> Load {
    let clients = 2;
    let slices = (size.connections / CONNECTIONS_OF_SLICE).clamp(FEWEST_SLICES, MOST_SLICES);
    Load::Pgbench {
        script: "SELECT n FROM base WHERE id = 1;",
        clients,
        transactions: size.connections.div_ceil(clients * slices),
        slices,
        option: Some("--connect"),
        settings: "",
    }
}

fn copy(n: usize) -> String {
    format!("CREATE TABLE work{n} AS SELECT * FROM base")
}

/// The table again, so many times, as if it had stood there for a while.
fn copies(count: usize) -> Vec<String> {
    let made = (0..count).flat_map(|n| [copy(n), format!("VACUUM work{n}")]);
    drop_copies().into_iter().chain(made).collect()
}

fn drop_copies() -> Vec<String> {
    let drop = |n| format!("DROP TABLE IF EXISTS work{n}");
    (0..MOST_REPEATS).map(drop).collect()
}

/// Fifty tables a transaction, because it locks all that it touches.
fn make_and_use(tables: u32) -> Vec<String> {
    let each = |statements: &str| {
        format!(
            "DO $$ BEGIN FOR i IN 1..{tables} LOOP {statements}
             IF i % 50 = 0 THEN COMMIT; END IF; END LOOP; END $$"
        )
    };
    vec![
        each(
            "EXECUTE format('CREATE TABLE t%s (a integer PRIMARY KEY, b text)', i);
             EXECUTE format('INSERT INTO t%s SELECT g, g FROM generate_series(1, 10) g', i);",
        ),
        each("EXECUTE format('SELECT sum(length(b)) FROM t%s WHERE a > 3', i);"),
    ]
}

/// What makes the table that all are about.
pub(super) fn base(size: Size) -> Vec<String> {
    let rows = u64::from(size.megabytes) * 1_000_000 / u64::from(BYTES_PER_ROW);
    vec![
        format!(
            "CREATE TABLE base AS SELECT i AS id, i % 1000 AS n, md5(i::text) AS key,
               repeat(md5((-i)::text), 5) AS filler FROM generate_series(1, {rows}) AS i"
        ),
        "ALTER TABLE base ADD PRIMARY KEY (id)".to_owned(),
        "VACUUM (FREEZE, ANALYZE) base".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size {
        megabytes: 64,
        writers: 32,
        tables: 500,
        connections: 201,
        buffers_mb: 16,
    };

    #[test]
    fn loads_of_pgbench_come_in_slices() {
        let of = |kind, size| match load(kind, size) {
            Load::Pgbench {
                clients,
                transactions,
                slices,
                ..
            } => (clients, transactions, slices),
            Load::Statements { .. } => panic!("it is pgbench's"),
        };
        // 8000 messages of 32 writers in 4 slices.
        let larger = Size {
            megabytes: 256,
            ..SIZE
        };
        assert_eq!(of(Kind::WalStorm, larger), (32, 1000, 4));
        assert_eq!(of(Kind::WalStorm, SIZE), (32, 333, 3));
        assert_eq!(of(Kind::Connections, SIZE), (2, 34, 3));
    }

    #[test]
    fn a_short_task_is_repeated_on_what_is_there_for_it() {
        let slices = |kind, megabytes| {
            let size = Size { megabytes, ..SIZE };
            let load = load(kind, size);
            (load.before().len(), load.slices())
        };
        let one = Kind::ALL.map(|kind| slices(kind, 1000));
        let four = Kind::ALL.map(|kind| slices(kind, 1));
        let storm = (0, 15);
        let of = |before, slices| (before, slices);
        assert_eq!(one[..4], [of(4, 1), of(6, 1), of(6, 1), of(6, 1)]);
        assert_eq!(one[4..], [storm, of(0, 3), of(0, 1), of(5, 1), of(0, 3)]);
        assert_eq!(four[..4], [of(4, 4), of(6, 4), of(6, 4), of(12, 4)]);
        assert_eq!(
            four[4..],
            [of(0, 3), of(0, 4), of(0, 4), of(8, 4), of(0, 3)]
        );
        let size = Size {
            megabytes: 32,
            ..SIZE
        };
        let Load::Statements { before, slices } = load(Kind::Update, size) else {
            panic!("it is made of statements");
        };
        assert!(before.contains(&"VACUUM work1".to_owned()), "{before:?}");
        let updates = slices.iter().map(|session| session.timed[0].as_str());
        let expected = ["UPDATE work0 SET n = n + 1", "UPDATE work1 SET n = n + 1"];
        assert_eq!(updates.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_was_published_is_the_limit() {
        let cases = Kind::ALL.map(|kind| Task::of(kind, SIZE).case);
        let losses = cases.each_ref().map(|case| {
            let published = case.published.first()?;
            assert!((published.loss - case.limit).abs() < 0.005, "{}", case.name);
            Some(published.loss)
        });
        assert_eq!(losses.iter().flatten().count(), 6);
        assert_eq!(cases[4].name, "WAL, 32 writers");
        assert_eq!(cases[4].metric, Metric::TransactionsPerSecond);
        assert_eq!(cases[0].metric, Metric::Seconds);
    }
}
