//! LIKE: like_match.c, without its recursion, because patterns come from outside. The escape of a
//! pattern is the backslash; [`like_escape`] makes it so.
//!
//! A `%` that has matched is never given up for an earlier one, so one place to return to is
//! enough.

use std::cmp::Ordering;

use zeroize::Zeroizing;

use crate::text::{checked_len, text_of};
use crate::{Collate, Value, ValueError};

/// Bytes that are compared in vain at most: seconds. A pattern behind whose `%` nearly all matches,
/// again and again, takes hours, and nobody could stop it.
const MAX_STEPS: usize = 1 << 31;
/// Bytes of a search times those that are searched, up to which each place is looked at.
const FEW: usize = 1 << 20;

/// `value LIKE pattern`, or ILIKE in a collation.
pub fn like(
    value: &Value,
    pattern: &Value,
    insensitive: Option<&dyn Collate>,
) -> Result<bool, ValueError> {
    match (value, pattern, insensitive) {
        (Value::Text(text), Value::Text(pattern), None) => {
            matches(Subject::Text(text), pattern.as_bytes())
        }
        (Value::Text(text), Value::Text(pattern), Some(collation)) => {
            let pattern = Zeroizing::new(collation.lower(pattern));
            let text = Zeroizing::new(collation.lower(text));
            matches(Subject::Text(&text), pattern.as_bytes())
        }
        (Value::Bytea(bytes), Value::Bytea(pattern), None) => {
            matches(Subject::Bytes(bytes), pattern)
        }
        _ => Err(ValueError::Undefined(value.ty(), pattern.ty())),
    }
}

/// `like_escape(pattern, escape)`: the pattern with the backslash as its escape, in place of this
/// character or, of bytea, byte; of none, if there is none.
pub fn like_escape(pattern: &Value, escape: &str) -> Result<Value, ValueError> {
    match pattern {
        Value::Text(text) => {
            let escape = at_most_one(escape.chars())?;
            let mut result = Zeroizing::new(String::with_capacity(2 * text.len()));
            with_backslashes(text.chars(), escape, |c| result.push(c));
            checked_len(result.len(), 0)?;
            Ok(Value::Text(std::mem::take(&mut *result)))
        }
        Value::Bytea(bytes) => {
            let escape = at_most_one(escape.bytes())?;
            let mut result = Zeroizing::new(Vec::with_capacity(2 * bytes.len()));
            with_backslashes(bytes.iter().copied(), escape, |byte| result.push(byte));
            checked_len(result.len(), 0)?;
            Ok(Value::Bytea(std::mem::take(&mut *result)))
        }
        _ => Err(ValueError::NoFunction(pattern.ty())),
    }
}

/// Whether all texts that match a pattern of LIKE begin alike: it does not begin with a wildcard.
///
/// # Errors
/// If the pattern is no text.
pub fn has_prefix(pattern: &Value) -> Result<bool, ValueError> {
    Ok(prefix(text_of(pattern)?).next().is_some())
}

/// An end of the range of texts that begin alike. No text is at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixEnd {
    /// Before the first.
    Low,
    /// Behind the last.
    High,
}

impl PrefixEnd {
    /// The order of the end beside what is within the range.
    fn beside_inner(self) -> Ordering {
        match self {
            Self::Low => Ordering::Less,
            Self::High => Ordering::Greater,
        }
    }
}

