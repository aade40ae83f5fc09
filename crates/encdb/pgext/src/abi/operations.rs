//! Operations that make new cells of cells.

use std::ffi::c_int;

use pgseal_cell::Type;
use pgseal_evaluator_proto::{Items, OperationRequest, Program, Refusal, Request, Step, Unary};
use pgseal_value::{Field, Interval};

use super::{answer_cell, list, put, report, shell, PgsealBytes};
use crate::shell::{Failure, Shell};

/// PostgreSQL's interval.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PgsealInterval {
    microseconds: i64,
    days: i32,
    months: i32,
}

impl From<PgsealInterval> for Interval {
    fn from(interval: PgsealInterval) -> Self {
        Self {
            months: interval.months,
            days: interval.days,
            microseconds: interval.microseconds,
        }
    }
}

interface! {
    /// Applies an operator of two cells, named by its sign.
    fn pgseal_arithmetic(
        operator: u8,
        left: PgsealBytes,
        right: PgsealBytes,
        result: *mut PgsealBytes,
    ) -> c_int {
        let Some(Step::Arithmetic(op)) = Step::from_byte(operator) else {
            return report(shell(), Err(Refusal::MalformedRequest.into()));
        };
        let request = Request::Operation(OperationRequest::Arithmetic {
            op,
            left: left.get(),
            right: right.get(),
        });
        answer_cell(&request, result)
    }

    /// Adds an interval to a date or time, or subtracts it.
    fn pgseal_add_interval(
        operator: u8,
        cell: PgsealBytes,
        interval: PgsealInterval,
        result: *mut PgsealBytes,
    ) -> c_int {
        let interval = Interval::from(interval);
        let interval = match operator {
            b'+' => interval,
            b'-' => interval.negated(),
            _ => return report(shell(), Err(Refusal::MalformedRequest.into())),
        };
        let request = Request::Operation(OperationRequest::AddInterval {
            interval,
            cell: cell.get(),
        });
        answer_cell(&request, result)
    }

    /// Returns the negative, `~`, or the absolute value, `@`.
    fn pgseal_unary(operator: u8, cell: PgsealBytes, result: *mut PgsealBytes) -> c_int {
        let op = match Step::from_byte(operator) {
            Some(Step::Negate) => Unary::Negate,
            Some(Step::Absolute) => Unary::Absolute,
            _ => return report(shell(), Err(Refusal::MalformedRequest.into())),
        };
        let request = Request::Operation(OperationRequest::Unary {
            op,
            cell: cell.get(),
        });
        answer_cell(&request, result)
    }

    /// Casts the value to another type.
    fn pgseal_cast(cell: PgsealBytes, ty: u8, result: *mut PgsealBytes) -> c_int {
        let Some(to) = Type::from_byte(ty) else {
            return report(shell(), Err(Refusal::WrongType.into()));
        };
        answer_cell(&Request::Operation(OperationRequest::Cast { to, cell: cell.get() }), result)
    }

    /// Applies operators, casts and functions one on another; an operand without bytes is NULL.
    fn pgseal_compute(
        program: PgsealBytes,
        operands: *const PgsealBytes,
        noperands: usize,
        result: *mut PgsealBytes,
        is_null: *mut c_int,
    ) -> c_int {
        let shell = shell();
        let Ok(program) = Program::parse(program.get(), noperands) else {
            return report(shell, Err(Refusal::MalformedRequest.into()));
        };
        let operands = match list(operands, noperands) {
            Ok(operands) => operands,
            Err(failure) => return report(shell, Err(failure)),
        };
        let operands = Items::Listed(&operands);
        let request = Request::Operation(OperationRequest::Compute { program, operands });
        let outcome = cell_or_null(shell, &request, is_null);
        put(shell, outcome, result)
    }

    /// Concatenates, as `||` does.
    fn pgseal_concat(left: PgsealBytes, right: PgsealBytes, result: *mut PgsealBytes) -> c_int {
        let request = Request::Operation(OperationRequest::Concat {
            left: left.get(),
            right: right.get(),
        });
        answer_cell(&request, result)
    }

    /// Rewrites a pattern with another escape than the backslash as one with the backslash.
    fn pgseal_like_escape(
        pattern: PgsealBytes,
        escape: PgsealBytes,
        result: *mut PgsealBytes,
    ) -> c_int {
        let Ok(escape) = std::str::from_utf8(escape.get()) else {
            return report(shell(), Err(Refusal::MalformedRequest.into()));
        };
        let request = Request::Operation(OperationRequest::LikeEscape {
            escape,
            pattern: pattern.get(),
        });
        answer_cell(&request, result)
    }

    /// Returns how many characters a text has.
    fn pgseal_length(cell: PgsealBytes, result: *mut PgsealBytes) -> c_int {
        answer_cell(&Request::Operation(OperationRequest::Length(cell.get())), result)
    }

    /// Returns the step of a program that takes this field; 0 if EXTRACT does not know it.
    fn pgseal_field_step(name: PgsealBytes) -> u8 {
        field(name.get()).and_then(Step::of_field).unwrap_or_default()
    }

    /// Returns the same of a unit that date_trunc knows; 0 of other fields too.
    fn pgseal_unit_step(name: PgsealBytes) -> u8 {
        let unit = field(name.get()).filter(|field| field.is_unit());
        unit.and_then(Step::of_field).unwrap_or_default()
    }
}

/// Makes a request that is answered by a cell or by nothing.
///
/// # Safety
/// `is_null` is writable.
unsafe fn cell_or_null(
    shell: &mut Shell,
    request: &Request<'_>,
    is_null: *mut c_int,
) -> Result<PgsealBytes, Failure> {
    let cell = shell.cell_or_null(request)?;
    // SAFETY: `is_null` is writable, by this function's contract.
    unsafe { is_null.write(c_int::from(cell.is_none())) };
    Ok(PgsealBytes::from(cell.unwrap_or_default()))
}

fn field(name: &[u8]) -> Option<Field> {
    Field::from_name(std::str::from_utf8(name).ok()?)
}
