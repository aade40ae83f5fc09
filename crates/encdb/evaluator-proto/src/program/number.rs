//! Functions of numbers and times, and limits of columns, as steps of programs: `(`, a capital
//! letter, its arguments, `)`.

use std::ops::RangeInclusive;

use pgseal_value::{Field, Limit, Rounding};

use super::{PlainText, Step};

/// The time zone of `AT TIME ZONE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepZone<'a> {
    /// Clocks that are always as many seconds east of UTC
    East(i32),
    /// A name of the database of zones, or a rule of POSIX
    Named(&'a str),
}

/// A fraction from 0 to 1: the bits of its double, so that two are equal if their bits are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepFraction(u64);

impl StepFraction {
    /// Returns the fraction of these bits, if they are one.
    fn from_bits(bits: u64) -> Option<Self> {
        let is_fraction = (0.0..=1.0).contains(&f64::from_bits(bits));
        is_fraction.then_some(Self(bits))
    }

    /// Returns the fraction.
    pub fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Reads a letter and its argument:
///
/// - `(L4602678819172646912)` is the double between two numbers, by the bits of the double 0.5;
/// - `(R2)` is `round(x, 2)`, `(T)` `trunc(x)`, `(C)` `ceil(x)`, `(F)` `floor(x)`;
/// - `(D)` and `(P)` with the step of a field are `date_trunc(field, x)` and `date_part(field, x)`;
/// - `(M"YYYY")` is `to_char(x, 'YYYY')`;
/// - `(O3600)` is `x AT TIME ZONE` of an offset, `(ZEurope/Berlin)` of a name;
/// - `(V9)` is the limit of a column of `varchar(9)`, `(W9)` that of a cast, and `(N12,2)` that of
///   `numeric(12, 2)`.
pub(super) fn parse(call: &[u8]) -> Option<Step<'_>> {
    let (letter, argument) = call.split_first()?;
    Some(match letter {
        b'R' => Step::Round(Rounding::Round(decimals(argument)?)),
        b'T' => Step::Round(Rounding::Truncate(decimals(argument)?)),
        b'C' if argument.is_empty() => Step::Round(Rounding::Ceil),
        b'F' if argument.is_empty() => Step::Round(Rounding::Floor),
        b'D' => match argument {
            [field] => Step::DateTrunc(period(*field)?),
            _ => return None,
        },
        b'P' => match argument {
            [step] => Step::DatePart(field(*step)?),
            _ => return None,
        },
        b'L' => {
            let bits = std::str::from_utf8(argument).ok()?.parse().ok()?;
            Step::Between(StepFraction::from_bits(bits)?)
        }
        b'M' => Step::ToChar(PlainText::parse(std::str::from_utf8(argument).ok()?)?),
        b'O' => {
            let east = number(argument).filter(|east| OFFSETS.contains(east))?;
            Step::AtZone(StepZone::East(east))
        }
        b'Z' => {
            let name = std::str::from_utf8(argument).ok()?;
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
            Step::AtZone(StepZone::Named(Some(name).filter(|_| is_name)?))
        }
        b'V' | b'W' => Step::Limit(Limit::Characters {
            most: number(argument).filter(|most| MOST_CHARACTERS.contains(most))?,
            cuts: *letter == b'W',
        }),
        b'N' => {
            let comma = argument.iter().position(|byte| *byte == b',')?;
            let (precision, scale) = (number(&argument[..comma])?, number(&argument[comma + 1..])?);
            let fits = PRECISIONS.contains(&precision) && SCALES.contains(&scale);
            Step::Limit(fits.then_some(Limit::Digits { precision, scale })?)
        }
        _ => return None,
    })
}

/// The offsets of zones, in seconds: less than a week, which is what POSIX lets them be.
const OFFSETS: RangeInclusive<i32> = -167 * 3600..=167 * 3600;
/// The limits that `varchar(n)` and `numeric(precision, scale)` may have in PostgreSQL.
const MOST_CHARACTERS: RangeInclusive<i32> = 1..=10_485_760;
const PRECISIONS: RangeInclusive<i32> = 1..=1000;
const SCALES: RangeInclusive<i32> = -1000..=1000;

fn number(argument: &[u8]) -> Option<i32> {
    std::str::from_utf8(argument).ok()?.parse().ok()
}

fn decimals(argument: &[u8]) -> Option<i32> {
    match argument {
        [] => Some(0),
        _ => number(argument),
    }
}

/// The field of a step of `extract`.
fn field(step: u8) -> Option<Field> {
    match Step::from_byte(step) {
        Some(Step::Extract(field)) => Some(field),
        _ => None,
    }
}

fn period(step: u8) -> Option<Field> {
    field(step).filter(|field| field.is_unit())
}
