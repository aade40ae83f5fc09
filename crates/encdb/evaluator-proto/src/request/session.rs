//! Requests about the session itself.

use super::opcode;
use crate::wire::{put_bytes, Malformed, Out, Reader};
use crate::{Items, Ticket};

/// As whom a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachAs {
    /// A backend that serves a client; its session is opened by messages.
    Client,
    /// A parallel worker of the session whose [ticket](crate::Tickets) this is.
    ParallelWorker {
        /// The leader's ticket, which is good once.
        ticket: Ticket,
    },
    /// Work without a client.
    Background,
}

/// A request about the session itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SessionRequest<'a> {
    /// Says who asks, before anything else; answered by `Done`.
    Attach {
        /// As whom the connection begins.
        kind: AttachAs,
        /// The database's own 16 bytes.
        database: [u8; 16],
        /// The role that the backend serves, by its number in the cluster.
        role: u32,
    },
    /// Asks for the tickets of this session's parallel workers from now on; answered by `Tickets`.
    Tickets,
    /// Relays a client's message; answered by `Bytes`.
    Message(&'a [u8]),
    /// Brings [`KeyRow`](crate::KeyRow)s, other owners' too; answered by `Number`, how many opened.
    LoadKeys(Items<'a>),
    /// Asks for figures, for operators; answered by `Status`.
    Status,
}

impl<'a> SessionRequest<'a> {
    pub(super) fn parse(opcode: u8, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match opcode {
            opcode::ATTACH => attach(reader)?,
            opcode::TICKETS => Self::Tickets,
            opcode::MESSAGE => Self::Message(reader.bytes()?),
            opcode::LOAD_KEYS => Self::LoadKeys(Items::read(reader)?),
            opcode::STATUS => Self::Status,
            _ => return Err(Malformed),
        })
    }

    pub(super) fn put(&self, into: &mut impl Out) {
        match *self {
            Self::Attach {
                kind,
                database,
                role,
            } => put_attach(into, kind, database, role),
            Self::Tickets => into.push(opcode::TICKETS),
            Self::Message(message) => {
                into.push(opcode::MESSAGE);
                put_bytes(into, message);
            }
            Self::LoadKeys(rows) => {
                into.push(opcode::LOAD_KEYS);
                rows.write(into);
            }
            Self::Status => into.push(opcode::STATUS),
        }
    }
}

fn attach<'a>(reader: &mut Reader<'a>) -> Result<SessionRequest<'a>, Malformed> {
    let (kind, database, role) = (reader.u8()?, reader.array()?, reader.u32()?);
    let kind = match kind {
        0 => AttachAs::Client,
        1 => AttachAs::ParallelWorker {
            ticket: reader.array()?,
        },
        2 => AttachAs::Background,
        _ => return Err(Malformed),
    };
    Ok(SessionRequest::Attach {
        kind,
        database,
        role,
    })
}

fn put_attach(into: &mut impl Out, kind: AttachAs, database: [u8; 16], role: u32) {
    let (kind, ticket) = match kind {
        AttachAs::Client => (0, None),
        AttachAs::ParallelWorker { ticket } => (1, Some(ticket)),
        AttachAs::Background => (2, None),
    };
    into.extend_from_slice(&[opcode::ATTACH, kind]);
    into.extend_from_slice(&database);
    into.extend_from_slice(&role.to_le_bytes());
    if let Some(ticket) = ticket {
        into.extend_from_slice(&ticket);
    }
}
