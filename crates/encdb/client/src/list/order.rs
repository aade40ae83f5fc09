//! The order of the columns of listed tables, so that rows without names of columns can be
//! encrypted: `INSERT INTO t VALUES (...)` and `COPY t FROM STDIN`.
//!
//! A server that says which column comes first would say which value is encrypted. So the list
//! keeps the order, and names the columns in the statement that is sent.

use std::fmt;

use super::{quoted, ColumnName, OwnersList};

/// A table, by the names that the catalog has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    /// Its schema
    pub schema: String,
    /// Its own name
    pub table: String,
}

impl TableName {
    /// Returns the table of a column.
    pub fn of(column: &ColumnName) -> Self {
        Self {
            schema: column.schema.clone(),
            table: column.table.clone(),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", quoted(&self.schema), quoted(&self.table))
    }
}

/// A column in the order of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedColumn {
    /// Its name
    pub name: String,
    /// Whether the server computes it, so that no row of COPY has it
    pub is_generated: bool,
}

impl OwnersList {
    /// Whether the owner has said which columns are encrypted. Without that, an empty list says
    /// nothing of the database.
    pub fn is_made(&self) -> bool {
        self.made || !self.columns.is_empty()
    }

    /// Notes that the owner has said which columns are encrypted, none perhaps.
    pub fn make(&mut self) {
        self.made = true;
    }

    /// Returns the tables of the columns in the list.
    pub fn tables(&self) -> Vec<TableName> {
        let mut tables: Vec<TableName> = self.columns.keys().map(TableName::of).collect();
        tables.dedup();
        tables
    }

    /// Returns the tables whose order is known, with all their columns.
    pub fn orders(&self) -> impl Iterator<Item = (&TableName, &[PlacedColumn])> {
        self.orders
            .iter()
            .map(|(table, columns)| (table, &columns[..]))
    }

    /// Takes in all columns of a table, in their order. Returns whether the list has the table.
    pub fn order(&mut self, table: TableName, columns: Vec<PlacedColumn>) -> bool {
        let is_listed = self.tables().contains(&table);
        if is_listed {
            self.orders.insert(table, columns);
        }
        is_listed
    }
}

#[cfg(test)]
mod tests {
    use super::super::ListedColumn;
    use super::*;

    #[test]
    fn a_list_is_made_by_its_owner_or_by_a_column() {
        let mut list = OwnersList::default();
        assert!(!list.is_made());
        let column = ListedColumn {
            ty: "enc_text".to_owned(),
            keyname: "k".to_owned(),
        };
        let name = || "public.t.c".parse().expect("it is a name");
        list.add(name(), column).expect("it is encrypted");
        assert!(list.is_made());
        list.forget(&name());
        assert!(!list.is_made());
        list.make();
        assert!(list.is_made());
    }

    #[test]
    fn the_order_goes_with_the_last_column_of_its_table() {
        let mut list = OwnersList::default();
        let name = |table: &str| TableName {
            schema: "public".to_owned(),
            table: table.to_owned(),
        };
        let columns = || {
            vec![PlacedColumn {
                name: "c".to_owned(),
                is_generated: false,
            }]
        };
        assert!(!list.order(name("t"), columns()), "it is not listed");
        for column in ["public.t.c", "public.t.d"] {
            let ty = "enc_text".to_owned();
            let keyname = "k".to_owned();
            let column = column.parse().expect("it is a name");
            list.add(column, ListedColumn { ty, keyname })
                .expect("it is encrypted");
        }
        assert!(list.order(name("t"), columns()));
        assert!(!list.order(name("u"), columns()));
        list.forget(&"public.t.c".parse().expect("it is a name"));
        assert_eq!(list.orders().count(), 1);
        list.forget(&"public.t.d".parse().expect("it is a name"));
        assert_eq!(list.orders().count(), 0);
    }
}
