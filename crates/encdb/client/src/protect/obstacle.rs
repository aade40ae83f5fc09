//! The reasons for which columns are not encrypted. Each is one sentence that names the object and
//! says what to do.

use super::OnlineObstacle;

/// Something that would be lost, or would show values, if the columns were encrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The relation is no ordinary table.
    #[error("{0} is not an ordinary table: name the table itself")]
    NoTable(String),
    /// A temporary table ends with its session.
    #[error("{0} is a temporary table: create a new one with encrypted types")]
    Temporary(String),
    /// A table of the system.
    #[error("{0} is a table of the system or of encdb, which stays as it is")]
    System(String),
    /// The role may not alter the table.
    #[error("the role does not own {0}: connect as its owner")]
    NotOwned(String),
    /// Partitions and inheritance.
    #[error(
        "{0} is partitioned, a partition, or has a parent or children: detach them (ALTER TABLE \
         ... DETACH PARTITION, NO INHERIT) and encrypt each table by itself"
    )]
    Related(String),
    /// A typed table.
    #[error("{0} is a typed table: make it independent first (ALTER TABLE {0} NOT OF)")]
    Typed(String),
    /// A name that the table does not have.
    #[error("{table} has no column {column}: see \\d {table}")]
    NoColumn {
        /// The table
        table: String,
        /// The name
        column: String,
    },
    /// A type without an encrypted counterpart.
    #[error("column {column} is of type {ty}, which has no encrypted type: {advice}")]
    Type {
        /// The column
        column: String,
        /// Its type
        ty: String,
        /// The advice that ends the sentence
        advice: String,
    },
    /// A limit that no encrypted type has.
    #[error(
        "column {column} is of type {ty}, and an encrypted type has no such limit: run ALTER TABLE \
         {table} ALTER COLUMN {column} TYPE {bare} first, or this with --drop-limits, and check \
         the limit in the application"
    )]
    Limit {
        /// The table
        table: String,
        /// The column
        column: String,
        /// Its type, with the limit
        ty: String,
        /// The type without it
        bare: String,
    },
    /// A collation by which cells are not compared.
    #[error(
        "{0} has a collation of ICU, by which encrypted values are not compared: give the column \
         one of libc first (ALTER TABLE ... ALTER COLUMN ... TYPE text COLLATE \"C\")"
    )]
    Icu(String),
    /// A default that the server computes.
    #[error(
        "the default of column {column} is {expression}, which the server computes in clear: run \
         ALTER TABLE {table} ALTER COLUMN {column} DROP DEFAULT, and let the application send it"
    )]
    Default {
        /// The table
        table: String,
        /// The column
        column: String,
        /// The expression
        expression: String,
    },
    /// An identity column.
    #[error(
        "column {column} is an identity column, whose values the server makes: run ALTER TABLE \
         {table} ALTER COLUMN {column} DROP IDENTITY, and let the application send it"
    )]
    Identity {
        /// The table
        table: String,
        /// The column
        column: String,
    },
    /// A column that the server computes.
    #[error(
        "column {column} is generated, so the server computes it in clear: run ALTER TABLE {table} \
         ALTER COLUMN {column} DROP EXPRESSION"
    )]
    Generated {
        /// The table
        table: String,
        /// The column
        column: String,
    },
    /// A list of encrypted columns that does not have this one.
    #[error(
        "column {0} is encrypted already, but not in the owner's list: run pgseal client column \
         add {0}"
    )]
    Encrypted(String),
    /// An access method that knows no cells.
    #[error(
        "index {index} is of type {method}, which cannot hold encrypted values: drop it first"
    )]
    Method {
        /// The index
        index: String,
        /// The access method
        method: String,
    },
    /// An operator class that knows no cells.
    #[error(
        "index {index} uses the operator class {class}, which encrypted types do not have: drop it \
         first, and create it again without the class"
    )]
    Class {
        /// The index
        index: String,
        /// The operator class
        class: String,
    },
    /// An expression in an index.
    #[error(
        "index {0} computes an expression of an encrypted column: drop it first, and create it \
         again in the owner's session if a grant allows the expression"
    )]
    IndexExpression(String),
    /// A condition of an index.
    #[error(
        "index {0} has a condition on an encrypted column: drop it first, and create it again \
         without the condition"
    )]
    Predicate(String),
    /// An exclusion constraint.
    #[error("the exclusion constraint of index {0} compares an encrypted column: drop it first")]
    Exclusion(String),
    /// A foreign key of which one side stays plain.
    #[error(
        "foreign key {name} of {table} has a side that stays plain, and plain values do not equal \
         encrypted ones: drop it first (ALTER TABLE {table} DROP CONSTRAINT {name}), encrypt both \
         sides, and create it again in the owner's session"
    )]
    ForeignKey {
        /// The constraint
        name: String,
        /// The table that has it
        table: String,
    },
    /// A check.
    #[error(
        "{name} reads column {column}: drop it first, and let the application check the value, or \
         create it again through pgseal proxy, which encrypts its constants"
    )]
    Check {
        /// The constraint
        name: String,
        /// The column
        column: String,
    },
    /// A check of rows.
    #[error(
        "{0} reads whole rows of the table, in which the columns would be encrypted: drop it \
         first, and name the columns in it that it needs"
    )]
    WholeRow(String),
    /// An object that is made again.
    #[error("{name} depends on column {column}: drop it first, and create it again afterwards")]
    Dependent {
        /// The object
        name: String,
        /// The column
        column: String,
    },
    /// A sequence.
    #[error(
        "{name} belongs to column {column}, whose values the server makes: run ALTER SEQUENCE ... \
         OWNED BY NONE and drop the column's default, and let the application send the values"
    )]
    Sequence {
        /// The sequence
        name: String,
        /// The column
        column: String,
    },
    /// A row type that is stored elsewhere.
    #[error("{name} holds rows of {table}, which would have other types: drop it first")]
    RowType {
        /// The column that holds them
        name: String,
        /// The table
        table: String,
    },
    /// A trigger whose function names the column.
    #[error(
        "trigger {trigger} calls a function that names column {column}: drop the trigger first, \
         and create it again if its function works on encrypted values"
    )]
    Trigger {
        /// The trigger
        trigger: String,
        /// The column
        column: String,
    },
    /// An obstacle to the online form alone.
    #[error(transparent)]
    Online(#[from] OnlineObstacle),
    /// A run of the online form.
    #[error(
        "an online run for {0} is unfinished: finish it with --online, or take it back with --abort"
    )]
    Unfinished(String),
}
