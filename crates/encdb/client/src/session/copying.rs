//! COPY through a session: rows are sealed on their way in and opened on their way out.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::{SinkExt, TryStreamExt};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::Type as PgType;
use zeroize::Zeroizing;

use super::catalog::{table_order, Order};
use super::prepared::Target;
use super::Session;
use crate::column::Shape;
use crate::copy::{joined, open, Copy, Place};
use crate::{ClientError, ColumnName, ListError, Type};

/// The size in bytes from which collected rows are sent as one message.
const ENOUGH: usize = 64 << 10;

/// A column that COPY reads or writes.
struct CopiedColumn {
    name: String,
    ty: PgType,
}

impl Session {
    /// Runs `COPY … TO STDOUT`; `each` gets the rows in COPY's text format, opened. Returns their
    /// number.
    pub async fn copy_out<E: From<ClientError>>(
        &self,
        sql: &str,
        mut each: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<u64, E> {
        let columns = match Copy::read(sql)? {
            Copy::In(..) => return Err(ClientError::Copy.into()),
            Copy::Table(table, columns) => self.copied(&table, columns.as_deref()).await?,
            Copy::Query(query) => self.selected(query).await?,
        };
        let shapes: Vec<Shape> = columns.iter().map(|column| Shape::of(&column.ty)).collect();
        if let Some(place) = shapes.iter().position(|shape| *shape == Shape::Mixed) {
            let column = columns[place].name.clone();
            let ty = columns[place].ty.name().to_owned();
            return Err(ClientError::ColumnMixed { column, ty }.into());
        }
        let stream = self.client.copy_out(sql).await;
        let mut stream = pin!(stream.map_err(ClientError::from)?);
        let mut rows = 0;
        while let Some(bytes) = stream.try_next().await.map_err(ClientError::from)? {
            let row = std::str::from_utf8(&bytes).map_err(|_| ClientError::Copy)?;
            each(&self.opened(row.trim_end_matches('\n'), &shapes)?)?;
            rows += 1;
        }
        Ok(rows)
    }

    fn opened(&self, row: &str, shapes: &[Shape]) -> Result<Zeroizing<String>, ClientError> {
        let mut out = Zeroizing::new(String::with_capacity(row.len()));
        let fields: Vec<&str> = fields(row, shapes.len())?;
        for (place, (field, shape)) in fields.iter().zip(shapes).enumerate() {
            if place > 0 {
                out.push('\t');
            }
            open(field, *shape, &self.keys, &mut out)?;
        }
        Ok(out)
    }

    /// Runs `COPY … FROM STDIN` with these rows in COPY's text format. Returns how many it stored.
    /// The fields of columns in `plain`, from 1 on, go in clear; all others are sealed, or
    /// refused. `types` are those of values for columns of all types.
    pub async fn copy_in<'r>(
        &self,
        sql: &str,
        (plain, types): (&[usize], &BTreeMap<usize, Type>),
        rows: impl IntoIterator<Item = &'r str>,
    ) -> Result<u64, ClientError> {
        let Copy::In(table, columns) = Copy::read(sql)? else {
            return Err(ClientError::Copy);
        };
        if columns.is_none() {
            self.is_in_order(&table).await?;
        }
        let columns = self.copied(&table, columns.as_deref()).await?;
        let targets = self.copy_targets(&table, &columns).await?;
        self.settle(targets.iter().map(|target| target.keyname.as_str()))
            .await?;
        let mut places = Vec::with_capacity(columns.len());
        for (number, (column, target)) in (1..).zip(columns.iter().zip(&targets)) {
            let is_plain = plain.contains(&number);
            self.may_be_plain(&table, column, is_plain)?;
            places.push(Place {
                number,
                shape: Shape::of(&column.ty),
                keyname: &target.keyname,
                is_plain,
                ty: types.get(&number).copied(),
            });
        }
        let mut sink = pin!(self.client.copy_in::<_, BytesMut>(sql).await?);
        let mut block = String::with_capacity(2 * ENOUGH);
        for (line, row) in (1..).zip(rows) {
            let sealed = self.sealed(row, &places, &mut block);
            sealed.map_err(|error| ClientError::Line(line, Box::new(error)))?;
            if block.len() > ENOUGH {
                sink.feed(BytesMut::from(block.as_bytes())).await?;
                block.clear();
            }
        }
        sink.feed(BytesMut::from(block.as_bytes())).await?;
        Ok(sink.finish().await?)
    }

