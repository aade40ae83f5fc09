//! Why an evaluator does not do what it was asked: a number, an SQLSTATE and one sentence each
//! (`docs/encdb-errors.md`). Errors of values keep PostgreSQL's own SQLSTATE and sentence.

use std::borrow::Cow;

use pgseal_cell::grant::{GrantError, Operation};
use pgseal_cell::{CellError, UnwrapError};
use pgseal_crypto::RandomError;
use pgseal_value::ValueError;

use crate::wire::{put_bytes, Malformed, Reader};

/// A refusal. No variant holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The check byte does not match.
    #[error("the encrypted value is malformed")]
    MalformedCell,
    /// Too short, or not a length that its type has.
    #[error("the encrypted value has a wrong length")]
    WrongLength,
    /// Neither 0 nor 1.
    #[error("the encrypted value is of a version that this pgseal does not know")]
    UnknownVersion,
    /// An algorithm or a mode that is not known.
    #[error("the encrypted value names an algorithm that this pgseal does not know")]
    UnknownAlgorithm,
    /// A type byte that is not known, or not the one that was needed.
    #[error("the encrypted value is of another type than its place")]
    WrongType,
    /// The tag does not match.
    #[error(
        "the encrypted value is not authentic: it was altered, moved, or sealed under another key"
    )]
    NotAuthentic,
    /// No data key of this name or number.
    #[error(
        "no data key of this name belongs to the session's owner: make it with encdb.dek_generate"
    )]
    UnknownKey,
    /// The key of the cell was not loaded.
    #[error("the data key of the encrypted value is not loaded: it is not in encdb.data_key, or another owner's")]
    KeyNotLoaded,
    /// No client has opened a session on this connection.
    #[error("no session is open on this connection: connect with a client that opens one, or open it again")]
    NoSession,
    /// The session's time is over.
    #[error("the session has expired: open it again")]
    SessionExpired,
    /// The owner has granted nothing of the kind.
    #[error("the owner of the key has not granted {} to this session", .0.name())]
    NoGrant(Operation),
    /// The owner has granted it, and the time is over.
    #[error("the owner's grant has expired: ask for a new one")]
    GrantExpired,
    /// The owner has taken it back.
    #[error("the owner's grant was revoked")]
    GrantRevoked,
    /// Not a grant of this owner for this subject.
    #[error("the grant is malformed or not the owner's")]
    GrantRefused,
    /// No evaluator answers.
    #[error(
        "the evaluator does not answer: start pgseal-evaluator, or see the setting encdb.socket"
    )]
    EvaluatorAbsent,
    /// A request that is none, or not now.
    #[error("the evaluator does not understand the request: extension and evaluator must be of one version")]
    MalformedRequest,
    /// A message that is none.
    #[error("the message is malformed: client and evaluator must be of one version")]
    MalformedMessage,
    /// A message of another session, altered, or seen before.
    #[error("the message is not authentic: it was altered, repeated, or made for another session")]
    MessageRefused,
    /// A wrapped data key that does not open.
    #[error("the data key is malformed or not wrapped under the owner's master key")]
    KeyRefused,
    /// A collation that cannot be followed.
    #[error("encrypted texts are compared in collation C or in one of libc's: give COLLATE \"C\"")]
    UnknownCollation,
    /// No aggregate state, or no page that is kept, of this number.
    #[error("the state of the aggregate is gone: run the statement again")]
    UnknownState,
    /// No session has this ticket, or the leader gives its worker none.
    #[error("the parallel worker was not let into its leader's session: run the statement again")]
    UnknownTicket,
    /// More than fits.
    #[error("the request is larger than the evaluator takes")]
    TooLarge,
    /// A limit of sessions, keys or states.
    #[error("the evaluator has reached its limit of sessions, keys or aggregates: close some")]
    TooMany,
    /// Not in this form of the evaluator.
    #[error("this form of the evaluator does not do that")]
    Unsupported,
    /// The kernel gave none.
    #[error("the kernel gave no random bytes: check that no seccomp filter blocks getrandom(2)")]
    NoRandom,
    /// Equal values of two owners have different hashes, so none are equal.
    #[error("the encrypted values are of two owners, and are not compared with each other")]
    TwoOwners,
    /// The kernel gives no memory for what this would take.
    #[error("there is not enough memory for values of this size: raise the limits of memory, or take smaller ones")]
    OutOfMemory,
    /// Others than this role need the rest.
    #[error("this database role has its share of the evaluator's connections, memory or log: close some sessions, or wait")]
    RoleShare,
    /// The value has an error of PostgreSQL's own.
    #[error(transparent)]
    Value(ValueError),
}

