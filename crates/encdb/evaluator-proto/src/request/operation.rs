//! Operators and functions of cells.

use pgseal_cell::Type;
use pgseal_value::{Arithmetic, Interval};

use super::fields::{matching, numbered, put_matching, ty};
use super::{opcode, Matching};
use crate::wire::{put_bytes, Malformed, Out, Reader};
use crate::{Items, Program};

/// An operator or function of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Unary {
    /// `-x`
    Negate = 1,
    /// `abs(x)`
    Absolute = 2,
}

/// An operator or function of cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OperationRequest<'a> {
    /// Computes with two cells; answered by `Cell`.
    Arithmetic {
        /// The operator.
        op: Arithmetic,
        /// The cell on the left.
        left: &'a [u8],
        /// The cell on the right.
        right: &'a [u8],
    },
    /// Adds an interval, which is plain, to a date or instant; answered by `Cell`.
    AddInterval {
        /// The interval; negated, where it is subtracted.
        interval: Interval,
        /// The date or instant.
        cell: &'a [u8],
    },
    /// Applies a function of one cell; answered by `Cell`.
    Unary {
        /// The function.
        op: Unary,
        /// The cell.
        cell: &'a [u8],
    },
    /// Joins two cells by `||`; answered by `Cell`.
    Concat {
        /// The cell on the left.
        left: &'a [u8],
        /// The cell on the right.
        right: &'a [u8],
    },
    /// Matches a text by LIKE and its like; answered by `Truth`.
    Like {
        /// How it is matched.
        matching: Matching<'a>,
        /// The text.
        text: &'a [u8],
        /// The pattern.
        pattern: &'a [u8],
    },
    /// Makes a pattern whose escape is the backslash of one with another; answered by `Cell`.
    LikeEscape {
        /// The escape: one character, or none.
        escape: &'a str,
        /// The pattern.
        pattern: &'a [u8],
    },
    /// Counts characters or bytes; answered by `Cell`, an integer.
    Length(&'a [u8]),
    /// Casts a cell; answered by `Cell`.
    Cast {
        /// The type of the result.
        to: Type,
        /// The cell.
        cell: &'a [u8],
    },
    /// Runs operators, casts and functions one on another, and makes no cell for what is made on
    /// the way; answered by `Cell` or `Null`.
    Compute {
        /// The program that is run with the operands.
        program: Program<'a>,
        /// The cells; an empty one is NULL.
        operands: Items<'a>,
    },
}

impl<'a> OperationRequest<'a> {
    pub(super) fn parse(opcode: u8, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match opcode {
            opcode::ARITHMETIC => Self::Arithmetic {
                op: numbered(reader.u8()?, &Arithmetic::ALL, operator)?,
                left: reader.bytes()?,
                right: reader.bytes()?,
            },
            opcode::UNARY => Self::Unary {
                op: unary(reader.u8()?)?,
                cell: reader.bytes()?,
            },
            opcode::CONCAT => Self::Concat {
                left: reader.bytes()?,
                right: reader.bytes()?,
            },
            opcode::LIKE => Self::Like {
                matching: matching(reader)?,
                text: reader.bytes()?,
                pattern: reader.bytes()?,
            },
            opcode::LENGTH => Self::Length(reader.bytes()?),
            opcode::CAST => Self::Cast {
                to: ty(reader.u8()?)?,
                cell: reader.bytes()?,
            },
            opcode::LIKE_ESCAPE => Self::LikeEscape {
                escape: reader.text()?,
                pattern: reader.bytes()?,
            },
            opcode::ADD_INTERVAL => Self::AddInterval {
                interval: interval(reader)?,
                cell: reader.bytes()?,
            },
            opcode::COMPUTE => compute(reader)?,
            _ => return Err(Malformed),
        })
    }

    pub(super) fn put(&self, into: &mut impl Out) {
        match *self {
            Self::Arithmetic { op, left, right } => {
                put_call(into, &[opcode::ARITHMETIC, operator(op)], &[left, right]);
            }
            Self::Unary { op, cell } => put_call(into, &[opcode::UNARY, op as u8], &[cell]),
            Self::Concat { left, right } => put_call(into, &[opcode::CONCAT], &[left, right]),
            Self::Like {
                matching,
                text,
                pattern,
            } => {
                into.push(opcode::LIKE);
                put_matching(into, matching);
                put_call(into, &[], &[text, pattern]);
            }
            Self::LikeEscape { escape, pattern } => {
                put_call(into, &[opcode::LIKE_ESCAPE], &[escape.as_bytes(), pattern]);
            }
            Self::AddInterval { interval, cell } => {
                into.push(opcode::ADD_INTERVAL);
                put_interval(into, interval);
                put_bytes(into, cell);
            }
            Self::Length(cell) => put_call(into, &[opcode::LENGTH], &[cell]),
            Self::Cast { to, cell } => put_call(into, &[opcode::CAST, to as u8], &[cell]),
            Self::Compute { program, operands } => {
                put_call(into, &[opcode::COMPUTE], &[program.bytes()]);
                operands.write(into);
            }
        }
    }
}

/// Writes bytes as they are, then byte strings, each with its length before it.
fn put_call(into: &mut impl Out, head: &[u8], strings: &[&[u8]]) {
    into.extend_from_slice(head);
    for string in strings {
        put_bytes(into, string);
    }
}

fn compute<'a>(reader: &mut Reader<'a>) -> Result<OperationRequest<'a>, Malformed> {
    let (program, operands) = (reader.bytes()?, Items::read(reader)?);
    let program = Program::parse(program, operands.len())?;
    Ok(OperationRequest::Compute { program, operands })
}

fn interval(reader: &mut Reader<'_>) -> Result<Interval, Malformed> {
    Ok(Interval {
        months: reader.i32()?,
        days: reader.i32()?,
        microseconds: reader.i64()?,
    })
}

fn put_interval(into: &mut impl Out, interval: Interval) {
    into.extend_from_slice(&interval.months.to_le_bytes());
    into.extend_from_slice(&interval.days.to_le_bytes());
    into.extend_from_slice(&interval.microseconds.to_le_bytes());
}

fn operator(op: Arithmetic) -> u8 {
    match op {
        Arithmetic::Add => 1,
        Arithmetic::Sub => 2,
        Arithmetic::Mul => 3,
        Arithmetic::Div => 4,
        Arithmetic::Mod => 5,
        Arithmetic::Power => 6,
        Arithmetic::PowerSince16 => 7,
        Arithmetic::Age => 8,
    }
}

fn unary(byte: u8) -> Result<Unary, Malformed> {
    const ALL: [Unary; 2] = [Unary::Negate, Unary::Absolute];
    numbered(byte, &ALL, |op| op as u8)
}
