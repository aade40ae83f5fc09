//! Rows of COPY between a driver and its server: cells are sealed on their way in, and opened on
//! their way out.
//!
//! A [`CopyPlan`] says what each column holds, and how rows are written. A [`Copying`] takes the
//! bytes of one direction in pieces of any size. It gives whole rows only, so that a row with a
//! value that cannot be sealed is not sent in part. PostgreSQL's rules for fields are those of
//! `src/backend/commands/copyfromparse.c`.

mod binary;
mod field;
mod split;

use std::sync::Arc;

use crate::catalog::{Catalog, Cells};
use crate::refusal::Refusal;
use crate::values::Keys;

/// How rows are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Text format, with backslashes
    Text(Marks),
    /// Comma-separated values
    Csv(Marks, Quotes),
    /// Binary format
    Binary,
}

/// The signs of a format: between fields, and in place of NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The byte between two fields
    pub delimiter: u8,
    /// The text of NULL, as it is written
    pub null: Vec<u8>,
    /// Whether the first row has the columns' names
    pub header: Header,
}

/// The content of the first row of a text or CSV format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// Values
    #[default]
    None,
    /// Names, which the server passes over
    Ignored,
    /// Names, which must be those of the columns
    Match,
}

/// The quotes of CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotes {
    /// The byte around a field
    pub quote: u8,
    /// The byte that makes a quote in a field a part of it
    pub escape: u8,
}

/// A column that COPY reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyColumn {
    /// Its name
    pub name: String,
    /// The cells that it holds; none for a plain column
    pub cells: Option<Cells>,
}

/// A COPY between the driver and columns of which some are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPlan {
    /// The columns, in the order of the fields
    pub columns: Vec<CopyColumn>,
    /// How rows are written
    pub format: CopyFormat,
}

/// The rows of a COPY between the driver and the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRows {
    /// Their direction
    pub direction: Direction,
    /// The conversion of their fields; none: they pass.
    pub plan: Option<Arc<CopyPlan>>,
}

/// Converts values on their way between the driver and the server.
pub(crate) struct Converter {
    pub(crate) direction: Direction,
    /// Binary arrays of cells have the OIDs of the server's types.
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) keys: Arc<dyn Keys + Send + Sync>,
}

/// The direction of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Values are sealed.
    ToServer,
    /// Cells are opened.
    ToDriver,
}

/// Rows that a piece completes, up to the first that is refused: however the bytes are cut, the
/// rows before it go on.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) rows: Vec<u8>,
    pub(crate) refused: Option<Refusal>,
}

/// The rows of one COPY, in one direction.
#[derive(Debug)]
pub(crate) struct Copying {
    plan: Arc<CopyPlan>,
    rows: Rows,
    /// The number of the row that comes next, from 1 on
    row: u64,
}

#[derive(Debug)]
enum Rows {
    Lines(split::Lines),
    Binary(binary::Tuples),
}

impl Copying {
    /// Begins with the first byte of the rows.
    pub(crate) fn new(plan: Arc<CopyPlan>) -> Self {
        let rows = match &plan.format {
            CopyFormat::Binary => Rows::Binary(binary::Tuples::default()),
            CopyFormat::Text(marks) => Rows::Lines(split::Lines::text(marks.delimiter)),
            CopyFormat::Csv(marks, quotes) => {
                Rows::Lines(split::Lines::csv(marks.delimiter, *quotes))
            }
        };
        Self { plan, rows, row: 1 }
    }

    /// Takes a piece of the rows, and returns the rows that it completes.
    pub(crate) fn take(&mut self, bytes: &[u8], by: &Converter) -> Taken {
        match &mut self.rows {
            Rows::Lines(lines) => lines.add(bytes),
            Rows::Binary(tuples) => tuples.add(bytes),
        }
        self.whole(false, by)
    }

    /// Takes the end of the rows. The last one may have no end of line.
    pub(crate) fn end(&mut self, by: &Converter) -> Taken {
        self.whole(true, by)
    }

    fn whole(&mut self, is_end: bool, by: &Converter) -> Taken {
        let mut taken = Taken::default();
        loop {
            let done = taken.rows.len();
            match self.next(is_end, by, &mut taken.rows) {
                Ok(true) => {}
                Ok(false) => return taken,
                Err(refusal) => {
                    taken.rows.truncate(done);
                    taken.refused = Some(Refusal::Row(self.row, Box::new(refusal)));
                    return taken;
                }
            }
        }
    }

    /// Converts what comes next; false if more bytes must come.
    fn next(&mut self, is_end: bool, by: &Converter, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        let plan = &*self.plan;
        let is_row = match &mut self.rows {
            Rows::Lines(lines) => match lines.next(is_end)? {
                Some(line) => {
                    field::convert(&line, self.row == 1, plan, by, out)?;
                    true
                }
                None => return Ok(false),
            },
            Rows::Binary(tuples) => match tuples.next(is_end)? {
                Some(binary::Piece::Row(values)) => {
                    binary::convert(&values, &plan.columns, by, out)?;
                    true
                }
                Some(binary::Piece::Around(bytes)) => {
                    out.extend_from_slice(bytes);
                    false
                }
                None => return Ok(false),
            },
        };
        self.row += u64::from(is_row);
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