/// The order of a text beside an end of the range of those texts that begin as a pattern of LIKE
/// does, up to its first wildcard. By code point; they are never equal.
///
/// # Errors
/// If one of them is no text.
pub fn order_beside_prefix(
    value: &Value,
    pattern: &Value,
    end: PrefixEnd,
) -> Result<Ordering, ValueError> {
    let mut text = text_of(value)?.chars();
    for letter in prefix(text_of(pattern)?) {
        let order = text.next().map_or(Ordering::Less, |own| own.cmp(&letter));
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(end.beside_inner().reverse())
}

/// The order of two ends of such ranges.
///
/// # Errors
/// If one of the patterns is no text.
pub fn order_of_prefixes(
    left: (&Value, PrefixEnd),
    right: (&Value, PrefixEnd),
) -> Result<Ordering, ValueError> {
    let (mut a, mut b) = (prefix(text_of(left.0)?), prefix(text_of(right.0)?));
    loop {
        match (a.next(), b.next()) {
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => return Ok(a.cmp(&b)),
            // One range is in the other, or both are the same.
            (None, Some(_)) => return Ok(left.1.beside_inner()),
            (Some(_), None) => return Ok(right.1.beside_inner().reverse()),
            (None, None) if left.1 == right.1 => return Ok(Ordering::Equal),
            (None, None) => return Ok(left.1.beside_inner()),
        }
    }
}

/// The characters with which each text begins that matches a pattern.
fn prefix(pattern: &str) -> impl Iterator<Item = char> + '_ {
    let mut letters = pattern.chars();
    std::iter::from_fn(move || match letters.next()? {
        '%' | '_' => {
            letters = "".chars();
            None
        }
        '\\' => letters.next(),
        letter => Some(letter),
    })
}

pub(crate) fn at_most_one<T>(mut units: impl Iterator<Item = T>) -> Result<Option<T>, ValueError> {
    let escape = units.next();
    match units.next() {
        None => Ok(escape),
        Some(_) => Err(ValueError::InvalidEscape),
    }
}

/// do_like_escape: an escape becomes a backslash, a backslash that is none becomes two.
fn with_backslashes<T: Copy + PartialEq + From<u8>>(
    pattern: impl Iterator<Item = T>,
    escape: Option<T>,
    mut push: impl FnMut(T),
) {
    let backslash = T::from(b'\\');
    let mut after_escape = false;
    for unit in pattern {
        let is_escape = Some(unit) == escape && !after_escape;
        if unit == backslash && !is_escape && !after_escape {
            push(backslash);
        }
        push(if is_escape { backslash } else { unit });
        after_escape = is_escape;
    }
}

/// The text or bytes that are matched; `_` means a character of a text, and a byte of
/// bytes.
#[derive(Clone, Copy)]
enum Subject<'a> {
    Bytes(&'a [u8]),
    Text(&'a str),
}

impl<'a> Subject<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }

    /// Returns what follows the first unit of `end`, which is an end of this.
    fn skip(self, end: &'a [u8]) -> &'a [u8] {
        let mut rest = &end[1..];
        while let (Self::Text(_), [0x80..=0xbf, after @ ..]) = (self, rest) {
            rest = after;
        }
        rest
    }

    /// Returns what follows the first `needle` in `end`, which is an end of this.
    fn behind(self, end: &'a [u8], needle: &[u8]) -> Option<&'a [u8]> {
        let at = match (self, std::str::from_utf8(needle)) {
            (Self::Text(text), Ok(needle)) => text.get(text.len() - end.len()..)?.find(needle)?,
            _ if end.len().saturating_mul(needle.len()) > FEW => find_bytes(end, needle)?,
            _ => end.windows(needle.len()).position(|part| part == needle)?,
        };
        Some(&end[at + needle.len()..])
    }
}

/// Returns where `needle` begins, in time linear in what is found: a pattern of many parts takes
/// hours if each part looks at all that follows.
fn find_bytes(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let mut len = needle.len();
    while len < bytes.len() {
        len = len.saturating_mul(2).min(bytes.len());
        if let Some(at) = find_in(&bytes[..len], needle) {
            return Some(at);
        }
    }
    (bytes == needle).then_some(0)
}

/// Searches as the standard library searches a text of which each byte is a character.
fn find_in(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let text = |bytes: &[u8]| {
        // Its size at once: growing would leave copies behind.
        let mut text = Zeroizing::new(String::with_capacity(2 * bytes.len()));
        text.extend(bytes.iter().copied().map(char::from));
        text
    };
    let (text, needle) = (text(bytes), text(needle));
    let at = text.find(needle.as_str())?;
    Some(text[..at].chars().count())
}

/// Where the search for what is behind a `%` goes on.
struct Retry<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
}

/// How many bytes may still be compared in vain.
struct Steps(usize);

impl Steps {
    fn spend(&mut self, bytes: usize) -> Result<(), ValueError> {
        self.0 = self.0.checked_sub(bytes).ok_or(ValueError::TooComplex)?;
        Ok(())
    }
}

fn matches(subject: Subject, pattern: &[u8]) -> Result<bool, ValueError> {
    if pattern == b"%" {
        return Ok(true);
    }
    matches_within(Steps(MAX_STEPS), subject, pattern)
}

fn matches_within(mut left: Steps, subject: Subject, pattern: &[u8]) -> Result<bool, ValueError> {
    let (mut t, mut p) = (subject.bytes(), pattern);
    let mut retry: Option<Retry> = None;
    loop {
        let matched = match (t, p) {
            ([], _) => return Ok(p.iter().all(|byte| *byte == b'%')),
            (_, []) => false,
            (_, [b'%', ..]) => {
                match behind_percent(subject, t, p)? {
                    Percent::Decided(result) => return Ok(result),
                    Percent::Found(text, pattern) => (t, p) = (text, pattern),
                    Percent::Search(text, pattern) => {
                        (t, p) = (text, pattern);
                        retry = Some(Retry { text, pattern });
                    }
                }
                continue;
            }
            (_, [b'_', rest @ ..]) => {
                (t, p) = (subject.skip(t), rest);
                continue;
            }
            ([a, t_rest @ ..], _) => {
                let (literal, p_rest) = literal(p)?;
                (t, p) = (t_rest, p_rest);
                *a == literal
            }
        };
        if !matched {
            let Some(place) = &mut retry else {
                return Ok(false);
            };
            left.spend(place.text.len() - t.len())?;
            place.text = subject.skip(place.text);
            (t, p) = (place.text, place.pattern);
            // The text is used up: no later place can match.
            if t.is_empty() {
                return Ok(false);
            }
        }
    }
}

/// The outcome of a run of wildcards.
enum Percent<'a> {
    Decided(bool),
    /// Literals were found, up to the next `%`
    Found(&'a [u8], &'a [u8]),
    /// The rest of the pattern is to be tried at each place
    Search(&'a [u8], &'a [u8]),
}

