//! How texts are ordered and folded: a trait, because locales live outside of this crate.

use std::cmp::Ordering;

/// A class of characters that a locale has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Class {
    Alnum,
    Alpha,
    Digit,
    Graph,
    Lower,
    Print,
    Punct,
    Space,
    Upper,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 9] = [
        Self::Alnum,
        Self::Alpha,
        Self::Digit,
        Self::Graph,
        Self::Lower,
        Self::Print,
        Self::Punct,
        Self::Space,
        Self::Upper,
    ];
}

/// A deterministic collation: texts that compare equal are the same bytes.
pub trait Collate {
    /// The order of two texts.
    fn compare(&self, a: &str, b: &str) -> Ordering;
    /// The text in lower case.
    fn lower(&self, text: &str) -> String;
    /// The text in upper case.
    fn upper(&self, text: &str) -> String;
    /// The text with the first letter of each word in upper case, and the others in lower case.
    fn initcap(&self, text: &str) -> String;
    /// One character in lower case.
    fn lower_of(&self, letter: char) -> char;
    /// One character in upper case.
    fn upper_of(&self, letter: char) -> char;
    /// The characters of a class: the first and the last of each range of code points.
    fn members(&self, class: Class) -> Vec<(u32, u32)>;
}

/// PostgreSQL's collation `C`: the order of the bytes; only ASCII letters have a case.
#[derive(Clone, Copy, Debug, Default)]
pub struct C;

impl Collate for C {
    fn compare(&self, a: &str, b: &str) -> Ordering {
        a.as_bytes().cmp(b.as_bytes())
    }

    fn lower(&self, text: &str) -> String {
        text.to_ascii_lowercase()
    }

    fn upper(&self, text: &str) -> String {
        text.to_ascii_uppercase()
    }

    fn initcap(&self, text: &str) -> String {
        let mut within = false;
        let letters = text.chars().map(|letter| {
            let letter = match within {
                true => letter.to_ascii_lowercase(),
                false => letter.to_ascii_uppercase(),
            };
            within = letter.is_ascii_alphanumeric();
            letter
        });
        letters.collect()
    }

    fn lower_of(&self, letter: char) -> char {
        letter.to_ascii_lowercase()
    }

    fn upper_of(&self, letter: char) -> char {
        letter.to_ascii_uppercase()
    }

    fn members(&self, class: Class) -> Vec<(u32, u32)> {
        let members = (0..=0x7f).filter(|code| {
            let letter = char::from(*code);
            match class {
                Class::Alnum => letter.is_ascii_alphanumeric(),
                Class::Alpha => letter.is_ascii_alphabetic(),
                Class::Digit => letter.is_ascii_digit(),
                Class::Graph => letter.is_ascii_graphic(),
                Class::Lower => letter.is_ascii_lowercase(),
                Class::Print => letter == ' ' || letter.is_ascii_graphic(),
                Class::Punct => letter.is_ascii_punctuation(),
                Class::Space => matches!(letter, ' ' | '\t'..='\r'),
                Class::Upper => letter.is_ascii_uppercase(),
            }
        });
        members
            .map(|code| (u32::from(code), u32::from(code)))
            .collect()
    }
}
