//! The loads: what they run, and what is known of others under them. Pure.

use clap::ValueEnum;

use super::Size;
use crate::model::{Case, Metric, Origin, Published};

/// The bytes that a row of the table takes, with its line pointer and its share of the page's
/// header.
const BYTES_PER_ROW: u32 = 232;
/// The bytes that a writer's transaction adds to WAL.
const MESSAGE: u64 = 8000;
/// Where the tables of `tables` are made, with a number.
const DATABASES_OF_TABLES: &str = "many";
/// A task is repeated until so much of the table has gone through it.
const ENOUGH_MB: usize = 64;
const MAX_REPEATS: usize = 4;
/// A scan is short, so that one session makes several.
const SCANS: usize = 4;

/// A kind of task, by its name on the command line.
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

/// The load of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Load {
    /// Sessions one after the other, after statements that prepare all of them.
    Statements {
        before: Vec<String>,
        sessions: Vec<Session>,
    },
    /// pgbench with a script of ours.
    Pgbench {
        script: &'static str,
        clients: u32,
        /// The number of transactions of each client.
        transactions: u32,
        option: Option<&'static str>,
        /// The settings of the sessions, in `PGOPTIONS`.
        settings: &'static str,
    },
}

/// A task that is made of statements.
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
    /// Returns the statements that prepare the load; their time and CPU do not count.
    pub(super) fn before(&self) -> &[String] {
        match self {
            Self::Statements { before, .. } => before,
            Self::Pgbench { .. } => &[],
        }
    }

    /// How many programs run it, one after the other.
    pub(super) fn clients(&self) -> usize {
        match self {
            Self::Statements { sessions, .. } => sessions.len(),
            Self::Pgbench { .. } => 1,
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
            Self::Scan => format!("{} cached sequential scans", size.scans()),
            Self::Sort => "sort with spill".to_owned(),
            Self::Tables => format!("{} tables, made and used", size.tables),
            Self::Connections => "cold connections".to_owned(),
        }
    }

    /// The aim is what pg_tde loses; where that is not known, a tenth.
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
            origin: Origin::Published,
            source: "pg_tde, 2026-07".to_owned(),
            variant: variant.to_owned(),
            stock: None,
            encrypted: None,
            loss,
            added_us: None,
        };
        match self {
            Self::Sort | Self::Tables | Self::Connections => Vec::new(),
            Self::WalStorm => vec![
                pg_tde("32 writers", self.limit()),
                pg_tde("32 writers, before a fix", 0.40),
            ],
            // Its makers say nothing of scans: this is a run of ours, of 919 MB on one core.
            Self::Scan => vec![Published {
                origin: Origin::OurRun,
                stock: Some(0.339),
                encrypted: Some(0.459),
                ..pg_tde("919 MB, cached, one core", 0.459 / 0.339 - 1.0)
            }],
            _ => vec![pg_tde("32 cores", self.limit())],
        }
    }
}

impl Size {
    /// How many times a short task runs, each time on every server.
    pub(super) fn repeats(self) -> usize {
        (ENOUGH_MB / self.megabytes as usize).clamp(1, MAX_REPEATS)
    }

    /// Returns the number of scans in a session. Those of a small table are many, as their time
    /// would vanish in that of a client's start.
    fn scans(self) -> usize {
        SCANS * (ENOUGH_MB / self.megabytes as usize).max(1)
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
    let statements = |before, sessions| Load::Statements { before, sessions };
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
            let mut scans = Session::of("SELECT sum(n) FROM base");
            scans.timed = vec![scans.timed.remove(0); size.scans()];
            statements(Vec::new(), vec![scans])
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

/// Each session makes them in a database of its own.
fn tables(size: Size) -> Load {
    let database = |n: usize| format!("{DATABASES_OF_TABLES}{n}");
    let all = || (0..size.repeats()).map(database);
    let drop = (0..MAX_REPEATS).map(|n| format!("DROP DATABASE IF EXISTS {}", database(n)));
    let create = all().map(|name| format!("CREATE DATABASE {name}"));
    let session = |database| Session {
        database,
        timed: make_and_use(size.tables),
    };
    Load::Statements {
        before: drop.chain(create).collect(),
        sessions: all().map(session).collect(),
    }
}

/// Four times the table as WAL, in all.
fn storm(size: Size) -> Load {
    let messages = 4 * u64::from(size.megabytes) * (1_000_000 / MESSAGE);
    let of_each = messages / u64::from(size.writers);
    Load::Pgbench {
        script: "SELECT pg_logical_emit_message(true, 'storm', repeat('x', 8000));",
        clients: size.writers,
        transactions: u32::try_from(of_each).unwrap_or(u32::MAX).max(1),
        option: None,
        settings: "-c synchronous_commit=off",
    }
}

fn connections(size: Size) -> Load {
    let clients = 2;
    Load::Pgbench {
        script: "SELECT n FROM base WHERE id = 1;",
        clients,
        transactions: size.connections.div_ceil(clients),
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
    (0..MAX_REPEATS).map(drop).collect()
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

/// Returns the statements that make the table that all tasks use.
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
    fn clients_of_pgbench_share_the_work() {
        let of = |kind| match load(kind, SIZE) {
            Load::Pgbench {
                clients,
                transactions,
                ..
            } => (clients, transactions),
            Load::Statements { .. } => panic!("it is pgbench's"),
        };
        assert_eq!(of(Kind::WalStorm), (32, 1000));
        assert_eq!(of(Kind::Connections), (2, 101));
    }

    #[test]
    fn a_short_task_is_repeated_on_what_is_there_for_it() {
        let clients = |kind, megabytes| {
            let size = Size { megabytes, ..SIZE };
            let load = load(kind, size);
            (load.before().len(), load.clients())
        };
        let one = Kind::ALL.map(|kind| clients(kind, 1000));
        let four = Kind::ALL.map(|kind| clients(kind, 1));
        assert_eq!(one[..5], [(4, 1), (6, 1), (6, 1), (6, 1), (0, 1)]);
        assert_eq!(one[5..], [(0, 1), (0, 1), (5, 1), (0, 1)]);
        assert_eq!(four[..5], [(4, 4), (6, 4), (6, 4), (12, 4), (0, 1)]);
        assert_eq!(four[5..], [(0, 1), (0, 4), (8, 4), (0, 1)]);
        let size = Size {
            megabytes: 32,
            ..SIZE
        };
        let Load::Statements { before, sessions } = load(Kind::Update, size) else {
            panic!("it is made of statements");
        };
        assert!(before.contains(&"VACUUM work1".to_owned()), "{before:?}");
        let updates = sessions.iter().map(|session| session.timed[0].as_str());
        let expected = ["UPDATE work0 SET n = n + 1", "UPDATE work1 SET n = n + 1"];
        assert_eq!(updates.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_others_lose_is_the_limit() {
        let cases = Kind::ALL.map(|kind| Task::of(kind, SIZE).case);
        let losses = cases.each_ref().map(|case| {
            let published = case.published.first()?;
            assert!((published.loss - case.limit).abs() < 0.005, "{}", case.name);
            Some(published.loss)
        });
        assert_eq!(losses.iter().flatten().count(), 6);
        let ours = cases.iter().flat_map(|case| &case.published);
        let ours = ours.filter(|figure| figure.origin == Origin::OurRun);
        assert_eq!(ours.count(), 1);
        assert_eq!(cases[5].published[0].origin, Origin::OurRun);
        assert_eq!(cases[4].name, "WAL, 32 writers");
        assert_eq!(cases[4].metric, Metric::TransactionsPerSecond);
        assert_eq!(cases[0].metric, Metric::Seconds);
    }
}
