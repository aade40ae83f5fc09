//! Whether a value that meets no column is one that the same statement seals.
//!
//! An application that searches for `'ada'` may also write `SELECT 'ada' AS term`, and gives its
//! secret twice: once sealed and once in clear. Values are compared as what they are, in whatever
//! form each of them comes: in the text of a statement or as a parameter, in text or in binary, as
//! a part of an array, with the signs that a search adds. A long text must not contain the secret.

use std::fmt;
use std::sync::Arc;

use pgseal_client::{Array, Type};
use pgseal_value::{cast, hash_bytes, Value, ValueError};

use crate::refusal::Refusal;
use crate::times::SessionTimes;

/// The letters of a secret that a longer text must not contain. A shorter one is a part of many.
const LETTERS: usize = 4;

/// A value that is sent in clear.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Plain {
    /// A number, without quotes
    Number(String),
    /// Anything else in text
    Text(String),
    /// `true` or `false`, without quotes
    Truth(bool),
    /// A value in a binary form that is not known
    Bytes(Vec<u8>),
}

/// The values of a statement's own text: those that are sealed, and those that meet no column.
#[derive(Clone, Default)]
pub struct Literals {
    sealed: Vec<Arc<Value>>,
    loose: Vec<Plain>,
}

/// Shows no value.
impl fmt::Debug for Literals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sealed, loose) = (self.sealed.len(), self.loose.len());
        write!(f, "Literals({sealed} sealed, {loose} loose)")
    }
}

impl PartialEq for Literals {
    fn eq(&self, other: &Self) -> bool {
        let texts = |it: &Self| it.sealed.iter().map(|it| it.to_text()).collect::<Vec<_>>();
        self.loose == other.loose && texts(self) == texts(other)
    }
}

impl Eq for Literals {}

impl Literals {
    /// Notes a value that is sealed.
    pub(crate) fn seal(&mut self, value: &Value) {
        self.sealed.push(Arc::new(match value {
            Value::Text(text) => Value::Text(folded(text)),
            value => value.duplicate(),
        }));
    }

    /// Notes a value that meets no column.
    pub(crate) fn add_loose(&mut self, value: Plain) {
        self.loose.push(value);
    }

    /// Takes the values of another text, which are used together with these.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sealed.extend(other.sealed.iter().cloned());
        self.loose.extend(other.loose.iter().cloned());
    }

    /// Whether something is sealed.
    pub(crate) fn seals(&self) -> bool {
        !self.sealed.is_empty()
    }

    /// Whether something meets no column.
    pub(crate) fn has_loose(&self) -> bool {
        !self.loose.is_empty()
    }

    /// Whether a value that meets no column is one that is sealed. The session's zone is that in
    /// which the server would read it.
    pub(crate) fn are_twice(&self, times: SessionTimes<'_>) -> bool {
        self.loose.iter().any(|plain| self.has(plain, times))
    }

    /// Returns them as parameters are compared with them. A program that gives its data as
    /// parameters, and seals nothing of the text, has constants in it: its numbers and truth values
    /// are the same whatever the data is. Text may be put together from data, and is compared.
    pub(crate) fn beside_parameters(mut self) -> Self {
        if !self.seals() {
            self.loose
                .retain(|plain| !matches!(plain, Plain::Number(_) | Plain::Truth(_)));
        }
        self
    }

    fn has(&self, plain: &Plain, times: SessionTimes<'_>) -> bool {
        self.sealed
            .iter()
            .any(|sealed| is_one(plain, sealed, times))
    }
}

/// Returns a text without what a search adds to it.
fn folded(text: &str) -> String {
    let is_added = |c: &char| matches!(c, '%' | '\\');
    let kept: String = text.chars().filter(|c| !is_added(c)).collect();
    kept.trim().to_lowercase()
}

/// Whether a value in clear is the sealed one, whose text is folded, or contains it.
fn is_one(plain: &Plain, sealed: &Value, times: SessionTimes<'_>) -> bool {
    match (plain, sealed) {
        (Plain::Text(text), Value::Text(secret)) => {
            let is_long = secret.chars().count() >= LETTERS;
            let folded = folded(text);
            folded == *secret || is_long && folded.contains(secret) || has_item(text, sealed, times)
        }
        (Plain::Text(text), sealed) => {
            is_read(text, sealed, times) || has_item(text, sealed, times)
        }
        (Plain::Number(number), Value::Text(secret)) => number == secret,
        (Plain::Number(_), Value::Bool(_) | Value::Interval(_)) => false,
        (Plain::Number(number), sealed) => is_read(number, sealed, times),
        (Plain::Truth(truth), Value::Bool(secret)) => truth == secret,
        (Plain::Truth(truth), Value::Text(secret)) => truth.to_string() == *secret,
        (Plain::Truth(_), _) => false,
        (Plain::Bytes(bytes), sealed) => {
            let mut encoded = Vec::new();
            sealed.encode(&mut encoded);
            encoded == *bytes
        }
    }
}

