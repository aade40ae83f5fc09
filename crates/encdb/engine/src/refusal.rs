//! Why a statement is not sent. Each has the SQLSTATE that PostgreSQL would give, and says how to
//! write the statement. None holds a value.

use pgseal_client::ClientError;
use pgseal_value::{Type, ValueError};

/// Why a statement is not sent.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A literal or parameter is in an expression whose value meets an encrypted column.
    #[error(
        "an encrypted value meets an expression with a literal or a parameter, which the server \
         would see: give the value of the whole expression as one parameter; nothing was sent"
    )]
    Expression,
    /// The server's clock, or one of its names, meets an encrypted column.
    #[error(
        "a value that the server gives, such as now(), CURRENT_DATE or CURRENT_USER, meets an \
         encrypted column, and the server does not store it there or compute with it: give the \
         time or the name as a parameter, or compare by = or <, under the grant compare-plain; \
         nothing was sent"
    )]
    Servers,
    /// Nothing says what a literal or parameter is for.
    #[error(
        "nothing says whether a literal or a parameter of this statement ({0}) is for an \
         encrypted column: cast it to its type, such as $1::enc_text; nothing was sent"
    )]
    Undecided(&'static str),
    /// A literal or parameter that meets no column, beside one that is sealed
    #[error(
        "a literal or a parameter meets no column, and may be the value that is encrypted \
         elsewhere in the statement: cast it to its encrypted type, such as $1::enc_text or \
         5::enc_int4, or leave it out; for a filter that is not set write $1 IS NULL; nothing was \
         sent"
    )]
    Loose,
    /// A body of code, which is a literal to the parser.
    #[error(
        "nothing says what {0} does with the literals in it, and the database has encrypted \
         columns: run it with psql as a user who knows that none is a secret; nothing was sent"
    )]
    Code(&'static str),
    /// A statement within a literal or a parameter
    #[error(
        "a string or a parameter is itself a statement that has literals and names something \
         encrypted, and the server would see them: run it as a statement of its own; nothing was \
         sent"
    )]
    Text,
    /// A function of an encrypted value that encdb does not have
    #[error(
        "function {0} has an encrypted argument, and the server would see the literal or the \
         parameter beside it: compute it in the application, or by a function of text that encdb \
         has; nothing was sent"
    )]
    Function(String),
    /// `INSERT` or `COPY` without a list of columns.
    #[error(
        "{0} into table {1}, which has encrypted columns, does not name its columns, and the \
         owner's list does not have their order: name them, or run pgseal client column add \
         --all and connect again; nothing was sent"
    )]
    NoColumns(&'static str, String),
    /// `INSERT` or `COPY` without a list of columns, into a table that has changed.
    #[error(
        "{0} into table {1}, which has encrypted columns, does not name its columns, and the \
         table has other columns or another order of them than in the owner's list: name them, \
         or if you changed the table, run pgseal client column add --all and connect again; \
         nothing was sent"
    )]
    OtherOrder(&'static str, String),
    /// A statement that would be another one, had it been prepared now. Drivers know PostgreSQL's
    /// own sentence, and prepare the statement again.
    #[error("cached plan must not change result type")]
    Stale,
    /// A table that is made of a query, with an encrypted column whose name nobody knows
    #[error(
        "an encrypted column of the query has no certain name in the table that is made of it: \
         name it with AS; nothing was sent"
    )]
    Nameless,
    /// A parameter that is plain in one use and encrypted in another.
    #[error(
        "parameter ${0} is for an encrypted column and for something that is computed in clear: \
         give the other use a parameter of its own, compare it by = with literals only, or write \
         ${0} IS NULL; nothing was sent"
    )]
    TwoUses(usize),
    /// A literal of a kind that its column does not take.
    #[error("a literal is not of the type of its encrypted column: write it as {0}")]
    LiteralType(&'static str),
    /// A literal for a column of any type.
    #[error("a literal for a column of type det_type or rnd_type has no type: write a parameter")]
    AnyType,
    /// A cast to a type that the engine does not follow.
    #[error(
        "a value for an encrypted column is cast to type {0}, which is not followed: leave the \
         cast out; nothing was sent"
    )]
    Cast(String),
    /// A parameter that is compared or computed in a type that its column does not have
    #[error(
        "a parameter of type {0} has a value that encrypted values of type {1} cannot equal, and \
         the server compares them only with values of their own type: give the parameter as {1}, \
         or write the value as a literal; nothing was sent"
    )]
    Inexact(&'static str, &'static str),
    /// A statement that PostgreSQL's parser does not take. Its message would repeat a part.
    #[error(
        "PostgreSQL's parser does not take the statement, and it names something encrypted: \
         correct its syntax, or make it less deep; nothing was sent"
    )]
    Syntax,
    /// Text in another encoding, in a statement or for a column
    #[error(
        "text is not UTF-8, so pgseal cannot tell what of it is for encrypted columns: set \
         client_encoding to UTF8"
    )]
    Encoding,
    /// Strings whose backslashes the parser here would not take as the server does
    #[error(
        "standard_conforming_strings is off, so a literal may mean another value to the server: \
         set it on; nothing was sent"
    )]
    Strings,
    /// An interval whose meaning a setting decides that is not known
    #[error(
        "an interval for an encrypted column begins with a sign that IntervalStyle sql_standard \
         applies to all its parts, and the session's IntervalStyle is not known here: give each \
         part its sign, or set IntervalStyle in a statement of its own; nothing was sent"
    )]
    IntervalStyle,
    /// Something else than a cell in an encrypted column
    #[error("the server sent something that is no cell in an encrypted column")]
    NoCell,
    /// COPY from the server's files or programs
    #[error(
        "COPY into encrypted columns from a file or a program of the server, which would have \
         the rows in clear: copy them from the client's standard input; nothing was sent"
    )]
    CopyFile,
    /// Rows of COPY that are not as COPY's formats have them
    #[error("{0}: correct the rows")]
    Copied(&'static str),
    /// A row of COPY
    #[error("row {0} of COPY: {1}; the row was not sent")]
    Row(u64, #[source] Box<Refusal>),
    /// A parameter of a statement that is not known
    #[error("the statement has {expected} parameters, and {given} were given")]
    Parameters {
        /// The number that the statement has
        expected: usize,
        /// The number that the driver sent
        given: usize,
    },
    /// A message that does not have what its type has
    #[error(transparent)]
    Message(#[from] crate::wire::MessageError),
    /// The value itself
    #[error(transparent)]
    Value(#[from] ValueError),
    /// Sealing it
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Refusal {
    /// Returns the SQLSTATE with which an application is told.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Expression | Self::Undecided(_) | Self::NoColumns(..) | Self::Cast(_) => "0A000",
            Self::CopyFile | Self::Code(_) | Self::Strings | Self::Nameless => "0A000",
            Self::Stale | Self::Loose | Self::OtherOrder(..) => "0A000",
            Self::Function(_) | Self::Text | Self::Servers | Self::Inexact(..) => "0A000",
            Self::Copied(_) => "22P04",
            Self::Row(_, refusal) => refusal.sqlstate(),
            Self::Encoding => "22021",
            Self::IntervalStyle => "22023",
            Self::NoCell => "XX001",
            Self::Parameters { .. } | Self::Message(_) => "08P01",
            Self::TwoUses(_) | Self::AnyType => "42P18",
            Self::LiteralType(_) => "42804",
            Self::Syntax => "42601",
            Self::Value(error) => error.sqlstate(),
            Self::Client(_) => "PE001",
        }
    }

    /// Returns the message with which a driver is told.
    pub(crate) fn response(&self) -> Vec<u8> {
        let text = self.to_string();
        let mut fields = vec![(b'C', self.sqlstate()), (b'M', &text)];
        if let Self::Stale = self {
            let detail =
                "The statement was prepared before a table had encrypted columns: prepare \
                it again.";
            fields.extend([(b'D', detail), (b'R', "RevalidateCachedQuery")]);
        }
        crate::wire::error_of(&fields)
    }

    /// Returns the refusal of a literal that a column of this type does not take.
    pub(crate) fn literal(ty: Type) -> Self {
        Self::LiteralType(ty.name())
    }
}