impl Refusal {
    /// The number on the wire and in the log. Values' errors share one, `NoGrant` has one for each
    /// operation.
    pub fn code(self) -> u16 {
        match self {
            Self::MalformedCell => 1,
            Self::WrongLength => 2,
            Self::UnknownVersion => 3,
            Self::UnknownAlgorithm => 4,
            Self::WrongType => 5,
            Self::NotAuthentic => 6,
            Self::UnknownKey => 7,
            Self::KeyNotLoaded => 8,
            Self::NoSession => 9,
            Self::SessionExpired => 10,
            Self::GrantExpired => 11,
            Self::GrantRevoked => 12,
            Self::GrantRefused => 13,
            Self::EvaluatorAbsent => 14,
            Self::MalformedRequest => 15,
            Self::MalformedMessage => 16,
            Self::MessageRefused => 17,
            Self::KeyRefused => 18,
            Self::UnknownCollation => 19,
            Self::UnknownState => 20,
            Self::UnknownTicket => 21,
            Self::TooLarge => 22,
            Self::TooMany => 23,
            Self::Unsupported => 24,
            Self::NoRandom => 25,
            Self::TwoOwners => 26,
            Self::OutOfMemory => 27,
            Self::RoleShare => 28,
            Self::NoGrant(operation) => 0x100 + u16::from(operation as u8),
            Self::Value(_) => 0x200,
        }
    }

    /// Returns the SQLSTATE that a program sees. Class PE is pgseal's; errors of values have
    /// PostgreSQL's own.
    pub fn sqlstate(self) -> &'static str {
        match self {
            Self::MalformedCell => "PE001",
            Self::WrongLength => "PE002",
            Self::UnknownVersion => "PE003",
            Self::UnknownAlgorithm => "PE004",
            Self::WrongType => "PE005",
            Self::NotAuthentic => "PE006",
            Self::UnknownKey => "PE007",
            Self::KeyNotLoaded => "PE008",
            Self::NoSession => "PE009",
            Self::SessionExpired => "PE010",
            Self::NoGrant(_) => "PE011",
            Self::GrantExpired => "PE012",
            Self::GrantRevoked => "PE013",
            Self::GrantRefused => "PE014",
            Self::EvaluatorAbsent => "PE015",
            Self::MalformedRequest => "PE016",
            Self::MalformedMessage => "PE017",
            Self::MessageRefused => "PE018",
            Self::KeyRefused => "PE019",
            Self::UnknownCollation => "PE020",
            Self::UnknownState => "PE021",
            Self::UnknownTicket => "PE022",
            Self::TooLarge => "PE023",
            Self::TooMany => "PE024",
            Self::Unsupported => "PE025",
            Self::NoRandom => "PE026",
            Self::TwoOwners => "PE027",
            Self::RoleShare => "PE029",
            // As PostgreSQL's own.
            Self::OutOfMemory => "53200",
            Self::Value(error) => error.sqlstate(),
        }
    }
}

impl From<CellError> for Refusal {
    fn from(error: CellError) -> Self {
        match error {
            CellError::WrongLength => Self::WrongLength,
            CellError::Malformed => Self::MalformedCell,
            CellError::UnknownVersion => Self::UnknownVersion,
            CellError::UnknownAlgorithm => Self::UnknownAlgorithm,
            CellError::UnknownType => Self::WrongType,
            CellError::NotAuthentic => Self::NotAuthentic,
        }
    }
}

impl From<GrantError> for Refusal {
    fn from(error: GrantError) -> Self {
        match error {
            GrantError::Expired => Self::GrantExpired,
            GrantError::Revoked => Self::GrantRevoked,
            GrantError::Malformed
            | GrantError::Unknown
            | GrantError::Foreign
            | GrantError::TooWide
            | GrantError::Early => Self::GrantRefused,
        }
    }
}

impl From<UnwrapError> for Refusal {
    fn from(_: UnwrapError) -> Self {
        Self::KeyRefused
    }
}

impl From<ValueError> for Refusal {
    fn from(error: ValueError) -> Self {
        Self::Value(error)
    }
}

impl From<RandomError> for Refusal {
    fn from(_: RandomError) -> Self {
        Self::NoRandom
    }
}

impl From<Malformed> for Refusal {
    fn from(_: Malformed) -> Self {
        Self::MalformedRequest
    }
}

/// A refusal as it crosses the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<'a> {
    /// [`Refusal::code`]
    pub code: u16,
    /// [`Refusal::sqlstate`]: five characters
    pub sqlstate: [u8; 5],
    /// One sentence
    pub text: Cow<'a, str>,
}

impl From<Refusal> for Report<'static> {
    fn from(refusal: Refusal) -> Self {
        let mut sqlstate = *b"XX000";
        sqlstate.copy_from_slice(refusal.sqlstate().as_bytes());
        Self {
            code: refusal.code(),
            sqlstate,
            text: Cow::Owned(refusal.to_string()),
        }
    }
}

impl<'a> Report<'a> {
    /// Returns the report with a text of its own, to keep.
    pub fn into_owned(self) -> Report<'static> {
        Report {
            code: self.code,
            sqlstate: self.sqlstate,
            text: Cow::Owned(self.text.into_owned()),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            code: reader.u16()?,
            sqlstate: reader.array()?,
            text: Cow::Borrowed(reader.text()?),
        })
    }

    pub(crate) fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.code.to_le_bytes());
        into.extend_from_slice(&self.sqlstate);
        put_bytes(into, self.text.as_bytes());
    }
}
