//! Answers of an evaluator: `kind u8`, then the fields in their order.

use std::cmp::Ordering;

use crate::wire::{put_bytes, put_len, Malformed, Reader};
use crate::{Items, Refusal, Report};

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
    /// Where a probe is on a page.
    Position(Position),
    /// Whether.
    Truth(bool),
    /// A hash, or a prefix.
    Hash(u64),
    /// [`Finding`]s, each as an item: of pages one after the other, the first asked for.
    Findings(Items<'a>),
    /// Ranks, as 4 bytes each.
    Ranks(&'a [u8]),
    /// Tokens, as 8 bytes each, each once.
    Tokens(&'a [u8]),
    /// A tag: two cells of one key and one type have equal tags if their values are equal, and
    /// otherwise different ones. The first 8 bytes are the hash with seed 0.
    Tag([u8; 16]),
    /// The conditions of a filter that a row gets through.
    Filtered(Filtered),
    /// The answers about each of many cells, as [`Response::encode_item`] makes them.
    Each(Items<'a>),
    /// A handle, or how many.
    Number(u64),
    /// The secret of [tickets](crate::Tickets) for parallel workers.
    Tickets([u8; 32]),
    /// How the evaluator fares.
    Status(Status<'a>),
    /// The evaluator refuses; the report says why.
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

/// The conditions of a filter that a row gets through. The next one behind those that hold is to
/// be asked alone, unless it is known to fail, or all hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filtered {
    /// The number of conditions that hold, from the first on.
    pub hold: u16,
    /// Whether the next one does not hold: it is false, or NULL.
    pub fails: bool,
}

/// Findings of one search at most.
pub const MAX_FINDINGS: u32 = 16;
/// Equal cells of a finding at most.
pub const MAX_EQUAL: usize = 2;

/// The result of a search on a page: the position of the probe on the evaluator's page, and the
/// cells beside it. It holds for these cells wherever they are by now. For a page that came with
/// the request and is not kept, only the position is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding<'a> {
    /// The page
    pub block: u32,
    /// On the page as it was handed over
    pub position: Position,
    /// The last cell before the probe; empty: none on the page
    pub below: &'a [u8],
    /// The first cell behind it; empty: none on the page
    pub above: &'a [u8],
    /// The first and the last that are equal, with all between them
    pub equal: Items<'a>,
    /// Where the probe is before or behind all, the cell at the other end: the two tell which way
    /// the page is sorted, as two of the others do
    pub far: &'a [u8],
    /// The first and the last are equal: the page may be sorted either way
    pub uniform: bool,
}

/// The status of an evaluator, as far as an operator may know it.
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
    pub const FINDINGS: u8 = 8;
    pub const NUMBER: u8 = 9;
    pub const TICKETS: u8 = 10;
    pub const STATUS: u8 = 11;
    pub const REFUSED: u8 = 12;
    pub const RANKS: u8 = 13;
    pub const TAG: u8 = 14;
    pub const EACH: u8 = 15;
    pub const FILTERED: u8 = 16;
    pub const TOKENS: u8 = 17;
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
            kind::FINDINGS => Self::Findings(Items::read(&mut reader)?),
            kind::RANKS => Self::Ranks(in_parts(reader.bytes()?, 4)?),
            kind::TOKENS => Self::Tokens(in_parts(reader.bytes()?, 8)?),
            kind::TAG => Self::Tag(reader.array()?),
            kind::FILTERED => Self::Filtered(Filtered {
                hold: reader.u16()?,
                fails: reader.flag()?,
            }),
            kind::EACH => Self::Each(Items::read(&mut reader)?),
            kind::NUMBER => Self::Number(reader.u64()?),
            kind::TICKETS => Self::Tickets(reader.array()?),
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
            Self::Findings(findings) => {
                into.push(kind::FINDINGS);
                findings.write(into);
            }
            Self::Ranks(ranks) => put(into, kind::RANKS, ranks),
            Self::Tokens(tokens) => put(into, kind::TOKENS, tokens),
            Self::Tag(tag) => {
                into.push(kind::TAG);
                into.extend_from_slice(tag);
            }
            Self::Filtered(filtered) => {
                into.push(kind::FILTERED);
                into.extend_from_slice(&filtered.hold.to_le_bytes());
                into.push(u8::from(filtered.fails));
            }
            Self::Each(answers) => {
                into.push(kind::EACH);
                answers.write(into);
            }
            Self::Number(number) => {
                into.push(kind::NUMBER);
                into.extend_from_slice(&number.to_le_bytes());
            }
            Self::Tickets(secret) => {
                into.push(kind::TICKETS);
                into.extend_from_slice(secret);
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

impl<'a> Response<'a> {
    /// Appends the item of an answer to others. An empty one says that this cell is to be asked
    /// about alone: that answer is a refusal, or asks for something to be done first.
    pub fn encode_item(answer: Result<&Self, Refusal>, items: &mut Vec<u8>) {
        let start = items.len();
        put_len(items, 0);
        if let Ok(answer) = answer {
            answer.encode(items);
        }
        let len = u32::try_from(items.len() - start - 4).unwrap_or(u32::MAX);
        items[start..start + 4].copy_from_slice(&len.to_le_bytes());
    }

    /// Reads one of the answers about many cells; none is an empty one.
    pub fn parse_item(item: &'a [u8]) -> Result<Option<Self>, Malformed> {
        match item {
            [] => Ok(None),
            _ => Self::parse(item).map(Some),
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

    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.before.to_le_bytes());
        into.extend_from_slice(&self.through.to_le_bytes());
        into.push(u8::from(self.descending));
    }
}

impl<'a> Finding<'a> {
    /// Reads one of `Findings`.
    pub fn parse(item: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(item);
        let finding = Self {
            block: reader.u32()?,
            position: Position::read(&mut reader)?,
            below: reader.bytes()?,
            above: reader.bytes()?,
            equal: Items::read(&mut reader)?,
            far: reader.bytes()?,
            uniform: reader.flag()?,
        };
        reader.end()?;
        Ok(finding)
    }

    /// Appends the item to others.
    pub fn write_item(&self, items: &mut Vec<u8>) {
        let start = items.len();
        put_len(items, 0);
        items.extend_from_slice(&self.block.to_le_bytes());
        self.position.write(items);
        put_bytes(items, self.below);
        put_bytes(items, self.above);
        self.equal.write(items);
        put_bytes(items, self.far);
        items.push(u8::from(self.uniform));
        let len = u32::try_from(items.len() - start - 4).unwrap_or(u32::MAX);
        items[start..start + 4].copy_from_slice(&len.to_le_bytes());
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
