//! Questions about many cells at once. Each cell is answered as if it had been asked about alone,
//! so a question of this kind needs no right of its own and shows nothing more.

use super::aggregate::{batch, put_batch};
use super::fields::{collation, matching, put_collation, put_matching};
use super::{opcode, Batch, Collation, Matching};
use crate::response::in_parts;
use crate::wire::{put_bytes, Malformed, Out, Reader};
use crate::{Filter, FilterScope, Items, Program};

/// A question about many cells; answered by `Each`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EachRequest<'a> {
    /// Compares each cell on the left with the one on the right at its place, or with the only one;
    /// each is answered by `Order`.
    Compare {
        /// The collation of texts.
        collation: Collation<'a>,
        /// The cells on the left.
        lefts: Items<'a>,
        /// As many cells on the right, or one.
        rights: Items<'a>,
    },
    /// Tags each cell; each is answered by `Tag`.
    Tag(Items<'a>),
    /// Matches each text by LIKE and its like; each is answered by `Truth`.
    Like {
        /// How each is matched.
        matching: Matching<'a>,
        /// The pattern.
        pattern: &'a [u8],
        /// The texts.
        texts: Items<'a>,
    },
    /// Runs one program for each row; each is answered by `Cell` or `Null`.
    Compute {
        /// The program.
        program: Program<'a>,
        /// The operands of the first row, then those of the second, and so on. An empty one is
        /// NULL.
        operands: Items<'a>,
    },
    /// Aggregates the values of many groups, whose states are all in this request; each is answered
    /// by `Cell` or `Null`.
    Aggregate {
        /// The number of each group's values, as 4 bytes each.
        counts: &'a [u8],
        /// The values of the first group, then those of the second, and so on.
        batch: Batch<'a>,
    },
    /// Asks which rows a filter lets through; each is answered by `Filtered`.
    Filter {
        /// The conditions.
        filter: Filter<'a>,
        /// The programs of what is computed in them.
        programs: Items<'a>,
        /// The names of their collations.
        collations: Items<'a>,
        /// The cells that are the same for all rows. An empty one is NULL.
        constants: Items<'a>,
        /// The number of columns.
        columns: u8,
        /// The cells of the first row, then those of the second, and so on. An empty one is NULL.
        cells: Items<'a>,
    },
}

impl<'a> EachRequest<'a> {
    pub(super) fn parse(opcode: u8, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match opcode {
            opcode::EACH_COMPARE => compare(reader)?,
            opcode::EACH_TAG => Self::Tag(Items::read(reader)?),
            opcode::EACH_LIKE => Self::Like {
                matching: matching(reader)?,
                pattern: reader.bytes()?,
                texts: Items::read(reader)?,
            },
            opcode::EACH_COMPUTE => compute(reader)?,
            opcode::EACH_AGGREGATE => aggregate(reader)?,
            opcode::EACH_FILTER => filter(reader)?,
            _ => return Err(Malformed),
        })
    }

    /// How many answers it has.
    pub fn count(&self) -> u32 {
        let count = match self {
            Self::Compare { lefts: items, .. }
            | Self::Tag(items)
            | Self::Like { texts: items, .. } => items.len(),
            Self::Compute { program, operands } => operands.len() / program.row(),
            Self::Aggregate { counts, .. } => counts.len() / size_of::<u32>(),
            Self::Filter { columns, cells, .. } => cells.len() / usize::from((*columns).max(1)),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    pub(super) fn put(&self, into: &mut impl Out) {
        match *self {
            Self::Compare {
                collation,
                lefts,
                rights,
            } => {
                into.push(opcode::EACH_COMPARE);
                put_collation(into, collation);
                lefts.write(into);
                rights.write(into);
            }
            Self::Tag(cells) => {
                into.push(opcode::EACH_TAG);
                cells.write(into);
            }
            Self::Like {
                matching,
                pattern,
                texts,
            } => {
                into.push(opcode::EACH_LIKE);
                put_matching(into, matching);
                put_bytes(into, pattern);
                texts.write(into);
            }
            Self::Compute { program, operands } => {
                into.push(opcode::EACH_COMPUTE);
                put_bytes(into, program.bytes());
                operands.write(into);
            }
            Self::Aggregate { counts, batch } => {
                into.push(opcode::EACH_AGGREGATE);
                put_bytes(into, counts);
                put_batch(into, batch);
            }
            Self::Filter {
                filter,
                programs,
                collations,
                constants,
                columns,
                cells,
            } => {
                into.push(opcode::EACH_FILTER);
                put_bytes(into, filter.bytes());
                programs.write(into);
                collations.write(into);
                constants.write(into);
                into.push(columns);
                cells.write(into);
            }
        }
    }
}

/// Reads cells on the left and as many on the right, or one.
fn compare<'a>(reader: &mut Reader<'a>) -> Result<EachRequest<'a>, Malformed> {
    let collation = collation(reader)?;
    let (lefts, rights) = (Items::read(reader)?, Items::read(reader)?);
    match rights.len() == 1 || rights.len() == lefts.len() {
        true => Ok(EachRequest::Compare {
            collation,
            lefts,
            rights,
        }),
        false => Err(Malformed),
    }
}

/// Reads a program and the operands of whole rows.
fn compute<'a>(reader: &mut Reader<'a>) -> Result<EachRequest<'a>, Malformed> {
    let steps = reader.bytes()?;
    let program = Program::parse(steps, Program::operands(steps))?;
    let operands = Items::read(reader)?;
    match operands.len().checked_rem(program.row()) {
        Some(0) => Ok(EachRequest::Compute { program, operands }),
        _ => Err(Malformed),
    }
}

/// Reads groups that have all the values, each at least one.
fn aggregate<'a>(reader: &mut Reader<'a>) -> Result<EachRequest<'a>, Malformed> {
    let counts = in_parts(reader.bytes()?, size_of::<u32>())?;
    let batch = batch(reader)?;
    let mut left = batch.len();
    for count in counts_of(counts) {
        let rest = left.checked_sub(count).filter(|_| count > 0);
        left = rest.ok_or(Malformed)?;
    }
    match left {
        0 => Ok(EachRequest::Aggregate { counts, batch }),
        _ => Err(Malformed),
    }
}

/// Returns the numbers that are packed in the counts of [`EachRequest::Aggregate`].
pub fn counts_of(packed: &[u8]) -> impl Iterator<Item = usize> + use<'_> {
    let (counts, _) = packed.as_chunks::<4>();
    counts
        .iter()
        .map(|count| usize::try_from(u32::from_le_bytes(*count)).unwrap_or(usize::MAX))
}

/// Reads a filter and the cells of whole rows.
fn filter<'a>(reader: &mut Reader<'a>) -> Result<EachRequest<'a>, Malformed> {
    let bytes = reader.bytes()?;
    let programs = Items::read(reader)?;
    let (collations, constants) = (Items::read(reader)?, Items::read(reader)?);
    let columns = reader.u8()?;
    let scope = FilterScope {
        columns: usize::from(columns),
        constants: constants.len(),
        programs,
        collations,
    };
    let filter = Filter::parse(bytes, &scope)?;
    let cells = Items::read(reader)?;
    match cells.len().checked_rem(scope.columns) {
        Some(0) => Ok(EachRequest::Filter {
            filter,
            programs,
            collations,
            constants,
            columns,
            cells,
        }),
        _ => Err(Malformed),
    }
}
