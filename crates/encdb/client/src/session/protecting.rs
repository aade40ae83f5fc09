//! Encrypts columns of a table at once: one transaction, in which the client reads the values,
//! seals them, and the server rewrites the table with the cells that it got.
//!
//! The order keeps every crash on the closed side. The owner's list says that the columns are
//! encrypted before `COMMIT`: until that is done, clients with the list refuse the database. Other
//! connections have ended before `COMMIT`, and are looked for again after it.

mod catalog;
mod connections;
mod online;

use std::pin::pin;
use std::time::Duration;

use futures_util::SinkExt;
use pgseal_value::Value;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::Client;

use super::row::Raw;
use super::Session;
use crate::protect::{Facts, Obstacle, Plan, PlannedColumn, Wanted};
use crate::{ClientError, ColumnName, ListedColumn, OwnersList};
pub use online::{online_protection, take_back, OnlineState, Step, TakenBack};

/// The head of COPY's binary format, and its end.
const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const TAIL: &[u8] = &(-1_i16).to_be_bytes();

/// The rows of the first batch, whose size in bytes nobody knows.
const FIRST_ROWS: u32 = 100;
/// The bytes of cells that a batch aims at.
const BATCH_BYTES: usize = 8 << 20;

/// A cursor's rows come back in this order and by this clock, whatever the role's settings are.
/// Row-level security must not hide a row, a crash must not lose the commit, and a wait for the
/// lock, which holds up everybody behind it, ends.
const SETTINGS: &str = "SET LOCAL row_security = off; SET LOCAL synchronous_commit = on; \
    SET LOCAL lock_timeout = '10s'; SET LOCAL datestyle = 'ISO, MDY'; SET LOCAL timezone = 'UTC'; \
    SET LOCAL intervalstyle = 'postgres'; SET LOCAL bytea_output = 'hex'; \
    SET LOCAL standard_conforming_strings = on; \
    SELECT pg_catalog.set_config(name, '0', true) FROM pg_catalog.pg_settings WHERE name IN \
    ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')";

/// Why columns are not encrypted.
#[derive(Debug, thiserror::Error)]
pub enum ProtectError {
    /// The server or the client refuses.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// There is no such table.
    #[error("there is no table {0}: name it as schema.table")]
    NoTable(String),
    /// Objects stand in the way.
    #[error("{}", sentences(.0))]
    Obstacles(Vec<Obstacle>),
    /// Other connections are open.
    #[error(
        "other connections to the database (process ids {}) know the columns as plain and would \
         send values in clear: end them, or run this with --disconnect; nothing was changed",
        numbers(.0)
    )]
    Others(Vec<i32>),
    /// The online form is ready for its end, which other connections are in the way of.
    #[error(
        "the rows are encrypted, and only the exchange is left, but other connections to the \
         database (process ids {}) know the columns as plain and would send values in clear: run \
         this with --disconnect when they may be ended; until then the trigger marks what changes",
        numbers(.0)
    )]
    Ready(Vec<i32>),
    /// The lock was not to be got.
    #[error(
        "the table could not be locked, because transactions hold it for long or change too many \
         rows: end them (see pg_stat_activity), and run this again"
    )]
    Locked,
    /// Another run works on the table.
    #[error(
        "another online run works on the table, or the server has not noticed yet that it was \
         killed: run this again when it has ended"
    )]
    Running,
    /// The statements that are left are not this identity's.
    #[error(
        "the comment of {0} says how to finish an online run, and was not written with this \
         identity: run this with the identity that began, or drop it and create the table's own \
         one in the owner's session"
    )]
    Comment(String),
    /// Connections that began before the commit could not be ended.
    #[error(
        "the columns are encrypted, but connections that began before know them as plain (process \
         ids {}): end them with pg_terminate_backend, for they send values in clear",
        numbers(.0)
    )]
    Late(Vec<i32>),
    /// Rows and cells do not fit.
    #[error(
        "the table does not have the values that were read: nothing was changed, run this again"
    )]
    Count,
    /// The transaction was committed, and what follows it fails.
    #[error("the columns are encrypted, but the rest failed ({0}): run this again")]
    After(ClientError),
    /// Nobody knows whether the transaction was committed.
    #[error(
        "the connection was lost during COMMIT ({0}): run this again, which finds out whether the \
         columns are encrypted; until then clients with this identity send nothing"
    )]
    Unknown(ClientError),
}

