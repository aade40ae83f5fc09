//! Regular expressions: PostgreSQL's advanced ones, matched by the `regex` crate in time linear in
//! the text. A pattern is translated if it means the same there, and refused otherwise.
//!
//! The crate's form of a pattern is not wiped when it is dropped. It copies no text.

mod brackets;
mod class;
mod escape;
mod set;
mod similar;
mod translate;

use std::sync::LazyLock;

use crate::{Collate, RegexError, Untranslated, Value, ValueError};
use class::Letters;
use set::Set;
use translate::Translator;

pub use similar::similar_to_escape;

/// Bytes of what a pattern is compiled to at most, if it is small.
const SMALL: usize = 128 << 10;
/// The most bytes of any pattern.
const LARGE: usize = 8 << 20;
/// Bytes of the states of automata that are made while a text is matched.
const STATES: usize = 256 << 10;

/// States of the automaton that are looked at for the bytes of a text at most: a minute. Nobody
/// could stop it.
const MAX_STEPS: u64 = 1 << 32;

/// Why there is no translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Error {
    Regex(RegexError),
    Untranslated(Untranslated),
}

impl From<RegexError> for Error {
    fn from(error: RegexError) -> Self {
        Self::Regex(error)
    }
}

impl From<Untranslated> for Error {
    fn from(what: Untranslated) -> Self {
        Self::Untranslated(what)
    }
}

impl From<Error> for ValueError {
    fn from(error: Error) -> Self {
        match error {
            Error::Regex(error) => Self::Regex(error),
            Error::Untranslated(what) => Self::Untranslated(what),
        }
    }
}

/// The way to read a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// `~`
    Sensitive,
    /// `~*`
    Insensitive,
    /// The pattern of `SIMILAR TO`, with the backslash as its escape.
    Similar,
}

/// A pattern that is ready to be matched.
pub struct Regex {
    automaton: regex::Regex,
    size: u64,
    /// The characters of words, if words are asked for and have others than those of ASCII.
    words: Option<Set>,
}

impl Regex {
    /// The most bytes that a large one takes; others take less than a mebibyte.
    pub const MAX_BYTES: usize = 3 * LARGE;

    /// Reads a pattern. `may_be_large` is called if it takes more than little memory.
    ///
    /// # Errors
    ///
    /// [`ValueError::Regex`] for one that PostgreSQL refuses, too, or that is too large;
    /// [`ValueError::Untranslated`] for one that only PostgreSQL has; what `may_be_large` refuses.
    pub fn new<E: From<ValueError>>(
        pattern: &Value,
        reading: Reading,
        rules: &dyn Collate,
        may_be_large: impl FnOnce() -> Result<(), E>,
    ) -> Result<Self, E> {
        let similar;
        let mut pattern = crate::text_of(pattern)?;
        if reading == Reading::Similar {
            similar = similar::converted(pattern, Some('\\'))?;
            pattern = &similar;
        }
        let insensitive = reading == Reading::Insensitive;
        let letters = Letters::new(rules, insensitive);
        let words = Set::of(letters.word());
        let translation = Translator::new(pattern, letters).translate();
        let translation = translation.map_err(ValueError::from)?;
        let automaton = match compiled(&translation.text, SMALL) {
            Ok(automaton) => automaton,
            Err(_) => {
                may_be_large()?;
                let large = compiled(&translation.text, LARGE);
                large.map_err(|_| ValueError::Regex(RegexError::TooComplex))?
            }
        };
        let words = translation.asks_for_words.then_some(words);
        Ok(Self {
            automaton,
            size: translation.size,
            words,
        })
    }

    /// `value ~ pattern`
    ///
    /// # Errors
    ///
    /// [`ValueError::Untranslated`] if the pattern asks for words, and the text has characters that
    /// the locale takes for letters and Unicode does not, or the other way round;
    /// [`ValueError::TooComplex`] if it could take hours.
    pub fn matches(&self, value: &Value) -> Result<bool, ValueError> {
        let text = crate::text_of(value)?;
        if self.size.saturating_mul(text.len() as u64) > MAX_STEPS {
            return Err(ValueError::TooComplex);
        }
        match &self.words {
            Some(words) if !has_unicode_words(text, words) => {
                Err(ValueError::Untranslated(Untranslated::WordBoundary))
            }
            _ => Ok(self.automaton.is_match(text)),
        }
    }
}

fn compiled(pattern: &str, size: usize) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(pattern)
        .size_limit(size)
        .dfa_size_limit(STATES)
        .build()
}

