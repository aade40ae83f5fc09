//! The steps after the exchange: constraints are proved and the final indexes are built, while
//! applications write encrypted values. Each step is found done by a later run.

use std::time::Duration;

use tokio_postgres::types::Type;

use super::super::{ProtectError, ProtectOptions, Protected};
use super::patiently;
use crate::protect::online::{left, names};
use crate::protect::{OnlinePlan, Plan};
use crate::session::Session;

impl Session {
    /// Finishes what this run or an earlier one has exchanged, ends late connections, and gathers
    /// statistics.
    pub(super) async fn finish_online(
        &self,
        online: OnlinePlan,
        lock: Option<Duration>,
        options: ProtectOptions,
    ) -> Result<Protected, ProtectError> {
        let after = |error| match error {
            ProtectError::Client(error) => ProtectError::After(error),
            error => error,
        };
        let mut plan = online.plan;
        self.finish_exchanged(&plan).await.map_err(after)?;
        let count = self.client.query_typed_one(&plan.count(), &[]).await;
        let count = count.and_then(|row| row.try_get::<_, i64>(0));
        plan.rows = count.map_err(|error| ProtectError::After(error.into()))?;
        let rows = u64::try_from(plan.rows).unwrap_or_default();
        let done = self.finish(plan, rows, options).await;
        let mut done = done.map_err(ProtectError::After)?;
        done.lock = lock;
        Ok(done)
    }

    /// Proves constraints and builds the final indexes.
    pub(super) async fn finish_exchanged(&self, plan: &Plan) -> Result<(), ProtectError> {
        self.constraints(plan).await?;
        self.final_indexes(plan).await
    }

    /// Proves the constraints, and makes them what the plain columns had. One that is proved makes
    /// the lock of the last statements short.
    async fn constraints(&self, plan: &Plan) -> Result<(), ProtectError> {
        let found = format!(
            "SELECT conname::pg_catalog.text, \
                pg_catalog.obj_description(oid, 'pg_constraint')::pg_catalog.text[] \
            FROM pg_catalog.pg_constraint \
            WHERE conrelid = $1 AND contype = 'c' AND pg_catalog.starts_with( \
                conname::pg_catalog.text, '{}') ORDER BY 1",
            names::KEPT
        );
        let client = &self.client;
        let rows = client
            .query_typed(&found, &[(&plan.oid, Type::OID)])
            .await?;
        for row in rows {
            let (name, comment) = (row.try_get(0)?, row.try_get::<_, Option<Vec<_>>>(1)?);
            let comment = comment.unwrap_or_default();
            let owner = self.identity.subject();
            let statements = left::read((&plan.ident(), name), &comment, &owner);
            let Some((prove, finish)) = statements.and_then(<[_]>::split_first) else {
                return Err(ProtectError::Comment(format!("constraint {name}")));
            };
            client.batch_execute(prove).await?;
            patiently(client, &finish.join("; ")).await?;
        }
        Ok(())
    }

    /// Builds the final indexes, which the comments of the others tell.
    async fn final_indexes(&self, plan: &Plan) -> Result<(), ProtectError> {
        let found = format!(
            "SELECT c.relname::pg_catalog.text, i.indisvalid AND i.indisready, \
                pg_catalog.obj_description(c.oid, 'pg_class')::pg_catalog.text[] \
            FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
            WHERE i.indrelid = $1 AND pg_catalog.starts_with(c.relname::pg_catalog.text, '{}') \
            ORDER BY 1",
            names::KEPT
        );
        let client = &self.client;
        let rows = client
            .query_typed(&found, &[(&plan.oid, Type::OID)])
            .await?;
        let mut made: Vec<(String, bool)> = Vec::new();
        for row in &rows {
            made.push((row.try_get(0)?, row.try_get(1)?));
        }
        for row in rows {
            let comment: Option<Vec<String>> = row.try_get(2)?;
            let Some(comment) = comment else {
                continue;
            };
            let name: String = row.try_get(0)?;
            let owner = self.identity.subject();
            let statements = left::read((&plan.schema, &name), &comment, &owner);
            let Some((create, finish)) = statements.and_then(<[_]>::split_first) else {
                return Err(ProtectError::Comment(format!("index {name}")));
            };
            self.build_final(plan, &name, create, &made).await?;
            patiently(client, &plan.replace_index(&name, finish)).await?;
        }
        Ok(())
    }

    /// Builds the final index in place of an interim one, unless it is there.
    async fn build_final(
        &self,
        plan: &Plan,
        name: &str,
        create: &str,
        made: &[(String, bool)],
    ) -> Result<(), ProtectError> {
        let Some(finished) = names::finished_of(name) else {
            return Ok(());
        };
        let client = &self.client;
        let made = made.iter().find(|(name, _)| *name == finished);
        if let Some((name, false)) = made {
            client.batch_execute(&plan.drop_index(name)).await?;
        }
        if !matches!(made, Some((_, true))) {
            client.batch_execute(create).await?;
        }
        Ok(())
    }
}
