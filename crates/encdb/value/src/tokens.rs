//! The parts of a text that a search box's index keeps: its words, or its trigrams.
//!
//! All parts are of the text in lower case, by the letters of a collation, which change character
//! by character. So the trigrams of a part of a text are among those of the text, whatever LIKE or
//! ILIKE say of its case.
//!
//! - A *word* is a longest run of letters and digits, as Unicode has them.
//! - A *trigram* is three characters that follow each other, whatever they are. A text of fewer has
//!   none.

use zeroize::Zeroizing;

use crate::text::text_of;
use crate::{Collate, Value, ValueError};

/// The characters of a trigram.
const TRIGRAM: usize = 3;

/// Visits the words of a text.
///
/// # Errors
/// Those of the visitor; and if the value is no text.
pub fn each_word<E: From<ValueError>>(
    value: &Value,
    rules: &dyn Collate,
    mut visit: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let text = folded(value, rules)?;
    for word in words(&text) {
        visit(word)?;
    }
    Ok(())
}

/// Visits the trigrams of a text.
///
/// # Errors
/// Those of the visitor; and if the value is no text.
pub fn each_trigram<E: From<ValueError>>(
    value: &Value,
    rules: &dyn Collate,
    mut visit: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let text = folded(value, rules)?;
    visit_trigrams(&text, &mut visit)
}

/// Visits the trigrams that each text has which matches a pattern of LIKE or ILIKE, whose escape is
/// the backslash.
///
/// # Errors
/// Those of the visitor; and if the pattern is no text.
pub fn each_trigram_of_pattern<E: From<ValueError>>(
    pattern: &Value,
    rules: &dyn Collate,
    mut visit: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let pattern = folded(pattern, rules)?;
    let mut run = Zeroizing::new(String::with_capacity(pattern.len()));
    let mut rest = pattern.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '%' | '_' => {
                visit_trigrams(&run, &mut visit)?;
                run.clear();
            }
            // One at the end matches nothing, or is an error.
            '\\' => run.extend(rest.next()),
            _ => run.push(letter),
        }
    }
    visit_trigrams(&run, &mut visit)
}

/// Whether a text has all words of another, which has at least one.
///
/// # Errors
/// If one of them is no text.
pub fn has_words(value: &Value, query: &Value, rules: &dyn Collate) -> Result<bool, ValueError> {
    let (text, query) = (folded(value, rules)?, folded(query, rules)?);
    let mut wanted: Vec<&str> = words(&query).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut found = vec![false; wanted.len()];
    for word in words(&text) {
        if let Ok(at) = wanted.binary_search(&word) {
            found[at] = true;
        }
    }
    Ok(!found.is_empty() && found.iter().all(|found| *found))
}

fn folded(value: &Value, rules: &dyn Collate) -> Result<Zeroizing<String>, ValueError> {
    Ok(Zeroizing::new(rules.lower(text_of(value)?)))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

fn visit_trigrams<E>(text: &str, visit: &mut impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    let starts = text.char_indices().map(|(at, _)| at);
    let ends = starts.clone().chain([text.len()]).skip(TRIGRAM);
    for (start, end) in starts.zip(ends) {
        visit(&text[start..end])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{like, C};

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn all(
        each: impl FnOnce(&mut dyn FnMut(&str) -> Result<(), ValueError>) -> Result<(), ValueError>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let visited = each(&mut |part| {
            found.push(part.to_owned());
            Ok(())
        });
        assert_eq!(visited, Ok(()));
        found
    }

    fn of_pattern(pattern: &str) -> Vec<String> {
        all(|visit| each_trigram_of_pattern(&text(pattern), &C, visit))
    }

    fn of_text(value: &str) -> Vec<String> {
        all(|visit| each_trigram(&text(value), &C, visit))
    }

    #[test]
    fn trigrams_are_of_characters_in_lower_case() {
        assert_eq!(of_text("Abcd"), ["abc", "bcd"]);
        assert_eq!(of_text("a \u{e4}%"), ["a \u{e4}", " \u{e4}%"]);
        assert_eq!(of_text("ab"), [""; 0]);
        assert_eq!(of_text(""), [""; 0]);
    }

    #[test]
    fn patterns_have_the_trigrams_between_their_wildcards() {
        assert_eq!(of_pattern("%Word%"), ["wor", "ord"]);
        assert_eq!(of_pattern("abc_def"), ["abc", "def"]);
        assert_eq!(of_pattern("ab%c\\%d"), ["c%d"]);
        assert_eq!(of_pattern("a\\bc\\"), ["abc"]);
        assert_eq!(of_pattern("%ab%"), [""; 0]);
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        let words = |value| all(|visit| each_word(&text(value), &C, visit));
        assert_eq!(
            words("Ada's 2nd try, ada"),
            ["ada", "s", "2nd", "try", "ada"]
        );
        assert_eq!(words("--"), [""; 0]);
    }

    #[test]
    fn a_query_has_its_words_in_any_order() {
        let has = |value, query| has_words(&text(value), &text(query), &C);
        assert_eq!(has("The quick Fox", "fox THE fox"), Ok(true));
        assert_eq!(has("The quick fox", "fo"), Ok(false));
        assert_eq!(has("The quick fox", "fox dog"), Ok(false));
        assert_eq!(has("The quick fox", " - "), Ok(false));
        assert!(has_words(&Value::Bool(true), &text("a"), &C).is_err());
    }

    proptest::proptest! {
        #[test]
        fn what_matches_has_the_trigrams_of_its_pattern(
            value in "[abAB%_\\\\\u{e4}\u{c4}]{0,12}",
            pattern in "[abAB%_\\\\\u{e4}\u{c4}]{0,8}",
        ) {
            for rules in [None, Some(&C as &dyn Collate)] {
                if like(&text(&value), &text(&pattern), rules) == Ok(true) {
                    let has = of_text(&value);
                    let wanted = of_pattern(&pattern);
                    proptest::prop_assert!(wanted.iter().all(|part| has.contains(part)));
                }
            }
        }
    }
}
