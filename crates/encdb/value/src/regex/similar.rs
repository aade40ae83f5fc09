//! `SIMILAR TO`: the patterns of the SQL standard as regular expressions, as PostgreSQL makes them.

use zeroize::Zeroizing;

use crate::like::at_most_one;
use crate::text::{checked_len, text_of};
use crate::{Value, ValueError};

/// Bytes that are around all, or part a pattern in three.
const AROUND: usize = 40;

/// `similar_to_escape(pattern, escape)`: the regular expression; an empty escape is none.
pub fn similar_to_escape(pattern: &Value, escape: &str) -> Result<Value, ValueError> {
    let escape = at_most_one(escape.chars())?;
    let mut converted = converted(text_of(pattern)?, escape)?;
    checked_len(converted.len(), 0)?;
    Ok(Value::Text(std::mem::take(&mut *converted)))
}

/// The place of the conversion within brackets.
#[derive(Clone, Copy, PartialEq)]
enum Brackets {
    Outside,
    /// Behind the first one, where another one that closes is a character.
    Begin,
    /// Behind `[^`
    Negated,
    Within,
}

struct Conversion {
    out: Zeroizing<String>,
    brackets: Brackets,
    /// Brackets that are open.
    depth: usize,
    /// Escaped quotes that came.
    quotes: usize,
    /// The escape has several bytes: PostgreSQL takes no such letter for one within brackets then.
    is_wide: bool,
}

/// Returns the regular expression of a pattern.
pub(super) fn converted(
    pattern: &str,
    escape: Option<char>,
) -> Result<Zeroizing<String>, ValueError> {
    let longer = |byte: &u8| matches!(byte, b'%' | b'(' | b'.' | b'^' | b'$' | b'\\');
    let more = 2 * pattern.bytes().filter(longer).count();
    let mut conversion = Conversion {
        // Its size at once: growing would leave copies behind.
        out: Zeroizing::new(String::with_capacity(pattern.len() + more + AROUND)),
        brackets: Brackets::Outside,
        depth: 0,
        quotes: 0,
        is_wide: escape.is_some_and(|escape| !escape.is_ascii()),
    };
    conversion.out.push_str("^(?:");
    let mut is_escaped = false;
    for letter in pattern.chars() {
        if is_escaped {
            conversion.escaped(letter)?;
            is_escaped = false;
        } else if Some(letter) == escape {
            is_escaped = true;
        } else if conversion.brackets != Brackets::Outside {
            conversion.within(letter);
        } else {
            conversion.outside(letter);
        }
    }
    conversion.out.push_str(")$");
    Ok(conversion.out)
}

impl Conversion {
    fn escaped(&mut self, letter: char) -> Result<(), ValueError> {
        if letter == '"' && self.brackets == Brackets::Outside {
            self.out.push_str(match self.quotes {
                0 => "){1,1}?(",
                1 => "){1,1}(?:",
                _ => return Err(ValueError::SimilarQuotes),
            });
            self.quotes += 1;
            return Ok(());
        }
        self.out.extend(['\\', letter]);
        if self.brackets != Brackets::Outside && self.counts(letter) {
            self.brackets = Brackets::Within;
        }
        Ok(())
    }

    fn counts(&self, letter: char) -> bool {
        letter.is_ascii() || !self.is_wide
    }

    fn within(&mut self, letter: char) {
        if letter == '\\' {
            self.out.push('\\');
        }
        self.out.push(letter);
        if !self.counts(letter) {
            return;
        }
        match letter {
            ']' if self.brackets == Brackets::Within => self.depth -= 1,
            '[' => self.depth += 1,
            _ => {}
        }
        self.brackets = match (self.depth, letter, self.brackets) {
            (0, ..) => Brackets::Outside,
            (_, '^', Brackets::Begin) => Brackets::Negated,
            _ => Brackets::Within,
        };
    }

    fn outside(&mut self, letter: char) {
        match letter {
            '%' => self.out.push_str(".*"),
            '_' => self.out.push('.'),
            '(' => self.out.push_str("(?:"),
            '\\' | '.' | '^' | '$' => self.out.extend(['\\', letter]),
            '[' => {
                self.out.push('[');
                (self.brackets, self.depth) = (Brackets::Begin, 1);
            }
            _ => self.out.push(letter),
        }
    }
}
