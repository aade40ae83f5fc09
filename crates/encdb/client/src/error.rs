//! Errors of the client. A variant says what its reader has to do.

use pgseal_cell::grant::GrantError;
use pgseal_cell::{CellError, DataKeyId, UnwrapError};
use pgseal_crypto::RandomError;
use pgseal_evaluator_proto::message::MessageError;
use pgseal_evaluator_proto::Report;
use pgseal_value::ValueError;

use crate::{EvidenceError, ListError};

/// An error of a session, a key or a value. No text holds a secret or a value.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server, or the connection to it, fails.
    #[error("{}", server_text(.0))]
    Server(#[from] tokio_postgres::Error),
    /// The options make no connection.
    #[error("{0}")]
    Connection(String),
    /// TLS cannot be set up.
    #[error("{0}")]
    Tls(String),
    /// The database has no extension encdb.
    #[error("the database has no extension encdb: CREATE EXTENSION encdb")]
    NotInstalled,
    /// The process that answers is not the one of the login.
    #[error(
        "a pool is between pgseal and the server, and may hand the owner's session to other \
         clients: connect to the server itself, or say --session-pool if the pool gives each \
         connection one of the server's up to its end; nothing was sent"
    )]
    Pooled,
    /// Another process of the server answers.
    #[error(
        "the pool between pgseal and the server hands out connections by transaction, and the \
         owner's session is on another one: let it hand them out by session, or connect to the \
         server itself"
    )]
    Switched,
    /// The role may not read or write a table of the extension.
    #[error("the role may not {0}: let a superuser grant it, or do it")]
    NotAllowed(&'static str),
    /// The evaluator is not trusted.
    #[error("{0}; nothing was sent to it")]
    Evidence(#[from] EvidenceError),
    /// The exchange with the evaluator fails.
    #[error("{0}")]
    Message(#[from] MessageError),
    /// The evaluator refuses a command.
    #[error("the evaluator refuses: {text}")]
    Refused {
        /// The code that docs/encdb-errors.md lists
        sqlstate: String,
        /// One sentence
        text: String,
    },
    /// There is no key of this name.
    #[error("there is no data key {0:?} of this owner: make it with pgseal client key, or encdb.dek_generate")]
    NoKey(String),
    /// The name of a new key is taken.
    #[error(
        "there is a data key {0:?} already, of this owner or of another one who uses the role: \
         give the new one another name (pgseal client key new NAME) and name it to whatever \
         seals (--key NAME)"
    )]
    KeyExists(String),
    /// The row of a key does not open.
    #[error("the data key {0:?} is refused: {1}")]
    KeyRefused(String, #[source] UnwrapError),
    /// A key of version 0 cannot seal.
    #[error(
        "the data key {0:?} is of version 0, which opens cells and seals none: name another key"
    )]
    OpensOnly(String),
    /// A cell under a key that is not there.
    #[error(
        "the value is sealed under the data key {0}, which is not this owner's, or was deleted"
    )]
    NoKeyOfCell(DataKeyId),
    /// A cell of version 0, and no key.
    #[error("the value is of version 0, and none of this owner's keys of version 0 opens it")]
    NoLegacyKey,
    /// A cell that is none, or was altered.
    #[error("{0}")]
    Cell(#[from] CellError),
    /// A value that is none.
    #[error("{0}")]
    Value(#[from] ValueError),
    /// Another number of arguments than of parameters.
    #[error("the statement has {parameters} parameters, and {arguments} arguments were given")]
    Arguments {
        /// The number of the statement's parameters
        parameters: usize,
        /// The number of arguments that were given
        arguments: usize,
    },
    /// A value that was not called plain, for a parameter that the server calls so.
    #[error(
        "parameter ${0} is of a plain type on the server, and its value was not sent: \
         if it is no secret, say that it is plain (--plain {0})"
    )]
    NotEncrypted(usize),
    /// A value that was called plain, for a parameter that is encrypted.
    #[error("parameter ${0} is encrypted: do not call its value plain")]
    NotPlain(usize),
    /// Cells within something that is not sealed.
    #[error(
        "parameter ${0} is a composite, a range or the like with encrypted values, and is not \
         sealed as a whole: give each value a parameter of its own, such as ROW($1, $2)"
    )]
    ParameterMixed(usize),
    /// A cell may be of any type.
    #[error(
        "parameter ${0} takes values of all types: say which one it is of (--type {0}=integer)"
    )]
    WhichType(usize),
    /// No array, or one that is too large.
    #[error("the array is malformed: write {{a,\"b c\",NULL}}, and lists in lists of one length")]
    Array,
    /// A COPY that is not read here.
    #[error(
        "COPY is read as COPY table (columns) FROM STDIN, COPY table (columns) TO STDOUT and \
         COPY (query) TO STDOUT, in text format and without options"
    )]
    Copy,
    /// An escape that is not read here.
    #[error(
        "a backslash in COPY's text must be before one of b, f, n, r, t, v, or another backslash"
    )]
    CopyEscape,
    /// A row of another length than the table.
    #[error("the row has {fields} fields between tabs, and COPY has {columns} columns")]
    CopyFields {
        /// The number of columns of the COPY
        columns: usize,
        /// The number of fields of the row
        fields: usize,
    },
    /// A row that cannot be sent; nothing of the COPY is stored.
    #[error("line {0}: {1}")]
    Line(usize, #[source] Box<Self>),
    /// A column that must be sealed, and is plain.
    #[error("column {0:?} is of a plain type on the server, which can make its values up")]
    PlainColumn(String),
    /// A value of another type than its parameter.
    #[error("parameter ${place} is of type {expected}")]
    ParameterType {
        /// The parameter's place, from 1 on
        place: usize,
        /// The type as the server names it
        expected: String,
    },
    /// A column of a plain type that this client does not know.
    #[error("column {column:?} is of type {ty}, which is not read here: cast it to text")]
    ColumnType {
        /// Its name
        column: String,
        /// Its type
        ty: String,
    },
    /// A column of arrays, where one value was asked for.
    #[error("column {0:?} holds arrays, and was asked for one value")]
    ColumnArray(String),
    /// A column with cells within something that is not opened.
    #[error(
        "column {column:?} is of type {ty}, which holds encrypted values and is not opened as a \
         whole: select its parts one by one"
    )]
    ColumnMixed {
        /// Its name
        column: String,
        /// Its type
        ty: String,
    },
    /// The identity of an application makes no grants.
    #[error("grants are made and revoked with the owner's identity; this one is an application's")]
    NotTheOwner,
    /// The evaluator knows of the revocation, but an evaluator that is shown the grant later will
    /// not.
    #[error("the database does not keep the list of revoked grants: revoke them again")]
    RevocationNotKept,
    /// A grant, or a list of revocations, that gives no right.
    #[error("the grant cannot be used: {0}")]
    Grant(#[from] GrantError),
    /// The server contradicts the owner's list.
    #[error(transparent)]
    List(#[from] ListError),
    /// The system gives no random bytes.
    #[error(transparent)]
    Random(#[from] RandomError),
}

impl ClientError {
    /// Returns the SQLSTATE of a refusal by server or evaluator.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Server(error) => error.code().map(tokio_postgres::error::SqlState::code),
            Self::Refused { sqlstate, .. } => Some(sqlstate),
            Self::Value(error) => Some(error.sqlstate()),
            _ => None,
        }
    }
}

impl From<Report<'_>> for ClientError {
    fn from(report: Report<'_>) -> Self {
        Self::Refused {
            sqlstate: String::from_utf8_lossy(&report.sqlstate).into_owned(),
            text: report.text.into_owned(),
        }
    }
}

/// Returns the error as psql shows it; the driver's own text is little more than "db error".
fn server_text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => {
            let hint = error.hint().map(|hint| format!(" ({hint})"));
            format!(
                "{} [{}]{}",
                error.message(),
                error.code().code(),
                hint.unwrap_or_default()
            )
        }
        None => {
            let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        }
    }
}
