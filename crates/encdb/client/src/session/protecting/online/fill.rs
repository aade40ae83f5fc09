//! Encrypts rows in short transactions. Each locks the rows that it reads, so that their values
//! cannot change before the cells are stored, and leaves rows alone that others have locked.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::SinkExt;
use tokio_postgres::types::private::BytesMut;

use super::super::{next_rows, Keeper, ProtectError, ProtectOptions, FIRST_ROWS, HEAD, TAIL};
use super::Step;
use crate::protect::online::names;
use crate::protect::OnlinePlan;
use crate::session::Session;

/// The blocks of the first range that is read, and of the longest.
const FIRST_BLOCKS: u32 = 16;
const MOST_BLOCKS: u32 = 1 << 16;
/// The rows of a batch that also go into indexes, at most: an application may wait for one of them.
pub(super) const INDEXED_ROWS: u32 = 500;
/// The time after which the lock is tried, though many rows are dirty.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(10);

/// The size of a batch.
pub(super) struct Batch {
    pub(super) rows: u32,
    pub(super) bytes: usize,
}

impl Session {
    /// Encrypts the rows that are there. If the index of dirty rows is, this was done before.
    pub(super) async fn fill_all<K: Keeper>(
        &self,
        online: &OnlinePlan,
        options: ProtectOptions,
        keeper: &mut K,
    ) -> Result<(), K::Error> {
        keeper.step(Step::Rows);
        if online.made(&names::dirty(online.plan.oid)) == Some(true) {
            return Ok(());
        }
        let blocks = self.blocks(online).await?;
        let (mut from, mut span) = (0, FIRST_BLOCKS);
        let mut rows = options.batch_rows.min(FIRST_ROWS);
        while from < blocks {
            let to = from.saturating_add(span).min(blocks);
            let read = online.read_blocks((from, to), rows);
            let batch = self.batch_online(online, &read).await?;
            if batch.rows < rows {
                from = to;
                if batch.rows < rows / 2 {
                    span = span.saturating_mul(2).min(MOST_BLOCKS);
                }
            } else {
                span = (span / 2).max(1);
            }
            if batch.rows > 0 {
                rows = next_rows(batch.rows, batch.bytes).min(options.batch_rows);
            }
            keeper.progress(done(from, blocks, online.plan.rows), online.plan.rows);
        }
        Ok(())
    }

    async fn blocks(&self, online: &OnlinePlan) -> Result<u32, ProtectError> {
        let row = self.client.query_typed_one(&online.blocks(), &[]).await?;
        let blocks: i64 = row.try_get(0)?;
        Ok(u32::try_from(blocks).unwrap_or(u32::MAX))
    }

    /// Encrypts dirty rows until a batch finds few. Applications may be faster than this: then the
    /// lock must stop them.
    pub(super) async fn catch_up(
        &self,
        online: &OnlinePlan,
        options: ProtectOptions,
    ) -> Result<(), ProtectError> {
        let most = options.batch_rows.min(INDEXED_ROWS);
        let (started, mut rows) = (Instant::now(), most.min(FIRST_ROWS));
        while started.elapsed() < CATCH_UP_LIMIT {
            let batch = self.batch_online(online, &online.read_dirty(rows)).await?;
            if batch.rows < rows {
                break;
            }
            rows = next_rows(batch.rows, batch.bytes).min(most);
        }
        Ok(())
    }

    /// Encrypts the rows that a statement reads and locks, in one transaction.
    async fn batch_online(&self, online: &OnlinePlan, read: &str) -> Result<Batch, ProtectError> {
        self.client.batch_execute("BEGIN").await?;
        let done = self.store_batch(online, read).await;
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.client.batch_execute(end).await;
        let batch = done?;
        ended?;
        Ok(batch)
    }

    /// Encrypts the rows that a statement reads and locks, within a transaction.
    pub(super) async fn store_batch(
        &self,
        online: &OnlinePlan,
        read: &str,
    ) -> Result<Batch, ProtectError> {
        let rows = self.client.query_typed(read, &[]).await?;
        let mut counts = vec![0; online.plan.columns.len() + 1];
        let mut bytes = BytesMut::from(HEAD);
        for row in &rows {
            self.sealed_row(&online.plan, row, &mut counts, &mut bytes)?;
        }
        let batch = Batch {
            rows: u32::try_from(rows.len()).unwrap_or(u32::MAX),
            bytes: bytes.len(),
        };
        if rows.is_empty() {
            return Ok(batch);
        }
        bytes.extend_from_slice(TAIL);
        let mut sink = pin!(self.client.copy_in(&online.plan.copy_cells()).await?);
        sink.send(bytes).await?;
        sink.finish().await?;
        let stored = self
            .client
            .execute_typed(&online.store_cells(), &[])
            .await?;
        match stored == counts[0] {
            true => Ok(batch),
            false => Err(ProtectError::Count),
        }
    }
}

/// Returns about how many of the rows are done after so many blocks.
fn done(block: u32, blocks: u32, rows: i64) -> u64 {
    let rows = u64::try_from(rows).unwrap_or_default();
    rows.saturating_mul(block.into()) / u64::from(blocks.max(1))
}
