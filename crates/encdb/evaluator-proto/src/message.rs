//! How an owner's client opens a session in an evaluator and speaks to it, past a server that only
//! relays (`docs/format/message.md`).
//!
//! ```text
//! client              server                evaluator
//!   Hello      ────────────────────────────▶
//!              ◀────────────────────────────  Evidence   binds its public key to what it is
//!   Open       ────────────────────────────▶             master key, grants; sealed to that key
//!              ◀────────────────────────────  Opened
//!   Command    ────────────────────────────▶             sealed, counted
//!              ◀────────────────────────────  Reply
//! ```
//!
//! States of the client, each a type: [`Hello`], [`Offer`] (read; anybody may have made it),
//! [`TrustedOffer`] (its evidence was verified), [`Opening`], [`ClientSession`]. Of the evaluator:
//! [`Welcome`], [`Opened`], [`EvaluatorSession`]. A step consumes the state before it, so that
//! nothing is taken twice.

mod channel;
mod client;
mod command;
mod evaluator;
mod offer;

pub use client::{ClientSession, Hello, Offer, OpenTerms, Opening, TrustedOffer, VerifyEvidence};
pub use command::{Command, Reply, ReplyBuffer};
pub use evaluator::{EvaluatorSession, Opened, Welcome};
pub use offer::{Claims, OfferTerms};
pub use pgseal_crypto::sign::{PublicKey, SigningKey};

use pgseal_crypto::RandomError;

use crate::{Malformed, Refusal};

/// The version of the messages that this crate speaks.
const VERSION: u8 = 1;

mod kind {
    pub const HELLO: u8 = 1;
    pub const EVIDENCE: u8 = 2;
    pub const OPEN: u8 = 3;
    pub const OPENED: u8 = 4;
    pub const COMMAND: u8 = 5;
    pub const REPLY: u8 = 6;
}

/// The kind of a client's message, by its first bytes, for an evaluator to choose by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A client asks for evidence.
    Hello,
    /// A client opens the session that it was offered.
    Open,
    /// A client gives a command in an open session.
    Command,
}

impl Kind {
    /// The kind of a client's message.
    pub fn of(message: &[u8]) -> Result<Self, MessageError> {
        match *message {
            [kind::HELLO, VERSION, ..] => Ok(Self::Hello),
            [kind::OPEN, VERSION, ..] => Ok(Self::Open),
            [kind::COMMAND, VERSION, ..] => Ok(Self::Command),
            [kind::HELLO..=kind::REPLY, version, ..] if version > VERSION => {
                Err(MessageError::Unknown)
            }
            _ => Err(MessageError::Malformed),
        }
    }
}

/// Why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The bytes are not a message, or not one that is expected now.
    #[error("the message is malformed: client and evaluator must be of one version")]
    Malformed,
    /// The message is of a later version.
    #[error("the message is of a version that this pgseal does not know: install a newer pgseal")]
    Unknown,
    /// The message is of another session, altered, or seen before.
    #[error("the message is not authentic: it was altered, repeated, or made for another session")]
    Refused,
    /// The offer has expired.
    #[error("the evaluator's offer has expired: begin again")]
    Expired,
    /// The kernel gave no random bytes.
    #[error("the kernel gave no random bytes: check that no seccomp filter blocks getrandom(2)")]
    Random,
}

impl From<Malformed> for MessageError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl From<RandomError> for MessageError {
    fn from(_: RandomError) -> Self {
        Self::Random
    }
}

impl From<pgseal_crypto::NotAuthentic> for MessageError {
    fn from(_: pgseal_crypto::NotAuthentic) -> Self {
        Self::Refused
    }
}

impl From<MessageError> for Refusal {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Malformed | MessageError::Unknown => Self::MalformedMessage,
            MessageError::Refused => Self::MessageRefused,
            MessageError::Expired => Self::SessionExpired,
            MessageError::Random => Self::NoRandom,
        }
    }
}
