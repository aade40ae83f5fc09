//! Plain columns of a table that has rows become encrypted ones: what must be known of the table,
//! what blocks it, and what is done.
//!
//! The module is pure. [`Facts`] are the server's word of a table; [`Plan::new`] makes a plan of
//! them, or says each [`Obstacle`]; the plan says the statements. `session/protecting.rs` reads the
//! facts and runs the plan. The server gets cells only: the client reads the values, seals them,
//! and the server looks the cells up while it rewrites the table.

mod constant;
mod facts;
mod obstacle;
pub(crate) mod online;
mod plan;
mod sql;

pub use facts::{ColumnFacts, Facts, ForeignKey, IndexFacts, Object, ObjectKind, TriggerFacts};
pub use obstacle::Obstacle;
pub use online::{KeptConstraint, KeptIndex, OnlineFacts, OnlineObstacle, OnlinePlan, Unfinished};
pub use plan::{Plan, PlannedColumn};

use crate::statement::Statement;
use crate::ListError;

/// The table and the columns that are to be encrypted, by the names that its user gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The table's schema; none if the search path finds the table
    pub schema: Option<String>,
    /// The table's name, as the catalog has it
    pub table: String,
    /// The columns' names, as the catalog has them
    pub columns: Vec<String>,
    /// The data key that seals
    pub keyname: String,
    /// Whether types whose limits no encrypted type has are encrypted without them
    pub drops_limits: bool,
}

impl Wanted {
    /// Reads names as SQL does: `table` or `schema.table`, and columns with commas between them.
    pub fn parse(table: &str, columns: &str, keyname: &str) -> Result<Self, ListError> {
        let (schema, table) = match &Statement::new(table).qualified_name()[..] {
            [table] => (None, table.clone()),
            [schema, table] => (Some(schema.clone()), table.clone()),
            _ => return Err(ListError::TableName),
        };
        let mut names: Vec<String> = Vec::new();
        for column in between_commas(columns) {
            match &Statement::new(column).qualified_name()[..] {
                [name] if names.contains(name) => {}
                [name] => names.push(name.clone()),
                _ => return Err(ListError::TableName),
            }
        }
        Ok(Self {
            schema,
            table,
            columns: names,
            keyname: keyname.to_owned(),
            drops_limits: false,
        })
    }
}

/// Splits a text at the commas that are in no double quotes.
fn between_commas(text: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |c| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_sql_reads_them() {
        let read = |table, columns| Wanted::parse(table, columns, "k");
        let wanted =
            read("S.\"My, Table\"", "Email, \"a,\"\"B\"\"\",email").expect("they are names");
        assert_eq!(wanted.schema.as_deref(), Some("s"));
        assert_eq!(wanted.table, "My, Table");
        assert_eq!(wanted.columns, ["email", "a,\"B\""]);
        for (table, columns) in [
            ("a.b.c", "d"),
            ("t", "a.b"),
            ("t", ""),
            ("t", "a,,b"),
            ("", "a"),
        ] {
            assert_eq!(
                read(table, columns),
                Err(ListError::TableName),
                "{table} {columns}"
            );
        }
    }
}
