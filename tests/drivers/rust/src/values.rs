//! Values between the file's text and Rust's types.

use bigdecimal::BigDecimal;
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime};
use serde_json::{json, Value as Json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// A value as it is printed: the name of its type, and a text.
pub(crate) type Shown = Json;

const LONGEST: usize = 4096;

/// The value that an application has; `None` is NULL of that type.
pub(crate) enum Native {
    Int4(Option<i32>),
    Int8(Option<i64>),
    Numeric(Option<BigDecimal>),
    Float4(Option<f32>),
    Float8(Option<f64>),
    Text(Option<String>),
    Bool(Option<bool>),
    Date(Option<NaiveDate>),
    Timestamp(Option<NaiveDateTime>),
    TimestampTz(Option<DateTime<FixedOffset>>),
    Uuid(Option<Uuid>),
    Bytea(Option<Vec<u8>>),
    Texts(Option<Vec<Option<String>>>),
    Numbers(Option<Vec<Option<i32>>>),
}

fn parsed<T: std::str::FromStr>(text: Option<String>) -> Option<T> {
    text.map(|text| text.parse().unwrap_or_else(|_| panic!("{text}")))
}

fn bytes(digits: String) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// Returns a text, which may be a repeated one.
fn text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Object(it) => {
            let times = usize::try_from(it["times"].as_u64()?).ok()?;
            Some(it["repeat"].as_str()?.repeat(times))
        }
        _ => None,
    }
}

impl Native {
    pub(crate) fn read(ty: &str, value: &Json) -> Self {
        let list = || {
            value
                .as_array()
                .map(|it| it.iter().map(text).collect::<Vec<_>>())
        };
        let text = text(value);
        match ty {
            "int4" => Self::Int4(parsed(text)),
            "int8" => Self::Int8(parsed(text)),
            "numeric" => Self::Numeric(parsed(text)),
            "float4" => Self::Float4(parsed(text)),
            "float8" => Self::Float8(parsed(text)),
            "bool" => Self::Bool(parsed(text)),
            "date" => Self::Date(parsed(text)),
            "timestamp" => Self::Timestamp(parsed(text)),
            "timestamptz" => Self::TimestampTz(parsed(text)),
            "uuid" => Self::Uuid(parsed(text)),
            "bytea" => Self::Bytea(text.map(bytes)),
            "text[]" => Self::Texts(list()),
            "int4[]" => Self::Numbers(list().map(|it| it.into_iter().map(parsed).collect())),
            _ => Self::Text(text),
        }
    }
}

/// Returns a value as it is printed.
pub(crate) fn shown(ty: &str, value: Option<String>) -> Shown {
    value.map_or(Json::Null, |text| json!([ty, short(text)]))
}

pub(crate) fn shown_bytes(value: Option<Vec<u8>>) -> Shown {
    let digits = value.map(|it| it.iter().map(|byte| format!("{byte:02x}")).collect());
    shown("Vec<u8>", digits)
}

pub(crate) fn shown_list<T: ToString>(ty: &str, value: Option<Vec<Option<T>>>) -> Shown {
    let item = |it: Option<T>| shown(ty, it.map(|it| it.to_string()));
    value.map_or(Json::Null, |list| {
        json!(["list", list.into_iter().map(item).collect::<Vec<_>>()])
    })
}

pub(crate) fn shown_timestamp(value: Option<NaiveDateTime>) -> Shown {
    shown(
        "NaiveDateTime",
        value.map(|it| it.format("%Y-%m-%dT%H:%M:%S%.6f").to_string()),
    )
}

fn short(text: String) -> String {
    match text.len() > LONGEST {
        false => text,
        true => {
            let digest = Sha256::digest(text.as_bytes());
            let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("sha256:{digits}")
        }
    }
}