    fn sealed(&self, row: &str, places: &[Place<'_>], out: &mut String) -> Result<(), ClientError> {
        for (field, place) in fields(row, places.len())?.iter().zip(places) {
            if place.number > 1 {
                out.push('\t');
            }
            place.seal(field, &self.keys, out)?;
        }
        out.push('\n');
        Ok(())
    }

    /// Refuses that a column's fields go in clear if the list has the column. If no schema is
    /// named, the column may be in any: the server, which says what the search path finds, does
    /// not decide it.
    fn may_be_plain(
        &self,
        table: &[String],
        column: &CopiedColumn,
        is_plain: bool,
    ) -> Result<(), ClientError> {
        let is_it = |name: &&ColumnName| {
            let mut names = [&name.table, &name.schema].into_iter();
            column.name == name.column
                && table
                    .iter()
                    .rev()
                    .take(2)
                    .all(|part| names.next() == Some(part))
        };
        let mut listed = self.list.columns().map(|(name, _)| name).filter(is_it);
        listed.try_for_each(|name| Ok(self.list.argument(name, is_plain)?))
    }

    /// Returns the keys for the columns. If the table is named without its schema, the search path
    /// says which one it is.
    async fn copy_targets(
        &self,
        table: &[String],
        columns: &[CopiedColumn],
    ) -> Result<Vec<Target>, ClientError> {
        let (table, schema) = match table {
            [.., schema, last] => (last, schema.clone()),
            [last] => (last, self.schema_of(last).await?),
            [] => return Err(ClientError::Copy),
        };
        let target = |column: &CopiedColumn| {
            let name = ColumnName {
                schema: schema.clone(),
                table: table.clone(),
                column: column.name.clone(),
            };
            self.target(&name.to_string())
        };
        Ok(columns.iter().map(target).collect())
    }

    /// Returns the schema in which the search path finds a table of this name.
    async fn schema_of(&self, table: &str) -> Result<String, ClientError> {
        let sql = "SELECT n.nspname::pg_catalog.text FROM pg_catalog.pg_class r \
            JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
            WHERE r.oid = pg_catalog.to_regclass(pg_catalog.quote_ident($1))";
        let found = self.client.query_opt(sql, &[&table]).await?;
        let name = found.map(|row| row.try_get(0)).transpose()?;
        name.ok_or(ClientError::Copy)
    }

    /// Returns the columns of a COPY: those that it names, or if it names none, those of the
    /// table.
    async fn copied(
        &self,
        table: &[String],
        columns: Option<&[String]>,
    ) -> Result<Vec<CopiedColumn>, ClientError> {
        let table = joined(table, ".");
        let columns = match columns {
            Some(columns) => columns.to_vec(),
            None => {
                let (_, columns) = self.all_columns(&table).await?;
                let stored = columns.into_iter().filter(|column| !column.is_generated);
                stored.map(|column| column.name).collect()
            }
        };
        let select = format!("SELECT {} FROM {table}", joined(&columns, ", "));
        self.selected(&select).await
    }

    /// Returns a table and all its columns, as the server shows them.
    async fn all_columns(&self, table: &str) -> Result<Order, ClientError> {
        let found = table_order(&self.client, table).await?;
        found.ok_or(ClientError::Copy)
    }

    /// Refuses rows for columns that the statement does not name, if the server has another order
    /// of them than the owner's list: `--plain 2` says which column goes in clear.
    async fn is_in_order(&self, table: &[String]) -> Result<(), ClientError> {
        let (table, shown) = self.all_columns(&joined(table, ".")).await?;
        let mut orders = self.list.orders();
        match orders.find(|(listed, _)| **listed == table) {
            Some((_, listed)) if listed != shown => Err(ListError::Order(table.to_string()).into()),
            _ => Ok(()),
        }
    }

    /// Returns the columns that a query gives, after it is compared with the owner's list as any
    /// statement is.
    async fn selected(&self, query: &str) -> Result<Vec<CopiedColumn>, ClientError> {
        let prepared = self.prepare(query).await?;
        let column = |column: &tokio_postgres::Column| CopiedColumn {
            name: column.name().to_owned(),
            ty: column.type_().clone(),
        };
        Ok(prepared.statement().columns().iter().map(column).collect())
    }
}

fn fields(row: &str, columns: usize) -> Result<Vec<&str>, ClientError> {
    let fields: Vec<&str> = match columns {
        0 if row.is_empty() => Vec::new(),
        _ => row.split('\t').collect(),
    };
    match fields.len() == columns {
        true => Ok(fields),
        false => Err(ClientError::CopyFields {
            columns,
            fields: fields.len(),
        }),
    }
}
