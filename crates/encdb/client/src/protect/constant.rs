//! Defaults that are constants, read from the text that the server writes of them
//! (`pg_get_expr`): the client seals the value, so the server does not compute it.

use crate::{Type, Value};

/// A default that is a constant.
pub(super) enum Constant {
    /// NULL, as a column without a default has
    Null,
    /// A value
    Value(Value),
}

impl Constant {
    /// Returns the value; none for NULL.
    pub(super) fn value(self) -> Option<Value> {
        match self {
            Self::Null => None,
            Self::Value(value) => Some(value),
        }
    }
}

/// Returns the constant that an expression is; none if it is anything else. `name` is the column's
/// type: a cast to another one may change the value.
pub(super) fn constant(ty: Type, name: &str, expression: &str) -> Option<Constant> {
    let (text, is_cast) = (expression.trim(), |rest: &str| is_cast(rest, name));
    if let Some(rest) = text.strip_prefix("NULL") {
        return is_cast(rest).then_some(Constant::Null);
    }
    let escaped = text.strip_prefix("E'").map(|rest| (rest, true));
    let quoted = escaped.or_else(|| text.strip_prefix('\'').map(|rest| (rest, false)));
    let content = match quoted {
        Some((rest, escapes)) => {
            let (content, rest) = string(rest, escapes)?;
            is_cast(rest).then_some(content)?
        }
        None => {
            let (content, rest) = bare(text)?;
            is_cast(rest).then_some(content)?
        }
    };
    Value::parse(ty, &content).ok().map(Constant::Value)
}

/// Whether this is nothing, or a cast to this type.
fn is_cast(rest: &str, name: &str) -> bool {
    rest.is_empty() || rest.strip_prefix("::") == Some(name)
}

/// Reads a string up to its quote, and returns it with what follows.
fn string(text: &str, escapes: bool) -> Option<(String, &str)> {
    let (mut content, mut letters) = (String::new(), text.char_indices().peekable());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' if letters.next_if(|(_, next)| *next == '\'').is_none() => {
                return Some((content, &text[at + 1..]));
            }
            // The server writes no other escape than a doubled backslash.
            '\\' if escapes && letters.next_if(|(_, next)| *next == '\\').is_none() => return None,
            letter => content.push(letter),
        }
    }
    None
}

/// Reads a number, which may be in parentheses, or a boolean, and returns it with what follows.
fn bare(text: &str) -> Option<(String, &str)> {
    let (content, rest) = match text.strip_prefix('(') {
        Some(inner) => inner.split_once(')')?,
        None => text.split_at(text.find("::").unwrap_or(text.len())),
    };
    let is_number = content
        .chars()
        .all(|c| c.is_ascii_digit() || ".-+eE".contains(c))
        && content.contains(|c: char| c.is_ascii_digit());
    let is_constant = is_number || matches!(content, "true" | "false");
    is_constant.then(|| (content.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_read_and_nothing_else() {
        let read = |ty, name, text| match constant(ty, name, text) {
            None => "-".to_owned(),
            Some(Constant::Null) => "NULL".to_owned(),
            Some(Constant::Value(value)) => value.to_text(),
        };
        let instant = "timestamp without time zone";
        for (ty, name, text, expected) in [
            (Type::Text, "text", "'it''s'::text", "it's"),
            (Type::Text, "character varying", "''::character varying", ""),
            (Type::Text, "text", r"E'a\\b'::text", r"a\b"),
            (Type::Text, "text", r"'a\b'", r"a\b"),
            (Type::Text, "text", "NULL::text", "NULL"),
            (Type::Text, "text", "('a'::text || 'b'::text)", "-"),
            (Type::Text, "text", "'a'::text || 'b'::text", "-"),
            (Type::Text, "text", "'a  '::bpchar", "-"),
            (Type::Text, "text", "'abc'::character varying(2)", "-"),
            (Type::Text, "text", "CURRENT_USER", "-"),
            (Type::Text, "text", "lower('A'::text)", "-"),
            (Type::Text, "text", "NULLIF('a'::text, 'b'::text)", "-"),
            (Type::Int4, "integer", "7", "7"),
            (Type::Int4, "integer", "'-7'::integer", "-7"),
            (Type::Int4, "integer", "(-7)", "-7"),
            (Type::Int4, "integer", "1.5", "-"),
            (Type::Int8, "bigint", "(7)::bigint", "7"),
            (Type::Int4, "integer", "(7 + 1)", "-"),
            (Type::Int4, "integer", "nextval('s'::regclass)", "-"),
            (Type::Float8, "double precision", "'1.1'::real", "-"),
            (Type::Decimal, "numeric", "1.50", "1.50"),
            (Type::Bool, "boolean", "true", "t"),
            (Type::Date, "date", "'2024-02-29'::date", "2024-02-29"),
            (Type::Date, "date", "CURRENT_DATE", "-"),
            (
                Type::Timestamp,
                instant,
                "'2024-01-01 00:00:00'::timestamp without time zone",
                "2024-01-01 00:00:00",
            ),
            (Type::TimestampTz, "timestamp with time zone", "now()", "-"),
            (Type::Bytea, "bytea", r"'\x0aff'::bytea", r"\x0aff"),
            (Type::Interval, "interval", "'1 day'::interval", "1 day"),
        ] {
            assert_eq!(read(ty, name, text), expected, "{text}");
        }
    }
}