fn sentences(obstacles: &[Obstacle]) -> String {
    let texts: Vec<String> = obstacles.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

fn numbers(pids: &[i32]) -> String {
    let texts: Vec<String> = pids.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

impl From<tokio_postgres::Error> for ProtectError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Client(error.into())
    }
}

/// The choices of one who encrypts columns.
#[derive(Clone, Copy, Debug)]
pub struct ProtectOptions {
    /// The number of rows that are read and sealed at a time
    pub batch_rows: u32,
    /// Whether other connections to the database are ended
    pub disconnects: bool,
}

/// The callbacks of [`Session::protect`].
pub trait Keeper {
    /// The caller's error
    type Error: From<ProtectError>;

    /// Keeps these columns as encrypted, durably, before the transaction is committed.
    fn keep(&mut self, columns: &[(ColumnName, ListedColumn)]) -> Result<(), Self::Error>;

    /// Takes back what [`Keeper::keep`] has kept: the transaction was rolled back.
    fn forget(&mut self) -> Result<(), Self::Error>;

    /// Hears which step of the online form begins.
    fn step(&mut self, step: Step);

    /// Hears how many rows were read, of about how many.
    fn progress(&mut self, rows: u64, of: i64);
}

/// The result of [`Session::protect`].
pub struct Protected {
    /// The plan that was carried out
    pub plan: Plan,
    /// The number of rows
    pub rows: u64,
    /// The end of the WAL just after the commit, and the segment that it is in
    pub wal: (String, String),
    /// Connections that began before the commit and could not be ended
    pub late: Vec<i32>,
    /// The time for which the online form has locked the table
    pub lock: Option<Duration>,
}

/// Returns the process ids of the other connections to the database, which would be in the way.
pub async fn other_connections(client: &Client) -> Result<Vec<i32>, ClientError> {
    connections::others(client).await
}

/// Makes the plan of what would be done, and changes nothing.
pub async fn protection(
    client: &Client,
    wanted: &Wanted,
    list: &OwnersList,
) -> Result<Plan, ProtectError> {
    client.batch_execute("BEGIN READ ONLY").await?;
    client.batch_execute(SETTINGS).await?;
    let plan = plan(client, wanted, list).await;
    client.batch_execute("ROLLBACK").await?;
    plan
}

async fn plan(client: &Client, wanted: &Wanted, list: &OwnersList) -> Result<Plan, ProtectError> {
    match catalog::facts(client, wanted).await? {
        Some(Facts {
            unfinished: Some(_),
            table,
            ..
        }) => Err(ProtectError::Obstacles(vec![Obstacle::Unfinished(table)])),
        Some(facts) => Plan::new(&facts, wanted, list).map_err(ProtectError::Obstacles),
        None => Err(ProtectError::NoTable(wanted.table.clone())),
    }
}

impl Session {
    /// Encrypts the columns. `list` is what the identity keeps of the database; the session was
    /// opened without the entries of these columns, which may be those of an interrupted run.
    pub async fn protect<K: Keeper>(
        &self,
        wanted: &Wanted,
        (list, options): (&OwnersList, ProtectOptions),
        keeper: &mut K,
    ) -> Result<Protected, K::Error> {
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
        let begun = self.client.batch_execute(begin).await;
        begun.map_err(ProtectError::from)?;
        let done = self.convert(wanted, (list, options), keeper).await;
        let (plan, rows) = match done {
            Ok(done) => done,
            Err(error) => {
                // The connection may be what failed, and then the server rolls back by itself.
                let _ = self.client.batch_execute("ROLLBACK").await;
                return Err(error);
            }
        };
        self.commit(&plan, keeper).await?;
        let finished = self.finish(plan, rows, options).await;
        Ok(finished.map_err(ProtectError::After)?)
    }

