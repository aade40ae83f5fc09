//! Compiled expressions: operators, casts and functions one on another. What is made on the way is
//! not sealed; of each step is asked whether the session may as if it were, and it counts as
//! derived.

use std::cmp::Ordering;

use pgseal_cell::grant::Operation;
use pgseal_evaluator_proto::{Items, Program, Refusal, Step, StepZone};
use pgseal_value::{at_time_zone, East, Limit, Value, ValueError, C};

use super::cells::{At, Cells, Side};
use super::permit::{Guarded, Origin};
use super::texts::Growth;
use super::view::View;
use super::Connection;

/// A value that was made here, and the key that it is sealed with.
pub(super) struct Made {
    pub value: Guarded,
    pub key: u16,
}

impl Made {
    /// Returns a value that was computed here.
    pub(super) fn new(value: Value, key: u16) -> Self {
        let value = Guarded::new(value);
        Self { value, key }
    }
}

/// An operand of a step.
pub(super) enum Operand<'a> {
    /// Opened when its step comes: until then another may take its place in the cache.
    Cell(&'a [u8]),
    Made(Made),
}

/// The operands of the steps to come, the next one at the end; None is NULL.
pub(super) type Stack<'a> = Vec<Option<Operand<'a>>>;

impl Connection {
    /// The program's result for these operands, of which an empty one is NULL; false if it is NULL.
    /// What is NULL is not computed with, as PostgreSQL does not call strict functions.
    pub fn compute(
        &mut self,
        program: Program<'_>,
        operands: Items<'_>,
        into: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        self.growth = Growth::of_request();
        self.compute_row(program, operands, into)
    }

