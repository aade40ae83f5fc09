//! Calls about the states of aggregates.

use pgseal_value::AggregateKind;

use super::fields::{collation, put_collation};
use super::{opcode, Collation};
use crate::wire::{put_bytes, Malformed, Out, Reader};
use crate::{Items, Program};

/// Values that come into an aggregate's state together: cells, or what programs make of some.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch<'a> {
    /// The aggregate of a state that begins.
    pub kind: AggregateKind,
    /// The collation of texts.
    pub collation: Collation<'a>,
    /// The programs.
    pub programs: Items<'a>,
    /// A byte for each value: 0 is a cell as it is, another one the number of a program, from 1 on.
    /// Empty if all are cells.
    pub shape: &'a [u8],
    /// The cells of the first value, then those of the second, and so on; none is NULL. An
    /// aggregate of two numbers has pairs of cells.
    pub cells: Items<'a>,
}

/// A value that comes into an aggregate's state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Input<'a> {
    /// The value of a cell.
    Cell(&'a [u8]),
    /// The result of a program for cells.
    Computed(Program<'a>, Items<'a>),
    /// The values of two cells, for an aggregate of two numbers.
    Pair(&'a [u8], &'a [u8]),
}

impl<'a> From<&'a [u8]> for Input<'a> {
    fn from(cell: &'a [u8]) -> Self {
        Self::Cell(cell)
    }
}

impl<'a> Batch<'a> {
    /// Returns the batch of cells as they are.
    pub const fn of_cells(kind: AggregateKind, collation: Collation<'a>, cells: Items<'a>) -> Self {
        Self {
            kind,
            collation,
            programs: Items::Listed(&[]),
            shape: &[],
            cells,
        }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        match self.shape {
            [] => self.cells.len() / self.width(),
            shape => shape.len(),
        }
    }

    /// The number of cells that a value has which is no program's.
    fn width(&self) -> usize {
        1 + usize::from(self.kind.takes_pairs())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the values, one after the other.
    ///
    /// # Errors
    /// If the shape is not that of the cells, or names a program that is not there.
    pub fn inputs(&self) -> Result<Inputs<'a>, Malformed> {
        let programs = self.programs.iter();
        let programs: Vec<Program<'a>> = programs
            .map(|steps| Program::parse(steps, Program::operands(steps)))
            .collect::<Result<_, _>>()?;
        let inputs = Inputs {
            programs,
            shape: self.shape,
            cells: self.cells,
            width: self.width(),
        };
        let is_whole = match self.shape {
            [] => inputs.programs.is_empty() && self.cells.len().is_multiple_of(inputs.width),
            _ if self.kind.takes_pairs() => false,
            shape => {
                let mut walked = inputs.clone();
                walked.by_ref().count() == shape.len() && walked.cells.is_empty()
            }
        };
        is_whole.then_some(inputs).ok_or(Malformed)
    }
}

/// The values of a batch, one after the other. They are read as they come: a list of them would
/// take far more memory than the shortest cells.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    programs: Vec<Program<'a>>,
    /// Empty if all are cells.
    shape: &'a [u8],
    cells: Items<'a>,
    /// 1, or 2 for pairs.
    width: usize,
}

impl Inputs<'_> {
    /// The number of values that are left.
    pub fn len(&self) -> usize {
        match self.programs.is_empty() {
            true => self.cells.len() / self.width,
            false => self.shape.len(),
        }
    }

    /// Whether none are left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> Iterator for Inputs<'a> {
    type Item = Input<'a>;

    fn next(&mut self) -> Option<Input<'a>> {
        let mut program = None;
        if let Some((number, rest)) = self.shape.split_first() {
            if let Some(at) = usize::from(*number).checked_sub(1) {
                program = Some(*self.programs.get(at)?);
            }
            self.shape = rest;
        }
        let taken = self.cells.take(program.map_or(self.width, Program::row));
        let (taken, width) = (taken.ok()?, self.width);
        let mut cells = taken.iter();
        match program {
            Some(program) => Some(Input::Computed(program, taken)),
            None if width == 2 => Some(Input::Pair(cells.next()?, cells.next()?)),
            None => cells.next().map(Input::Cell),
        }
    }
}

