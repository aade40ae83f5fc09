//! The reports of `pgseal client protect`: before, with `--check`, and after.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use indicatif::HumanBytes;
use pgseal_client::protect::{Obstacle, Plan, Wanted};
use pgseal_client::{OnlineState, Protected};
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
    /// None for the form at once
    online: Option<Online>,
    /// One sentence for each.
    obstacles: Vec<String>,
}

/// The state of an online run.
#[derive(Serialize)]
struct Online {
    is_begun: bool,
    /// Whether the columns are encrypted, and indexes or `NOT NULL` are left
    is_exchanged: bool,
    /// Rows with a value that is not encrypted yet
    rows_left: Option<u64>,
    /// Columns that move behind the others
    moved: Vec<String>,
}

impl Outlook {
    pub fn new(plan: &Plan) -> Self {
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
            other_connections: None,
            indexes: plan.indexes.clone(),
            notes: plan.notes.clone(),
            online: None,
            obstacles: Vec::new(),
        }
    }

    /// Takes the number of other connections to the database in.
    pub fn others(mut self, others: usize) -> Self {
        self.other_connections = Some(others);
        self
    }

    /// Takes the state of the online run in.
    pub fn online(mut self, state: &OnlineState) -> Self {
        self.online = Some(Online {
            is_begun: state.plan.is_begun,
            is_exchanged: state.plan.is_exchanged,
            rows_left: state.dirty,
            moved: state.plan.moved.clone(),
        });
        self
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
            online: None,
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
        let when = match self.online {
            None => "from the start to the end",
            Some(_) => "for a moment at the start and at the end",
        };
        writeln!(f, "lock: {} on the table, {when}", self.lock)?;
        if let Some(online) = &self.online {
            write!(f, "{online}")?;
        }
        if let Some(others @ 1..) = self.other_connections {
            let when = match self.online {
                None => "must end first",
                Some(_) => "must end for the exchange",
            };
            writeln!(
                f,
                "connections to the database: {others} others, which {when}"
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

impl Display for Online {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.is_begun, self.rows_left) {
            (true, rows) => writeln!(
                f,
                "online run: unfinished, {} rows left: run it again to go on, or --abort",
                rows.unwrap_or_default()
            )?,
            (false, _) if self.is_exchanged => writeln!(
                f,
                "online run: the columns are exchanged; indexes or NOT NULL are left: run it again"
            )?,
            (false, _) => writeln!(f, "online run: not begun")?,
        }
        if !self.moved.is_empty() {
            writeln!(f, "note: {}", moved(&self.moved))?;
        }
        Ok(())
    }
}

fn moved(columns: &[String]) -> String {
    format!(
        "the columns {} move behind the other columns: statements without a list of columns \
         (INSERT INTO t VALUES, COPY t, SELECT *) meet another order",
        columns.join(", ")
    )
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
    /// The time for which the online form has locked the table; none for the form at once
    lock_seconds: Option<f64>,
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
            lock_seconds: done.lock.map(|lock| lock.as_secs_f64()),
            wal_end: lsn.clone(),
            wal_segment: segment.clone(),
            notes: done.plan.notes.clone(),
            remains: remains(done, lsn, segment),
        }
    }
}

/// The place where the form at once, or online, leaves the table's own values.
fn in_table(done: &Protected) -> String {
    const OLD: &str =
        "old files: the table's old files go at the next checkpoint: run CHECKPOINT; \
        their blocks are free on the disk then, not erased, unless the cluster is sealed (pgseal \
        seal)";
    match done.lock {
        None => OLD.to_owned(),
        Some(_) => format!(
            "rows: the values stay in the table's file, in columns that were dropped and in dead \
             rows, until the table is rewritten: run pgseal client sql 'VACUUM FULL {}', which \
             locks it; {OLD}",
            done.plan.name()
        ),
    }
}

fn remains(done: &Protected, lsn: &str, segment: &str) -> Vec<String> {
    vec![
        in_table(done),
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
        if let Some(lock) = self.lock_seconds {
            writeln!(f, "lock: {:.0} ms at the end", lock * 1000.0)?;
        }
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
