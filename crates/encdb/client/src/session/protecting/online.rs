//! Encrypts columns of a table while applications write it. What is done, and why a row is dirty,
//! is in `protect/online.rs`; here are the steps, each of which a later run finds done.
//!
//! The order keeps every crash on the closed side: the owner's list says that the columns are
//! encrypted before the exchange is committed, as in the form at once.

mod exchange;
mod facts;
mod fill;
mod finish;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::Client;

use super::{catalog, Keeper, ProtectError, ProtectOptions, Protected};
use crate::protect::online::{other_run, sql};
use crate::protect::{ColumnFacts, Facts, Obstacle, OnlinePlan, Wanted};
use crate::session::Session;
use crate::{ClientError, ColumnName, OwnersList};

/// As in the form at once, for the whole connection. A server that notices that the client was
/// killed ends what it does.
const SETTINGS: &str = "SET row_security = off; SET synchronous_commit = on; \
    SET datestyle = 'ISO, MDY'; SET timezone = 'UTC'; SET intervalstyle = 'postgres'; \
    SET bytea_output = 'hex'; \
    SET standard_conforming_strings = on; SET default_tablespace = ''; \
    SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off; \
    SET client_connection_check_interval = '1s'; SET enable_seqscan = off; \
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off; \
    SET search_path = pg_catalog, pg_temp; SET lock_timeout = 0; \
    SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name IN \
    ('statement_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout', \
    'transaction_timeout')";

/// The time that everybody waits behind an attempt to lock the table.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '500ms'";
/// The number of attempts, and the seconds between two of them, at most.
const ATTEMPTS: u32 = 60;
const PAUSE: f64 = 5.0;

/// A step of the online form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Rows are encrypted
    Rows,
    /// Indexes are built
    Indexes,
    /// The table is locked, and the columns are exchanged
    Exchange,
    /// The final indexes are built, and `NOT NULL` is proved
    Finish,
}

/// The state of a table, for `--check`.
pub struct OnlineState {
    /// The plan
    pub plan: OnlinePlan,
    /// The number of rows with a value that is not encrypted, if a run was begun
    pub dirty: Option<u64>,
}

/// Makes the plan of what the online form would do, or go on with, and changes nothing.
pub async fn online_protection(
    client: &Client,
    wanted: &Wanted,
    list: &OwnersList,
) -> Result<OnlineState, ProtectError> {
    client.batch_execute("BEGIN READ ONLY").await?;
    client.batch_execute(super::SETTINGS).await?;
    let plan = plan(client, wanted, list).await;
    let state = match plan {
        Ok(plan) => state(client, plan).await,
        Err(error) => Err(error),
    };
    client.batch_execute("ROLLBACK").await?;
    state
}

async fn state(client: &Client, plan: OnlinePlan) -> Result<OnlineState, ProtectError> {
    let mut dirty = None;
    if plan.is_begun {
        let row = client.query_typed_one(&plan.count_dirty(), &[]).await?;
        dirty = u64::try_from(row.try_get::<_, i64>(0)?).ok();
    }
    Ok(OnlineState { plan, dirty })
}

async fn table_facts(client: &Client, wanted: &Wanted) -> Result<Facts, ProtectError> {
    let facts = catalog::facts(client, wanted).await?;
    facts.ok_or_else(|| ProtectError::NoTable(wanted.table.clone()))
}

async fn plan(
    client: &Client,
    wanted: &Wanted,
    list: &OwnersList,
) -> Result<OnlinePlan, ProtectError> {
    let facts = table_facts(client, wanted).await?;
    let kept = facts::read(client, &facts).await?;
    OnlinePlan::new((&facts, kept), wanted, list).map_err(ProtectError::Obstacles)
}

/// The result of [`take_back`].
pub struct TakenBack {
    /// Whether there was an unfinished run
    pub was_begun: bool,
    /// The columns of these names that the server has as plain
    pub plain: Vec<ColumnName>,
}

