//! The values that come into a state: cells, and what programs make of some.

use pgseal_evaluator_proto::{Input, Items, Program, Refusal};
use pgseal_value::{Aggregate, AggregateKind, C};

use super::{is_extreme, Allowed, State, Sum};
use crate::engine::ahead;
use crate::engine::cache::Opened;
use crate::engine::expressions::Made;
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
                    Input::Pair(y, x) => {
                        self.step_pair(state, (kind, collation), [y, x], &mut asked)?;
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
            Input::Cell(_) | Input::Pair(..) => None,
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
        asked: &mut Option<Allowed>,
    ) -> Result<(), Refusal> {
        if is_extreme(kind) || kind.takes_pairs() {
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
        let origins = [opened.origin(); 2];
        let permit = self.access.permit_of(state, kind, origins, asked)?;
        match state {
            Some(state) => state.take_in(&C, &[], &opened, permit),
            None => {
                *state = Some(State::begin(kind, collation, &[], &opened, permit)?);
                Ok(())
            }
        }
    }

    /// Takes the numbers of two cells in.
    fn step_pair(
        &mut self,
        state: &mut Option<State>,
        (kind, collation): (AggregateKind, CollationId),
        [y, x]: [&[u8]; 2],
        asked: &mut Option<Allowed>,
    ) -> Result<(), Refusal> {
        if !kind.takes_pairs() {
            return Err(Refusal::MalformedRequest);
        }
        let (y, x) = (self.open_of_pair(y)?, self.open_of_pair(x)?);
        let origins = [y.origin(), x.origin()];
        let permit = self.access.permit_of(state, kind, origins, asked)?;
        let (y, x) = (y.value.read(permit), x.value.read(permit));
        let state = match state {
            Some(state) => state,
            None => state.insert(State {
                kind,
                sum: Sum::Whole(Aggregate::new(kind, y.ty())?),
                origins: Vec::new(),
                collation,
            }),
        };
        origins.into_iter().for_each(|origin| state.meet(origin));
        match &mut state.sum {
            Sum::Whole(sum) => Ok(sum.step_pair(y, x)?),
            Sum::Extreme(..) => Err(Refusal::MalformedRequest),
        }
    }

    /// Returns the opened cell, which stays where it is if it is in the cache.
    fn open_of_pair(&mut self, cell: &[u8]) -> Result<Opened, Refusal> {
        let Some(at) = self.cells.find(cell) else {
            return self.cells.decrypt(&self.access.view, cell);
        };
        let opened = self.cells.at(at);
        Ok(Opened {
            value: opened.value.duplicate(),
            ..*opened
        })
    }
}

/// Returns the cells of a value.
fn cells_of(input: Input<'_>) -> impl Iterator<Item = &[u8]> {
    let (cell, other, operands) = match input {
        Input::Cell(cell) => (Some(cell), None, None),
        Input::Computed(_, operands) => (None, None, Some(operands)),
        Input::Pair(y, x) => (Some(y), Some(x), None),
    };
    let operands = operands.into_iter().flat_map(|operands| operands.iter());
    cell.into_iter().chain(other).chain(operands)
}

/// Returns the number of values like the first one whose cells are opened side by side.
fn rows_ahead(first: Option<Input<'_>>) -> usize {
    match first {
        Some(Input::Computed(_, operands)) => ahead::rows(operands.len()),
        Some(Input::Pair(..)) => ahead::rows(2),
        _ => ahead::MOST,
    }
}