/// Whether a text is an array with the sealed value in it.
fn has_item(text: &str, sealed: &Value, times: SessionTimes<'_>) -> bool {
    let text = text.trim();
    let array = text.starts_with(['{', '[']).then(|| Array::parse(text));
    let array = array.and_then(Result::ok);
    let is_it = |item: &String| is_one(&Plain::Text(item.clone()), sealed, times);
    array.is_some_and(|array| {
        let items = array.items().iter().flatten();
        items.map(|item| item.to_string()).any(|item| is_it(&item))
    })
}

/// Whether a text, read as a value of the type of the sealed one, is that value. Numbers are
/// compared across their types. In a zone that is not known, any time may be any instant, and so
/// may an interval in a style that is not known.
fn is_read(text: &str, sealed: &Value, times: SessionTimes<'_>) -> bool {
    let text = text.trim();
    let ty = sealed.ty();
    let (read, sealed) = match cast(sealed, Type::Decimal) {
        Ok(number) => (Value::parse(Type::Decimal, text), number),
        Err(_) if ty == Type::TimestampTz => {
            let read = Value::parse_in(ty, text, &times());
            if read.is_err() && Value::parse(ty, text).is_ok() {
                return true;
            }
            (read, sealed.duplicate())
        }
        Err(_) if ty == Type::Interval => {
            let read = times().read(text, ty);
            if matches!(read, Err(Refusal::IntervalStyle)) {
                return true;
            }
            (
                read.map_err(|_| ValueError::DatetimeSyntax(ty)),
                sealed.duplicate(),
            )
        }
        Err(_) => (Value::parse(ty, text), sealed.duplicate()),
    };
    let bytes = |value: &Value| {
        let mut bytes = Vec::new();
        hash_bytes(value, &mut bytes);
        bytes
    };
    read.is_ok_and(|read| bytes(&read) == bytes(&sealed))
}

impl From<&Value> for Plain {
    fn from(value: &Value) -> Self {
        match value {
            Value::Bool(truth) => Self::Truth(*truth),
            Value::Int4(_) | Value::Int8(_) | Value::Float4(_) | Value::Float8(_) => {
                Self::Number(value.to_text())
            }
            Value::Decimal(_) => Self::Number(value.to_text()),
            value => Self::Text(value.to_text()),
        }
    }
}

