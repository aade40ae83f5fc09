//! The contents of the strings of a text.

use std::ops::RangeInclusive;

use super::{Scanner, Statement, Token};

impl Statement<'_> {
    /// Returns what is in each string of a text, as the server reads it: pieces on several lines
    /// are one string, and escapes are undone. `UESCAPE` is not read: such a string is returned as
    /// if its escape character were a backslash.
    pub fn strings(text: &str) -> Vec<String> {
        let strings = Statement::scan(text).filter(|(token, _)| *token == Token::Text);
        strings.map(|(_, string)| content(string)).collect()
    }
}

fn content(string: &str) -> String {
    if let Some(rest) = string.strip_prefix('$') {
        let tag = rest.find('$').map_or(0, |end| end + 2);
        let inner = string.get(tag..).unwrap_or_default();
        let end = inner.rfind(&string[..tag]).unwrap_or(inner.len());
        return inner[..end].to_owned();
    }
    let begin = string.find('\'').map_or(0, |at| at + 1);
    let inner = &string[begin..];
    match string.as_bytes().first() {
        Some(b'e' | b'E') => unescaped(inner, Some(of_c)),
        Some(b'u' | b'U') => unescaped(inner, Some(of_unicode)),
        _ => unescaped(inner, None),
    }
}

/// Reads what follows the backslash of an escape.
type Escape = fn(&mut &str) -> Option<char>;

/// Reads the pieces of a string, from behind its first quote.
fn unescaped(text: &str, escape: Option<Escape>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        rest = &rest[next.len_utf8()..];
        match (next, escape) {
            ('\'', _) if rest.starts_with('\'') => {
                out.push('\'');
                rest = &rest[1..];
            }
            ('\'', _) => rest = next_piece(rest),
            ('\\', Some(escape)) => out.extend(escape(&mut rest)),
            (next, _) => out.push(next),
        }
    }
    out
}

/// Returns what follows the quote that begins the next piece of a string: space and comments to
/// the end of a line lie before it.
fn next_piece(gap: &str) -> &str {
    let mut scanner = Scanner { text: gap, at: 0 };
    scanner.lines();
    scanner.rest().strip_prefix('\'').unwrap_or_default()
}

/// Reads an escape of `E'...'`.
fn of_c(rest: &mut &str) -> Option<char> {
    let code = match rest.as_bytes().first()? {
        b'x' => code(rest, "x", 1..=2, 16),
        b'u' => code(rest, "u", 4..=4, 16),
        b'U' => code(rest, "U", 8..=8, 16),
        _ => code(rest, "", 1..=3, 8),
    };
    code.or_else(|| {
        let next = rest.chars().next()?;
        *rest = &rest[next.len_utf8()..];
        Some(match next {
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            escaped => escaped,
        })
    })
}

/// Reads an escape of `U&'...'`.
fn of_unicode(rest: &mut &str) -> Option<char> {
    code(rest, "+", 6..=6, 16)
        .or_else(|| code(rest, "", 4..=4, 16))
        .or_else(|| {
            let next = rest.chars().next()?;
            *rest = &rest[next.len_utf8()..];
            Some(next)
        })
}

/// Reads the number of a character, and steps over it. Bytes are taken for characters: no word
/// of SQL is longer.
fn code(rest: &mut &str, prefix: &str, digits: RangeInclusive<usize>, radix: u32) -> Option<char> {
    let after = rest.strip_prefix(prefix)?;
    let found = after
        .chars()
        .take(*digits.end())
        .take_while(|c| c.is_digit(radix))
        .count();
    let number = digits.contains(&found).then(|| &after[..found])?;
    *rest = &after[found..];
    u32::from_str_radix(number, radix)
        .ok()
        .and_then(char::from_u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_shown_without_their_quotes() {
        for (text, inner) in [
            ("SELECT 'a''b' FROM \"t'\"", "a'b"),
            ("SELECT E'a\\'b\\nc\\\\'", "a'b\nc\\"),
            ("SELECT E'\\x73\\145\\u006c\\U00000065ct'", "select"),
            ("SELECT E'\\xg\\u6c'", "xgu6c"),
            ("SELECT U&'\\0073\\+000065l\\\\'", "sel\\"),
            ("SELECT 'sel' -- and\n  'ect'", "select"),
            ("SELECT 'sel'\r'ect'", "select"),
            ("SELECT E'sel'\n'e\\x63t'", "select"),
            ("SELECT 'it''s'\n''", "it's"),
            ("SELECT $$a 'b'$$", "a 'b'"),
            ("DO $x$ a $$ b $x$", " a $$ b "),
            ("SELECT 'open", "open"),
            ("SELECT $$open", "open"),
            ("SELECT ''", ""),
            ("SELECT E'\\", ""),
            ("SELECT U&'a'", "a"),
        ] {
            assert_eq!(Statement::strings(text), [inner], "{text}");
        }
        assert!(Statement::strings("SELECT 1 -- 'a'").is_empty());
        assert_eq!(Statement::strings("SELECT 'sel' 'ect'"), ["sel", "ect"]);
    }
}
