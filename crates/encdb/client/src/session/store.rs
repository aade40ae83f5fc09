//! The tables and functions of the extension for its clients, and the relay: every statement that
//! a session runs by itself. Nothing that comes from here is believed before it was verified.
//!
//! Statements have no names and the types of their parameters: each takes one round trip, and a
//! pool that shares the connection meets nothing that stays.

use std::collections::BTreeSet;

use pgseal_cell::grant::{DatabaseId, Grant, Revocations};
use pgseal_cell::{DataKeyId, PublicKey};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::grants::Lists;
use crate::{ClientError, Identity};

/// The number, and the size in bytes, of other owners' grants to a subject that are looked at.
const MAX_GRANTS: i64 = 1024;
const MAX_GRANT: i32 = 16_384;

/// Hands a message to the evaluator, and returns its answer.
pub(super) async fn relay(client: &Client, message: &[u8]) -> Result<Vec<u8>, ClientError> {
    let row = client
        .query_typed_one(
            "SELECT encdb.process_message($1)",
            &[(&message, Type::BYTEA)],
        )
        .await;
    Ok(row
        .map_err(|error| explain(error, "call encdb.process_message"))?
        .try_get(0)?)
}

pub(super) async fn database_id(client: &Client) -> Result<DatabaseId, ClientError> {
    let row = client
        .query_typed_one("SELECT encdb.database_id()", &[])
        .await?;
    let id: &[u8] = row.try_get(0)?;
    let id = id.try_into().map_err(|_| ClientError::NotInstalled)?;
    Ok(DatabaseId(id))
}

/// A row of the table of data keys.
pub(super) struct KeyRow {
    pub(super) name: String,
    pub(super) wrapped: Vec<u8>,
    /// Whether no transaction is open that may have made it and may take it back
    pub(super) settled: bool,
}

/// Returns the rows of all owners.
pub(super) async fn data_keys(client: &Client) -> Result<Vec<KeyRow>, ClientError> {
    let sql =
        "SELECT keyname, wrapped, pg_current_xact_id_if_assigned() IS NULL FROM encdb.data_key";
    let rows = client.query_typed(sql, &[]).await;
    let rows = rows.map_err(|error| explain(error, "read encdb.data_key"))?;
    let read = |row: &Row| {
        Ok(KeyRow {
            name: row.try_get(0)?,
            wrapped: row.try_get(1)?,
            settled: row.try_get(2)?,
        })
    };
    rows.iter().map(read).collect()
}

/// Returns whether a key is settled; none if it is not there.
pub(super) async fn settled(
    client: &Client,
    name: &str,
    id: DataKeyId,
) -> Result<Option<bool>, ClientError> {
    let sql = "SELECT pg_current_xact_id_if_assigned() IS NULL FROM encdb.data_key \
               WHERE keyname = $1 AND key_id = $2";
    let row = client
        .query_typed_opt(sql, &[(&name, Type::TEXT), (&i64::from(id.0), Type::INT8)])
        .await;
    let row = row.map_err(|error| explain(error, "read encdb.data_key"))?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

pub(super) async fn add_data_key(
    client: &Client,
    name: &str,
    wrapped: &[u8],
) -> Result<(), ClientError> {
    let added = client
        .execute("SELECT encdb.dek_insert($1, $2)", &[&name, &wrapped])
        .await;
    added.map_err(|error| match error.code() {
        Some(&SqlState::UNIQUE_VIOLATION) => ClientError::KeyExists(name.to_owned()),
        _ => explain(error, "insert into encdb.data_key"),
    })?;
    Ok(())
}

/// Returns grants that this owner made, the oldest first. Rows that hold no grant are passed over.
pub(super) async fn grants_by(
    client: &Client,
    owner: PublicKey,
) -> Result<Vec<Grant>, ClientError> {
    let sql = "SELECT signed FROM encdb.grant_ WHERE owner = $1 ORDER BY created";
    grants(
        client
            .query_typed(sql, &[(&&owner.0[..], Type::BYTEA)])
            .await,
    )
}

/// Returns grants that other owners made to this subject. Any role can store such grants, so the
/// newest of each owner comes first, then the one before it of each, up to the limit.
pub(super) async fn grants_to(
    client: &Client,
    identity: &Identity,
) -> Result<Vec<Grant>, ClientError> {
    let (owner, subject) = (identity.owner(), identity.subject());
    let sql = "SELECT signed FROM encdb.grant_ \
               WHERE subject = $1 AND owner <> $2 AND octet_length(signed) <= $3 \
               ORDER BY row_number() OVER (PARTITION BY owner ORDER BY created DESC), created \
               LIMIT $4";
    let (subject, owner) = (&subject.0[..], &owner.0[..]);
    let values: [(&(dyn ToSql + Sync), Type); 4] = [
        (&subject, Type::BYTEA),
        (&owner, Type::BYTEA),
        (&MAX_GRANT, Type::INT4),
        (&MAX_GRANTS, Type::INT8),
    ];
    grants(client.query_typed(sql, &values).await)
}

fn grants(rows: Result<Vec<Row>, tokio_postgres::Error>) -> Result<Vec<Grant>, ClientError> {
    let rows = rows.map_err(|error| explain(error, "read encdb.grant_"))?;
    let grant = |row: &Row| {
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

/// Returns the lists of these owners; none in place of one that is longer. A list that its owner
/// did not sign is passed over.
pub(super) async fn revocations(
    client: &Client,
    owners: &BTreeSet<PublicKey>,
    longest: i32,
) -> Result<Lists, ClientError> {
    let sql = "SELECT owner, CASE WHEN octet_length(signed) <= $2 THEN signed END \
               FROM encdb.revocation WHERE owner = ANY($1)";
    let owners: Vec<&[u8]> = owners.iter().map(|owner| &owner.0[..]).collect();
    let rows = client
        .query_typed(sql, &[(&owners, Type::BYTEA_ARRAY), (&longest, Type::INT4)])
        .await;
    let rows = rows.map_err(|error| explain(error, "read encdb.revocation"))?;
    let list = |row: &Row| {
        let owner = PublicKey(row.try_get::<_, &[u8]>(0).ok()?.try_into().ok()?);
        let Some(signed) = row.try_get::<_, Option<&[u8]>>(1).ok()? else {
            return Some((owner, None));
        };
        let list = Revocations::parse(signed).ok()?;
        list.clone().verify(&owner).ok()?;
        Some((owner, Some(list)))
    };
    Ok(rows.iter().filter_map(list).collect())
}

/// Stores a list in place of the owner's earlier ones.
pub(super) async fn add_revocations(client: &Client, signed: &[u8]) -> Result<(), ClientError> {
    let sql = "SELECT encdb.revocation_insert($1)";
    let added = client.execute(sql, &[&signed]).await;
    added.map_err(|error| explain(error, "call encdb.revocation_insert"))?;
    Ok(())
}

/// Turns a server's refusal into the error that says what the user has to do, if there is one.
fn explain(error: tokio_postgres::Error, wanted: &'static str) -> ClientError {
    match error.code() {
        Some(
            &SqlState::INVALID_SCHEMA_NAME
            | &SqlState::UNDEFINED_FUNCTION
            | &SqlState::UNDEFINED_TABLE,
        ) => ClientError::NotInstalled,
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => ClientError::NotAllowed(wanted),
        _ => error.into(),
    }
}
