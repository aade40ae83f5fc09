//! The server's account of columns. It is believed nowhere by itself: an owner's list is compared
//! with it, and what the server calls encrypted is refused more, not less.
//!
//! OIDs below 12000 (`FirstUnpinnedObjectId`) are those of the bootstrap, which knows no type of
//! encdb. Such functions, tables and types, which are most of a catalog, are passed over. Users'
//! objects begin at 16384, but in single-user mode right after initdb they have lower OIDs.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::column::NAMES;
use crate::list::{ColumnName, PlacedColumn, ShownColumn, TableName};
use crate::ClientError;

/// The condition on `pg_proc p` that a function takes or gives values of the types in `$2`, and is
/// none of encdb's own.
pub(super) const TAKES_OR_GIVES: &str = "p.oid >= 12000 \
    AND (p.prorettype = ANY($2) OR p.proargtypes::pg_catalog.oid[] && $2 \
        OR coalesce(p.proallargtypes && $2, false)) \
    AND p.oid NOT IN (SELECT d.objid FROM pg_catalog.pg_depend d \
        JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid AND e.extname = 'encdb' \
        WHERE d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass \
            AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.deptype = 'e')";

/// Returns these columns as the server shows them, in their order.
pub async fn shown_columns(
    client: &Client,
    names: impl IntoIterator<Item = &ColumnName>,
) -> Result<Vec<ShownColumn>, ClientError> {
    let sql = "SELECT w.s, w.t, w.c, base.name, found.nspname::pg_catalog.text \
        FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), \
                        pg_catalog.unnest($2::pg_catalog.text[]), \
                        pg_catalog.unnest($3::pg_catalog.text[])) \
            WITH ORDINALITY w(s, t, c, place) \
        LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = w.s \
        LEFT JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = w.t \
        LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attname = w.c \
            AND a.attnum > 0 AND NOT a.attisdropped \
        LEFT JOIN LATERAL ( \
            WITH RECURSIVE step(type, arrays, place) AS ( \
                SELECT a.atttypid, '', 1 WHERE a.atttypid IS NOT NULL \
                UNION ALL \
                SELECT CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.typelem END, \
                       CASE t.typtype WHEN 'd' THEN step.arrays ELSE step.arrays || '[]' END, \
                       step.place + 1 \
                FROM step JOIN pg_catalog.pg_type t ON t.oid = step.type \
                WHERE t.typtype = 'd' OR t.typcategory = 'A' AND t.typelem <> 0) \
            SELECT t.typname || step.arrays AS name FROM step \
            JOIN pg_catalog.pg_type t ON t.oid = step.type ORDER BY step.place DESC LIMIT 1 \
        ) base ON true \
        LEFT JOIN pg_catalog.pg_class f \
            ON f.oid = pg_catalog.to_regclass(pg_catalog.quote_ident(w.t)) \
        LEFT JOIN pg_catalog.pg_namespace found ON found.oid = f.relnamespace \
        ORDER BY w.place";
    let [mut schemas, mut tables, mut columns] = [const { Vec::new() }; 3];
    for name in names {
        schemas.push(name.schema.as_str());
        tables.push(name.table.as_str());
        columns.push(name.column.as_str());
    }
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let rows = client
        .query_typed(
            sql,
            &[
                (&schemas, Type::TEXT_ARRAY),
                (&tables, Type::TEXT_ARRAY),
                (&columns, Type::TEXT_ARRAY),
            ],
        )
        .await?;
    rows.iter().map(shown).collect()
}

/// Returns all columns that the server calls encrypted: domains and arrays are seen through.
pub async fn encrypted_columns(client: &Client) -> Result<Vec<ShownColumn>, ClientError> {
    let sql = "WITH RECURSIVE enc(type, name) AS ( \
            SELECT t.oid, t.typname::pg_catalog.text FROM pg_catalog.pg_type t \
            WHERE t.typname = ANY($1::pg_catalog.text[]) \
            UNION ALL \
            SELECT t.oid, CASE t.typtype WHEN 'd' THEN enc.name ELSE enc.name || '[]' END \
            FROM enc JOIN pg_catalog.pg_type t ON t.typtype = 'd' AND t.typbasetype = enc.type \
                OR t.typcategory = 'A' AND t.typelem = enc.type) \
        SELECT n.nspname::pg_catalog.text, r.relname::pg_catalog.text, \
               a.attname::pg_catalog.text, enc.name, NULL::pg_catalog.text \
        FROM enc JOIN pg_catalog.pg_attribute a ON a.atttypid = enc.type \
        JOIN pg_catalog.pg_class r ON r.oid = a.attrelid \
            AND r.relkind IN ('r', 'p', 'v', 'm', 'f') \
        JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
        WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid >= 12000 \
            AND n.nspname !~ '^pg_' \
        ORDER BY 1, 2, 3";
    let rows = client
        .query_typed(sql, &[(&own_types(), Type::TEXT_ARRAY)])
        .await?;
    rows.iter().map(shown).collect()
}