fn behind_percent<'a>(
    subject: Subject<'a>,
    mut t: &'a [u8],
    mut p: &'a [u8],
) -> Result<Percent<'a>, ValueError> {
    loop {
        match p {
            [] => return Ok(Percent::Decided(true)),
            [b'%', rest @ ..] => p = rest,
            [b'_', ..] if t.is_empty() => return Ok(Percent::Decided(false)),
            [b'_', rest @ ..] => (t, p) = (subject.skip(t), rest),
            _ => break,
        }
    }
    literal(p)?;
    if t.is_empty() {
        return Ok(Percent::Decided(false));
    }
    let end = p
        .iter()
        .position(|byte| matches!(byte, b'%' | b'_' | b'\\'));
    Ok(match end.map(|end| (end, p[end])) {
        None => Percent::Decided(t.ends_with(p)),
        Some((end, b'%')) => match subject.behind(t, &p[..end]) {
            Some(rest) => Percent::Found(rest, &p[end..]),
            None => Percent::Decided(false),
        },
        Some(_) => Percent::Search(t, p),
    })
}

/// The byte that the pattern begins with, escaped or not.
fn literal(pattern: &[u8]) -> Result<(u8, &[u8]), ValueError> {
    match pattern {
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] if pattern != b"\\" => Ok((*byte, rest)),
        _ => Err(ValueError::TrailingEscape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::C;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn patterns_match_as_in_postgresql() {
        let cases = [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "a_", false),
            ("abc", "%b%", true),
            ("", "", true),
            ("", "%%", true),
            ("", "_", false),
            ("\u{e4}b", "_b", true),
            ("\u{20ac}", "__", false),
            ("a%b", "a\\%b", true),
            ("axb", "a\\%b", false),
            ("aab", "%ab", true),
            ("aaab", "%a_b", true),
            ("abab", "%ab_", false),
            ("xyzzy", "%z%y", true),
            ("a\\b", "a\\\\b", true),
            ("aXbXc", "%X%X%", true),
            ("aXbXc", "%X%X%X%", false),
            ("aXbXc", "%X%c", true),
            ("aXbXc", "%X%b", false),
            ("\u{e4}\u{e4}", "_%\u{e4}%", true),
            ("\u{e4}\u{e5}", "_%\u{e4}%", false),
            ("ab", "%_%_%", true),
            ("ab", "%___%", false),
        ];
        for (value, pattern, result) in cases {
            let found = like(&text(value), &text(pattern), None);
            assert_eq!(found, Ok(result), "{value} LIKE {pattern}");
        }
    }

    #[test]
    fn an_escape_at_the_end_is_an_error_only_if_it_is_reached() {
        let like = |value, pattern| like(&text(value), &text(pattern), None);
        assert_eq!(like("ab", "a\\"), Err(ValueError::TrailingEscape));
        assert_eq!(like("a", "%\\"), Err(ValueError::TrailingEscape));
        assert_eq!(like("a", "a\\"), Ok(false));
        assert_eq!(like("xb", "a\\"), Ok(false));
    }

    #[test]
    fn escapes_can_be_chosen_and_left_out() {
        let like = |value, pattern, escape| {
            let pattern = like_escape(&text(pattern), escape)?;
            like(&text(value), &pattern, None)
        };
        assert_eq!(like("a%", "a#%", "#"), Ok(true));
        assert_eq!(like("ab", "a#%", "#"), Ok(false));
        assert_eq!(like("a#", "a##", "#"), Ok(true));
        assert_eq!(like("a\\", "a\\", "#"), Ok(true));
        assert_eq!(like("a\\b", "a\\_", ""), Ok(true));
        assert_eq!(like("a_", "a\u{20ac}_", "\u{20ac}"), Ok(true));
        assert_eq!(like("a\\%", "a\\\\\\%", "\\"), Ok(true));
        assert_eq!(like("a", "a", "##"), Err(ValueError::InvalidEscape));
    }

    #[test]
    fn patterns_have_a_prefix_up_to_their_first_wildcard() {
        let (low, high) = (PrefixEnd::Low, PrefixEnd::High);
        let order = |value, pattern, end| order_beside_prefix(&text(value), &text(pattern), end);
        for (pattern, below, within, above) in [
            ("abc%", "abb", "abcd", "abd"),
            ("abc", "ab", "abc", "b"),
            ("a\\%b_c", "a%a", "a%bxx", "a%c"),
            ("\u{e4}%", "z", "\u{e4}", "\u{e5}"),
            ("a\\", "", "ab", "b"),
        ] {
            assert_eq!(has_prefix(&text(pattern)), Ok(true));
            for (value, beside_low, beside_high) in [
                (below, Ordering::Less, Ordering::Less),
                (within, Ordering::Greater, Ordering::Less),
                (above, Ordering::Greater, Ordering::Greater),
            ] {
                assert_eq!(order(value, pattern, low), Ok(beside_low), "{pattern}");
                assert_eq!(order(value, pattern, high), Ok(beside_high), "{pattern}");
            }
        }
        for pattern in ["", "%a", "_", "\\"] {
            assert_eq!(has_prefix(&text(pattern)), Ok(false));
            assert_eq!(order("any", pattern, low), Ok(Ordering::Greater));
            assert_eq!(order("any", pattern, high), Ok(Ordering::Less));
        }
    }

    #[test]
    fn a_pattern_of_many_parts_costs_what_it_goes_over() {
        let (parts, bytes) = (400_000, |text: String| Value::Bytea(text.into_bytes()));
        let value = bytes("ab".repeat(2 * parts));
        for (pattern, result) in [("%a", true), ("%bab", true), ("%c", false)] {
            let pattern = bytes(pattern.repeat(parts / 2) + "%");
            assert_eq!(like(&value, &pattern, None), Ok(result));
        }
        for at in [0, 1, 5, 63, 64, 2000, 3999] {
            let mut text = vec![b'x'; 4000];
            text[at] = b'y';
            assert_eq!(find_bytes(&text, b"y"), Some(at));
            assert_eq!(find_bytes(&text[..at], b"y"), None);
        }
        assert_eq!(find_bytes(b"xy", b"xy"), Some(0));
        assert_eq!(find_bytes(b"x", b"xy"), None);
    }

    #[test]
    fn escapes_of_bytes_are_bytes() {
        let bytes = |text: &str| Value::Bytea(text.as_bytes().to_vec());
        let like = |value, pattern, escape| {
            let pattern = like_escape(&bytes(pattern), escape)?;
            like(&bytes(value), &pattern, None)
        };
        assert_eq!(like("a%", "a#%", "#"), Ok(true));
        assert_eq!(like("ab", "a#%", "#"), Ok(false));
        assert_eq!(like("a", "a", "\u{e4}"), Err(ValueError::InvalidEscape));
        let refused = like_escape(&Value::Int4(1), "").err();
        assert_eq!(refused, Some(ValueError::NoFunction(crate::Type::Int4)));
    }

    #[test]
    fn what_would_never_end_is_refused() {
        let value = "a".repeat(1000);
        let matched = |steps, pattern: &str| {
            matches_within(Steps(steps), Subject::Text(&value), pattern.as_bytes())
        };
        let alike = format!("%{}_b", "a".repeat(500));
        assert_eq!(matched(300_000, &alike), Ok(false));
        assert_eq!(matched(200_000, &alike), Err(ValueError::TooComplex));
        assert_eq!(matched(0, &format!("%{}_a%", "a".repeat(500))), Ok(true));
        assert_eq!(ValueError::TooComplex.sqlstate(), "54001");
    }

    #[test]
    fn bytes_are_found_in_linear_time() {
        let bytes = |bytes: &[&[u8]]| Value::Bytea(bytes.concat());
        let (zeros, half) = (vec![0xff; 1 << 20], vec![0xff; 1 << 19]);
        let value = bytes(&[&zeros, &[0x80, 7]]);
        let like = |pattern| like(&value, &pattern, None);
        assert_eq!(like(bytes(&[b"%", &half, &[0], b"%"])), Ok(false));
        assert_eq!(like(bytes(&[b"%", &half, &[0x80], b"%"])), Ok(true));
        assert_eq!(like(bytes(&[b"%", &half, &[0x80], b"%\x07"])), Ok(true));
        assert_eq!(like(bytes(&[b"%", &half, &[0x80, 7], b"%_"])), Ok(false));
    }

    #[test]
    fn a_long_pattern_needs_no_stack() {
        let value = text(&"ab".repeat(5_000));
        let pattern = text(&"%a".repeat(5_000));
        assert_eq!(like(&value, &pattern, None), Ok(false));
        assert_eq!(like(&text("AbC"), &text("a%c"), Some(&C)), Ok(true));
        assert_eq!(like(&text("AbC"), &text("a%c"), None), Ok(false));
    }

    proptest::proptest! {
        #[test]
        fn what_matches_is_between_the_ends_of_its_pattern(
            value in "[ab%_\\\\\u{e4}]{0,6}",
            pattern in "[ab%_\\\\\u{e4}]{0,6}",
        ) {
            if like(&text(&value), &text(&pattern), None) == Ok(true) {
                for end in [PrefixEnd::Low, PrefixEnd::High] {
                    let order = order_beside_prefix(&text(&value), &text(&pattern), end);
                    proptest::prop_assert_eq!(order, Ok(end.beside_inner().reverse()));
                }
            }
        }

        // What an index demands of all that it compares.
        #[test]
        fn texts_and_ends_have_one_order(
            points in proptest::collection::vec(("[ab\u{e4}]{0,3}", 0..3), 3..4),
        ) {
            let order = |left: &(String, i32), right: &(String, i32)| {
                let end = |kind| if kind == 1 { PrefixEnd::Low } else { PrefixEnd::High };
                let (a, b) = (text(&left.0), text(&right.0));
                let order = match (left.1, right.1) {
                    (0, 0) => Ok(left.0.cmp(&right.0)),
                    (0, kind) => order_beside_prefix(&a, &b, end(kind)),
                    (kind, 0) => order_beside_prefix(&b, &a, end(kind)).map(Ordering::reverse),
                    (kind, other) => order_of_prefixes((&a, end(kind)), (&b, end(other))),
                };
                order.unwrap_or_else(|error| panic!("{error}"))
            };
            let [a, b, c] = &points[..] else { unreachable!() };
            proptest::prop_assert_eq!(order(a, b), order(b, a).reverse());
            if order(a, b).is_le() && order(b, c).is_le() {
                let expected = order(a, b).then(order(b, c));
                proptest::prop_assert_eq!(order(a, c), expected);
            }
        }
    }
}
