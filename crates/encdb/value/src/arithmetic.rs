//! Operators on numbers: which pairs of types have them, and in which type they are computed.
//!
//! Mixed operands meet as PostgreSQL's parser lets them: int4 < int8 < numeric, all of them with
//! floats in double precision. Dates take and give numbers of days; times and intervals have a file
//! of their own.

use crate::{
    cast, datetime, decimal, float, integer, to_double, Arithmetic, Type, Value, ValueError,
};

/// The operator's result, in the type that PostgreSQL gives it.
#[inline]
pub fn arithmetic(op: Arithmetic, a: &Value, b: &Value) -> Result<Value, ValueError> {
    match (a, b) {
        (Value::Int4(a), Value::Int4(b)) if !op.is_power() => {
            integer::int4(op, *a, *b).map(Value::Int4)
        }
        (Value::Int8(a), Value::Int8(b)) if !op.is_power() => {
            integer::int8(op, *a, *b).map(Value::Int8)
        }
        (Value::Float4(a), Value::Float4(b)) if !op.is_power() => {
            float::arithmetic(op, *a, *b).map(Value::Float4)
        }
        (Value::Float8(a), Value::Float8(b)) if op.is_power() => {
            float::power(*a, *b).map(Value::Float8)
        }
        (Value::Float8(a), Value::Float8(b)) => float::arithmetic(op, *a, *b).map(Value::Float8),
        (Value::Decimal(a), Value::Decimal(b)) => decimal::arithmetic(op, a, b).map(Value::Decimal),
        _ => mixed(op, a, b),
    }
}

/// The double that is so far on the way from one number to another: the first one at 0. It may be
/// infinite or NaN, as in `percentile_cont`.
pub fn between(first: &Value, second: &Value, fraction: f64) -> Result<Value, ValueError> {
    let (first, second) = (to_double(first)?, to_double(second)?);
    Ok(Value::Float8(match fraction == 0.0 {
        true => first,
        false => first + fraction * (second - first),
    }))
}

/// Operands that have to be made alike first, and dates.
fn mixed(op: Arithmetic, a: &Value, b: &Value) -> Result<Value, ValueError> {
    match (op, a, b) {
        (Arithmetic::Add, Value::Date(date), Value::Int4(days))
        | (Arithmetic::Add, Value::Int4(days), Value::Date(date)) => {
            datetime::add_days(*date, i64::from(*days)).map(Value::Date)
        }
        (Arithmetic::Sub, Value::Date(date), Value::Int4(days)) => {
            datetime::add_days(*date, -i64::from(*days)).map(Value::Date)
        }
        (Arithmetic::Sub, Value::Date(a), Value::Date(b)) => {
            datetime::days_between(*a, *b).map(Value::Int4)
        }
        _ if datetime::has_intervals(op, a.ty(), b.ty()) => datetime::compute_interval(op, a, b),
        _ => {
            let none = ValueError::Undefined(a.ty(), b.ty());
            let ty = common(op, a.ty(), b.ty()).ok_or(none)?;
            arithmetic(op, &cast(a, ty)?, &cast(b, ty)?)
        }
    }
}

/// The type in which two others are computed, if that is another than both.
fn common(op: Arithmetic, a: Type, b: Type) -> Option<Type> {
    let float = |ty| matches!(ty, Type::Float4 | Type::Float8);
    let integer = |ty| matches!(ty, Type::Int4 | Type::Int8);
    let number = |ty| float(ty) || integer(ty) || ty == Type::Decimal;
    if !number(a) || !number(b) {
        return None;
    }
    if float(a) || float(b) {
        return (op != Arithmetic::Mod).then_some(Type::Float8);
    }
    if !integer(a) || !integer(b) {
        return Some(Type::Decimal);
    }
    Some(if op.is_power() {
        Type::Float8
    } else {
        Type::Int8
    })
}

/// `-value`
pub fn negate(value: &Value) -> Result<Value, ValueError> {
    let range = ValueError::OutOfRange(value.ty());
    match value {
        Value::Int4(value) => value.checked_neg().map(Value::Int4).ok_or(range),
        Value::Int8(value) => value.checked_neg().map(Value::Int8).ok_or(range),
        Value::Float4(value) => Ok(Value::Float4(-value)),
        Value::Float8(value) => Ok(Value::Float8(-value)),
        Value::Decimal(value) => Ok(Value::Decimal(value.negated())),
        Value::Interval(value) => value.checked_negated().map(Value::Interval),
        _ => Err(ValueError::NoFunction(value.ty())),
    }
}

/// `abs(value)`
pub fn absolute(value: &Value) -> Result<Value, ValueError> {
    let range = ValueError::OutOfRange(value.ty());
    match value {
        Value::Int4(value) => value.checked_abs().map(Value::Int4).ok_or(range),
        Value::Int8(value) => value.checked_abs().map(Value::Int8).ok_or(range),
        Value::Float4(value) => Ok(Value::Float4(value.abs())),
        Value::Float8(value) => Ok(Value::Float8(value.abs())),
        Value::Decimal(value) => Ok(Value::Decimal(value.absolute())),
        _ => Err(ValueError::NoFunction(value.ty())),
    }
}
