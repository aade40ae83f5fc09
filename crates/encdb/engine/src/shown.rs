//! The catalog of a database, as an owner's session reads it from the server.
//!
//! Questions that do not depend on each other are asked in one round trip. Objects of the
//! bootstrap, whose OIDs are below 12000 (`FirstUnpinnedObjectId`), have nothing of encdb in them
//! and are passed over.

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;

use futures_util::future::{try_join4, try_join5};
use pgseal_client::tokio_postgres::types::{ToSql, Type};
use pgseal_client::tokio_postgres::{Client, Row};
use pgseal_client::{
    encrypted_columns, encrypted_names, encrypted_types, order_of_row, ClientError, ColumnName,
    ListedObject, OwnersList, PlacedColumn, Session, TableName,
};

use crate::catalog::{Catalog, Cells, Placed};
use crate::sql::names_encrypted;

/// Returns what the server says is encrypted, and the owner's list, which decides.
pub(crate) async fn catalog(
    session: &Session,
    keyname: &str,
    trusts_server_types: bool,
) -> Result<Catalog, ClientError> {
    let mut catalog = Catalog::new(keyname);
    let default = Arc::clone(catalog.default_key());
    let client = session.client();
    let (columns, encrypted, own, children, bodies) = try_join5(
        encrypted_columns(client),
        encrypted_types(client),
        ask(client, TYPES, &[]),
        ask(client, CHILDREN, &[]),
        ask(client, BODIES, &[]),
    )
    .await?;
    for shown in columns {
        let ty = shown.ty.as_deref().unwrap_or_default();
        if let Some(cells) = Cells::by_type(ty, &default) {
            catalog.add_column(&shown.name, cells);
        }
    }
    for (name, listed) in session.list().columns() {
        if let Some(cells) = Cells::by_type(&listed.ty, &Arc::from(listed.keyname.as_str())) {
            catalog.add_listed(name, cells);
        }
    }
    add_types(&mut catalog, &own)?;
    add_children(&mut catalog, &children)?;
    let types: Vec<u32> = catalog.type_oids().collect();
    let types = (&types as &(dyn ToSql + Sync), Type::OID_ARRAY);
    let (names, columns, orders, functions) = try_join4(
        encrypted_names(client, &encrypted),
        ask(
            client,
            MIXED,
            &[(&encrypted, Type::OID_ARRAY), types.clone()],
        ),
        ask(client, ORDERS, slice::from_ref(&types)),
        ask(client, FUNCTIONS, slice::from_ref(&types)),
    )
    .await?;
    names.iter().for_each(|name| catalog.add_mixed(name));
    add_mixed_columns(&mut catalog, &columns)?;
    let orders = shown_orders(&orders)?;
    place(&mut catalog, session.list(), &orders, trusts_server_types);
    for (table, columns) in orders {
        catalog.add_order(&table, columns);
    }
    add_functions(&mut catalog, &functions, &encrypted)?;
    for object in session.list().objects() {
        add_object(&mut catalog, object);
    }
    add_bodies(&mut catalog, &bodies)?;
    Ok(catalog)
}

/// Asks the server in one round trip, beside other questions.
async fn ask(
    client: &Client,
    sql: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
) -> Result<Vec<Row>, ClientError> {
    Ok(client.query_typed(sql, parameters).await?)
}

const TYPES: &str = "WITH RECURSIVE enc(oid, name) AS ( \
        SELECT t.oid, t.typname::pg_catalog.text FROM pg_catalog.pg_type t \
        WHERE t.oid >= 12000 AND t.typname ~ '^(enc_.*|det_type|rnd_type)$' AND t.typtype = 'b' \
        UNION ALL \
        SELECT t.oid, CASE t.typtype WHEN 'd' THEN enc.name ELSE enc.name || '[]' END \
        FROM enc JOIN pg_catalog.pg_type t ON t.typtype = 'd' AND t.typbasetype = enc.oid \
            OR t.typcategory = 'A' AND t.typelem = enc.oid AND t.oid >= 12000) \
    SELECT enc.oid, name, t.typtype <> 'd' AND coalesce(e.typtype, 'b') <> 'd' FROM enc \
    JOIN pg_catalog.pg_type t ON t.oid = enc.oid \
    LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem";

