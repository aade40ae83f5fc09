//! What an evaluator answers. `kind u8`, then the fields in their order.

use std::cmp::Ordering;

use crate::wire::{put_bytes, Malformed, Reader};
use crate::{Items, Refusal, Report, Ticket};

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Response<'a> {
    /// Done, and nothing to say.
    Done,
    /// There is no value.
    Null,
    /// A cell.
    Cell(&'a [u8]),
    /// Bytes that are no cell: a message, a plaintext, a wrapped key, a state.
    Bytes(&'a [u8]),
    /// The order of two cells.
    Order(Ordering),
    /// Where a probe stands on a page.
    Position(Position),
    /// Whether.
    Truth(bool),
    /// A hash, or a prefix.
    Hash(u64),
    /// [`Position`]s on pages that are kept, as [`POSITION`] bytes each.
    Positions(&'a [u8]),
    /// Ranks, as 4 bytes each.
    Ranks(&'a [u8]),
    /// A handle, or how many.
    Number(u64),
    /// For parallel workers.
    Ticket(Ticket),
    /// How the evaluator fares.
    Status(Status<'a>),
    /// Why not.
    Refused(Report<'a>),
}

/// How many cells of a page stand before the probe, and how many before or with it, in the page's
/// order. Before is below, or above if the page descends; a page of equal cells ascends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Before
    pub before: u32,
    /// Before or equal
    pub through: u32,
    /// Whether the page descends
    pub descending: bool,
}

/// Bytes of a position.
pub const POSITION: usize = 9;

/// What an operator may know of an evaluator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status<'a> {
    /// The form, and the back end that its evidence comes from
    pub backend: u8,
    /// Whether this connection has a session
    pub open: bool,
    /// When the session ends, in seconds since 1970; 0 without one
    pub expires: u64,
    /// Data keys that this session may use
    pub keys: u32,
    /// `name | u64le`, counted names, since the evaluator began
    pub counters: Items<'a>,
}

mod kind {
    pub const DONE: u8 = 0;
    pub const NULL: u8 = 1;
    pub const CELL: u8 = 2;
    pub const BYTES: u8 = 3;
    pub const ORDER: u8 = 4;
    pub const POSITION: u8 = 5;
    pub const TRUTH: u8 = 6;
    pub const HASH: u8 = 7;
    pub const POSITIONS: u8 = 8;
    pub const NUMBER: u8 = 9;
    pub const TICKET: u8 = 10;
    pub const STATUS: u8 = 11;
    pub const REFUSED: u8 = 12;
    pub const RANKS: u8 = 13;
}

impl<'a> Response<'a> {
    /// Reads an answer.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let response = match reader.u8()? {
            kind::DONE => Self::Done,
            kind::NULL => Self::Null,
            kind::CELL => Self::Cell(reader.bytes()?),
            kind::BYTES => Self::Bytes(reader.bytes()?),
            kind::ORDER => Self::Order(order(reader.u8()?)?),
            kind::POSITION => Self::Position(Position::read(&mut reader)?),
            kind::TRUTH => Self::Truth(reader.flag()?),
            kind::HASH => Self::Hash(reader.u64()?),
            kind::POSITIONS => Self::Positions(in_parts(reader.bytes()?, POSITION)?),
            kind::RANKS => Self::Ranks(in_parts(reader.bytes()?, 4)?),
            kind::NUMBER => Self::Number(reader.u64()?),
            kind::TICKET => Self::Ticket(reader.array()?),
            kind::STATUS => Self::Status(Status::read(&mut reader)?),
            kind::REFUSED => Self::Refused(Report::read(&mut reader)?),
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(response)
    }

    /// Appends the bytes of the answer.
    pub fn encode(&self, into: &mut Vec<u8>) {
        match self {
            Self::Done => into.push(kind::DONE),
            Self::Null => into.push(kind::NULL),
            Self::Cell(cell) => put(into, kind::CELL, cell),
            Self::Bytes(bytes) => put(into, kind::BYTES, bytes),
            Self::Order(order) => into.extend_from_slice(&[kind::ORDER, order_byte(*order)]),
            Self::Position(position) => {
                into.push(kind::POSITION);
                position.write(into);
            }
            Self::Truth(truth) => into.extend_from_slice(&[kind::TRUTH, u8::from(*truth)]),
            Self::Hash(hash) => {
                into.push(kind::HASH);
                into.extend_from_slice(&hash.to_le_bytes());
            }
            Self::Positions(positions) => put(into, kind::POSITIONS, positions),
            Self::Ranks(ranks) => put(into, kind::RANKS, ranks),
            Self::Number(number) => {
                into.push(kind::NUMBER);
                into.extend_from_slice(&number.to_le_bytes());
            }
            Self::Ticket(ticket) => {
                into.push(kind::TICKET);
                into.extend_from_slice(ticket);
            }
            Self::Status(status) => {
                into.push(kind::STATUS);
                status.write(into);
            }
            Self::Refused(report) => {
                into.push(kind::REFUSED);
                report.write(into);
            }
        }
    }
}

impl From<Refusal> for Response<'static> {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.into())
    }
}

impl Position {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            before: reader.u32()?,
            through: reader.u32()?,
            descending: reader.flag()?,
        })
    }

    /// Reads one of `Positions`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let position = Self::read(&mut reader)?;
        reader.end()?;
        Ok(position)
    }

    /// Appends its bytes.
    pub fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.before.to_le_bytes());
        into.extend_from_slice(&self.through.to_le_bytes());
        into.push(u8::from(self.descending));
    }
}

impl<'a> Status<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            backend: reader.u8()?,
            open: reader.flag()?,
            expires: reader.u64()?,
            keys: reader.u32()?,
            counters: Items::read(reader)?,
        })
    }

    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&[self.backend, u8::from(self.open)]);
        into.extend_from_slice(&self.expires.to_le_bytes());
        into.extend_from_slice(&self.keys.to_le_bytes());
        self.counters.write(into);
    }
}

/// The byte of an order: 255, 0 or 1.
fn order_byte(order: Ordering) -> u8 {
    match order {
        Ordering::Less => 255,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

fn order(byte: u8) -> Result<Ordering, Malformed> {
    match byte {
        255 => Ok(Ordering::Less),
        0 => Ok(Ordering::Equal),
        1 => Ok(Ordering::Greater),
        _ => Err(Malformed),
    }
}

/// Bytes that are whole numbers of this size.
pub(crate) fn in_parts(bytes: &[u8], size: usize) -> Result<&[u8], Malformed> {
    if bytes.len() % size == 0 {
        Ok(bytes)
    } else {
        Err(Malformed)
    }
}

fn put(into: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    into.push(kind);
    put_bytes(into, bytes);
}
