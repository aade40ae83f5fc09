//! The loads: what they run, and what others published for them. Pure.

use clap::ValueEnum;

use super::Size;
use crate::model::{Case, Metric, Published};

/// What a row of the table takes, its line pointer and its share of the page's header too.
const BYTES_PER_ROW: u32 = 232;
/// What a writer's transaction adds to WAL.
const MESSAGE: u32 = 8000;
/// Where the tables of `tables` are made.
const DATABASE_OF_TABLES: &str = "many";

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
    /// Statements in one session, whose time is taken, after others.
    Statements {
        before: Vec<String>,
        database: &'static str,
        timed: Vec<String>,
    },
    /// pgbench with a script of ours.
    Pgbench {
        script: &'static str,
        clients: u32,
        transactions: u32,
        option: Option<&'static str>,
        /// Of the sessions: PGOPTIONS.
        settings: &'static str,
    },
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
    let on_a_copy = |timed| statements(&COPY, &[timed]);
    match kind {
        Kind::Ctas => statements(&COPY[..1], &COPY[1..2]),
        // An expression makes it rewrite, although the type stays.
        Kind::Rewrite => on_a_copy("ALTER TABLE work ALTER n TYPE integer USING n + 1"),
        Kind::VacuumFull => on_a_copy("VACUUM FULL work"),
        Kind::Update => on_a_copy("UPDATE work SET n = n + 1"),
        Kind::Scan => statements(&[], &["SELECT sum(n) FROM base"; 3]),
        Kind::Sort => {
            let sorted = "SELECT key, filler FROM base ORDER BY key OFFSET 0";
            let sort = format!("SELECT sum(length(filler)) FROM ({sorted}) AS sorted");
            statements(&[], &[&sort])
        }
        Kind::Tables => Load::Statements {
            before: vec![
                format!("DROP DATABASE IF EXISTS {DATABASE_OF_TABLES}"),
                format!("CREATE DATABASE {DATABASE_OF_TABLES}"),
            ],
            database: DATABASE_OF_TABLES,
            timed: make_and_use(size.tables),
        },
        Kind::WalStorm => Load::Pgbench {
            script: "SELECT pg_logical_emit_message(true, 'storm', repeat('x', 8000));",
            clients: size.writers,
            // Four times the table, in all.
            transactions: (4 * size.megabytes * (1_000_000 / MESSAGE) / size.writers).max(1),
            option: None,
            settings: "-c synchronous_commit=off",
        },
        Kind::Connections => Load::Pgbench {
            script: "SELECT n FROM base WHERE id = 1;",
            clients: 2,
            transactions: size.connections.div_ceil(2),
            option: Some("--connect"),
            settings: "",
        },
    }
}

/// The table again, as if it had stood there for a while.
const COPY: [&str; 3] = [
    "DROP TABLE IF EXISTS work",
    "CREATE TABLE work AS SELECT * FROM base",
    "VACUUM work",
];

fn statements(before: &[&str], timed: &[&str]) -> Load {
    let own = |all: &[&str]| all.iter().map(|&sql| sql.to_owned()).collect();
    Load::Statements {
        before: own(before),
        database: "postgres",
        timed: own(timed),
    }
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
    fn a_storm_is_shared_by_its_writers() {
        let Load::Pgbench {
            clients,
            transactions,
            ..
        } = load(Kind::WalStorm, SIZE)
        else {
            panic!("it is pgbench's");
        };
        assert_eq!((clients, transactions), (32, 1000));
        let Load::Pgbench {
            clients,
            transactions,
            ..
        } = load(Kind::Connections, SIZE)
        else {
            panic!("it is pgbench's");
        };
        assert_eq!((clients, transactions), (2, 101));
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
