//! Functions of numbers and times as steps of programs: `(`, a capital letter, its argument, `)`.

use pgseal_value::{Field, Rounding};

use super::Step;

/// Reads a letter and its argument: `(R2)` is `round(x, 2)`, `(T)` `trunc(x)`, `(C)` `ceil(x)`,
/// `(F)` `floor(x)`, and `(D)` with the step of a field `date_trunc(field, x)`.
pub(super) fn parse<'a>(call: &[u8]) -> Option<Step<'a>> {
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
        _ => return None,
    })
}

fn decimals(argument: &[u8]) -> Option<i32> {
    match argument {
        [] => Some(0),
        _ => std::str::from_utf8(argument).ok()?.parse().ok(),
    }
}

fn period(step: u8) -> Option<Field> {
    match Step::from_byte(step) {
        Some(Step::Extract(field)) => Some(field).filter(|field| field.is_unit()),
        _ => None,
    }
}
