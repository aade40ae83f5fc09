//! text, and what it shares with bytea: varlena.c, oracle_compat.c, bool.c. Functions that look for
//! one text in another are in `search.rs`.

use zeroize::Zeroize;

use crate::integer::is_space;
use crate::{Collate, Ends, Type, Value, ValueError};

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

/// The text of a value that is one.
pub fn text_of(value: &Value) -> Result<&str, ValueError> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err(ValueError::NoFunction(value.ty())),
    }
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
    Ok(Value::Text(collation.lower(text_of(value)?)))
}

/// `upper(value)`
pub fn upper(value: &Value, collation: &dyn Collate) -> Result<Value, ValueError> {
    Ok(Value::Text(collation.upper(text_of(value)?)))
}

/// `initcap(value)`
pub fn initcap(value: &Value, collation: &dyn Collate) -> Result<Value, ValueError> {
    Ok(Value::Text(collation.initcap(text_of(value)?)))
}

/// `left(value, count)`: so many characters, or all but so many at the end.
pub fn left(value: &Value, count: i32) -> Result<Value, ValueError> {
    let text = text_of(value)?;
    let end = match usize::try_from(count) {
        Ok(taken) => char_offset(text, taken),
        Err(_) => char_offset(text, all_but(text, count.unsigned_abs())),
    };
    Ok(Value::Text(text[..end].to_owned()))
}

/// `right(value, count)`: so many characters at the end, or all but so many at the start.
pub fn right(value: &Value, count: i32) -> Result<Value, ValueError> {
    let text = text_of(value)?;
    let left_out = match u32::try_from(count) {
        Ok(taken) => all_but(text, taken),
        Err(_) => usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
    };
    Ok(Value::Text(text[char_offset(text, left_out)..].to_owned()))
}

/// How many characters there are without so many of them.
fn all_but(text: &str, count: u32) -> usize {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    text.chars().count().saturating_sub(count)
}

/// `reverse(value)`
pub fn reverse(value: &Value) -> Result<Value, ValueError> {
    let text = text_of(value)?;
    // Its size at once: growing would leave copies behind.
    let mut reversed = String::with_capacity(text.len());
    reversed.extend(text.chars().rev());
    Ok(Value::Text(reversed))
}

/// How many bytes `repeat(value, count)` has.
pub fn repeated_len(value: &Value, count: i32) -> Result<usize, ValueError> {
    let count = usize::try_from(count).unwrap_or(0);
    let len = text_of(value)?.len().checked_mul(count);
    len.filter(|len| *len <= MAX_LEN).ok_or(ValueError::TooLong)
}

/// `repeat(value, count)`
pub fn repeat(value: &Value, count: i32) -> Result<Value, ValueError> {
    repeated_len(value, count)?;
    let count = usize::try_from(count).unwrap_or(0);
    Ok(Value::Text(text_of(value)?.repeat(count)))
}

/// How many bytes `lpad(value, len, fill)` has, or `rpad`. PostgreSQL asks for as many as the
/// characters may have at most.
pub fn padded_len(value: &Value, len: i32, fill: &str) -> Result<usize, ValueError> {
    let text = text_of(value)?;
    let (kept, added) = padding(text, len, fill);
    if kept + added > MAX_LEN / char::MAX.len_utf8() {
        return Err(ValueError::TooLong);
    }
    let cycle = fill.chars().count().max(1);
    let rest = char_offset(fill, added % cycle);
    Ok(char_offset(text, kept) + added / cycle * fill.len() + rest)
}

/// `lpad(value, len, fill)` at the left end, `rpad` at the right: exactly so many characters.
pub fn pad(value: &Value, end: Ends, len: i32, fill: &str) -> Result<Value, ValueError> {
    // Its size at once: growing would leave copies behind.
    let mut padded = String::with_capacity(padded_len(value, len, fill)?);
    let text = text_of(value)?;
    let (kept, added) = padding(text, len, fill);
    let kept = &text[..char_offset(text, kept)];
    let fill = fill.chars().cycle().take(added);
    match end {
        Ends::Right => {
            padded.push_str(kept);
            padded.extend(fill);
        }
        _ => {
            padded.extend(fill);
            padded.push_str(kept);
        }
    }
    Ok(Value::Text(padded))
}