/// A call about the state of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AggregateRequest<'a> {
    /// Takes cells into an aggregate's state; answered by `Number`, the state's handle, which
    /// no other state of the connection ever has.
    Step {
        /// The state; 0 begins one.
        state: u64,
        /// The cells.
        batch: Batch<'a>,
    },
    /// Takes another state into this one, and ends the other; answered by `Done`.
    Combine {
        /// The state that stays.
        into: u64,
        /// The state that ends.
        from: u64,
    },
    /// Seals the state for another process of this session; answered by `Bytes`.
    Export(u64),
    /// Opens a state that another process exported; answered by `Number`, its handle.
    Import(&'a [u8]),
    /// Asks for the result, after the last cells; answered by `Cell` or `Null`. A state that does
    /// not stay is gone then, and one that never was, 0, is not made.
    Finish {
        /// The state; 0 is one that is all in this batch.
        state: u64,
        /// The cells that come in before, maybe none.
        batch: Batch<'a>,
        /// The state is asked again.
        stays: bool,
    },
    /// Ends a state; answered by `Done`.
    Drop(u64),
}

impl<'a> AggregateRequest<'a> {
    pub(super) fn parse(opcode: u8, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match opcode {
            opcode::AGGREGATE_STEP => Self::Step {
                state: reader.u64()?,
                batch: batch(reader)?,
            },
            opcode::AGGREGATE_COMBINE => Self::Combine {
                into: reader.u64()?,
                from: reader.u64()?,
            },
            opcode::AGGREGATE_EXPORT => Self::Export(reader.u64()?),
            opcode::AGGREGATE_IMPORT => Self::Import(reader.bytes()?),
            opcode::AGGREGATE_FINISH => {
                let (state, stays) = (reader.u64()?, reader.flag()?);
                let batch = batch(reader)?;
                Self::Finish {
                    state,
                    batch,
                    stays,
                }
            }
            opcode::AGGREGATE_DROP => Self::Drop(reader.u64()?),
            _ => return Err(Malformed),
        })
    }

    pub(super) fn put(&self, into: &mut impl Out) {
        match *self {
            Self::Step { state, batch } => {
                put_handle(into, opcode::AGGREGATE_STEP, state);
                put_batch(into, batch);
            }
            Self::Finish {
                state,
                batch,
                stays,
            } => {
                put_handle(into, opcode::AGGREGATE_FINISH, state);
                into.push(u8::from(stays));
                put_batch(into, batch);
            }
            Self::Combine { into: stays, from } => {
                put_handle(into, opcode::AGGREGATE_COMBINE, stays);
                into.extend_from_slice(&from.to_le_bytes());
            }
            Self::Import(bytes) => {
                into.push(opcode::AGGREGATE_IMPORT);
                put_bytes(into, bytes);
            }
            Self::Export(state) => put_handle(into, opcode::AGGREGATE_EXPORT, state),
            Self::Drop(state) => put_handle(into, opcode::AGGREGATE_DROP, state),
        }
    }
}

/// Reads a batch. Whether its shape is that of its cells is found out when it is taken apart.
pub(super) fn batch<'a>(reader: &mut Reader<'a>) -> Result<Batch<'a>, Malformed> {
    Ok(Batch {
        kind: AggregateKind::from_byte(reader.u8()?).ok_or(Malformed)?,
        collation: collation(reader)?,
        programs: Items::read(reader)?,
        shape: reader.bytes()?,
        cells: Items::read(reader)?,
    })
}

pub(super) fn put_batch(into: &mut impl Out, batch: Batch<'_>) {
    into.push(batch.kind as u8);
    put_collation(into, batch.collation);
    batch.programs.write(into);
    put_bytes(into, batch.shape);
    batch.cells.write(into);
}

fn put_handle(into: &mut impl Out, opcode: u8, state: u64) {
    into.push(opcode);
    into.extend_from_slice(&state.to_le_bytes());
}