    async fn convert<K: Keeper>(
        &self,
        wanted: &Wanted,
        (list, options): (&OwnersList, ProtectOptions),
        keeper: &mut K,
    ) -> Result<(Plan, u64), K::Error> {
        let mut plan = self.locked(wanted, list, options).await?;
        if plan.columns.is_empty() {
            return Ok((plan, 0));
        }
        let client = &self.client;
        let counts = self.fill(&plan, options.batch_rows, keeper).await?;
        let defaults = self.defaults(&plan)?;
        let alter = [plan.index_cells(), plan.alter(&defaults), plan.drop_cells()];
        let altered = client.batch_execute(&alter.join("; ")).await;
        altered.map_err(ProtectError::from)?;
        self.check_counts(&plan, &counts).await?;
        self.alone(options).await?;
        plan.rows = i64::try_from(counts[0]).unwrap_or(i64::MAX);
        Ok((plan, counts[0]))
    }

    /// Looks at the table before and under the lock: others may have changed it in between.
    async fn locked(
        &self,
        wanted: &Wanted,
        list: &OwnersList,
        options: ProtectOptions,
    ) -> Result<Plan, ProtectError> {
        let client = &self.client;
        self.keys.named(&wanted.keyname)?;
        client.batch_execute(SETTINGS).await?;
        let seen = plan(client, wanted, list).await?;
        if seen.columns.is_empty() {
            return Ok(seen);
        }
        self.alone(options).await?;
        client
            .batch_execute("SET LOCAL search_path = pg_catalog, pg_temp")
            .await?;
        client.batch_execute(&seen.lock()).await?;
        let found = Wanted {
            schema: Some(seen.schema),
            ..wanted.clone()
        };
        plan(client, &found, list).await
    }

    /// Makes sure that nobody else is connected to the database.
    async fn alone(&self, options: ProtectOptions) -> Result<(), ProtectError> {
        let mut others = connections::others(&self.client).await?;
        if options.disconnects {
            others = connections::end(&self.client, &others).await?;
        }
        match others.is_empty() {
            true => Ok(()),
            false => Err(ProtectError::Others(others)),
        }
    }

    /// Reads all rows, seals their values, and sends the cells. Returns the number of rows, and of
    /// the values of each column.
    async fn fill<K: Keeper>(
        &self,
        plan: &Plan,
        batch_rows: u32,
        keeper: &mut K,
    ) -> Result<Vec<u64>, K::Error> {
        let begin = [plan.prepare_cells(), plan.declare()].join("; ");
        let begun = self.client.batch_execute(&begin).await;
        begun.map_err(ProtectError::from)?;
        let mut counts = vec![0; plan.columns.len() + 1];
        let mut rows = batch_rows.min(FIRST_ROWS);
        loop {
            let Some(bytes) = self.batch(plan, rows, &mut counts).await? else {
                return Ok(counts);
            };
            rows = next_rows(rows, bytes).min(batch_rows);
            keeper.progress(counts[0], plan.rows);
        }
    }

    /// Does the next rows, and returns the bytes of their cells; none if there is no row left.
    async fn batch(
        &self,
        plan: &Plan,
        rows: u32,
        counts: &mut [u64],
    ) -> Result<Option<usize>, ProtectError> {
        let rows = self.client.query_typed(&plan.fetch(rows), &[]).await?;
        let mut bytes = BytesMut::from(HEAD);
        for row in &rows {
            self.sealed_row(plan, row, counts, &mut bytes)?;
        }
        let length = bytes.len();
        if length > HEAD.len() {
            bytes.extend_from_slice(TAIL);
            let mut sink = pin!(self.client.copy_in(&plan.copy_cells()).await?);
            sink.send(bytes).await?;
            sink.finish().await?;
        }
        Ok((!rows.is_empty()).then_some(length))
    }