/// Adds the types of encdb, domains over them, and arrays of either.
fn add_types(catalog: &mut Catalog, rows: &[Row]) -> Result<(), ClientError> {
    let default = Arc::clone(catalog.default_key());
    for row in rows {
        let (oid, name): (u32, &str) = (row.try_get(0)?, row.try_get(1)?);
        match (Cells::by_type(name, &default), row.try_get(2)?) {
            (Some(cells), true) => catalog.add_own_type(oid, cells),
            (Some(cells), false) => catalog.add_type(oid, cells),
            (None, _) => {}
        }
    }
    Ok(())
}

const MIXED: &str = "SELECT n.nspname::pg_catalog.text, r.relname::pg_catalog.text, \
        a.attname::pg_catalog.text \
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class r ON r.oid = a.attrelid \
        AND r.relkind IN ('r', 'p', 'v', 'm', 'f') \
    JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
    WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid >= 12000 AND a.atttypid = ANY($1) \
        AND a.atttypid <> ALL ($2)";

/// Adds columns of composites and ranges that have cells in them.
fn add_mixed_columns(catalog: &mut Catalog, rows: &[Row]) -> Result<(), ClientError> {
    for row in rows {
        let name = ColumnName {
            schema: row.try_get(0)?,
            table: row.try_get(1)?,
            column: row.try_get(2)?,
        };
        let cells = Cells::mixed(catalog.default_key());
        catalog.add_column(&name, cells);
    }
    Ok(())
}

const ORDERS: &str = "SELECT n.nspname::pg_catalog.text, r.relname::pg_catalog.text, \
        pg_catalog.array_agg(a.attname::pg_catalog.text ORDER BY a.attnum), \
        pg_catalog.array_agg(a.attgenerated <> '' ORDER BY a.attnum) \
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class r ON r.oid = a.attrelid \
    JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
    WHERE a.attnum > 0 AND NOT a.attisdropped AND r.oid >= 12000 \
        AND r.relkind IN ('r', 'p', 'v', 'm', 'f') \
        AND EXISTS (SELECT FROM pg_catalog.pg_attribute e \
            WHERE e.attrelid = r.oid AND e.attnum > 0 AND e.atttypid = ANY($1)) \
    GROUP BY 1, 2";

/// All columns of tables, in their order.
type Orders = BTreeMap<TableName, Vec<PlacedColumn>>;

/// Returns the columns of tables with cells, in the order that the server shows.
fn shown_orders(rows: &[Row]) -> Result<Orders, ClientError> {
    rows.iter().map(order_of_row).collect()
}

/// Adds the order by which values without names of columns are sealed: that of the owner's list,
/// if the server has it too. A server that is trusted says it of tables that the list has not.
fn place(catalog: &mut Catalog, list: &OwnersList, shown: &Orders, trusts_server_types: bool) {
    for (table, columns) in list.orders() {
        let placed = match shown.get(table).is_some_and(|shown| shown == columns) {
            true => Placed::Known(columns.to_vec()),
            false => Placed::Changed,
        };
        catalog.add_placed(table, placed);
    }
    let listed = list.tables();
    for (table, columns) in shown {
        if trusts_server_types && !listed.contains(table) {
            catalog.add_placed(table, Placed::Known(columns.clone()));
        }
    }
}

const CHILDREN: &str = "SELECT p.relname::pg_catalog.text, n.nspname::pg_catalog.text, \
        c.relname::pg_catalog.text FROM pg_catalog.pg_inherits i \
    JOIN pg_catalog.pg_class p ON p.oid = i.inhparent \
    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relkind IN ('r', 'p', 'f') \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace";

