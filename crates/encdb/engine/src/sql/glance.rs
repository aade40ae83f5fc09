//! Texts that have nothing to do with what is encrypted, as one look at their tokens says.
//!
//! Most statements of an application with some encrypted columns are such. A text that is apart
//! here is one in which [`super::read`] finds nothing. In doubt it is not, and is read.

use pgseal_client::{Statement, Token};

use super::code;
use crate::catalog::Catalog;

/// The length of the longest name, in bytes.
const MAX_NAME: usize = 63;
/// The words with which statements begin that have no body of code and define nothing.
const VERBS: [&str; 17] = [
    "select",
    "insert",
    "update",
    "delete",
    "with",
    "values",
    "begin",
    "start",
    "commit",
    "end",
    "abort",
    "rollback",
    "savepoint",
    "release",
    "show",
    "set",
    "fetch",
];
/// The words of statements whose values another statement has the use for.
const ELSEWHERE: [&str; 4] = ["execute", "call", "prepare", "deallocate"];

/// Whether all statements of a text are apart from what is encrypted.
pub(super) fn is_apart(text: &str, catalog: &Catalog) -> bool {
    let mut begins = true;
    let mut small = [0; MAX_NAME];
    Statement::scan(text).all(|(token, written)| {
        let is_verb = std::mem::replace(&mut begins, token == Token::Sign(';'));
        match token {
            Token::Word(word) => {
                let word = in_small_letters(word, &mut small);
                word.is_some_and(|word| {
                    let is_known = !is_verb || VERBS.contains(&word);
                    is_known && !ELSEWHERE.contains(&word) && is_other(word, catalog)
                })
            }
            Token::Sign(';') => true,
            _ if is_verb => false,
            Token::Quoted(name) => {
                let name = in_small_letters(name, &mut small);
                name.is_some_and(|name| !name.contains('"') && is_other(name, catalog))
            }
            Token::Text => !code::may_have_statement(written),
            Token::Number | Token::Parameter => true,
            Token::Sign(sign) => sign != '\\',
            Token::Unknown => false,
        }
    })
}

/// Whether a name is none of something encrypted, and of no function that runs a text.
fn is_other(name: &str, catalog: &Catalog) -> bool {
    !catalog.may_name(name) && code::of_name(name).is_none()
}

/// Returns a name in small letters; none if the server may read it as another one.
fn in_small_letters<'b>(name: &str, buffer: &'b mut [u8; MAX_NAME]) -> Option<&'b str> {
    let small = buffer.get_mut(..name.len()).filter(|_| name.is_ascii())?;
    small.copy_from_slice(name.as_bytes());
    small.make_ascii_lowercase();
    std::str::from_utf8(small).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sql::tests::{catalog, Legible};
    use crate::sql::{read, PreparedByName};

    const FILES: [&str; 4] = [
        include_str!("cases/literals.sql"),
        include_str!("cases/names.sql"),
        include_str!("cases/plain.sql"),
        include_str!("cases/refused.sql"),
    ];
    /// Texts that are apart, and parts that they could be made of to hide something.
    const PLAIN: &str = "SELECT a, \"b c\" FROM t WHERE id = $1 AND x < 1.5e-3;\n\
        SELECT 1 WHERE y IN ('ada', E'it\\'s');\n\
        INSERT INTO u (a) VALUES ('x', $$y$$, B'01'); /* a /* b */ */ BEGIN; -- c\n\
        UPDATE t SET a = a || 'b' WHERE (a).b[1] = ANY ($2); WITH x AS (SELECT 1) DELETE FROM t;\n\
        SET search_path = a; SHOW x; FETCH 5 c; ROLLBACK TO s; 'select 1' U&\"a\" U&'a' \
        \\ ; ( ) ' \" $x$ E' DO EXECUTE CALL PREPARE DEALLOCATE ts_stat query_to_xml('a') CREATE ALTER \u{e4} \u{c4}";

    /// Returns the tokens of all texts.
    fn pieces() -> Vec<&'static str> {
        let of = |text: &'static str| {
            let all = Statement::scan(text).map(|(_, written)| written);
            all.collect::<Vec<_>>()
        };
        let mut all: Vec<&str> = FILES.iter().flat_map(|file| of(file)).collect();
        all.extend(PLAIN.split(' '));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Asserts that a text that is apart is sent as it is. Returns whether it is.
    fn passes(text: &str) -> bool {
        let catalog = catalog();
        let is_apart = is_apart(text, &catalog);
        if is_apart {
            let found = read(text, &catalog, &PreparedByName::new(), &Legible);
            let found = found.unwrap_or_else(|error| panic!("{text}: {error}"));
            let has_some = found.concerns || found.text.is_some() || !found.parameters.is_empty();
            let defines = !found.defined.is_empty() || !found.prepared.is_empty();
            assert!(!has_some && !defines && found.copies.is_empty(), "{text}");
        }
        is_apart
    }

    #[test]
    fn common_statements_are_apart_and_those_of_other_tests_are_not() {
        assert!(passes("SELECT c FROM sbtest1 WHERE id = 5"));
        assert!(passes("UPDATE \"T\" SET c = 'it''s' WHERE id = $1; COMMIT"));
        assert!(passes("BEGIN") && passes("/* a */ SELECT 'b' -- person"));
        for text in [
            "SELECT 'x' FROM person",
            "SELECT 'x' FROM \"person\"",
            "SELECT 'x' FROM PERSON",
            "SELECT 'x' FROM U&\"perso\\006e\"",
            "SELECT 'x'::enc_text",
            "SELECT 'insert into a values (1)'",
            "SELECT E'\\ninsert into a values (1)'",
            "SELECT $a$ insert into a values (1)$a$",
            "SELECT query_to_xml('x')",
            "SELECT 1; DO $$ a $$",
            "PREPARE a AS SELECT 1",
            "SELECT \u{e4}",
            "ALTER SCHEMA a RENAME TO b",
        ] {
            assert!(!passes(text), "{text}");
        }
        for file in FILES {
            file.split("\n\n").for_each(|case| _ = passes(case));
            file.lines().for_each(|line| _ = passes(line));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_is_apart_would_be_sent_as_it_is(
            verb in prop::sample::select(VERBS.to_vec()),
            parts in prop::collection::vec(
                (prop::sample::select(pieces()), prop::sample::select(vec!["", " ", "\n", ";", "."])),
                0..12,
            ),
        ) {
            let parts = parts.iter().flat_map(|(piece, between)| [*piece, *between]);
            let text: String = [verb, " "].into_iter().chain(parts).collect();
            passes(&text);
        }
    }
}
