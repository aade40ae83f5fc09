//! Builds the indexes of the new columns, and exchanges the columns under one short lock.

use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;

use super::super::{connections, Keeper, ProtectError, ProtectOptions};
use super::fill::INDEXED_ROWS;
use super::{pause, plan, Step, ATTEMPTS, LOCK_TIMEOUT};
use crate::protect::online::{names, sql};
use crate::protect::{OnlinePlan, Wanted};
use crate::session::Session;
use crate::OwnersList;

/// The time that rows may still be encrypted under the lock. Rows that take longer are encrypted
/// without it first.
const LOCK_LIMIT: Duration = Duration::from_secs(2);

impl Session {
    /// Encrypts what changes until the columns can be exchanged. Returns the plan that was carried
    /// out, and how long the table was locked.
    pub(super) async fn exchanged<K: Keeper>(
        &self,
        wanted: &Wanted,
        (list, options): (&OwnersList, ProtectOptions),
        keeper: &mut K,
    ) -> Result<(OnlinePlan, Duration), K::Error> {
        for attempt in 1..=ATTEMPTS {
            let online = plan(&self.client, wanted, list).await?;
            keeper.step(Step::Indexes);
            self.build(&online, options).await?;
            keeper.step(Step::Exchange);
            self.catch_up(&online, options).await?;
            self.nobody_else(options).await?;
            let locked = self.lock_and_exchange(wanted, list, options).await;
            if let Some((online, started)) = locked? {
                self.commit(&online.plan, keeper).await?;
                return Ok((online, started.elapsed()));
            }
            let waited = pause(&self.client, attempt).await;
            waited.map_err(ProtectError::from)?;
        }
        Err(ProtectError::Locked.into())
    }

    /// Builds the indexes that are missing, and drops those that a killed run has left half built
    /// and those whose plain index is gone.
    async fn build(
        &self,
        online: &OnlinePlan,
        options: ProtectOptions,
    ) -> Result<(), ProtectError> {
        let client = &self.client;
        let dirty = names::dirty(online.plan.oid);
        let mut missing = vec![(dirty, online.index_dirty())];
        let indexes = online.kept.indexes.iter();
        missing.extend(indexes.map(|index| (index.name(), index.create.clone())));
        for (name, is_whole) in &online.kept.made {
            if !is_whole || !missing.iter().any(|(wanted, _)| wanted == name) {
                client.batch_execute(&online.plan.drop_index(name)).await?;
            }
        }
        if !online.is_built() {
            client.batch_execute(&online.refresh()).await?;
        }
        for (name, create) in missing {
            if online.made(&name) != Some(true) {
                client.batch_execute(&create).await?;
                self.catch_up(online, options).await?;
            }
        }
        Ok(())
    }

    /// Without `--disconnect` others that are connected are found before anybody waits.
    async fn nobody_else(&self, options: ProtectOptions) -> Result<(), ProtectError> {
        let others = connections::others(&self.client).await?;
        match options.disconnects || others.is_empty() {
            true => Ok(()),
            false => Err(ProtectError::Ready(others)),
        }
    }

    /// Returns the plan and the time of the lock if the exchange can be committed; otherwise the
    /// transaction was rolled back.
    async fn lock_and_exchange(
        &self,
        wanted: &Wanted,
        list: &OwnersList,
        options: ProtectOptions,
    ) -> Result<Option<(OnlinePlan, Instant)>, ProtectError> {
        let done = self.exchange(wanted, list, options).await;
        if !matches!(done, Ok(Some(_))) {
            // The connection may be what failed, and then the server rolls back by itself.
            let _ = self.client.batch_execute("ROLLBACK").await;
        }
        match done {
            Err(ProtectError::Others(others)) => Err(ProtectError::Ready(others)),
            Err(ProtectError::Locked) if options.disconnects => {
                let others = connections::others(&self.client).await?;
                connections::end(&self.client, &others).await?;
                Ok(None)
            }
            Err(ProtectError::Locked) => Ok(None),
            done => done,
        }
    }

    async fn exchange(
        &self,
        wanted: &Wanted,
        list: &OwnersList,
        options: ProtectOptions,
    ) -> Result<Option<(OnlinePlan, Instant)>, ProtectError> {
        let client = &self.client;
        let lock = sql::lock(wanted);
        let begin = format!("BEGIN; {LOCK_TIMEOUT}; {lock}");
        if let Err(error) = client.batch_execute(&begin).await {
            return Err(match error.code() {
                Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => ProtectError::Locked,
                _ => error.into(),
            });
        }
        let started = Instant::now();
        let online = plan(client, wanted, list).await?;
        let dirty = names::dirty(online.plan.oid);
        let is_ready = online.is_begun && online.is_built() && online.made(&dirty) == Some(true);
        if !is_ready || !self.rest(&online, started, options).await? {
            return Ok(None);
        }
        let defaults = self.defaults(&online.plan)?;
        let statements = online.exchange(&defaults, self.identity.signing());
        client.batch_execute(&statements).await?;
        self.alone(options).await?;
        Ok(Some((online, started)))
    }

    /// Encrypts the rest under the lock. Returns whether that was possible in time.
    async fn rest(
        &self,
        online: &OnlinePlan,
        started: Instant,
        options: ProtectOptions,
    ) -> Result<bool, ProtectError> {
        while started.elapsed() < LOCK_LIMIT {
            let empty = OnlinePlan::empty_cells();
            self.client.batch_execute(&empty).await?;
            let read = online.read_dirty(options.batch_rows.min(INDEXED_ROWS));
            if self.store_batch(online, &read).await?.rows == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
