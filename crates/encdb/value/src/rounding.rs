//! round, trunc, ceil and floor: those of numeric, and dround and its like.

use crate::{cast, Type, Value, ValueError};

/// A function that gives a number with fewer decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// `round(value, decimals)`; halves go away from zero, those of floats to the even neighbour
    Round(i32),
    /// `trunc(value, decimals)`
    Truncate(i32),
    /// `ceil(value)`
    Ceil,
    /// `floor(value)`
    Floor,
}

/// The function's result, in the type that PostgreSQL gives it: that of a numeric is numeric, that
/// of all other numbers double precision. PostgreSQL counts decimals of a numeric only.
pub fn round(rounding: Rounding, value: &Value) -> Result<Value, ValueError> {
    match (value, rounding) {
        (Value::Decimal(value), _) => value.rounded(rounding).map(Value::Decimal),
        (Value::Float8(value), Rounding::Round(0)) => Ok(Value::Float8(value.round_ties_even())),
        (Value::Float8(value), Rounding::Truncate(0)) => Ok(Value::Float8(value.trunc())),
        (Value::Float8(value), Rounding::Ceil) => Ok(Value::Float8(value.ceil())),
        (Value::Float8(value), Rounding::Floor) => Ok(Value::Float8(value.floor())),
        (Value::Int4(_) | Value::Int8(_) | Value::Float4(_), _) => {
            round(rounding, &cast(value, Type::Float8)?)
        }
        _ => Err(ValueError::NoFunction(value.ty())),
    }
}