/// Whether a text's words are the same to the locale and to Unicode.
fn has_unicode_words(text: &str, words: &Set) -> bool {
    static UNICODE: LazyLock<regex::Regex> =
        LazyLock::new(|| regex::Regex::new("\\w").expect("it is a class"));
    let mut others = text.chars().filter(|letter| !letter.is_ascii());
    others.all(|letter| {
        let is_word = UNICODE.is_match(letter.encode_utf8(&mut [0; 4]));
        is_word == words.contains(letter)
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{Class, C};

    /// Letters as in C, and two of more, in cases of their own.
    struct Strange;

    impl Collate for Strange {
        fn compare(&self, a: &str, b: &str) -> std::cmp::Ordering {
            C.compare(a, b)
        }

        fn lower(&self, text: &str) -> String {
            C.lower(text)
        }

        fn upper(&self, text: &str) -> String {
            C.upper(text)
        }

        fn initcap(&self, text: &str) -> String {
            C.initcap(text)
        }

        fn lower_of(&self, letter: char) -> char {
            match letter {
                'I' => '\u{131}',
                _ => C.lower_of(letter),
            }
        }

        fn upper_of(&self, letter: char) -> char {
            C.upper_of(letter)
        }

        fn members(&self, class: Class) -> Vec<(u32, u32)> {
            let letters = [u32::from('\u{e4}'), u32::from('\u{20ac}')].map(|code| (code, code));
            [&C.members(class)[..], &letters].concat()
        }
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn matched(value: &str, pattern: &str, rules: &dyn Collate) -> Result<bool, ValueError> {
        let reading = match pattern.starts_with("(?:)") {
            true => Reading::Insensitive,
            false => Reading::Sensitive,
        };
        let large = || Ok::<_, ValueError>(());
        Regex::new(&text(pattern), reading, rules, large)?.matches(&text(value))
    }

    #[test]
    fn only_postgresql_has_some() {
        for (pattern, what) in [
            ("(a)\\1", Untranslated::BackReference),
            ("a(?=b)", Untranslated::LookAround),
            ("(?<!b)a", Untranslated::LookAround),
            ("(?ix)a b", Untranslated::Option),
            ("[[.hyphen.]]", Untranslated::CollatingElement),
        ] {
            assert_eq!(
                matched("", pattern, &C),
                Err(ValueError::Untranslated(what))
            );
        }
        assert_eq!(matched("i", "(?:)I", &Strange), Ok(false));
        assert_eq!(matched("\u{131}", "(?:)I", &Strange), Ok(true));
        assert_eq!(
            matched("", "(a)\\2", &C),
            Err(ValueError::Regex(RegexError::BackReference))
        );
        let number = Regex::new(&Value::Int4(1), Reading::Sensitive, &C, || {
            Ok::<_, ValueError>(())
        });
        assert_eq!(
            number.err(),
            Some(ValueError::NoFunction(crate::Type::Int4))
        );
    }

    #[test]
    fn words_are_the_locales_or_none() {
        assert_eq!(matched("a\u{e4}", "a\\y", &C), Ok(true));
        assert_eq!(matched("a\u{e4}", "a\\y", &Strange), Ok(false));
        assert_eq!(matched("a\u{e4} b", "\\mb\\M", &Strange), Ok(true));
        // A letter of the locale, and one of Unicode.
        let refused = Err(ValueError::Untranslated(Untranslated::WordBoundary));
        assert_eq!(matched("a\u{20ac}", "a\\y", &Strange), refused);
        assert_eq!(matched("a\u{f6}", "a\\y", &Strange), refused);
        assert_eq!(matched("a\u{20ac}", "a\\w", &Strange), Ok(true));
        assert_eq!(matched("a\u{2026}", "a\\y", &Strange), Ok(true));
    }

    #[test]
    fn a_large_one_is_asked_for_and_has_a_bound() {
        let asked = |pattern: &str| {
            let mut asked = false;
            let reading = Reading::Sensitive;
            let made = Regex::new(&text(pattern), reading, &C, || {
                asked = true;
                Ok::<_, ValueError>(())
            });
            (asked, made.err())
        };
        assert_eq!(asked("^[a-z]{1,64}@example\\.(org|com)$"), (false, None));
        assert_eq!(asked("([a-z]\\w{9}){255}"), (true, None));
        let too_complex = Some(ValueError::Regex(RegexError::TooComplex));
        assert_eq!(asked("((a{255}){255}){255}"), (true, too_complex));
    }

    #[test]
    fn groups_need_little_stack() {
        let pattern = format!("{}a{}", "(b|".repeat(50), ")*+".repeat(50).replace('+', ""));
        let small = thread::Builder::new().stack_size(256 << 10);
        let done = small.spawn(move || matched("ba", &pattern, &C));
        let done = done.expect("a thread").join().expect("it has stack enough");
        assert_eq!(done, Ok(true));
    }
}
