//! PostgreSQL's advanced regular expressions in the syntax of the `regex` crate, token by token.
//!
//! Only whether a text matches is asked, so groups capture nothing and no quantifier is greedy or
//! not. Sets of characters are written out, because the locale's are not Unicode's.
//!
//! Nothing recurses here: groups are counted.

use std::str::Chars;

use zeroize::Zeroizing;

use super::brackets::Inside;
use super::class::{set_of, Letters};
use super::escape::Escape;
use super::set::Set;
use super::Error;
use crate::{RegexError, Untranslated};

/// Bytes of a translation at most.
const MAX_LEN: usize = 256 << 10;
/// Groups that are open at once at most: the `regex` crate recurses by them.
const MAX_DEPTH: usize = 50;
/// The states of any character.
const OF_ANY: u64 = 8;
/// The largest count of a quantifier.
const MAX_COUNT: u32 = 255;

/// A pattern in the other syntax.
pub(super) struct Translation {
    pub text: Zeroizing<String>,
    /// It asks where words begin or end.
    pub asks_for_words: bool,
    /// About how many states its automaton has.
    pub size: u64,
}

pub(super) struct Translator<'a> {
    pub(super) rest: Chars<'a>,
    pub(super) letters: Letters<'a>,
    /// `.` and what is negated in brackets match no newline.
    pub(super) newline_stops: bool,
    /// `^` and `$` match at newlines, too.
    newline_anchors: bool,
    out: Zeroizing<String>,
    /// The sizes of what was written, in each group that is open, and outside.
    sizes: Vec<u64>,
    /// The size of what was written last.
    last: u64,
    /// Groups that capture in PostgreSQL, so far.
    pub(super) captures: u32,
    /// The piece that was written last may be repeated.
    repeatable: bool,
    asks_for_words: bool,
}

impl<'a> Translator<'a> {
    pub(super) fn new(pattern: &'a str, letters: Letters<'a>) -> Self {
        Self {
            rest: pattern.chars(),
            letters,
            newline_stops: false,
            newline_anchors: false,
            // Its size at once: growing would leave copies behind.
            out: Zeroizing::new(String::with_capacity(pattern.len().min(MAX_LEN) * 2)),
            sizes: vec![1],
            last: 0,
            captures: 0,
            repeatable: false,
            asks_for_words: false,
        }
    }

    pub(super) fn translate(mut self) -> Result<Translation, Error> {
        let is_literal = self.prefixes()?;
        while let Some(letter) = self.rest.next() {
            match is_literal {
                true => self.put_single(u32::from(letter)),
                false => self.token(letter)?,
            }
            if self.out.len() > MAX_LEN {
                return Err(RegexError::TooComplex.into());
            }
        }
        match self.sizes[..] {
            [size] => Ok(Translation {
                text: self.out,
                asks_for_words: self.asks_for_words,
                size,
            }),
            _ => Err(RegexError::Parentheses.into()),
        }
    }

