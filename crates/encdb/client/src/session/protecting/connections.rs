//! Other connections to the database. One that began while the columns were plain, through a proxy
//! or by itself, goes on to send values in clear, which the server refuses and logs.

use tokio_postgres::types::Type;
use tokio_postgres::Client;

use crate::ClientError;

/// The time that a connection has to end, in milliseconds.
const PATIENCE: i64 = 10_000;

/// Returns the process ids of other clients' connections to this database. What a role may not see
/// of a connection counts against the connection.
pub(super) async fn others(client: &Client) -> Result<Vec<i32>, ClientError> {
    // Within a transaction the server answers from what it has read before.
    client
        .query_typed("SELECT pg_catalog.pg_stat_clear_snapshot()", &[])
        .await?;
    let sql = "SELECT pid FROM pg_catalog.pg_stat_activity \
        WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid() \
            AND usesysid IS NOT NULL \
            AND coalesce(backend_type, 'client backend') = 'client backend' \
        ORDER BY 1";
    let rows = client.query_typed(sql, &[]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Ends these connections. Fails if the role may not; returns those that go on. One that ended by
/// itself meanwhile is not among them.
pub(super) async fn end(client: &Client, pids: &[i32]) -> Result<Vec<i32>, ClientError> {
    let sql = "SELECT pid FROM pg_catalog.unnest($1::pg_catalog.int4[]) pid \
        WHERE NOT pg_catalog.pg_terminate_backend(pid, $2)";
    if pids.is_empty() {
        return Ok(Vec::new());
    }
    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&pids, Type::INT4_ARRAY), (&PATIENCE, Type::INT8)];
    let rows = client.query_typed(sql, &values).await?;
    let mut left = Vec::new();
    if !rows.is_empty() {
        left = others(client).await?;
    }
    let went_on: Result<Vec<i32>, _> = rows.iter().map(|row| row.try_get(0)).collect();
    let went_on = went_on?;
    left.retain(|pid| went_on.contains(pid));
    Ok(left)
}
