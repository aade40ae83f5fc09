//! text, and what it shares with bytea: varlena.c, oracle_compat.c, bool.c.

use zeroize::Zeroize;

use crate::integer::is_space;
use crate::{Collate, Type, Value, ValueError};

/// The longest value that PostgreSQL can build.
const MAX_LEN: usize = 0x3fff_ffff - 4;

/// Bytes as text: UTF-8 without a zero.
pub(crate) fn decode(bytes: &[u8]) -> Result<String, ValueError> {
    if bytes.contains(&0) {
        return Err(ValueError::Encoding);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| ValueError::Encoding)?;
    Ok(text.to_owned())
}

/// Reads a boolean: `true`, `yes`, `on`, `1` and what begins them.
pub(crate) fn parse_bool(text: &str) -> Result<bool, ValueError> {
    let mut word = text.trim_matches(is_space).to_ascii_lowercase();
    let begins = |whole: &str, least| word.len() >= least && whole.starts_with(&*word);
    let result = if begins("true", 1) || begins("yes", 1) || begins("on", 2) || word == "1" {
        Ok(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0" {
        Ok(false)
    } else {
        Err(ValueError::Syntax(Type::Bool))
    };
    word.zeroize();
    result
}

/// `a || b`
pub fn concat(a: &Value, b: &Value) -> Result<Value, ValueError> {
    match (a, b) {
        (Value::Bytea(a), Value::Bytea(b)) => {
            let mut joined = Vec::with_capacity(checked_len(a.len(), b.len())?);
            joined.extend_from_slice(a);
            joined.extend_from_slice(b);
            Ok(Value::Bytea(joined))
        }
        (Value::Text(a), Value::Text(b)) => {
            let mut joined = String::with_capacity(checked_len(a.len(), b.len())?);
            joined.push_str(a);
            joined.push_str(b);
            Ok(Value::Text(joined))
        }
        _ => Err(ValueError::Undefined(a.ty(), b.ty())),
    }
}

/// The length of two parts together, if a value may be so long.
pub(crate) fn checked_len(a: usize, b: usize) -> Result<usize, ValueError> {
    Some(a + b)
        .filter(|len| *len <= MAX_LEN)
        .ok_or(ValueError::TooLong)
}

/// `length(value)`: characters of a text, bytes of a bytea.
pub fn length(value: &Value) -> Result<i32, ValueError> {
    let len = match value {
        Value::Text(text) => text.chars().count(),
        Value::Bytea(bytes) => bytes.len(),
        _ => return Err(ValueError::NoFunction(value.ty())),
    };
    i32::try_from(len).map_err(|_| ValueError::TooLong)
}

/// `substring(value from from for len)`; positions count from 1 and may be negative.
pub fn substring(value: &Value, from: i32, len: Option<i32>) -> Result<Value, ValueError> {
    let (start, end) = window(from, len)?;
    match value {
        Value::Text(text) => {
            let start = char_offset(text, start);
            let rest = &text[start..];
            let len = end.map_or(rest.len(), |count| char_offset(rest, count));
            Ok(Value::Text(rest[..len].to_owned()))
        }
        Value::Bytea(bytes) => {
            let rest = &bytes[start.min(bytes.len())..];
            let len = end.map_or(rest.len(), |count| count.min(rest.len()));
            Ok(Value::Bytea(rest[..len].to_vec()))
        }
        _ => Err(ValueError::NoFunction(value.ty())),
    }
}

/// How many units to skip and how many to take; all if the end is out of reach.
fn window(from: i32, len: Option<i32>) -> Result<(usize, Option<usize>), ValueError> {
    let start = from.max(1);
    let skip = usize::try_from(start - 1).unwrap_or(usize::MAX);
    let Some(len) = len else {
        return Ok((skip, None));
    };
    if len < 0 {
        return Err(ValueError::NegativeSubstring);
    }
    let Some(end) = from.checked_add(len) else {
        return Ok((skip, None));
    };
    let take = i64::from(end) - i64::from(start);
    Ok((skip, Some(usize::try_from(take).unwrap_or(0))))
}

/// Returns where the character of this index begins, or the end of the text.
fn char_offset(text: &str, index: usize) -> usize {
    let mut offsets = text.char_indices();
    offsets.nth(index).map_or(text.len(), |(offset, _)| offset)
}

/// `lower(value)`
pub fn lower(value: &Value, collation: &dyn Collate) -> Result<Value, ValueError> {
    match value {
        Value::Text(text) => Ok(Value::Text(collation.lower(text))),
        _ => Err(ValueError::NoFunction(value.ty())),
    }
}

/// `upper(value)`
pub fn upper(value: &Value, collation: &dyn Collate) -> Result<Value, ValueError> {
    match value {
        Value::Text(text) => Ok(Value::Text(collation.upper(text))),
        _ => Err(ValueError::NoFunction(value.ty())),
    }
}
