//! The reports of `pgseal client protect`: before, with `--check`, and after.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use indicatif::HumanBytes;
use pgseal_client::protect::{Obstacle, Plan, Wanted};
use pgseal_client::Protected;
use serde::Serialize;

/// Seconds for a row, and for a value: measured on two cores of a virtual machine, rounded up.
const SECONDS_A_ROW: f64 = 3e-6;
const SECONDS_A_VALUE: f64 = 7e-6;

/// A column, before and after.
#[derive(Serialize)]
struct Column {
    column: String,
    from: String,
    to: &'static str,
}

fn columns(plan: &Plan) -> Vec<Column> {
    let column = plan.columns.iter().map(|column| Column {
        column: column.name.clone(),
        from: column.plain.clone(),
        to: column.encrypted(),
    });
    column.collect()
}

fn write_columns(f: &mut Formatter<'_>, columns: &[Column]) -> fmt::Result {
    columns.iter().try_for_each(|column| {
        let Column { column, from, to } = column;
        writeln!(f, "column: {column}: {from} to {to}")
    })
}

/// The report before: what would be done.
#[derive(Serialize)]
pub struct Outlook {
    table: String,
    columns: Vec<Column>,
    already_encrypted: Vec<String>,
    key: String,
    /// None if the table was never analyzed
    rows: Option<u64>,
    bytes: Option<u64>,
    seconds: Option<f64>,
    lock: &'static str,
    other_connections: Option<usize>,
    indexes: Vec<String>,
    notes: Vec<String>,
    /// One sentence for each.
    obstacles: Vec<String>,
}

impl Outlook {
    pub fn new(plan: &Plan, others: usize) -> Self {
        let rows = u64::try_from(plan.rows).ok();
        Self {
            table: plan.name(),
            columns: columns(plan),
            already_encrypted: plan.done.clone(),
            key: plan.keyname.clone(),
            rows,
            bytes: Some(plan.bytes),
            seconds: rows.map(|rows| seconds(rows, plan.columns.len())),
            lock: "ACCESS EXCLUSIVE",
            other_connections: Some(others),
            indexes: plan.indexes.clone(),
            notes: plan.notes.clone(),
            obstacles: Vec::new(),
        }
    }

    pub fn blocked(wanted: &Wanted, obstacles: &[Obstacle]) -> Self {
        Self {
            table: wanted.table.clone(),
            columns: Vec::new(),
            already_encrypted: Vec::new(),
            key: wanted.keyname.clone(),
            rows: None,
            bytes: None,
            seconds: None,
            lock: "ACCESS EXCLUSIVE",
            other_connections: None,
            indexes: Vec::new(),
            notes: Vec::new(),
            obstacles: obstacles.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Reading, sealing and rewriting; indexes take longer by their number.
fn seconds(rows: u64, columns: usize) -> f64 {
    let values = rows as f64 * columns as f64;
    rows as f64 * SECONDS_A_ROW + values * SECONDS_A_VALUE
}

impl Display for Outlook {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for obstacle in &self.obstacles {
            writeln!(f, "blocker: {obstacle}")?;
        }
        if !self.obstacles.is_empty() {
            return Ok(());
        }
        writeln!(f, "protect: would encrypt columns of {}", self.table)?;
        write_columns(f, &self.columns)?;
        for column in &self.already_encrypted {
            writeln!(f, "column: {column}: encrypted already")?;
        }
        writeln!(f, "key: {}", self.key)?;
        match (self.rows, self.bytes) {
            (Some(rows), Some(bytes)) => writeln!(f, "rows: about {rows}, {}", HumanBytes(bytes))?,
            (_, bytes) => {
                let bytes = HumanBytes(bytes.unwrap_or_default());
                writeln!(f, "rows: not known, {bytes}: run ANALYZE to know")?;
            }
        }
        if let Some(seconds) = self.seconds {
            writeln!(f, "time: about {seconds:.0} s, and more for each index")?;
        }
        writeln!(
            f,
            "lock: {} on the table, from the start to the end",
            self.lock
        )?;
        if let Some(others @ 1..) = self.other_connections {
            writeln!(
                f,
                "connections to the database: {others} others, which must end first"
            )?;
        }
        if !self.indexes.is_empty() {
            writeln!(f, "indexes to build anew: {}", self.indexes.join(", "))?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        writeln!(f, "nothing blocks it")
    }
}

/// The report after: what was done, and where the plain values remain.
#[derive(Serialize)]
pub struct Done {
    table: String,
    columns: Vec<Column>,
    already_encrypted: Vec<String>,
    key: String,
    rows: u64,
    seconds: f64,
    wal_end: String,
    wal_segment: String,
    notes: Vec<String>,
    /// Places with plain values, and what to do about each
    remains: Vec<String>,
}

impl Done {
    pub fn new(done: &Protected, took: Duration) -> Self {
        let (lsn, segment) = &done.wal;
        Self {
            table: done.plan.name(),
            columns: columns(&done.plan),
            already_encrypted: done.plan.done.clone(),
            key: done.plan.keyname.clone(),
            rows: done.rows,
            seconds: took.as_secs_f64(),
            wal_end: lsn.clone(),
            wal_segment: segment.clone(),
            notes: done.plan.notes.clone(),
            remains: remains(lsn, segment),
        }
    }
}

fn remains(lsn: &str, segment: &str) -> Vec<String> {
    vec![
        "old files: the table's old files go at the next checkpoint: run CHECKPOINT; their blocks \
         are free on the disk then, not erased, unless the cluster is sealed (pgseal seal)"
            .to_owned(),
        "catalogs: dead rows of pg_statistic, pg_attrdef and pg_attribute may hold values until \
         VACUUM FULL pg_catalog.pg_statistic, pg_catalog.pg_attrdef, pg_catalog.pg_attribute, by \
         a superuser"
            .to_owned(),
        format!(
            "WAL: everything up to {lsn} (segment {segment}) may hold values: archive and \
             replication slots keep it until it expires"
        ),
        "base backups and dumps that were made before hold the values: make new ones, and let the \
         old ones expire"
            .to_owned(),
        "replicas: a standby has the same remains; a logical subscriber keeps its plain copy"
            .to_owned(),
        "logs and pg_stat_statements: statements that were sent with literals are in them: rotate \
         and delete the logs, run pg_stat_statements_reset()"
            .to_owned(),
    ]
}

impl Display for Done {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.columns.is_empty() {
            return writeln!(
                f,
                "protect: the columns of {} are encrypted already",
                self.table
            );
        }
        let Self {
            rows,
            table,
            seconds,
            ..
        } = self;
        writeln!(
            f,
            "protect: encrypted columns of {table}: {rows} rows in {seconds:.1} s"
        )?;
        write_columns(f, &self.columns)?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        writeln!(
            f,
            "send SIGHUP to each pgseal proxy; other identities need pgseal client column add"
        )?;
        for place in &self.remains {
            writeln!(f, "remains: {place}")?;
        }
        Ok(())
    }
}