    /// Appends a row of COPY's binary format: the place, and a cell for each value. A row without
    /// values needs none.
    fn sealed_row(
        &self,
        plan: &Plan,
        row: &tokio_postgres::Row,
        counts: &mut [u64],
        into: &mut BytesMut,
    ) -> Result<(), ProtectError> {
        counts[0] += 1;
        let start = into.len();
        let fields = i16::try_from(row.len()).map_err(|_| ProtectError::Count)?;
        into.extend_from_slice(&fields.to_be_bytes());
        field(into, Some(row.try_get::<_, Raw<'_>>(0)?.0))?;
        let mut is_empty = true;
        for (place, column) in (1..).zip(&plan.columns) {
            let Some(Raw(bytes)) = row.try_get::<_, Option<Raw<'_>>>(place)? else {
                field(into, None)?;
                continue;
            };
            let value = Value::decode(column.ty, bytes).map_err(ClientError::from)?;
            field(into, Some(&self.cell(&plan.keyname, &value)?))?;
            counts[place] += 1;
            is_empty = false;
        }
        if is_empty {
            into.truncate(start);
        }
        Ok(())
    }

    fn cell(&self, keyname: &str, value: &Value) -> Result<Vec<u8>, ClientError> {
        let mut cell = Vec::with_capacity(64);
        self.keys.seal(keyname, value, &mut cell)?;
        Ok(cell)
    }

    fn defaults(&self, plan: &Plan) -> Result<Vec<Option<Vec<u8>>>, ProtectError> {
        let cell = |column: &PlannedColumn| {
            let default = column.default.as_ref();
            default
                .map(|value| self.cell(&plan.keyname, value))
                .transpose()
        };
        let cells: Result<_, ClientError> = plan.columns.iter().map(cell).collect();
        Ok(cells?)
    }

    /// Compares the table with what was read: a cell that was not found would be a NULL.
    async fn check_counts(&self, plan: &Plan, counts: &[u64]) -> Result<(), ProtectError> {
        let row = self.client.query_typed_one(&plan.count(), &[]).await?;
        for (place, count) in counts.iter().enumerate() {
            let stored: i64 = row.try_get(place)?;
            if u64::try_from(stored).ok() != Some(*count) {
                return Err(ProtectError::Count);
            }
        }
        Ok(())
    }

    async fn commit<K: Keeper>(&self, plan: &Plan, keeper: &mut K) -> Result<(), K::Error> {
        if !plan.columns.is_empty() {
            if let Err(error) = keeper.keep(&plan.entries()) {
                let _ = self.client.batch_execute("ROLLBACK").await;
                return Err(error);
            }
        }
        match self.client.batch_execute("COMMIT").await {
            Ok(()) => Ok(()),
            Err(refused) if refused.as_db_error().is_some() && !self.client.is_closed() => {
                keeper.forget()?;
                Err(ProtectError::from(refused).into())
            }
            Err(lost) => Err(ProtectError::Unknown(lost.into()).into()),
        }
    }

    /// Ends the connections that began while the transaction was open, and gathers statistics.
    async fn finish(
        &self,
        plan: Plan,
        rows: u64,
        options: ProtectOptions,
    ) -> Result<Protected, ClientError> {
        let client = &self.client;
        let mut late = Vec::new();
        if !plan.columns.is_empty() {
            late = connections::others(client).await?;
        }
        if options.disconnects {
            // Those that the role may not end go on, and are told of.
            late = connections::end(client, &late).await.unwrap_or(late);
        }
        client.batch_execute(&plan.analyze()).await?;
        let sql = "SELECT lsn::pg_catalog.text, pg_catalog.pg_walfile_name(lsn) \
            FROM pg_catalog.pg_current_wal_insert_lsn() lsn";
        let row = client.query_typed_one(sql, &[]).await?;
        Ok(Protected {
            plan,
            rows,
            wal: (row.try_get(0)?, row.try_get(1)?),
            late,
            lock: None,
        })
    }
}

/// Returns the number of rows for the next batch, after one of so many rows and bytes.
fn next_rows(rows: u32, bytes: usize) -> u32 {
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    let fit = rows.saturating_mul(BATCH_BYTES) / bytes.max(1);
    u32::try_from(fit.max(1)).unwrap_or(u32::MAX)
}

/// Appends a field of COPY's binary format.
fn field(into: &mut BytesMut, bytes: Option<&[u8]>) -> Result<(), ProtectError> {
    let length = bytes.map_or(Ok(-1), |bytes| i32::try_from(bytes.len()));
    let length = length.map_err(|_| ProtectError::Count)?;
    into.extend_from_slice(&length.to_be_bytes());
    into.extend_from_slice(bytes.unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::next_rows;

    #[test]
    fn batches_fit_into_memory() {
        assert_eq!(next_rows(100, 8 << 20), 100);
        assert_eq!(next_rows(100, 100 << 20), 8);
        assert_eq!(next_rows(100, 19), 44_150_568);
        assert_eq!(next_rows(1, 1 << 30), 1);
    }
}