impl Literals {
    /// Notes all that bytes of a type that is not known may be.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        if let Ok(array) = Array::decode(bytes) {
            let items = array.items().iter().flatten();
            items.for_each(|item| self.add_one(item));
        }
        self.add_one(bytes);
    }

    fn add_one(&mut self, bytes: &[u8]) {
        let number = match *bytes {
            [a, b] => Some(i64::from(i16::from_be_bytes([a, b]))),
            [a, b, c, d] => Some(i64::from(i32::from_be_bytes([a, b, c, d]))),
            _ => bytes.try_into().ok().map(i64::from_be_bytes),
        };
        let number = number.map(|number| Plain::Number(number.to_string()));
        let text = std::str::from_utf8(bytes).ok();
        let text = text.map(|text| Plain::Text(text.to_owned()));
        self.loose.extend(number.into_iter().chain(text));
        self.loose.push(Plain::Bytes(bytes.to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::Times;
    use crate::zone::Zone;

    fn sealed(ty: Type, text: &str) -> Literals {
        let mut literals = Literals::default();
        literals.seal(&Value::parse(ty, text).expect("it is a value"));
        literals
    }

    fn is_twice(ty: Type, secret: &str, plain: Plain) -> bool {
        let mut literals = sealed(ty, secret);
        literals.add_loose(plain);
        literals.are_twice(&Times::default)
    }

    #[test]
    fn texts_are_compared_without_what_a_search_adds() {
        let text = |text: &str| Plain::Text(text.to_owned());
        for (secret, plain) in [
            ("ada", "ada"),
            ("%Ada%", " ADA "),
            ("50\\%", "50%"),
            ("", ""),
            ("grace", "Results for 'Grace', page 2"),
            ("ada", "{bob,ada}"),
            ("ada", "[0:1]={bob,ada}"),
        ] {
            assert!(is_twice(Type::Text, secret, text(plain)), "{plain}");
        }
        for (secret, plain) in [
            ("ada", "adamant"),
            ("grace", "gra ce"),
            ("ada", ""),
            ("", "a"),
        ] {
            assert!(!is_twice(Type::Text, secret, text(plain)), "{plain}");
        }
        assert!(is_twice(Type::Text, "7", Plain::Number("7".to_owned())));
        assert!(is_twice(Type::Text, "true", Plain::Truth(true)));
    }

    #[test]
    fn other_values_are_compared_as_what_they_are() {
        let text = |text: &str| Plain::Text(text.to_owned());
        let number = |text: &str| Plain::Number(text.to_owned());
        for (ty, secret, plain) in [
            (Type::Int4, "5", number("5")),
            (Type::Int4, "5", number("5.0")),
            (Type::Int8, "-5", text(" -5 ")),
            (Type::Decimal, "1.50", number("1.5")),
            (Type::Float8, "0.1", text("1e-1")),
            (Type::Date, "2024-01-02", text("20240102")),
            (
                Type::Timestamp,
                "2024-01-02 03:04:05",
                text("2024-01-02T03:04:05"),
            ),
            (
                Type::Uuid,
                "00000000-0000-0000-0000-00000000000a",
                text("0000000000000000000000000000000A"),
            ),
            (Type::Bool, "t", Plain::Truth(true)),
            (Type::Bool, "t", text("on")),
            (Type::Int4, "5", text("{4,5}")),
            (Type::Interval, "1 day", text("24 hours")),
        ] {
            assert!(is_twice(ty, secret, plain), "{secret}");
        }
        for (ty, secret, plain) in [
            (Type::Int4, "5", number("6")),
            (Type::Bool, "t", number("1")),
            (Type::Bool, "t", Plain::Truth(false)),
            (Type::Date, "2024-01-02", text("2024-01-03")),
            (Type::Interval, "5 seconds", number("5")),
        ] {
            assert!(!is_twice(ty, secret, plain), "{secret}");
        }
    }

    #[test]
    fn instants_are_read_in_the_sessions_zone() {
        let is_it = |times: Times, plain: &str| {
            let mut literals = sealed(Type::TimestampTz, "2026-01-02 03:04:05+01");
            literals.add_loose(Plain::Text(plain.to_owned()));
            literals.are_twice(&|| times.clone())
        };
        let berlin = || Times::in_zone(Zone::named(b"Europe/Berlin"));
        assert!(is_it(berlin(), "2026-01-02T03:04:05"));
        assert!(!is_it(berlin(), "2026-01-02 02:04:05"));
        assert!(is_it(berlin(), "2026-01-02 02:04:05Z"));
        assert!(is_it(Times::default(), "2026-01-02 02:04:05"));
        assert!(is_it(Times::unknown(), "2026-01-02 09:04:05"));
        assert!(!is_it(Times::unknown(), "2026-01-02 09:04:05Z"));
        assert!(!is_it(Times::unknown(), "ada"));
    }

    #[test]
    fn intervals_are_read_in_the_sessions_style() {
        let is_it = |times: Times, plain: &str| {
            let mut literals = sealed(Type::Interval, "-1 day -2 hours");
            literals.add_loose(Plain::Text(plain.to_owned()));
            literals.are_twice(&|| times.clone())
        };
        assert!(is_it(Times::default(), "-26:00"));
        assert!(!is_it(Times::default(), "-1 2:00"));
        assert!(is_it(Times::unknown(), "-1 2:00"));
    }

    #[test]
    fn bytes_are_whatever_they_may_be() {
        let is_it = |ty, secret: &str, bytes: &[u8]| {
            let mut literals = sealed(ty, secret);
            literals.add_bytes(bytes);
            literals.are_twice(&Times::default)
        };
        assert!(is_it(Type::Text, "ada", b"ADA"));
        assert!(is_it(Type::Int4, "5", &[0, 5]));
        assert!(is_it(Type::Int4, "5", &[0, 0, 0, 0, 0, 0, 0, 5]));
        assert!(is_it(Type::Date, "2000-01-06", &[0, 0, 0, 5]));
        let mut array = Vec::new();
        let items = Array::new(vec![Some(b"bob".to_vec()), None, Some(b"ada".to_vec())]);
        items.encode(25, &mut array).expect("it is short");
        assert!(is_it(Type::Text, "ada", &array));
        assert!(!is_it(Type::Text, "eve", &array));
        assert!(!is_it(Type::Int4, "5", &[0, 6]));
    }

    #[test]
    fn no_value_is_printable() {
        let mut literals = sealed(Type::Text, "xyzzy");
        literals.add_loose(Plain::Text("xyzzy".to_owned()));
        assert_eq!(format!("{literals:?}"), "Literals(1 sealed, 1 loose)");
    }
}
