//! The order of values, and the bytes and numbers that stand for it: for hashes and for sorting.

use std::cmp::Ordering;

use crate::{datetime, float, Collate, Type, Value, ValueError};

/// The order of two values of one type, of two integers, floats or times: NaN is equal to itself
/// and greater than all, -0 is 0. Its one error is that the types do not meet.
#[inline]
pub fn compare(a: &Value, b: &Value, collation: &dyn Collate) -> Result<Ordering, ValueError> {
    match (a, b) {
        (Value::Int4(a), Value::Int4(b)) => Ok(a.cmp(b)),
        (Value::Int8(a), Value::Int8(b)) => Ok(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::Date(a), Value::Date(b)) => Ok(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a.cmp(b)),
        (Value::TimestampTz(a), Value::TimestampTz(b)) => Ok(a.cmp(b)),
        (Value::Uuid(a), Value::Uuid(b)) => Ok(a.cmp(b)),
        (Value::Bytea(a), Value::Bytea(b)) => Ok(a.cmp(b)),
        (Value::Interval(a), Value::Interval(b)) => Ok(a.span().cmp(&b.span())),
        (Value::Text(a), Value::Text(b)) => Ok(collation.compare(a, b)),
        (Value::Float4(a), Value::Float4(b)) => Ok(float::compare(*a, *b)),
        (Value::Float8(a), Value::Float8(b)) => Ok(float::compare(*a, *b)),
        (Value::Decimal(a), Value::Decimal(b)) => Ok(a.compare(b)),
        (Value::Int4(a), Value::Int8(b)) => Ok(i64::from(*a).cmp(b)),
        (Value::Int8(a), Value::Int4(b)) => Ok(a.cmp(&i64::from(*b))),
        (Value::Float4(a), Value::Float8(b)) => Ok(float::compare(f64::from(*a), *b)),
        (Value::Float8(a), Value::Float4(b)) => Ok(float::compare(*a, f64::from(*b))),
        _ => match (instant(a), instant(b)) {
            (Some(a), Some(b)) => Ok(a.cmp(&b)),
            _ => Err(ValueError::Undefined(a.ty(), b.ty())),
        },
    }
}

/// Where a time is among all of them, also a date that is no timestamp.
fn instant(value: &Value) -> Option<i64> {
    match value {
        Value::Date(date) => Some(datetime::place_of_date(*date)),
        Value::Timestamp(instant) | Value::TimestampTz(instant) => Some(*instant),
        _ => None,
    }
}

/// Appends what a keyed hash runs over, and gives the type that it takes the value for: equal
/// values of a type, and only they, give equal bytes. So do two integers and two floats, whose type
/// is the wider one; a date and a timestamp do not, as in PostgreSQL.
pub fn hash_bytes(value: &Value, into: &mut Vec<u8>) -> Type {
    match value {
        Value::Int4(value) => into.extend_from_slice(&i64::from(*value).to_be_bytes()),
        Value::Float4(value) => into.extend_from_slice(&float::canonical(f64::from(*value))),
        Value::Float8(value) => into.extend_from_slice(&float::canonical(*value)),
        Value::Decimal(value) => value.hash_bytes(into),
        Value::Interval(value) => into.extend_from_slice(&value.span().to_be_bytes()),
        other => other.encode(into),
    }
    match value.ty() {
        Type::Int4 => Type::Int8,
        Type::Float4 => Type::Float8,
        other => other,
    }
}

/// A number that grows with the value, if not always: `a < b` implies `prefix(a) <= prefix(b)`.
/// Texts in the collation C alone.
#[inline]
pub fn order_prefix(value: &Value) -> u64 {
    match value {
        Value::Int4(value) => signed(i64::from(*value)),
        Value::Int8(value) => signed(*value),
        Value::Bool(value) => u64::from(*value),
        Value::Date(value) => signed(i64::from(*value)),
        Value::Timestamp(value) | Value::TimestampTz(value) => signed(*value),
        Value::Uuid(value) => leading(value),
        Value::Bytea(value) => leading(value),
        Value::Interval(value) => signed(value.leading_span()),
        Value::Text(value) => leading(value.as_bytes()),
        Value::Float4(value) => float::order_prefix(f64::from(*value)),
        Value::Float8(value) => float::order_prefix(*value),
        Value::Decimal(value) => value.order_prefix(),
    }
}

fn signed(value: i64) -> u64 {
    u64::from_be_bytes(value.to_be_bytes()) ^ (1 << 63)
}

fn leading(bytes: &[u8]) -> u64 {
    let mut prefix = [0; 8];
    let len = bytes.len().min(8);
    prefix[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(prefix)
}
