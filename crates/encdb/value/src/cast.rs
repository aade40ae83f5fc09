//! Casts: those of PostgreSQL's catalog, and those by way of text.

use zeroize::Zeroizing;

use crate::{datetime, float, Decimal, Type, Utc, Value, ValueError, Zone};

/// The value in another type, in UTC.
pub fn cast(value: &Value, to: Type) -> Result<Value, ValueError> {
    cast_in(value, to, &Utc)
}

/// The value in another type, where the session has this time zone: it decides between
/// `timestamp with time zone` and all types without one.
pub fn cast_in(value: &Value, to: Type, zone: &dyn Zone) -> Result<Value, ValueError> {
    let from = value.ty();
    match (value, to) {
        _ if from == to => Ok(value.duplicate()),
        (Value::Text(text), _) => Value::parse_in(to, text, zone),
        (Value::Bool(value), Type::Text) => Ok(Value::Text(value.to_string())),
        (Value::TimestampTz(instant), _) => from_instant(*instant, to, zone),
        (_, Type::Text) => Ok(Value::Text(value.to_text())),
        (Value::Int4(value), Type::Bool) => Ok(Value::Bool(*value != 0)),
        (Value::Bool(value), Type::Int4) => Ok(Value::Int4(i32::from(*value))),
        (Value::Int4(value), _) => from_integer(i64::from(*value), from, to),
        (Value::Int8(value), _) => from_integer(*value, from, to),
        (Value::Float4(value), _) => from_float(f64::from(*value), from, to),
        (Value::Float8(value), _) => from_float(*value, from, to),
        (Value::Decimal(value), _) => from_decimal(value, to),
        _ => from_date(value, to, zone),
    }
}

/// The number as a double, as PostgreSQL casts it by itself for its functions of doubles.
pub(crate) fn to_double(value: &Value) -> Result<f64, ValueError> {
    match value {
        Value::Float8(value) => Ok(*value),
        _ if !value.ty().is_number() => Err(ValueError::NoFunction(value.ty())),
        _ => match cast(value, Type::Float8)? {
            Value::Float8(value) => Ok(value),
            other => Err(ValueError::NoCast(other.ty(), Type::Float8)),
        },
    }
}

fn from_integer(value: i64, from: Type, to: Type) -> Result<Value, ValueError> {
    match to {
        Type::Int4 => i32::try_from(value)
            .map(Value::Int4)
            .map_err(|_| ValueError::OutOfRange(to)),
        Type::Int8 => Ok(Value::Int8(value)),
        Type::Float4 => Ok(Value::Float4(float::real_from_int8(value))),
        Type::Float8 => Ok(Value::Float8(float::from_int8(value))),
        Type::Decimal => Ok(Value::Decimal(Decimal::from(value))),
        _ => Err(ValueError::NoCast(from, to)),
    }
}

fn from_float(value: f64, from: Type, to: Type) -> Result<Value, ValueError> {
    match to {
        Type::Int4 => float::to_int4(value).map(Value::Int4),
        Type::Int8 => float::to_int8(value).map(Value::Int8),
        Type::Float4 => float::narrow(value).map(Value::Float4),
        Type::Float8 => Ok(Value::Float8(value)),
        Type::Decimal if value.is_nan() => Ok(Value::Decimal(Decimal::nan())),
        Type::Decimal if value.is_infinite() => Ok(Value::Decimal(Decimal::infinity(value < 0.0))),
        Type::Decimal => {
            // As many digits as the type is certain of.
            let decimals = if from == Type::Float4 { 5 } else { 14 };
            let text = Zeroizing::new(format!("{value:.decimals$e}"));
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let short = match mantissa.contains('.') {
                true => mantissa.trim_end_matches('0').trim_end_matches('.'),
                false => mantissa,
            };
            let text = Zeroizing::new(format!("{short}e{exponent}"));
            Decimal::parse(&text).map(Value::Decimal)
        }
        _ => Err(ValueError::NoCast(from, to)),
    }
}

fn from_decimal(value: &Decimal, to: Type) -> Result<Value, ValueError> {
    match to {
        Type::Int4 => {
            let integer = decimal_to_int8(value, to)?;
            from_integer(integer, Type::Decimal, to)
        }
        Type::Int8 => decimal_to_int8(value, to).map(Value::Int8),
        // By way of text, with text's errors.
        Type::Float4 | Type::Float8 => Value::parse(to, &Zeroizing::new(value.to_text())),
        _ => Err(ValueError::NoCast(Type::Decimal, to)),
    }
}

fn decimal_to_int8(value: &Decimal, to: Type) -> Result<i64, ValueError> {
    match value.finite() {
        Some(number) => number.to_i64().ok_or(ValueError::OutOfRange(to)),
        None if value.is_nan() => Err(ValueError::FromNaN(to)),
        None => Err(ValueError::FromInfinity(to)),
    }
}

fn from_date(value: &Value, to: Type, zone: &dyn Zone) -> Result<Value, ValueError> {
    let instant = |local| datetime::instant_of(local, to, zone).map(Value::TimestampTz);
    match (value, to) {
        (Value::Date(date), Type::Timestamp) => {
            datetime::date_to_instant(*date, to).map(Value::Timestamp)
        }
        (Value::Date(date), Type::TimestampTz) => instant(datetime::date_to_instant(*date, to)?),
        (Value::Timestamp(local), Type::TimestampTz) => instant(*local),
        (Value::Timestamp(local), Type::Date) => Ok(Value::Date(datetime::instant_to_date(*local))),
        _ => Err(ValueError::NoCast(value.ty(), to)),
    }
}

fn from_instant(instant: i64, to: Type, zone: &dyn Zone) -> Result<Value, ValueError> {
    let local = || datetime::local_of(instant, to, zone);
    match to {
        Type::Text => {
            local()?;
            Ok(Value::Text(Value::TimestampTz(instant).to_text_in(zone)))
        }
        Type::Date => Ok(Value::Date(datetime::instant_to_date(local()?))),
        Type::Timestamp => local().map(Value::Timestamp),
        _ => Err(ValueError::NoCast(Type::TimestampTz, to)),
    }
}
