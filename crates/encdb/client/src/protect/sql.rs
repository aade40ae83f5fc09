//! The statements of a plan. Each has names and cells in it, and no value.

use super::{Plan, PlannedColumn};
use crate::to_hex;

/// The temporary table of cells, by the places of their rows. It ends with the transaction.
const CELLS: &str = "pg_temp.pgseal_cells";

/// Puts a name in double quotes, whatever it is.
pub(super) fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Puts a text in single quotes, for a server with `standard_conforming_strings`.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl PlannedColumn {
    /// Returns the expression that reads the column's values.
    pub(super) fn expression(&self) -> String {
        let cast = self.cast.map(|ty| format!("::{ty}"));
        ident(&self.name) + &cast.unwrap_or_default()
    }
}

impl Plan {
    pub(crate) fn ident(&self) -> String {
        format!("{}.{}", ident(&self.schema), ident(&self.table))
    }

    pub(super) fn type_of(&self, column: &PlannedColumn) -> String {
        self.unlimited_type_of(column) + &column.limit
    }

    /// Returns the type without its limit. A cast to the limit would cut, which an assignment to
    /// the column does not.
    pub(super) fn unlimited_type_of(&self, column: &PlannedColumn) -> String {
        format!("{}.{}", ident(&self.types), column.encrypted())
    }

    /// Returns the columns with their places from 1 on.
    fn numbered(&self) -> impl Iterator<Item = (usize, &PlannedColumn)> {
        (1..).zip(&self.columns)
    }

    pub(crate) fn lock(&self) -> String {
        format!("LOCK TABLE ONLY {} IN ACCESS EXCLUSIVE MODE", self.ident())
    }

    /// Makes the table of cells, and a function that finds the cells of a row by its place: `USING`
    /// takes functions, but no queries. The function returns a row of the table, whose columns have
    /// the limits of the new ones: PostgreSQL then has no limit to check.
    pub(crate) fn prepare_cells(&self) -> String {
        let columns = self.numbered();
        let columns = columns.map(|(n, column)| format!(", c{n} {}", self.type_of(column)));
        let columns: String = columns.collect();
        format!(
            "CREATE TEMPORARY TABLE pgseal_cells (place tid{columns}) ON COMMIT DROP; CREATE \
             FUNCTION pg_temp.pgseal_row(tid) RETURNS {CELLS} STABLE LANGUAGE sql AS 'SELECT c \
             FROM {CELLS} c WHERE place = $1'"
        )
    }

    /// Reads the places of rows with a value, and the values.
    pub(crate) fn declare(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(PlannedColumn::expression).collect();
        format!(
            "DECLARE pgseal_rows NO SCROLL CURSOR FOR SELECT ctid, {} FROM ONLY {}",
            names.join(", "),
            self.ident()
        )
    }

    pub(crate) fn fetch(&self, rows: u32) -> String {
        format!("FETCH FORWARD {rows} FROM pgseal_rows")
    }

    pub(crate) fn copy_cells(&self) -> String {
        format!("COPY {CELLS} FROM STDIN (FORMAT binary)")
    }

    pub(crate) fn index_cells(&self) -> String {
        format!("CLOSE pgseal_rows; CREATE INDEX ON {CELLS} (place)")
    }

    /// Rewrites the table once, with all columns, and builds its indexes anew. `defaults` are the
    /// cells of the new defaults, in the columns' order.
    pub(crate) fn alter(&self, defaults: &[Option<Vec<u8>>]) -> String {
        let mut parts = Vec::new();
        for ((n, column), default) in self.numbered().zip(defaults) {
            let (name, ty) = (ident(&column.name), self.type_of(column));
            if column.has_default {
                parts.push(format!("ALTER COLUMN {name} DROP DEFAULT"));
            }
            let collation = column.collation.as_ref();
            let collation = collation
                .map(|it| format!(" COLLATE {it}"))
                .unwrap_or_default();
            parts.push(format!(
                "ALTER COLUMN {name} TYPE {ty}{collation} USING CASE WHEN {name} IS NULL THEN \
                 NULL::{ty} ELSE (pg_temp.pgseal_row(ctid)).c{n} END"
            ));
            if let Some(cell) = default {
                let (cell, ty) = (to_hex(cell), self.unlimited_type_of(column));
                parts.push(format!("ALTER COLUMN {name} SET DEFAULT '\\x{cell}'::{ty}"));
            }
        }
        format!("ALTER TABLE ONLY {} {}", self.ident(), parts.join(", "))
    }

    /// Counts the rows and the values of each column.
    pub(crate) fn count(&self) -> String {
        let counts = self
            .columns
            .iter()
            .map(|column| format!(", count({})", ident(&column.name)));
        let counts: String = counts.collect();
        format!("SELECT count(*){counts} FROM ONLY {}", self.ident())
    }

    pub(crate) fn drop_cells(&self) -> String {
        format!("DROP FUNCTION pg_temp.pgseal_row; DROP TABLE {CELLS}")
    }

    pub(crate) fn analyze(&self) -> String {
        format!("ANALYZE {}", self.ident())
    }
}
