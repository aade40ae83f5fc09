//! Calls about the states of aggregates.

use pgseal_value::AggregateKind;

use super::fields::{collation, put_collation};
use super::{opcode, Collation};
use crate::wire::{put_bytes, Malformed, Out, Reader};
use crate::Items;

/// Cells that come into an aggregate's state together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch<'a> {
    /// The aggregate of a state that begins.
    pub kind: AggregateKind,
    /// The collation of texts.
    pub collation: Collation<'a>,
    /// The cells, of which none is NULL.
    pub cells: Items<'a>,
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

fn batch<'a>(reader: &mut Reader<'a>) -> Result<Batch<'a>, Malformed> {
    Ok(Batch {
        kind: AggregateKind::from_byte(reader.u8()?).ok_or(Malformed)?,
        collation: collation(reader)?,
        cells: Items::read(reader)?,
    })
}

fn put_batch(into: &mut impl Out, batch: Batch<'_>) {
    into.push(batch.kind as u8);
    put_collation(into, batch.collation);
    batch.cells.write(into);
}

fn put_handle(into: &mut impl Out, opcode: u8, state: u64) {
    into.push(opcode);
    into.extend_from_slice(&state.to_le_bytes());
}
