//! Objects with encrypted values, beside columns of encdb's own types, as the server shows them.

use std::collections::BTreeSet;

use tokio_postgres::types::Type;
use tokio_postgres::Client;

use super::catalog::{encrypted_columns, encrypted_types, own_types, TAKES_OR_GIVES};
use crate::list::{ColumnName, ListedObject};
use crate::ClientError;

/// The types that have cells in them, and the types of encdb of which domains and arrays are made.
const WITH: &str = "WITH RECURSIVE enc(type, name) AS ( \
        SELECT t.oid, t.typname::pg_catalog.text FROM pg_catalog.pg_type t \
        WHERE t.typname = ANY($1::pg_catalog.text[]) \
        UNION ALL \
        SELECT t.oid, CASE t.typtype WHEN 'd' THEN enc.name ELSE enc.name || '[]' END \
        FROM enc JOIN pg_catalog.pg_type t ON t.typtype = 'd' AND t.typbasetype = enc.type \
            OR t.typcategory = 'A' AND t.typelem = enc.type) ";

/// The columns of such types, the types except rows of tables, and functions, up to the condition
/// that holds them ([`TAKES_OR_GIVES`]).
const OBJECTS: &str = "SELECT 1, n.nspname::pg_catalog.text, r.relname::pg_catalog.text, \
        a.attname::pg_catalog.text \
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class r ON r.oid = a.attrelid \
        AND r.relkind IN ('r', 'p', 'v', 'm', 'f') \
    JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
    WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid >= 12000 \
        AND a.atttypid = ANY($2) AND n.nspname !~ '^pg_' \
    UNION ALL \
    SELECT 2, n.nspname, t.typname, '' \
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
    LEFT JOIN pg_catalog.pg_class r ON r.oid = t.typrelid \
    WHERE t.oid = ANY($2) AND n.nspname !~ '^pg_' \
        AND (t.typtype IN ('d', 'r', 'm') OR t.typtype = 'c' AND r.relkind = 'c') \
    UNION ALL \
    SELECT 3, n.nspname, p.proname, coalesce((SELECT pg_catalog.string_agg( \
            CASE WHEN enc.name IS NOT NULL THEN enc.name WHEN a.type = ANY($2) THEN '?' \
                ELSE '-' END, ',' ORDER BY a.place) \
        FROM pg_catalog.unnest(p.proargtypes) WITH ORDINALITY a(type, place) \
        LEFT JOIN enc ON enc.type = a.type), '') \
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
    WHERE n.nspname !~ '^pg_' AND ";

/// Returns what the server says has encrypted values in it beside the columns of
/// [`encrypted_columns`]: columns of composites and ranges, types, and functions that take or give
/// such values.
pub async fn encrypted_objects(client: &Client) -> Result<Vec<ListedObject>, ClientError> {
    let types = encrypted_types(client).await?;
    let columns = encrypted_columns(client).await?.into_iter();
    let columns: BTreeSet<ColumnName> = columns.map(|shown| shown.name).collect();
    let sql = format!("{WITH}{OBJECTS}{TAKES_OR_GIVES}");
    let parameters = [
        (
            &own_types() as &(dyn tokio_postgres::types::ToSql + Sync),
            Type::TEXT_ARRAY,
        ),
        (&types, Type::OID_ARRAY),
    ];
    let rows = client.query_typed(&sql, &parameters).await?;
    let mut objects = BTreeSet::new();
    for row in rows {
        let kind: i32 = row.try_get(0)?;
        let parts = [row.try_get(1)?, row.try_get(2)?, row.try_get(3)?];
        let object = ListedObject::from_parts(u8::try_from(kind).unwrap_or_default(), parts);
        objects.extend(object);
    }
    let is_column = |object: &ListedObject| match object {
        ListedObject::Column(name) => columns.contains(name),
        _ => false,
    };
    Ok(objects.into_iter().filter(|it| !is_column(it)).collect())
}
