//! Commands that a client gives in an open session, and the replies to them.

use zeroize::Zeroizing;

use super::MessageError;
use crate::wire::{put_bytes, Malformed, Reader};
use crate::Report;

/// A client's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// One more grant; answered by `Done`.
    AddGrant(&'a [u8]),
    /// A list of revocations; answered by `Done`.
    Revoke(&'a [u8]),
    /// A new data key of the session's owner; answered by `WrappedKey`.
    GenerateKey {
        /// The key name
        name: &'a str,
        /// The group of the key, which grants may name
        group: u32,
        /// Whether conversions make deterministic cells
        deterministic: bool,
    },
    /// Ends the session; answered by `Done`.
    Close,
}

impl<'a> Command<'a> {
    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::new());
        match *self {
            Self::AddGrant(grant) => {
                out.push(1);
                put_bytes(&mut *out, grant);
            }
            Self::Revoke(list) => {
                out.push(2);
                put_bytes(&mut *out, list);
            }
            Self::GenerateKey {
                name,
                group,
                deterministic,
            } => {
                out.extend_from_slice(&[3, u8::from(deterministic)]);
                out.extend_from_slice(&group.to_le_bytes());
                put_bytes(&mut *out, name.as_bytes());
            }
            Self::Close => out.push(4),
        }
        out
    }

    /// Reads the content of a command.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(bytes);
        let command = match reader.u8()? {
            1 => Self::AddGrant(reader.bytes()?),
            2 => Self::Revoke(reader.bytes()?),
            3 => {
                let (deterministic, group) = (reader.flag()?, reader.u32()?);
                let name = reader.text()?;
                Self::GenerateKey {
                    name,
                    group,
                    deterministic,
                }
            }
            4 => Self::Close,
            _ => return Err(MessageError::Malformed),
        };
        reader.end()?;
        Ok(command)
    }
}

/// A reply of an evaluator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Done, and nothing to say.
    Done,
    /// A data key, wrapped under the owner's master key.
    WrappedKey(&'a [u8]),
    /// The evaluator refuses; the report says why.
    Refused(Report<'a>),
}

impl<'a> Reply<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Done => out.push(1),
            Self::WrappedKey(wrapped) => {
                out.push(2);
                put_bytes(&mut out, wrapped);
            }
            Self::Refused(report) => {
                out.push(3);
                report.write(&mut out);
            }
        }
        out
    }

    fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let reply = match reader.u8()? {
            1 => Self::Done,
            2 => Self::WrappedKey(reader.bytes()?),
            3 => Self::Refused(Report::read(&mut reader)?),
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(reply)
    }
}

/// A reply that was opened.
pub struct ReplyBuffer(pub(super) Zeroizing<Vec<u8>>);

impl ReplyBuffer {
    /// Reads the reply. Fails if its bytes are malformed.
    pub fn reply(&self) -> Result<Reply<'_>, MessageError> {
        Ok(Reply::parse(&self.0)?)
    }
}
