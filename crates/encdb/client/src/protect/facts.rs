//! The facts of a table from which a plan is made: the server's word, unjudged.

use super::Unfinished;

/// A table with the columns that are to be encrypted, and everything that depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The table's OID
    pub oid: u32,
    /// The schema of the extension's types
    pub types: String,
    /// The table's schema
    pub schema: String,
    /// The table's name
    pub table: String,
    /// `pg_class.relkind`
    pub kind: char,
    /// `pg_class.relpersistence`
    pub persistence: char,
    /// Whether the role may alter the table
    pub is_owned: bool,
    /// Whether the table is a partition, a partitioned table, or inherits or is inherited from
    pub is_related: bool,
    /// Whether the table was made of a composite type (`CREATE TABLE ... OF`)
    pub is_typed: bool,
    /// The planner's guess of the number of rows; negative if there is none
    pub rows: i64,
    /// The size of the table without its indexes, in bytes
    pub bytes: u64,
    /// The columns that were named and that the table has
    pub columns: Vec<ColumnFacts>,
    /// Indexes that have one of the columns, constraints' indexes too
    pub indexes: Vec<IndexFacts>,
    /// Foreign keys that have one of the columns on either side
    pub foreign_keys: Vec<ForeignKey>,
    /// Other objects that depend on one of the columns
    pub objects: Vec<Object>,
    /// The user's triggers of the table
    pub triggers: Vec<TriggerFacts>,
    /// Publications with the whole table
    pub publications: Vec<String>,
    /// The other columns that stand behind the first of these columns
    pub behind: Vec<String>,
    /// A run of the online form that was begun
    pub unfinished: Option<Unfinished>,
}

/// A column that is to be encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnFacts {
    /// Its name
    pub name: String,
    /// `pg_attribute.attnum`
    pub number: i16,
    /// The OID of its type
    pub ty: u32,
    /// The type as `format_type` writes it, with its modifier
    pub type_name: String,
    /// The type without its modifier
    pub bare_type: String,
    /// The name of the type if it is one of encdb
    pub encrypted: Option<String>,
    /// The collation, in quotes and with its schema, if it is not that of the type
    pub collation: Option<String>,
    /// Whether its collation is ICU's
    pub is_icu: bool,
    /// The default, as `pg_get_expr` writes it
    pub default: Option<String>,
    /// Whether it is `GENERATED ... AS IDENTITY`
    pub is_identity: bool,
    /// Whether it is computed of other columns
    pub is_generated: bool,
}

/// An index with one of the columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexFacts {
    /// Its name
    pub name: String,
    /// Its access method
    pub method: String,
    /// The first of the columns' operator classes that is not the default of its type
    pub class: Option<String>,
    /// Whether one of the columns is compared by a collation of ICU
    pub is_icu: bool,
    /// Whether an expression has one of the columns
    pub has_expression: bool,
    /// Whether the predicate has one of the columns
    pub has_predicate: bool,
    /// Whether it belongs to an exclusion constraint
    pub is_exclusion: bool,
}

/// A foreign key of or to the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKey {
    /// Its name
    pub name: String,
    /// The table that has it
    pub table: String,
    /// Whether both of its sides are this table
    pub is_own: bool,
    /// Its columns, by number
    pub from: Vec<i16>,
    /// The columns that they refer to, by number
    pub to: Vec<i16>,
}

/// The kind of an object that depends on a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectKind {
    /// A `CHECK` constraint that reads the values of the column
    Check,
    /// A `CHECK` constraint that reads whole rows
    WholeRow,
    /// A column that is computed of it
    Generated,
    /// A view, a materialized view or a rule
    Rule,
    /// A function in standard SQL
    Function,
    /// A policy of row-level security
    Policy,
    /// A trigger with the column in its list or its condition
    Trigger,
    /// A publication with a list of columns or a condition
    Publication,
    /// Extended statistics
    Statistics,
    /// A sequence that belongs to the column
    Sequence,
    /// A column elsewhere that has rows of this table in it
    RowType,
    /// Anything else
    #[default]
    Other,
}

/// An object that depends on one of the columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Its kind
    pub kind: ObjectKind,
    /// The object, as `pg_describe_object` says it
    pub name: String,
    /// The column's name
    pub column: String,
}

/// A trigger of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerFacts {
    /// Its name
    pub name: String,
    /// The source of its function
    pub body: String,
}
