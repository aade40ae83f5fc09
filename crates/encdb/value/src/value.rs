//! A value, and its three forms: in memory, as bytes (PostgreSQL's send format), as text.
//!
//! Invariant: a [`Value`] of any origin is one that PostgreSQL could store; texts are UTF-8 without
//! a zero byte.

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::{
    binary, datetime, float_text, integer, text, Decimal, Interval, IntervalStyle, Type, Utc,
    ValueError, Zone,
};

/// A plain value. Wiped when dropped; copied by [`Value::duplicate`] alone.
pub enum Value {
    /// integer
    Int4(i32),
    /// bigint
    Int8(i64),
    /// real
    Float4(f32),
    /// double precision
    Float8(f64),
    /// numeric
    Decimal(Decimal),
    /// boolean
    Bool(bool),
    /// date: days since 2000-01-01; the extremes are the infinities
    Date(i32),
    /// timestamp: microseconds since 2000-01-01; the extremes are the infinities
    Timestamp(i64),
    /// timestamp with time zone: the same, in UTC
    TimestampTz(i64),
    /// uuid
    Uuid([u8; 16]),
    /// bytea
    Bytea(Vec<u8>),
    /// interval
    Interval(Interval),
    /// text
    Text(String),
}

impl Drop for Value {
    #[inline]
    fn drop(&mut self) {
        match self {
            Self::Bytea(bytes) => bytes.zeroize(),
            Self::Text(text) => text.zeroize(),
            _ => {}
        }
    }
}

impl ZeroizeOnDrop for Value {}

impl Value {
    /// The type.
    #[inline]
    pub fn ty(&self) -> Type {
        match self {
            Self::Int4(_) => Type::Int4,
            Self::Int8(_) => Type::Int8,
            Self::Float4(_) => Type::Float4,
            Self::Float8(_) => Type::Float8,
            Self::Decimal(_) => Type::Decimal,
            Self::Bool(_) => Type::Bool,
            Self::Date(_) => Type::Date,
            Self::Timestamp(_) => Type::Timestamp,
            Self::TimestampTz(_) => Type::TimestampTz,
            Self::Uuid(_) => Type::Uuid,
            Self::Bytea(_) => Type::Bytea,
            Self::Interval(_) => Type::Interval,
            Self::Text(_) => Type::Text,
        }
    }

    /// A second value like this one.
    #[inline]
    pub fn duplicate(&self) -> Self {
        match self {
            Self::Int4(value) => Self::Int4(*value),
            Self::Int8(value) => Self::Int8(*value),
            Self::Float4(value) => Self::Float4(*value),
            Self::Float8(value) => Self::Float8(*value),
            Self::Decimal(value) => Self::Decimal(value.duplicate()),
            Self::Bool(value) => Self::Bool(*value),
            Self::Date(value) => Self::Date(*value),
            Self::Timestamp(value) => Self::Timestamp(*value),
            Self::TimestampTz(value) => Self::TimestampTz(*value),
            Self::Uuid(value) => Self::Uuid(*value),
            Self::Bytea(value) => Self::Bytea(value.clone()),
            Self::Interval(value) => Self::Interval(*value),
            Self::Text(value) => Self::Text(value.clone()),
        }
    }

    /// Reads PostgreSQL's send format; nothing may be left over.
    pub fn decode(ty: Type, bytes: &[u8]) -> Result<Self, ValueError> {
        let malformed = ValueError::Binary(ty);
        Ok(match ty {
            Type::Int4 => Self::Int4(i32::from_be_bytes(exact(bytes).ok_or(malformed)?)),
            Type::Int8 => Self::Int8(i64::from_be_bytes(exact(bytes).ok_or(malformed)?)),
            Type::Bool => match exact(bytes).ok_or(malformed)? {
                [0] => Self::Bool(false),
                [_] => Self::Bool(true),
            },
            Type::Float4 => Self::Float4(f32::from_be_bytes(exact(bytes).ok_or(malformed)?)),
            Type::Float8 => Self::Float8(f64::from_be_bytes(exact(bytes).ok_or(malformed)?)),
            Type::Uuid => Self::Uuid(exact(bytes).ok_or(malformed)?),
            Type::Bytea => Self::Bytea(bytes.to_vec()),
            Type::Interval => Self::Interval(Interval::decode(exact(bytes).ok_or(malformed)?)?),
            Type::Text => Self::Text(text::decode(bytes)?),
            Type::Decimal => Self::Decimal(Decimal::decode(bytes)?),
            Type::Date => {
                let days = i32::from_be_bytes(exact(bytes).ok_or(malformed)?);
                Self::Date(datetime::checked_date(i64::from(days))?)
            }
            Type::Timestamp => Self::Timestamp(instant(bytes, ty)?),
            Type::TimestampTz => Self::TimestampTz(instant(bytes, ty)?),
        })
    }

