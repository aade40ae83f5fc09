//! How texts are ordered and folded: a trait, because locales live outside of this crate.

use std::cmp::Ordering;

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
}
