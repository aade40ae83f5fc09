//! What the extension keeps for its clients, and the relay: every statement that a session runs by
//! itself. Nothing that comes from here is believed before it was verified.

use pgseal_cell::grant::{DatabaseId, Grant};
use tokio_postgres::error::SqlState;
use tokio_postgres::Client;

use crate::{ClientError, Identity};

/// Hands a message to the evaluator, and its answer back.
pub(super) async fn relay(client: &Client, message: &[u8]) -> Result<Vec<u8>, ClientError> {
    let row = { client.query_one("SELECT encdb.process_message($1)", &[&message]) }.await;
    Ok(row
        .map_err(|error| explain(error, "call encdb.process_message"))?
        .try_get(0)?)
}

pub(super) async fn default_keyname(client: &Client) -> Result<String, ClientError> {
    let row = client
        .query_one("SELECT encdb.default_keyname()", &[])
        .await?;
    Ok(row.try_get(0)?)
}

pub(super) async fn database_id(client: &Client) -> Result<DatabaseId, ClientError> {
    let row = client.query_one("SELECT encdb.database_id()", &[]).await?;
    let id: &[u8] = row.try_get(0)?;
    let id = id.try_into().map_err(|_| ClientError::NotInstalled)?;
    Ok(DatabaseId(id))
}

/// Names and wrapped keys, of all owners.
pub(super) async fn data_keys(client: &Client) -> Result<Vec<(String, Vec<u8>)>, ClientError> {
    let rows = client
        .query("SELECT keyname, wrapped FROM encdb.data_key", &[])
        .await;
    let rows = rows.map_err(|error| explain(error, "read encdb.data_key"))?;
    let pair = |row: &tokio_postgres::Row| Ok((row.try_get(0)?, row.try_get(1)?));
    rows.iter().map(pair).collect()
}

pub(super) async fn add_data_key(
    client: &Client,
    name: &str,
    wrapped: &[u8],
) -> Result<(), ClientError> {
    let added = client
        .execute("SELECT encdb.dek_insert($1, $2)", &[&name, &wrapped])
        .await;
    added.map_err(|error| explain(error, "insert into encdb.data_key"))?;
    Ok(())
}

/// Grants that this owner made, or that others made to this subject; rubbish is passed over.
pub(super) async fn grants(
    client: &Client,
    identity: &Identity,
) -> Result<Vec<Grant>, ClientError> {
    let (owner, subject) = (identity.owner(), identity.subject());
    let rows = client
        .query(
            "SELECT signed FROM encdb.grant_ WHERE owner = $1 OR subject = $2 ORDER BY created",
            &[&&owner.0[..], &&subject.0[..]],
        )
        .await
        .map_err(|error| explain(error, "read encdb.grant_"))?;
    let grant = |row: &tokio_postgres::Row| {
        let signed: &[u8] = row.try_get(0).ok()?;
        Grant::parse(signed).ok()
    };
    Ok(rows.iter().filter_map(grant).collect())
}

pub(super) async fn add_grant(client: &Client, grant: &Grant) -> Result<(), ClientError> {
    let sql = "SELECT encdb.grant_insert($1)";
    let added = client.execute(sql, &[&grant.encode()]).await;
    added.map_err(|error| explain(error, "call encdb.grant_insert"))?;
    Ok(())
}

/// Lists of all owners: a grant of another one may have been taken back.
pub(super) async fn revocations(client: &Client) -> Result<Vec<Vec<u8>>, ClientError> {
    let rows = client
        .query("SELECT signed FROM encdb.revocation", &[])
        .await;
    let rows = rows.map_err(|error| explain(error, "read encdb.revocation"))?;
    { rows.iter() }.map(|row| Ok(row.try_get(0)?)).collect()
}

/// Keeps a list in place of the owner's earlier ones.
pub(super) async fn add_revocations(client: &Client, signed: &[u8]) -> Result<(), ClientError> {
    let sql = "SELECT encdb.revocation_insert($1)";
    let added = client.execute(sql, &[&signed]).await;
    added.map_err(|error| explain(error, "call encdb.revocation_insert"))?;
    Ok(())
}

/// What of a server's refusal its user can mend.
fn explain(error: tokio_postgres::Error, wanted: &'static str) -> ClientError {
    match error.code() {
        Some(&SqlState::INVALID_SCHEMA_NAME | &SqlState::UNDEFINED_FUNCTION) => {
            ClientError::NotInstalled
        }
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => ClientError::NotAllowed(wanted),
        _ => error.into(),
    }
}