    /// Appends PostgreSQL's send format.
    pub fn encode(&self, into: &mut Vec<u8>) {
        match self {
            Self::Int4(value) => into.extend_from_slice(&value.to_be_bytes()),
            Self::Int8(value) => into.extend_from_slice(&value.to_be_bytes()),
            Self::Float4(value) => into.extend_from_slice(&value.to_be_bytes()),
            Self::Float8(value) => into.extend_from_slice(&value.to_be_bytes()),
            Self::Decimal(value) => value.encode(into),
            Self::Bool(value) => into.push(u8::from(*value)),
            Self::Date(value) => into.extend_from_slice(&value.to_be_bytes()),
            Self::Timestamp(value) | Self::TimestampTz(value) => {
                into.extend_from_slice(&value.to_be_bytes());
            }
            Self::Uuid(value) => into.extend_from_slice(value),
            Self::Bytea(value) => into.extend_from_slice(value),
            Self::Interval(value) => into.extend_from_slice(&value.encode()),
            Self::Text(value) => into.extend_from_slice(value.as_bytes()),
        }
    }

    /// Reads text as PostgreSQL's input function of the type does.
    pub fn parse(ty: Type, text: &str) -> Result<Self, ValueError> {
        Self::parse_in(ty, text, &Utc)
    }

    /// Reads text as [`Value::parse`] does. An instant without a time zone is in this one.
    pub fn parse_in(ty: Type, text: &str, zone: &dyn Zone) -> Result<Self, ValueError> {
        Ok(match ty {
            Type::Int4 => Self::Int4(integer::parse_int4(text)?),
            Type::Int8 => Self::Int8(integer::parse_int8(text)?),
            Type::Bool => Self::Bool(text::parse_bool(text)?),
            Type::Text => Self::Text(text::decode(text.as_bytes())?),
            Type::Float4 => Self::Float4(float_text::parse_float4(text)?),
            Type::Float8 => Self::Float8(float_text::parse_float8(text)?),
            Type::Decimal => Self::Decimal(Decimal::parse(text)?),
            Type::Date => Self::Date(datetime::parse_date(text)?),
            Type::Timestamp => Self::Timestamp(datetime::parse_instant(text, ty, zone)?),
            Type::TimestampTz => Self::TimestampTz(datetime::parse_instant(text, ty, zone)?),
            Type::Uuid => Self::Uuid(binary::parse_uuid(text)?),
            Type::Bytea => Self::Bytea(binary::parse_bytea(text)?),
            Type::Interval => Self::Interval(Interval::parse(text, IntervalStyle::Postgres)?),
        })
    }

    /// Returns the text that PostgreSQL prints: dates in ISO form, instants in UTC, bytes in
    /// hexadecimal, intervals in the style `postgres`.
    pub fn to_text(&self) -> String {
        self.to_text_in(&Utc)
    }

    /// Returns the text as [`Value::to_text`] does, with instants in this time zone.
    pub fn to_text_in(&self, zone: &dyn Zone) -> String {
        match self {
            Self::Int4(value) => value.to_string(),
            Self::Int8(value) => value.to_string(),
            Self::Bool(value) => if *value { "t" } else { "f" }.to_owned(),
            Self::Text(value) => value.clone(),
            Self::Float4(value) => float_text::print_float4(*value),
            Self::Float8(value) => float_text::print_float8(*value),
            Self::Decimal(value) => value.to_text(),
            Self::Date(value) => datetime::print_date(*value),
            Self::Timestamp(value) => datetime::print_instant(*value, ""),
            Self::TimestampTz(value) => datetime::print_instant_in(*value, zone),
            Self::Uuid(value) => binary::print_uuid(value),
            Self::Bytea(value) => binary::print_bytea(value),
            Self::Interval(value) => value.to_text(IntervalStyle::Postgres),
        }
    }
}

fn instant(bytes: &[u8], ty: Type) -> Result<i64, ValueError> {
    let micros = exact(bytes).ok_or(ValueError::Binary(ty))?;
    datetime::checked_instant(i64::from_be_bytes(micros), ty)
}

fn exact<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}