/// How many characters stay, and how many are added.
fn padding(text: &str, len: i32, fill: &str) -> (usize, usize) {
    let len = usize::try_from(len).unwrap_or(0);
    let kept = text.chars().count().min(len);
    match fill {
        "" => (kept, 0),
        _ => (kept, len - kept),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::C;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn shown(value: Result<Value, ValueError>) -> String {
        value.map_or_else(|error| error.to_string(), |value| value.to_text())
    }

    #[test]
    fn ends_are_counted_in_characters() {
        for (count, first, last) in [
            (0, "", ""),
            (1, "\u{e4}", "z"),
            (2, "\u{e4}\u{1f600}", "\u{1f600}z"),
            (3, "\u{e4}\u{1f600}z", "\u{e4}\u{1f600}z"),
            (i32::MAX, "\u{e4}\u{1f600}z", "\u{e4}\u{1f600}z"),
            (-1, "\u{e4}\u{1f600}", "\u{1f600}z"),
            (-2, "\u{e4}", "z"),
            (-3, "", ""),
            (-i32::MAX, "", ""),
            (i32::MIN, "", ""),
        ] {
            let value = text("\u{e4}\u{1f600}z");
            assert_eq!(shown(left(&value, count)), first, "left {count}");
            assert_eq!(shown(right(&value, count)), last, "right {count}");
            assert_eq!(shown(left(&text(""), count)), "");
            assert_eq!(shown(right(&text(""), count)), "");
        }
    }

    #[test]
    fn words_begin_behind_what_is_neither_letter_nor_digit() {
        for (value, capital) in [
            ("", ""),
            ("hello WORLD", "Hello World"),
            ("o'neil-mc 3d x2y", "O'Neil-Mc 3d X2y"),
            ("\u{e4}b c\u{e4}d", "\u{e4}B C\u{e4}D"),
        ] {
            assert_eq!(shown(initcap(&text(value), &C)), capital);
        }
    }

    #[test]
    fn texts_are_reversed_and_repeated() {
        assert_eq!(
            shown(reverse(&text("a\u{e4}\u{1f600}"))),
            "\u{1f600}\u{e4}a"
        );
        for (count, result) in [(-1, ""), (0, ""), (1, "ab"), (3, "ababab"), (i32::MIN, "")] {
            assert_eq!(shown(repeat(&text("ab"), count)), result);
        }
        assert_eq!(shown(repeat(&text(""), i32::MAX)), "");
        let long = repeat(&text("abc"), i32::MAX).err();
        assert_eq!(long, Some(ValueError::TooLong));
        assert_eq!(repeated_len(&text("abc"), 5), Ok(15));
    }

    #[test]
    fn texts_are_padded_to_a_length() {
        for (value, len, fill, left, right) in [
            ("ab", 5, "xy", "xyxab", "abxyx"),
            ("ab", 3, "\u{e4}\u{1f600}", "\u{e4}ab", "ab\u{e4}"),
            ("ab", 2, "x", "ab", "ab"),
            ("a\u{e4}b", 2, "x", "a\u{e4}", "a\u{e4}"),
            ("ab", 0, "x", "", ""),
            ("ab", i32::MIN, "x", "", ""),
            ("ab", 9, "", "ab", "ab"),
            ("ab", i32::MAX, "", "ab", "ab"),
            ("", 2, "x", "xx", "xx"),
        ] {
            assert_eq!(shown(pad(&text(value), Ends::Left, len, fill)), left);
            assert_eq!(shown(pad(&text(value), Ends::Right, len, fill)), right);
            assert_eq!(padded_len(&text(value), len, fill), Ok(left.len()));
        }
        let most = i32::try_from(MAX_LEN / 4).expect("it fits");
        assert_eq!(padded_len(&text("ab"), most, "x"), Ok(MAX_LEN / 4));
        let longer = padded_len(&text("ab"), most + 1, "x");
        assert_eq!(longer, Err(ValueError::TooLong));
    }

    #[test]
    fn other_types_have_none_of_these() {
        let none = Err(ValueError::NoFunction(Type::Int4));
        let value = Value::Int4(1);
        for made in [
            lower(&value, &C),
            initcap(&value, &C),
            left(&value, 1),
            right(&value, 1),
            reverse(&value),
            repeat(&value, 0),
            pad(&value, Ends::Left, 1, ""),
        ] {
            assert_eq!(made.map(|_| ()), none);
        }
    }
}
