//! The contents of the strings of a text.

use super::{Scanner, Statement, Token};

impl Statement<'_> {
    /// Returns what is in each string of a text. Of escapes, those of quotes and of space are
    /// undone: what is left is read as a statement may be.
    pub fn strings(text: &str) -> Vec<String> {
        let mut scanner = Scanner { text, at: 0 };
        let mut all = Vec::new();
        while let Some((start, token)) = scanner.token() {
            if token == Token::Text {
                all.push(content(&text[start..scanner.at]));
            }
        }
        all
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
    let inner = string[begin..].strip_suffix('\'');
    let inner = inner.unwrap_or(&string[begin..]).replace("''", "'");
    match string.starts_with(['e', 'E']) {
        true => unescaped(&inner),
        false => inner,
    }
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        match next {
            '\\' => out.push(match rest.next() {
                Some('n' | 'r' | 't') => ' ',
                Some(escaped) => escaped,
                None => break,
            }),
            next => out.push(next),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_shown_without_their_quotes() {
        for (text, inner) in [
            ("SELECT 'a''b' FROM \"t'\"", "a'b"),
            ("SELECT E'a\\'b\\nc'", "a'b c"),
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
    }
}