    /// Computes a program for one of several rows, whose results share the bytes by which they may
    /// be longer than their operands ([`Growth`]). Returns false if the result is NULL.
    pub(super) fn compute_row(
        &mut self,
        program: Program<'_>,
        operands: Items<'_>,
        into: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        match self.compute_operand(program, operands)? {
            Some(Operand::Made(made)) => self.seal_if_any(Some(made), into),
            Some(Operand::Cell(cell)) => {
                into.extend_from_slice(cell);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Computes a program as [`Connection::compute_row`] does, without sealing its result; none is
    /// NULL.
    pub(super) fn compute_value(
        &mut self,
        program: Program<'_>,
        operands: Items<'_>,
    ) -> Result<Option<Made>, Refusal> {
        match self.compute_operand(program, operands)? {
            Some(Operand::Made(made)) => Ok(Some(made)),
            // What it is here for counts as computed, as all else that programs make.
            Some(Operand::Cell(cell)) => {
                let at = self.cells.open(&self.access.view, cell, Side::Left, None)?;
                let key = self.access.result_key(self.cells.origin(at), None)?;
                let value = self.cells.at(at).value.duplicate();
                Ok(Some(Made { value, key }))
            }
            None => Ok(None),
        }
    }

    /// Computes a program. A result within a limit may be the cell that came.
    fn compute_operand<'a>(
        &mut self,
        program: Program<'_>,
        operands: Items<'a>,
    ) -> Result<Option<Operand<'a>>, Refusal> {
        self.begin_operation()?;
        let (mut operands, mut stack) = (operands.iter(), Stack::new());
        for step in program.steps() {
            let made = match step {
                Step::Operand => {
                    let cell = operands.next().filter(|cell| !cell.is_empty());
                    stack.push(cell.map(Operand::Cell));
                    continue;
                }
                Step::Arithmetic(op) => {
                    self.take_both(Operation::Arithmetic, &mut stack, |a, b| {
                        pgseal_value::arithmetic(op, a, b)
                    })?
                }
                Step::Between(fraction) => {
                    self.take_both(Operation::Arithmetic, &mut stack, |a, b| {
                        pgseal_value::between(a, b, fraction.value())
                    })?
                }
                Step::Concat => {
                    self.take_both(Operation::Text, &mut stack, pgseal_value::concat)?
                }
                Step::Negate => self.take_one(Operation::Arithmetic, &mut stack, |value| {
                    pgseal_value::negate(value).map(Some)
                })?,
                Step::Absolute => self.take_one(Operation::Arithmetic, &mut stack, |value| {
                    pgseal_value::absolute(value).map(Some)
                })?,
                Step::Length => self.take_one(Operation::Text, &mut stack, |value| {
                    pgseal_value::length(value).map(|length| Some(Value::Int4(length)))
                })?,
                Step::Extract(field) => self.take_one(Operation::Extract, &mut stack, |value| {
                    pgseal_value::extract(field, value)
                })?,
                Step::DatePart(field) => {
                    let part = |value: &_| pgseal_value::date_part(field, value);
                    self.take_one(Operation::Extract, &mut stack, part)?
                }
                Step::DateTrunc(field) => {
                    let unit = |value: &_| pgseal_value::date_trunc(field, value).map(Some);
                    self.take_one(Operation::Extract, &mut stack, unit)?
                }
                Step::ToChar(format) => self.take_one(Operation::Cast, &mut stack, |value| {
                    let shown = pgseal_value::to_char(value, &format.text());
                    shown.map(|shown| shown.map(Value::Text))
                })?,
                Step::Round(how) => self.take_one(Operation::Arithmetic, &mut stack, |value| {
                    pgseal_value::round(how, value).map(Some)
                })?,
                Step::AtZone(zone) => self.take_one(Operation::Cast, &mut stack, |value| {
                    at_zone(value, zone).map(Some)
                })?,
                Step::Cast(to) => self.take_one(Operation::Cast, &mut stack, |value| {
                    pgseal_value::cast(value, to).map(Some)
                })?,
                Step::Text(step) => self.text_step(step, &mut stack)?,
                Step::Limit(limit) => {
                    self.limit_step(limit, &mut stack)?;
                    continue;
                }
            };
            stack.push(made.map(Operand::Made));
        }
        Ok(stack.pop().flatten())
    }

    /// Holds the value on the stack within a limit. One that is equal to what the column holds
    /// stays as it is: to compare a computed cell, a session needs more rights.
    fn limit_step(&mut self, limit: Limit, stack: &mut Stack<'_>) -> Result<(), Refusal> {
        let Some(operand) = stack.pop().flatten() else {
            stack.push(None);
            return Ok(());
        };
        let changed = self.of_one(Operation::Limit, &operand, |value| {
            let limited = pgseal_value::limited(limit, value)?;
            let differs =
                |it: &Value| pgseal_value::compare(it, value, &C).is_ok_and(Ordering::is_ne);
            Ok::<_, ValueError>(limited.filter(differs))
        })?;
        stack.push(Some(changed.map_or(operand, Operand::Made)));
        Ok(())
    }

    fn take_both(
        &mut self,
        operation: Operation,
        stack: &mut Stack<'_>,
        compute: impl FnOnce(&Value, &Value) -> Result<Value, ValueError>,
    ) -> Result<Option<Made>, Refusal> {
        let (right, left) = (stack.pop().flatten(), stack.pop().flatten());
        match (left, right) {
            (Some(left), Some(right)) => self.of_both(operation, &left, &right, compute).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn take_one<E: Into<Refusal>>(
        &mut self,
        operation: Operation,
        stack: &mut Stack<'_>,
        compute: impl FnOnce(&Value) -> Result<Option<Value>, E>,
    ) -> Result<Option<Made>, Refusal> {
        match stack.pop().flatten() {
            Some(operand) => self.of_one(operation, &operand, compute),
            None => Ok(None),
        }
    }

    /// Computes a value from two, if the session may.
    pub(super) fn of_both(
        &mut self,
        operation: Operation,
        left: &Operand<'_>,
        right: &Operand<'_>,
        compute: impl FnOnce(&Value, &Value) -> Result<Value, ValueError>,
    ) -> Result<Made, Refusal> {
        let (cells, view) = (&mut self.cells, &self.access.view);
        let a = left.look_up(cells, view, Side::Left, None)?;
        let b = right.look_up(cells, view, Side::Right, a)?;
        let origins = [left.origin(cells, a), right.origin(cells, b)];
        let permit = self.access.may(operation, &origins)?;
        let key = self.access.result_key(origins[0], Some(origins[1]))?;
        let (left, right) = (left.value(cells, a), right.value(cells, b));
        let value = compute(left.read(&permit), right.read(&permit))?;
        Ok(Made::new(value, key))
    }

    /// Computes a value from one, if the session may; None is NULL.
    pub(super) fn of_one<E: Into<Refusal>>(
        &mut self,
        operation: Operation,
        operand: &Operand<'_>,
        compute: impl FnOnce(&Value) -> Result<Option<Value>, E>,
    ) -> Result<Option<Made>, Refusal> {
        let cells = &mut self.cells;
        let at = operand.look_up(cells, &self.access.view, Side::Left, None)?;
        let origin = operand.origin(cells, at);
        let permit = self.access.may(operation, &[origin])?;
        let key = self.access.result_key(origin, None)?;
        let value = compute(operand.value(cells, at).read(&permit)).map_err(Into::into)?;
        Ok(value.map(|value| Made::new(value, key)))
    }
}

/// Returns what a clock of a zone shows at an instant, or the instant of a time there.
fn at_zone(value: &Value, zone: StepZone<'_>) -> Result<Value, ValueError> {
    match zone {
        StepZone::East(seconds) => at_time_zone(value, &East(seconds)),
        StepZone::Named(name) => {
            let zone = super::zones::zone(name).ok_or(ValueError::ZoneName)?;
            at_time_zone(value, &zone)
        }
    }
}

impl Operand<'_> {
    /// Where the operand is if it is a cell.
    pub(super) fn look_up(
        &self,
        cells: &mut Cells,
        view: &View,
        side: Side,
        keep: Option<At>,
    ) -> Result<Option<At>, Refusal> {
        match self {
            Self::Cell(cell) => cells.open(view, cell, side, keep).map(Some),
            Self::Made(_) => Ok(None),
        }
    }

    pub(super) fn origin(&self, cells: &Cells, at: Option<At>) -> Origin {
        match self {
            Self::Made(made) => Origin {
                key: made.key,
                derived: true,
            },
            Self::Cell(_) => cells.origin(at.expect("it was looked up")),
        }
    }

    pub(super) fn value<'a>(&'a self, cells: &'a Cells, at: Option<At>) -> &'a Guarded {
        match self {
            Self::Made(made) => &made.value,
            Self::Cell(_) => &cells.at(at.expect("it was looked up")).value,
        }
    }
}