/// Adds which tables inherit from which, partitions too: a new column of one is theirs.
fn add_children(catalog: &mut Catalog, rows: &[Row]) -> Result<(), ClientError> {
    for row in rows {
        catalog.add_child(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    }
    Ok(())
}

const FUNCTIONS: &str = "SELECT p.proname::pg_catalog.text, p.proargtypes::pg_catalog.oid[] \
    FROM pg_catalog.pg_proc p WHERE p.oid >= 12000 AND p.proargtypes::pg_catalog.oid[] && $1 \
        AND p.oid NOT IN (SELECT d.objid FROM pg_catalog.pg_depend d \
            JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid AND e.extname = 'encdb' \
            WHERE d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass \
                AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass \
                AND d.deptype = 'e')";

/// Adds functions and procedures, other than encdb's own, that take encrypted arguments.
fn add_functions(
    catalog: &mut Catalog,
    rows: &[Row],
    encrypted: &[u32],
) -> Result<(), ClientError> {
    for row in rows {
        let (name, types): (&str, Vec<u32>) = (row.try_get(0)?, row.try_get(1)?);
        let mixed = Cells::mixed(catalog.default_key());
        let cells = |oid: &u32| {
            let mixed = || encrypted.contains(oid).then(|| mixed.clone());
            catalog.type_of(*oid).cloned().or_else(mixed)
        };
        let arguments = types.iter().map(cells).collect();
        catalog.add_function(name, arguments);
    }
    Ok(())
}

/// Adds what the owner's list has beside columns, be it that the server hides it.
fn add_object(catalog: &mut Catalog, object: &ListedObject) {
    let key = Arc::clone(catalog.default_key());
    match object {
        ListedObject::Column(name) => catalog.add_listed(name, Cells::mixed(&key)),
        ListedObject::Type { name, .. } => catalog.add_mixed(name),
        ListedObject::Function {
            name, arguments, ..
        } => {
            catalog.add_mixed(name);
            let cells = |ty: &str| match ty {
                "-" => None,
                ty => Cells::by_type(ty, &key).or_else(|| Some(Cells::mixed(&key))),
            };
            let types = arguments.split(',').filter(|ty| !ty.is_empty());
            let arguments: Vec<_> = types.map(cells).collect();
            if arguments.iter().any(Option::is_some) {
                catalog.add_function(name, arguments);
            }
        }
    }
}

const BODIES: &str = "SELECT p.proname::pg_catalog.text, \
        p.prosrc || ' ' || coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), '') \
    FROM pg_catalog.pg_proc p WHERE p.oid >= 12000 AND p.probin IS NULL \
        AND p.prosrc || coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), '') \
            ~* '(execute|enc_|det_type|rnd_type)' \
        AND p.oid NOT IN (SELECT d.objid FROM pg_catalog.pg_depend d \
            WHERE d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass \
                AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.deptype = 'e')";

/// Adds functions that run a text with the name of something encrypted, or make cells themselves:
/// they may use an argument that the server sees.
fn add_bodies(catalog: &mut Catalog, rows: &[Row]) -> Result<(), ClientError> {
    for row in rows {
        let (name, body): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        if names_encrypted(body, catalog) {
            catalog.add_mixed(name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_known_if_the_server_hides_it() {
        let mut catalog = Catalog::new("k");
        let text = |text: &str| text.to_owned();
        let (schema, name) = (text("public"), text("mail"));
        add_object(&mut catalog, &ListedObject::Type { schema, name });
        let name = "public.house.addr".parse().expect("a name");
        add_object(&mut catalog, &ListedObject::Column(name));
        let function = ListedObject::Function {
            schema: text("public"),
            name: text("store"),
            arguments: text("-,enc_text,?"),
        };
        add_object(&mut catalog, &function);
        assert!(catalog.is_mixed("mail") && catalog.is_mixed("store"));
        let house = catalog.table("public", "house").expect("it is known");
        assert!(house["addr"].is_mixed);
        let [signature] = catalog.function("store") else {
            panic!("one signature");
        };
        let types: Vec<_> = signature
            .iter()
            .map(|it| it.as_ref().map(|it| (it.type_name(), it.is_mixed)))
            .collect();
        assert_eq!(
            types,
            [None, Some((Some("enc_text"), false)), Some((None, true))]
        );
        // The same from the server adds nothing; another one makes both doubtful.
        let same = signature.clone();
        catalog.add_function("store", same);
        assert_eq!(catalog.function("store").len(), 1);
        catalog.add_function("store", vec![None, None, None]);
        assert_eq!(catalog.function("store").len(), 2);
    }
}
