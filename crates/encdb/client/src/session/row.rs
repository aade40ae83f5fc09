//! A row that came back: columns of encdb's types are opened when they are read.

use std::error::Error;

use pgseal_value::Value;
use tokio_postgres::types::{FromSql, Type as PgType};
use tokio_postgres::Column;

use crate::column::Shape;
use crate::{ClientError, Field, KeyRing};

/// One row.
pub struct Row<'s> {
    row: tokio_postgres::Row,
    keys: &'s KeyRing,
}

impl<'s> Row<'s> {
    pub(super) fn new(row: tokio_postgres::Row, keys: &'s KeyRing) -> Self {
        Self { row, keys }
    }

    /// Returns the columns as the server describes them.
    pub fn columns(&self) -> &[Column] {
        self.row.columns()
    }

    /// Returns the content of a column, whose place counts from 0; none is NULL.
    pub fn field(&self, place: usize) -> Result<Option<Field>, ClientError> {
        let Some(bytes) = self.bytes(place)? else {
            return Ok(None);
        };
        let column = &self.row.columns()[place];
        Field::read(column.type_(), column.name(), bytes, self.keys).map(Some)
    }

    /// Returns the value of a column that holds no arrays.
    pub fn value(&self, place: usize) -> Result<Option<Value>, ClientError> {
        match self.field(place)? {
            None => Ok(None),
            Some(Field::Value(value)) => Ok(Some(value)),
            Some(Field::Array(_)) => {
                let column = self.row.columns()[place].name();
                Err(ClientError::ColumnArray(column.to_owned()))
            }
        }
    }

    /// Returns the value of a column that the server must not make up. Fails if the column is of a
    /// plain type. That a value is NULL is the server's word.
    pub fn sealed(&self, place: usize) -> Result<Option<Value>, ClientError> {
        is_sealed(&self.row.columns()[place])?;
        self.value(place)
    }

    /// Returns the bytes that the server sent: the cell of an encrypted column.
    pub fn bytes(&self, place: usize) -> Result<Option<&[u8]>, ClientError> {
        let raw: Option<Raw<'_>> = self.row.try_get(place)?;
        Ok(raw.map(|raw| raw.0))
    }
}

/// Checks that the server says a column holds cells, which it cannot make.
pub(super) fn is_sealed(column: &Column) -> Result<(), ClientError> {
    match Shape::of(column.type_()) {
        Shape::Cell(_) | Shape::Cells(..) => Ok(()),
        Shape::Plain | Shape::Mixed => Err(ClientError::PlainColumn(column.name().to_owned())),
    }
}

/// The bytes of any column, as they were sent.
pub(super) struct Raw<'a>(pub(super) &'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &PgType, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &PgType) -> bool {
        true
    }
}