    /// Whether these characters come next, which are then behind.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.as_str().strip_prefix(text);
        if let Some(rest) = rest {
            self.rest = rest.chars();
        }
        rest.is_some()
    }

    pub(super) fn next_is(&self, is: impl FnOnce(char) -> bool) -> bool {
        self.rest.clone().next().is_some_and(is)
    }

    /// Reads `***=`, `***:` and the options at the begin. Whether what follows is literal.
    fn prefixes(&mut self) -> Result<bool, Error> {
        if self.eat("***=") {
            return Ok(true);
        }
        if self.rest.as_str().starts_with("***?") {
            return Err(RegexError::Pattern.into());
        }
        if !self.eat("***:") && self.rest.as_str().starts_with("***") {
            return Err(RegexError::Quantifier.into());
        }
        let mut ahead = self.rest.clone();
        let starts = (ahead.next(), ahead.next()) == (Some('('), Some('?'));
        match starts
            && ahead
                .next()
                .is_some_and(|letter| letter.is_ascii_alphabetic())
        {
            true => self.options(),
            false => Ok(false),
        }
    }

    /// Reads `(?i)` and its like.
    fn options(&mut self) -> Result<bool, Error> {
        self.eat("(?");
        let (mut is_literal, mut untranslated) = (false, false);
        loop {
            let Some(letter) = self.rest.next() else {
                return Err(RegexError::Option.into());
            };
            match letter {
                ')' => break,
                'c' => self.letters.ignore_case(false),
                'i' => self.letters.ignore_case(true),
                'm' | 'n' => (self.newline_stops, self.newline_anchors) = (true, true),
                'p' => (self.newline_stops, self.newline_anchors) = (true, false),
                'w' => (self.newline_stops, self.newline_anchors) = (false, true),
                's' => (self.newline_stops, self.newline_anchors) = (false, false),
                't' => {}
                'q' => is_literal = true,
                'b' | 'e' | 'x' => untranslated = true,
                _ => return Err(RegexError::Option.into()),
            }
        }
        match untranslated {
            true => Err(Untranslated::Option.into()),
            false => Ok(is_literal),
        }
    }

    fn token(&mut self, letter: char) -> Result<(), Error> {
        match letter {
            '|' => self.put_boundary("|"),
            '*' | '+' | '?' => self.quantifier(letter)?,
            '{' if self.next_is(|next| next.is_ascii_digit()) => self.bound()?,
            '(' => self.open()?,
            ')' => self.close()?,
            '[' => self.brackets()?,
            '.' if self.newline_stops => self.put_set(&set_of(vec![], true, true)),
            '.' => self.put_atom("(?s:.)", OF_ANY),
            '^' if self.newline_anchors => self.put_boundary("(?m:^)"),
            '^' => self.put_boundary("\\A"),
            '$' if self.newline_anchors => self.put_boundary("(?m:$)"),
            '$' => self.put_boundary("\\z"),
            '\\' => self.escaped()?,
            _ => self.put_single(u32::from(letter)),
        }
        Ok(())
    }

    fn quantifier(&mut self, sign: char) -> Result<(), Error> {
        self.must_be_repeatable()?;
        self.eat("?");
        self.out.push(sign);
        Ok(())
    }

    fn must_be_repeatable(&mut self) -> Result<(), Error> {
        match std::mem::take(&mut self.repeatable) {
            true => Ok(()),
            false => Err(RegexError::Quantifier.into()),
        }
    }

    /// Reads `2}`, `2,}` or `2,3}`, behind the brace.
    fn bound(&mut self) -> Result<(), Error> {
        self.must_be_repeatable()?;
        let least = self.count()?;
        let most = match self.eat(",") {
            false => Some(least),
            true if self.next_is(|next| next.is_ascii_digit()) => Some(self.count()?),
            true => None,
        };
        match self.rest.next() {
            Some('}') => {}
            Some(_) => return Err(RegexError::Repetition.into()),
            None => return Err(RegexError::Braces.into()),
        }
        self.eat("?");
        let written = match most {
            Some(most) if most < least => return Err(RegexError::Repetition.into()),
            Some(most) => format!("{{{least},{most}}}"),
            None => format!("{{{least},}}"),
        };
        self.out.push_str(&written);
        let copies = u64::from(most.unwrap_or(least)).max(1);
        self.add(self.last.saturating_mul(copies - 1));
        Ok(())
    }

    fn add(&mut self, size: u64) {
        if let Some(sum) = self.sizes.last_mut() {
            *sum = sum.saturating_add(size);
        }
    }

    fn count(&mut self) -> Result<u32, Error> {
        let mut count = 0;
        while let Some(digit) = self.rest.clone().next().and_then(|next| next.to_digit(10)) {
            self.rest.next();
            count = count * 10 + digit;
            if count > MAX_COUNT {
                return Err(RegexError::Repetition.into());
            }
        }
        Ok(count)
    }

    fn open(&mut self) -> Result<(), Error> {
        if self.eat("?#") {
            // A comment: what is before it may be repeated behind it.
            self.rest.by_ref().find(|letter| *letter == ')');
            return Ok(());
        }
        if !self.eat("?") {
            self.captures += 1;
        } else if !self.eat(":") {
            let is_look_around = ["=", "!", "<=", "<!"].iter().any(|sign| self.eat(sign));
            return Err(match is_look_around {
                true => Untranslated::LookAround.into(),
                false => RegexError::Quantifier.into(),
            });
        }
        self.sizes.push(1);
        if self.sizes.len() > 1 + MAX_DEPTH {
            return Err(RegexError::TooComplex.into());
        }
        self.put_boundary("(?:");
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        if self.sizes.len() == 1 {
            return Err(RegexError::Parentheses.into());
        }
        let size = self.sizes.pop().unwrap_or_default();
        self.put_atom(")", size);
        Ok(())
    }

    fn brackets(&mut self) -> Result<(), Error> {
        if self.eat("[:<:]]") {
            self.put_word("start}");
        } else if self.eat("[:>:]]") {
            self.put_word("end}");
        } else {
            let negated = self.eat("^");
            let ranges = Inside::new(self).read()?;
            self.put_set(&set_of(ranges, negated, self.newline_stops));
        }
        Ok(())
    }

    fn escaped(&mut self) -> Result<(), Error> {
        match self.escape()? {
            Escape::Single(code) => self.put_single(code),
            Escape::Class(ranges) => self.put_set(&Set::of(ranges)),
            Escape::Begin => self.put_boundary("\\A"),
            Escape::End => self.put_boundary("\\z"),
            Escape::WordBegin => self.put_word("start}"),
            Escape::WordEnd => self.put_word("end}"),
            Escape::WordBoundary => self.put_word("b"),
            Escape::NoWordBoundary => self.put_word("B"),
            Escape::BackReference(number) if number > self.captures => {
                return Err(RegexError::BackReference.into())
            }
            Escape::BackReference(_) => return Err(Untranslated::BackReference.into()),
        }
        Ok(())
    }

    /// Writes what can be repeated.
    fn put_atom(&mut self, text: &str, size: u64) {
        self.out.push_str(text);
        self.repeatable = true;
        self.last = size;
        self.add(size);
    }

    /// Writes what cannot be repeated.
    fn put_boundary(&mut self, text: &str) {
        self.out.push_str(text);
        self.repeatable = false;
    }

    fn put_word(&mut self, what: &str) {
        let what = match what {
            "b" | "B" => format!("\\{what}"),
            half => format!("\\b{{{half}"),
        };
        match self.letters.has_ascii_words() {
            true => self.put_boundary(&format!("(?-u:{what})")),
            false => {
                self.asks_for_words = true;
                self.put_boundary(&what);
            }
        }
    }

    pub(super) fn put_single(&mut self, code: u32) {
        let set = Set::of(self.letters.single(code));
        match (set.ranges(), char::from_u32(code)) {
            ([(first, last)], Some(letter)) if first == last && *first == code => {
                let is_plain = letter.is_ascii_alphanumeric() || !letter.is_ascii();
                let size = letter.len_utf8() as u64;
                match is_plain {
                    true => self.put_atom(letter.encode_utf8(&mut [0; 4]), size),
                    false => self.put_atom(&format!("\\x{{{code:x}}}"), size),
                }
            }
            _ => self.put_set(&set),
        }
    }

    /// Writes a set, without the surrogates, which no text has.
    fn put_set(&mut self, set: &Set) {
        let mut brackets = String::from("[");
        let halves = set.ranges().iter().flat_map(|(first, last)| {
            let below = (*first, (*last).min(0xd7ff));
            let above = ((*first).max(0xe000), *last);
            [below, above]
        });
        for (first, last) in halves.filter(|(first, last)| first <= last) {
            brackets.push_str(&format!("\\x{{{first:x}}}-\\x{{{last:x}}}"));
        }
        let is_ascii = set.ranges().iter().all(|(_, last)| *last < 0x80);
        let size = match is_ascii {
            true => 1,
            false => OF_ANY + set.ranges().len() as u64,
        };
        match brackets.len() {
            1 => self.put_atom("[^\\x{0}-\\x{10ffff}]", 1),
            _ => self.put_atom(&(brackets + "]"), size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::C;

    fn translated(pattern: &str) -> Result<String, Error> {
        let translation = Translator::new(pattern, Letters::new(&C, false)).translate()?;
        Ok(translation.text.to_string())
    }

    #[test]
    fn tokens_are_written_as_the_other_syntax_has_them() {
        for (pattern, other) in [
            ("a+?(b|c)*$", "a+(?:b|c)*\\z"),
            (
                "(?n)^.",
                "(?m:^)[\\x{0}-\\x{9}\\x{b}-\\x{d7ff}\\x{e000}-\\x{10ffff}]",
            ),
            ("a{2,}?b{3}{", "a{2,}b{3,3}\\x{7b}"),
            ("\\yx\\M", "(?-u:\\b)x(?-u:\\b{end})"),
            ("[^\\s\\S]", "[^\\x{0}-\\x{10ffff}]"),
            ("***=a.", "a\\x{2e}"),
            ("a(?#b)*", "a*"),
            ("(?:a)(b)\\11", "(?:a)(?:b)\\x{9}"),
        ] {
            assert_eq!(translated(pattern), Ok(other.to_owned()), "{pattern}");
        }
    }

    #[test]
    fn sizes_are_those_of_all_copies() {
        let size = |pattern| {
            Translator::new(pattern, Letters::new(&C, false))
                .translate()
                .map(|made| made.size)
        };
        assert_eq!(size("abc"), Ok(4));
        assert_eq!(size("(ab|[a-c]{2}){3}\u{e4}*"), Ok(1 + 3 * 5 + 2));
        assert_eq!(size("a{0}b{7,}"), Ok(1 + 1 + 7));
        assert!(size("(((a{255}){255}){255}){255}").is_ok_and(|size| size > 1 << 31));
    }

    #[test]
    fn what_is_long_is_refused() {
        let too_complex = Err(RegexError::TooComplex.into());
        assert_eq!(translated(&"a".repeat(MAX_LEN + 1)), too_complex);
        assert_eq!(translated(&"(".repeat(MAX_DEPTH + 1)), too_complex);
        assert!(translated(&format!(
            "{}{}",
            "(".repeat(MAX_DEPTH),
            ")".repeat(MAX_DEPTH)
        ))
        .is_ok());
    }
}
