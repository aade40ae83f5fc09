//! The reasons for which columns are not encrypted online, beyond those of both forms.

/// Something that the online form would lose, or would set off for each row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OnlineObstacle {
    /// A foreign key within the table.
    #[error(
        "foreign key {0} has one of the columns, and only the form without --online keeps it: \
         drop it first, and create it again afterwards in the owner's session"
    )]
    ForeignKey(String),
    /// A subscriber lacks the new columns.
    #[error(
        "publication {0} would send the new columns to subscribers that lack them: take the table \
         out of it first"
    )]
    Publication(String),
    /// A trigger that each batch would set off.
    #[error(
        "trigger {0} would fire for each row that is encrypted: run this as a superuser, or as a \
         role that may set session_replication_role (GRANT SET ON PARAMETER), or disable it"
    )]
    Fires(String),
    /// A trigger that replicas fire, too.
    #[error(
        "trigger {0} is enabled for replicas and would fire for each row that is encrypted: \
         disable it, or run this without --online"
    )]
    FiresAlways(String),
    /// The own trigger, which did not see each change.
    #[error(
        "the trigger ~pgseal_protect was disabled for a time, and values that were changed then \
         would be lost: run this with --abort, and begin again"
    )]
    Disabled,
    /// A trigger whose changes would come after the mark.
    #[error(
        "trigger {0} runs after the trigger that marks changed rows, whose name is \
         ~pgseal_protect: rename it first (ALTER TRIGGER ... RENAME TO)"
    )]
    Later(String),
    /// A trigger that compares rows as wholes.
    #[error(
        "trigger {0} compares whole rows, and applications have no keys to compare encrypted \
         values until the columns are exchanged: name the columns in it that it needs, or run this \
         without --online"
    )]
    Rows(String),
    /// A rule.
    #[error("rule {0} of the table would rewrite the statements that encrypt rows: drop it first")]
    Rule(String),
    /// A constraint that existing rows need not meet.
    #[error(
        "constraint {0} is NOT VALID, and a row that does not meet it cannot be updated: run ALTER \
         TABLE ... VALIDATE CONSTRAINT first, or this without --online"
    )]
    Unproved(String),
    /// An index in which NULLs are equal.
    #[error(
        "index {0} has NULLS NOT DISTINCT, and rows that are not encrypted yet would be equal in \
         it: run this without --online"
    )]
    EqualNulls(String),
    /// A foreign key that needs an index which would be dropped.
    #[error(
        "foreign key {key} needs index {index}, which includes one of the columns: give the \
         referred columns a unique index of their own first, and create the key again"
    )]
    Referred {
        /// The foreign key
        key: String,
        /// The index
        index: String,
    },
    /// A privilege that the owner cannot give again.
    #[error(
        "privileges on column {0} were granted by another role than the table's owner: revoke \
         them first, and grant them as the owner"
    )]
    Grantor(String),
    /// A security label.
    #[error("column {0} has a security label: remove it first, and set it again afterwards")]
    Label(String),
    /// A schema in which the role may create nothing.
    #[error(
        "the role may create nothing in schema {0}, where the trigger's function and indexes have \
         to be: GRANT CREATE ON SCHEMA {0}, or run this without --online"
    )]
    Schema(String),
    /// A function that counts on the order of columns.
    #[error(
        "{0} has a statement without a list of columns for the table, and the columns change their \
         place: name the columns in it first, or run this without --online"
    )]
    Order(String),
    /// A name that a run needs.
    #[error("the table has a column {0}, a name that this command needs: rename it first")]
    Taken(String),
    /// A run with other columns or another key.
    #[error(
        "an online run of other columns (numbers {}) or another key ({keyname}) is unfinished: \
         finish it with its own options, or run this with --abort", list(.columns)
    )]
    Other {
        /// The numbers of its columns
        columns: Vec<i16>,
        /// Its key
        keyname: String,
    },
}

fn list(columns: &[i16]) -> String {
    let texts: Vec<String> = columns.iter().map(i16::to_string).collect();
    texts.join(", ")
}
