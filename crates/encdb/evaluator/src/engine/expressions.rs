//! Compiled expressions: operators and casts one on another. What is made on the way is not sealed;
//! of each step is asked whether the session may as if it were, and it counts as derived.

use pgseal_cell::grant::Operation;
use pgseal_evaluator_proto::{Items, Program, Refusal, Step};
use pgseal_value::{Value, ValueError};

use super::cells::{At, Side};
use super::permit::{Guarded, Origin};
use super::Connection;

/// A value that was made here, and the key that it is sealed with.
pub(super) struct Made {
    pub value: Guarded,
    pub key: u16,
}

impl Made {
    fn new(value: Value, key: u16) -> Self {
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
type Stack<'a> = Vec<Option<Operand<'a>>>;

impl Connection {
    /// The program's result for these operands, of which an empty one is NULL; false if it is NULL.
    /// What is NULL is not computed with, as PostgreSQL does not call strict functions.
    pub fn compute(
        &mut self,
        program: Program<'_>,
        operands: Items<'_>,
        into: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
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
                Step::Concat => {
                    self.take_both(Operation::Text, &mut stack, pgseal_value::concat)?
                }
                Step::Negate => {
                    self.take_one(Operation::Arithmetic, &mut stack, pgseal_value::negate)?
                }
                Step::Absolute => {
                    self.take_one(Operation::Arithmetic, &mut stack, pgseal_value::absolute)?
                }
                Step::Cast(to) => self.take_one(Operation::Cast, &mut stack, |value| {
                    pgseal_value::cast(value, to)
                })?,
            };
            stack.push(made.map(Operand::Made));
        }
        match stack.pop().flatten() {
            Some(Operand::Made(made)) => self.seal_if_any(Some(made), into),
            _ => Ok(false),
        }
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

    fn take_one(
        &mut self,
        operation: Operation,
        stack: &mut Stack<'_>,
        compute: impl FnOnce(&Value) -> Result<Value, ValueError>,
    ) -> Result<Option<Made>, Refusal> {
        match stack.pop().flatten() {
            Some(operand) => self.of_one(operation, &operand, |value| compute(value).map(Some)),
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
        let a = self.look_up(left, Side::Left, None)?;
        let b = self.look_up(right, Side::Right, a)?;
        let origins = [self.origin_of(left, a), self.origin_of(right, b)];
        let permit = self.may(operation, &origins)?;
        let key = self.result_key(origins[0], Some(origins[1]))?;
        let (left, right) = (self.value_of(left, a), self.value_of(right, b));
        let value = compute(left.read(&permit), right.read(&permit))?;
        Ok(Made::new(value, key))
    }

    /// Computes a value from one, if the session may; None is NULL.
    pub(super) fn of_one(
        &mut self,
        operation: Operation,
        operand: &Operand<'_>,
        compute: impl FnOnce(&Value) -> Result<Option<Value>, ValueError>,
    ) -> Result<Option<Made>, Refusal> {
        let at = self.look_up(operand, Side::Left, None)?;
        let origin = self.origin_of(operand, at);
        let permit = self.may(operation, &[origin])?;
        let key = self.result_key(origin, None)?;
        let value = compute(self.value_of(operand, at).read(&permit))?;
        Ok(value.map(|value| Made::new(value, key)))
    }

    /// Where an operand lies that is a cell.
    fn look_up(
        &mut self,
        operand: &Operand<'_>,
        side: Side,
        keep: Option<At>,
    ) -> Result<Option<At>, Refusal> {
        match operand {
            Operand::Cell(cell) => self.open(cell, side, keep).map(Some),
            Operand::Made(_) => Ok(None),
        }
    }

    fn origin_of(&self, operand: &Operand<'_>, at: Option<At>) -> Origin {
        match (operand, at) {
            (Operand::Made(made), _) => Origin {
                key: made.key,
                derived: true,
            },
            (Operand::Cell(_), at) => self.origin(at.expect("it was looked up")),
        }
    }

    fn value_of<'a>(&'a self, operand: &'a Operand<'_>, at: Option<At>) -> &'a Guarded {
        match (operand, at) {
            (Operand::Made(made), _) => &made.value,
            (Operand::Cell(_), at) => &self.at(at.expect("it was looked up")).value,
        }
    }
}
