//! The values that come into a state: cells, and what programs make of some.

use pgseal_evaluator_proto::{Input, Items, Program, Refusal};
use pgseal_value::{AggregateKind, C};

use super::{is_extreme, State};
use crate::engine::ahead;
use crate::engine::cache::Opened;
use crate::engine::expressions::Made;
use crate::engine::permit::{Origin, Permit};
use crate::engine::texts::Growth;
use crate::engine::{CollationId, Connection};

impl Connection {
    /// Takes values in, one after the other.
    pub(super) fn take_inputs<'c>(
        &mut self,
        state: &mut Option<State>,
        (kind, collation): (AggregateKind, CollationId),
        mut inputs: impl Iterator<Item = Input<'c>> + Clone,
    ) -> Result<(), Refusal> {
        let (mut asked, mut some) = (None, Vec::with_capacity(ahead::MOST));
        let rows = rows_ahead(inputs.clone().next());
        loop {
            some.clear();
            some.extend(inputs.by_ref().take(rows));
            if some.is_empty() {
                return Ok(());
            }
            self.open_inputs(&some);
            for input in &some {
                match *input {
                    Input::Cell(cell) => self.step(state, kind, collation, cell, &mut asked)?,
                    Input::Computed(program, operands) => {
                        let made = (program, operands);
                        self.step_computed(state, (kind, collation), made, &mut asked)?;
                    }
                }
            }
        }
    }

    /// Opens the cells of some values side by side.
    fn open_inputs(&mut self, inputs: &[Input<'_>]) {
        self.open_ahead(inputs.iter().flat_map(|input| cells_of(*input)));
    }

    /// Keeps the operands that are the same in the first two values, and so, very likely, in all.
    pub(super) fn keep_same<'c>(&mut self, inputs: impl Iterator<Item = Input<'c>>) {
        let mut computed = inputs.filter_map(|input| match input {
            Input::Computed(program, operands) => Some((program, operands)),
            Input::Cell(_) => None,
        });
        let (Some((program, operands)), Some((other, others))) = (computed.next(), computed.next())
        else {
            return;
        };
        if program == other {
            self.keep_constants(operands.iter().zip(others.iter()));
        }
    }

    /// Whether all keys are there: a state that has begun is not to end for want of one.
    pub(super) fn check_keys<'c>(
        &self,
        mut inputs: impl Iterator<Item = Input<'c>>,
    ) -> Result<(), Refusal> {
        let view = &self.access.view;
        inputs.try_for_each(|input| cells_of(input).try_for_each(|cell| view.check_key(cell)))
    }

    /// Takes in what a program makes of cells, as if it had been sealed and opened on the way. Only
    /// sums do: an extreme is one of the cells that came.
    fn step_computed(
        &mut self,
        state: &mut Option<State>,
        (kind, collation): (AggregateKind, CollationId),
        (program, operands): (Program<'_>, Items<'_>),
        asked: &mut Option<(Origin, Permit)>,
    ) -> Result<(), Refusal> {
        if is_extreme(kind) {
            return Err(Refusal::MalformedRequest);
        }
        self.growth = Growth::of_request();
        let Some(Made { value, key }) = self.compute_value(program, operands)? else {
            return Ok(());
        };
        let opened = Opened {
            value,
            key,
            derived: true,
        };
        let permit = self.access.permit_of(state, kind, &opened, asked)?;
        match state {
            Some(state) => state.take_in(&C, &[], &opened, permit),
            None => {
                *state = Some(State::begin(kind, collation, &[], &opened, permit)?);
                Ok(())
            }
        }
    }
}

/// Returns the cells of a value.
fn cells_of(input: Input<'_>) -> impl Iterator<Item = &[u8]> {
    let (cell, operands) = match input {
        Input::Cell(cell) => (Some(cell), None),
        Input::Computed(_, operands) => (None, Some(operands)),
    };
    let operands = operands.into_iter().flat_map(|operands| operands.iter());
    cell.into_iter().chain(operands)
}

/// Returns the number of values like the first one whose cells are opened side by side.
fn rows_ahead(first: Option<Input<'_>>) -> usize {
    match first {
        Some(Input::Computed(_, operands)) => ahead::rows(operands.len()),
        _ => ahead::MOST,
    }
}
