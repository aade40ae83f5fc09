//! Questions about the order and the equality of cells.

use super::fields::{collation, parts, put_collation, put_parts};
use super::{opcode, Collation, Parts};
use crate::response::in_parts;
use crate::wire::{put_bytes, Malformed, Out, Reader};
use crate::Items;

/// The most cells of a page that a request sends.
pub const MAX_CELLS: usize = 256;

/// A page of an index, as a request sends it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Page<'a> {
    /// The cells in their order on the page.
    pub cells: Items<'a>,
    /// Blocks of the pages below, as 4 bytes each: before the first cell, between the first and the
    /// second, and so on. A leaf page has none.
    pub children: &'a [u8],
    /// The block of the page to the right; 0 is none.
    pub right: u32,
}

/// A question about the order or the equality of cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ComparisonRequest<'a> {
    /// Compares two cells; answered by `Order`.
    Compare {
        /// The collation of texts.
        collation: Collation<'a>,
        /// The cell on the left.
        left: &'a [u8],
        /// The cell on the right.
        right: &'a [u8],
    },
    /// Finds the place of a probe among cells that are sorted, in either direction; answered by
    /// `Position`.
    SearchPage {
        /// The collation of texts.
        collation: Collation<'a>,
        /// The cell whose place is asked for.
        probe: &'a [u8],
        /// The cells in their order on the page.
        cells: Items<'a>,
    },
    /// Finds the place of a probe in an index, from a page on, down and to the right, as far as the
    /// evaluator has the pages; answered by `Findings`.
    Descend {
        /// The collation of texts.
        collation: Collation<'a>,
        /// The cell whose place is asked for.
        probe: &'a [u8],
        /// The index, in the connection's database.
        index: [u8; 16],
        /// The block of the page to begin with.
        block: u32,
        /// That page, to be kept in place of what was there.
        page: Option<Page<'a>>,
    },
    /// Hashes a cell; answered by `Hash`.
    Hash {
        /// PostgreSQL's seed; 0 asks for the plain hash.
        seed: u64,
        /// The cell.
        cell: &'a [u8],
    },
    /// Ranks cells: equal values have equal ranks, from 0 on without gaps. Answered by `Ranks`.
    Rank {
        /// The collation of texts.
        collation: Collation<'a>,
        /// The cells.
        cells: Items<'a>,
    },
    /// Asks for the tokens of a text; answered by `Tokens`, or by `Null` if those of a pattern are
    /// not told.
    Tokens {
        /// The parts that have tokens.
        parts: Parts<'a>,
        /// The cell.
        cell: &'a [u8],
    },
    /// Asks whether an index serves a pattern by its beginning; answered by `Truth`.
    HasPrefix(&'a [u8]),
    /// Asks for a number that sorts as the cell does, as far as it goes; inline only. Answered by
    /// `Hash`.
    OrderPrefix(&'a [u8]),
}

impl<'a> ComparisonRequest<'a> {
    #[inline]
    pub(super) fn parse(opcode: u8, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match opcode {
            opcode::COMPARE => Self::Compare {
                collation: collation(reader)?,
                left: reader.bytes()?,
                right: reader.bytes()?,
            },
            opcode::SEARCH_PAGE => Self::SearchPage {
                collation: collation(reader)?,
                probe: reader.bytes()?,
                cells: Items::read(reader)?,
            },
            opcode::HASH => Self::Hash {
                seed: reader.u64()?,
                cell: reader.bytes()?,
            },
            opcode::DESCEND => Self::Descend {
                collation: collation(reader)?,
                probe: reader.bytes()?,
                index: reader.array()?,
                block: reader.u32()?,
                page: page(reader)?,
            },
            opcode::RANK => Self::Rank {
                collation: collation(reader)?,
                cells: Items::read(reader)?,
            },
            opcode::TOKENS => Self::Tokens {
                parts: parts(reader)?,
                cell: reader.bytes()?,
            },
            opcode::HAS_PREFIX => Self::HasPrefix(reader.bytes()?),
            opcode::ORDER_PREFIX => Self::OrderPrefix(reader.bytes()?),
            _ => return Err(Malformed),
        })
    }

    pub(super) fn put(&self, into: &mut impl Out) {
        match *self {
            Self::Compare {
                collation,
                left,
                right,
            } => {
                into.push(opcode::COMPARE);
                put_collation(into, collation);
                put_bytes(into, left);
                put_bytes(into, right);
            }
            Self::SearchPage {
                collation,
                probe,
                cells,
            } => {
                into.push(opcode::SEARCH_PAGE);
                put_collation(into, collation);
                put_bytes(into, probe);
                cells.write(into);
            }
            Self::Hash { seed, cell } => {
                into.push(opcode::HASH);
                into.extend_from_slice(&seed.to_le_bytes());
                put_bytes(into, cell);
            }
            Self::Descend {
                collation,
                probe,
                index,
                block,
                page,
            } => {
                into.push(opcode::DESCEND);
                put_collation(into, collation);
                put_bytes(into, probe);
                into.extend_from_slice(&index);
                into.extend_from_slice(&block.to_le_bytes());
                put_page(into, page);
            }
            Self::Rank { collation, cells } => {
                into.push(opcode::RANK);
                put_collation(into, collation);
                cells.write(into);
            }
            Self::Tokens { parts, cell } => {
                into.push(opcode::TOKENS);
                put_parts(into, parts);
                put_bytes(into, cell);
            }
            Self::HasPrefix(cell) => {
                into.push(opcode::HAS_PREFIX);
                put_bytes(into, cell);
            }
            Self::OrderPrefix(cell) => {
                into.push(opcode::ORDER_PREFIX);
                put_bytes(into, cell);
            }
        }
    }
}

fn page<'a>(reader: &mut Reader<'a>) -> Result<Option<Page<'a>>, Malformed> {
    Ok(match reader.flag()? {
        false => None,
        true => Some(Page {
            cells: Items::read(reader)?,
            children: in_parts(reader.bytes()?, 4)?,
            right: reader.u32()?,
        }),
    })
}

fn put_page(into: &mut impl Out, page: Option<Page<'_>>) {
    into.push(u8::from(page.is_some()));
    if let Some(page) = page {
        page.cells.write(into);
        put_bytes(into, page.children);
        into.extend_from_slice(&page.right.to_le_bytes());
    }
}
