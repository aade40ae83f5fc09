//! Functions that look for one text in another: varlena.c, oracle_compat.c. All do so in time
//! linear in both, and compare bytes, as PostgreSQL does under deterministic collations.

use zeroize::Zeroizing;

use crate::text::{checked_len, text_of};
use crate::{Value, ValueError};

/// Characters of a set that are looked at one by one.
const FEW: usize = 32;
/// Code points of Unicode, 64 for each word.
const WORDS: u32 = 0x11_0000 / 64;

/// The ends of a text that are trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// `btrim`
    Both,
    /// `ltrim`
    Left,
    /// `rtrim`
    Right,
}

/// `btrim(value, characters)` and its like: without these characters at the ends.
pub fn trim(value: &Value, ends: Ends, characters: &str) -> Result<Value, ValueError> {
    let mut text = text_of(value)?;
    let set = Characters::of(characters);
    if ends != Ends::Right {
        text = text.trim_start_matches(|letter| set.has(letter));
    }
    if ends != Ends::Left {
        text = text.trim_end_matches(|letter| set.has(letter));
    }
    Ok(Value::Text(text.to_owned()))
}

/// A set of characters.
struct Characters<'a> {
    few: &'a str,
    /// A bit for each code point; empty if they are few.
    many: Zeroizing<Vec<u64>>,
}

impl<'a> Characters<'a> {
    fn of(characters: &'a str) -> Self {
        let mut many = Zeroizing::new(Vec::new());
        if characters.len() > FEW {
            many.resize(usize::try_from(WORDS).unwrap_or(0), 0);
            for letter in characters.chars() {
                let (word, bit) = place(letter);
                many[word] |= bit;
            }
        }
        let few = characters;
        Self { few, many }
    }

    fn has(&self, letter: char) -> bool {
        let (word, bit) = place(letter);
        match self.many.get(word) {
            Some(bits) => bits & bit != 0,
            None => self.few.contains(letter),
        }
    }
}

/// The word and the bit of a character.
fn place(letter: char) -> (usize, u64) {
    let code = u32::from(letter);
    let word = usize::try_from(code / 64).unwrap_or(usize::MAX);
    (word, 1 << (code % 64))
}

/// `position(part IN value)`, in characters from 1 on; 0 if it is not there.
pub fn position(value: &Value, part: &str) -> Result<i32, ValueError> {
    let text = text_of(value)?;
    let Some(at) = text.find(part) else {
        return Ok(0);
    };
    i32::try_from(text[..at].chars().count() + 1).map_err(|_| ValueError::TooLong)
}

/// `starts_with(value, prefix)`
pub fn starts_with(value: &Value, prefix: &Value) -> Result<bool, ValueError> {
    match (value, prefix) {
        (Value::Text(text), Value::Text(prefix)) => Ok(text.starts_with(prefix.as_str())),
        _ => Err(ValueError::Undefined(value.ty(), prefix.ty())),
    }
}

/// How many bytes `replace(value, from, to)` has.
pub fn replaced_len(value: &Value, from: &str, to: &str) -> Result<usize, ValueError> {
    let text = text_of(value)?;
    let count = match from {
        "" => 0,
        _ => text.matches(from).count(),
    };
    let kept = text.len() - count * from.len();
    let added = count.checked_mul(to.len()).ok_or(ValueError::TooLong)?;
    checked_len(kept, added)
}

/// `replace(value, from, to)`
pub fn replace(value: &Value, from: &str, to: &str) -> Result<Value, ValueError> {
    let text = text_of(value)?;
    // Its size at once: growing would leave copies behind.
    let mut replaced = String::with_capacity(replaced_len(value, from, to)?);
    let mut copied = 0;
    if !from.is_empty() {
        for (at, part) in text.match_indices(from) {
            replaced.push_str(&text[copied..at]);
            replaced.push_str(to);
            copied = at + part.len();
        }
    }
    replaced.push_str(&text[copied..]);
    Ok(Value::Text(replaced))
}

/// `split_part(value, separator, field)`: fields are counted from 1 on, or from -1 at the end.
pub fn split_part(value: &Value, separator: &str, field: i32) -> Result<Value, ValueError> {
    let text = text_of(value)?;
    let part = match (field, separator) {
        (0, _) => return Err(ValueError::FieldZero),
        (1 | -1, "") => Some(text),
        (_, "") => None,
        _ => nth_part(text, separator, field),
    };
    Ok(Value::Text(part.unwrap_or_default().to_owned()))
}