/// Returns the OIDs of all types that the server says hold something encrypted: encdb's own, arrays
/// and domains of them, and composites and ranges with them in it, however deep.
pub async fn encrypted_types(client: &Client) -> Result<Vec<u32>, ClientError> {
    let sql = "WITH RECURSIVE part(of, whole) AS ( \
            SELECT typbasetype, oid FROM pg_catalog.pg_type WHERE typtype = 'd' AND oid >= 12000 \
            UNION ALL SELECT typelem, oid FROM pg_catalog.pg_type \
                WHERE typcategory = 'A' AND typelem <> 0 AND oid >= 12000 \
            UNION ALL SELECT a.atttypid, r.reltype FROM pg_catalog.pg_attribute a \
                JOIN pg_catalog.pg_class r ON r.oid = a.attrelid \
                WHERE a.attnum > 0 AND NOT a.attisdropped AND r.reltype <> 0 \
                    AND a.attrelid >= 12000 \
            UNION ALL SELECT rngsubtype, rngtypid FROM pg_catalog.pg_range \
            UNION ALL SELECT rngsubtype, rngmultitypid FROM pg_catalog.pg_range), \
        enc(type) AS (SELECT oid FROM pg_catalog.pg_type \
                WHERE typname = ANY($1::pg_catalog.text[]) \
            UNION SELECT part.whole FROM enc JOIN part ON part.of = enc.type) \
        SELECT type FROM enc";
    let rows = client
        .query_typed(sql, &[(&own_types(), Type::TEXT_ARRAY)])
        .await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Returns the bare names of all that the server says holds something encrypted: tables, views and
/// types, and functions that take or give such values. `types` are those of [`encrypted_types`].
pub async fn encrypted_names(client: &Client, types: &[u32]) -> Result<Vec<String>, ClientError> {
    let sql = "WITH own AS (SELECT oid, typarray FROM pg_catalog.pg_type \
            WHERE typname = ANY($1::pg_catalog.text[])) \
        SELECT t.typname::pg_catalog.text FROM pg_catalog.pg_type t WHERE t.oid = ANY($2) \
            AND NOT EXISTS (SELECT FROM own WHERE t.oid IN (own.oid, own.typarray)) \
        UNION SELECT p.proname::pg_catalog.text FROM pg_catalog.pg_proc p \
        WHERE ";
    let sql = format!("{sql}{TAKES_OR_GIVES}");
    let rows = client
        .query_typed(
            &sql,
            &[(&own_types(), Type::TEXT_ARRAY), (&types, Type::OID_ARRAY)],
        )
        .await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Returns all columns of these tables and views in their order, as the server shows them. Those
/// that are not there are left out.
pub async fn table_orders(
    client: &Client,
    tables: &[TableName],
) -> Result<Vec<Order>, ClientError> {
    let sql =
        "SELECT w.s, w.t, pg_catalog.array_agg(a.attname::pg_catalog.text ORDER BY a.attnum), \
            pg_catalog.array_agg(a.attgenerated <> '' ORDER BY a.attnum) \
        FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), \
                        pg_catalog.unnest($2::pg_catalog.text[])) w(s, t) \
        JOIN pg_catalog.pg_namespace n ON n.nspname = w.s \
        JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = w.t \
        JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 \
            AND NOT a.attisdropped \
        GROUP BY 1, 2";
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let schemas: Vec<&str> = tables.iter().map(|it| it.schema.as_str()).collect();
    let names: Vec<&str> = tables.iter().map(|it| it.table.as_str()).collect();
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&schemas, Type::TEXT_ARRAY), (&names, Type::TEXT_ARRAY)];
    let rows = client.query_typed(sql, &parameters).await?;
    rows.iter().map(order_of_row).collect()
}

/// A table, and all its columns in their order.
pub type Order = (TableName, Vec<PlacedColumn>);

/// Returns a table that is named as SQL would have it; none if the search path finds none.
pub(super) async fn table_order(
    client: &Client,
    table: &str,
) -> Result<Option<Order>, ClientError> {
    let sql = "SELECT n.nspname::pg_catalog.text, r.relname::pg_catalog.text \
        FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
        WHERE r.oid = pg_catalog.to_regclass($1)";
    let Some(row) = client.query_opt(sql, &[&table]).await? else {
        return Ok(None);
    };
    let table = TableName {
        schema: row.try_get(0)?,
        table: row.try_get(1)?,
    };
    Ok(table_orders(client, &[table]).await?.into_iter().next())
}

/// Reads a row of schema, table, names of columns, and which of them are generated.
///
/// # Errors
/// The row has other columns.
pub fn order_of_row(row: &Row) -> Result<Order, ClientError> {
    let table = TableName {
        schema: row.try_get(0)?,
        table: row.try_get(1)?,
    };
    let (names, generated): (Vec<String>, Vec<bool>) = (row.try_get(2)?, row.try_get(3)?);
    let columns = names.into_iter().zip(generated);
    let column = |(name, is_generated)| PlacedColumn { name, is_generated };
    Ok((table, columns.map(column).collect()))
}

/// Returns encdb's own types.
pub(super) fn own_types() -> Vec<&'static str> {
    let any = ["det_type", "rnd_type"];
    NAMES.iter().map(|(name, _)| *name).chain(any).collect()
}

fn shown(row: &Row) -> Result<ShownColumn, ClientError> {
    Ok(ShownColumn {
        name: ColumnName {
            schema: row.try_get(0)?,
            table: row.try_get(1)?,
            column: row.try_get(2)?,
        },
        ty: row.try_get(3)?,
        found: row.try_get(4)?,
    })
}