/// Takes an unfinished run back: the table is plain again. Needs neither key nor evaluator.
pub async fn take_back(client: &Client, wanted: &Wanted) -> Result<TakenBack, ProtectError> {
    let facts = table_facts(client, wanted).await?;
    client.batch_execute(SETTINGS).await?;
    alone_at(client, facts.oid).await?;
    if let Some(other) = other_run(&facts, None) {
        return Err(ProtectError::Obstacles(vec![Obstacle::Online(other)]));
    }
    let undo = sql::undo(&facts);
    if let Some(undo) = &undo {
        patiently(client, undo).await?;
    }
    let plain = facts.columns.iter().filter(|it| it.encrypted.is_none());
    let name = |column: &ColumnFacts| ColumnName {
        schema: facts.schema.clone(),
        table: facts.table.clone(),
        column: column.name.clone(),
    };
    Ok(TakenBack {
        was_begun: undo.is_some(),
        plain: plain.map(name).collect(),
    })
}

/// Returns an error if another run works on the table.
async fn alone_at(client: &Client, table: u32) -> Result<(), ProtectError> {
    // "pgse" in ASCII.
    let sql = "SELECT pg_catalog.pg_try_advisory_lock(1885827941, \
        $1::pg_catalog.oid::pg_catalog.int8::pg_catalog.bit(32)::pg_catalog.int4)";
    let row = client.query_typed_one(sql, &[(&table, Type::OID)]).await?;
    match row.try_get(0)? {
        true => Ok(()),
        false => Err(ProtectError::Running),
    }
}

/// Runs statements that lock the table for a moment, in one transaction: applications that hold
/// the table are waited for, but nobody waits behind this for long.
async fn patiently(client: &Client, sql: &str) -> Result<(), ProtectError> {
    for attempt in 1..=ATTEMPTS {
        let all = format!("BEGIN; {LOCK_TIMEOUT}; {sql}; COMMIT");
        match client.batch_execute(&all).await {
            Ok(()) => return Ok(()),
            Err(error) => {
                client.batch_execute("ROLLBACK").await?;
                if error.code() != Some(&SqlState::LOCK_NOT_AVAILABLE) {
                    return Err(error.into());
                }
            }
        }
        pause(client, attempt).await?;
    }
    Err(ProtectError::Locked)
}

async fn pause(client: &Client, attempt: u32) -> Result<(), ClientError> {
    let seconds = (f64::from(attempt) * 0.1).min(PAUSE);
    let sql = format!("SELECT pg_catalog.pg_sleep({seconds})");
    Ok(client.batch_execute(&sql).await?)
}

impl Session {
    /// Encrypts the columns while applications go on, or goes on with what a killed run has left.
    /// `list` is what the identity keeps of the database, as for [`Session::protect`].
    pub async fn protect_online<K: Keeper>(
        &self,
        wanted: &Wanted,
        (list, options): (&OwnersList, ProtectOptions),
        keeper: &mut K,
    ) -> Result<Protected, K::Error> {
        let online = self.begun(wanted, list).await?;
        let wanted = &Wanted {
            schema: Some(online.plan.schema.clone()),
            ..wanted.clone()
        };
        let (online, lock) = match online.plan.columns.is_empty() {
            true => (online, None),
            false => {
                self.fill_all(&online, options, keeper).await?;
                let done = self.exchanged(wanted, (list, options), keeper).await?;
                (done.0, Some(done.1))
            }
        };
        keeper.step(Step::Finish);
        Ok(self.finish_online(online, lock, options).await?)
    }

    /// Makes sure that the new columns and the trigger are there.
    async fn begun(&self, wanted: &Wanted, list: &OwnersList) -> Result<OnlinePlan, ProtectError> {
        let client = &self.client;
        self.keys.named(&wanted.keyname)?;
        // The search path that finds the table is the role's.
        let table = table_facts(client, wanted).await?;
        client.batch_execute(SETTINGS).await?;
        alone_at(client, table.oid).await?;
        let wanted = &Wanted {
            schema: Some(table.schema),
            ..wanted.clone()
        };
        let mut online = plan(client, wanted, list).await?;
        if online.is_exchanged {
            // Of these columns, or of others of the table.
            self.finish_exchanged(&online.plan).await?;
            online = plan(client, wanted, list).await?;
        }
        if online.plan.columns.is_empty() {
            return Ok(online);
        }
        client.batch_execute(&online.prepare_cells()).await?;
        if online.kept.has_triggers {
            let quiet = "SET session_replication_role = replica";
            client.batch_execute(quiet).await?;
        }
        if !online.is_begun {
            patiently(client, &online.begin()).await?;
        }
        Ok(online)
    }
}