fn nth_part<'a>(text: &'a str, separator: &str, field: i32) -> Option<&'a str> {
    let place = match usize::try_from(field) {
        Ok(field) => field.checked_sub(1)?,
        Err(_) => {
            let from_end = usize::try_from(field.unsigned_abs()).ok()?;
            text.split(separator).count().checked_sub(from_end)?
        }
    };
    text.split(separator).nth(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Type;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn shown(value: Result<Value, ValueError>) -> String {
        value.map_or_else(|error| error.to_string(), |value| value.to_text())
    }

    #[test]
    fn ends_are_trimmed_of_a_set() {
        let cases = [
            ("", "", ["", "", ""]),
            ("  a ", "", ["  a ", "  a ", "  a "]),
            ("  a ", " ", ["a", "a ", "  a"]),
            ("\ta\n", " ", ["\ta\n", "\ta\n", "\ta\n"]),
            ("xyaxyx", "yx", ["a", "axyx", "xya"]),
            ("xyx", "xy", ["", "", ""]),
            (
                "\u{e4}a\u{1f600}",
                "\u{1f600}\u{e4}",
                ["a", "a\u{1f600}", "\u{e4}a"],
            ),
            // One byte of a character is none.
            ("\u{e4}", "\u{e5}", ["\u{e4}", "\u{e4}", "\u{e4}"]),
        ];
        for (value, set, expected) in cases {
            // The same set, once as few and once as many.
            for set in [set.to_owned(), set.repeat(40)] {
                let all = [Ends::Both, Ends::Left, Ends::Right];
                let found = all.map(|ends| shown(trim(&text(value), ends, &set)));
                assert_eq!(found, expected, "{value:?} {set:?}");
            }
        }
        let last = char::MAX.to_string();
        assert_eq!(shown(trim(&text(&last), Ends::Both, &last.repeat(40))), "");
    }

    #[test]
    fn positions_are_counted_in_characters() {
        for (value, part, at) in [
            ("", "", 1),
            ("", "a", 0),
            ("abc", "", 1),
            ("abc", "c", 3),
            ("abc", "abcd", 0),
            ("\u{e4}\u{1f600}b", "b", 3),
            ("aab", "ab", 2),
            ("\u{e4}", "\u{e5}", 0),
        ] {
            assert_eq!(position(&text(value), part), Ok(at), "{value} {part}");
            let prefix = starts_with(&text(value), &text(part));
            assert_eq!(prefix, Ok(at == 1), "{value} {part}");
        }
    }

    #[test]
    fn parts_are_replaced_from_the_left() {
        for (value, from, to, result) in [
            ("", "", "x", ""),
            ("abc", "", "x", "abc"),
            ("", "a", "x", ""),
            ("aaa", "aa", "b", "ba"),
            ("aaaa", "aa", "aaa", "aaaaaa"),
            ("abcabc", "b", "", "acac"),
            ("\u{e4}b\u{e4}", "\u{e4}", "ss", "ssbss"),
            ("abc", "x", "y", "abc"),
        ] {
            assert_eq!(
                shown(replace(&text(value), from, to)),
                result,
                "{value} {from}"
            );
            assert_eq!(replaced_len(&text(value), from, to), Ok(result.len()));
        }
        let (value, long) = (text(&"a".repeat(1 << 15)), "b".repeat(1 << 15));
        let refused = replace(&value, "a", &long).err();
        assert_eq!(refused, Some(ValueError::TooLong));
    }

    #[test]
    fn fields_are_counted_from_both_ends() {
        for (value, separator, fields) in [
            ("", "@", ["", "", "", ""]),
            ("a@b@c", "@", ["a", "b", "c", ""]),
            ("abc", "@", ["abc", "", "", ""]),
            ("abc", "", ["abc", "", "", ""]),
            ("@", "@", ["", "", "", ""]),
            // From the left at both ends: "" and "a".
            ("aaa", "aa", ["", "a", "", ""]),
            ("a\u{e4}b", "\u{e4}", ["a", "b", "", ""]),
        ] {
            let part = |field| shown(split_part(&text(value), separator, field));
            assert_eq!([1, 2, 3, 4].map(part), fields, "{value} {separator}");
        }
        let backwards = |value: &str, separator: &str| {
            [-1, -2, -3, i32::MIN].map(|field| shown(split_part(&text(value), separator, field)))
        };
        assert_eq!(backwards("a@b", "@"), ["b", "a", "", ""]);
        assert_eq!(backwards("aaa", "aa"), ["a", "", "", ""]);
        assert_eq!(backwards("abc", ""), ["abc", "", "", ""]);
        assert_eq!(backwards("abc", "@"), ["abc", "", "", ""]);
        assert_eq!(shown(split_part(&text("a"), "b", i32::MAX)), "");
        let zero = split_part(&text(""), "", 0).err();
        assert_eq!(zero, Some(ValueError::FieldZero));
        assert_eq!(ValueError::FieldZero.sqlstate(), "22023");
    }

    #[test]
    fn other_types_have_none_of_these() {
        let (value, none) = (Value::Int4(1), Some(ValueError::NoFunction(Type::Int4)));
        assert_eq!(trim(&value, Ends::Both, " ").err(), none);
        assert_eq!(position(&value, "").err(), none);
        assert_eq!(replace(&value, "", "").err(), none);
        assert_eq!(split_part(&value, "", 1).err(), none);
        let two = starts_with(&value, &text("")).err();
        assert_eq!(two, Some(ValueError::Undefined(Type::Int4, Type::Text)));
    }
}
