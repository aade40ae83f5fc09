//! Tokens of texts, and searches for words: under their own grants, by the owner's key.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use pgseal_cell::grant::{Operation, Subject};
use pgseal_cell::Mode;
use pgseal_evaluator::engine::Connection;
use pgseal_evaluator_proto::{
    AttachAs, Collation, Matching, OperationRequest, Parts, Refusal, Request, Response,
};
use pgseal_value::Value;

const WORDS: Parts<'_> = Parts::Words(Collation::C);
const TRIGRAMS: Parts<'_> = Parts::Trigrams(Collation::C);
const PATTERN: Parts<'_> = Parts::PatternTrigrams(Collation::C);

fn has_words(connection: &mut Connection, text: &[u8], pattern: &[u8]) -> Result<bool, u16> {
    let request = Request::Operation(OperationRequest::Like {
        matching: Matching::Words(Collation::C),
        text,
        pattern,
    });
    let response = call(connection, &request)?;
    match Response::parse(&response) {
        Ok(Response::Truth(truth)) => Ok(truth),
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_that_share_a_part_share_a_token_whatever_their_keys() {
    let granted = [Operation::Words, Operation::Trigrams];
    let (mut connection, alice, mut key) = alice_with(&engine(false), &granted);
    let mut other = alice.key(99, false);
    load(&mut connection, &other);
    let (a, b) = (key.text("Ada Lovelace"), other.text("lovelace, ada ADA"));
    let words = connection.tokens(WORDS, &a).unwrap().unwrap();
    assert_eq!(words.len(), 2);
    assert_eq!(connection.tokens(WORDS, &b), Ok(Some(words.clone())));
    let trigrams = connection.tokens(TRIGRAMS, &a).unwrap().unwrap();
    assert_eq!(trigrams.len(), "Ada Lovelace".len() - 2);
    // "ada" is a word and a trigram: the two indexes have nothing in common.
    assert!(words.iter().all(|word| !trigrams.contains(word)));
    let pattern = connection.tokens(PATTERN, &other.text("%LOVE%_ace"));
    let pattern = pattern.unwrap().unwrap();
    assert_eq!(pattern.len(), 3);
    assert!(pattern.iter().all(|token| trigrams.contains(token)));
    // Another master key makes other tokens.
    let (mut connection, _, mut key) = bob_with(&granted);
    let of_bob = connection.tokens(WORDS, &key.text("Ada Lovelace")).unwrap();
    assert!(of_bob.unwrap().iter().all(|word| !words.contains(word)));
}

fn bob_with(operations: &[Operation]) -> (Connection, Party, Sealer) {
    let (engine, bob) = (engine(false), Party::new(2));
    let mut connection = connect(&engine, AttachAs::Client);
    let grant = bob.grant(Subject::Owner, operations);
    open(&mut connection, &bob, &bob, &[grant], &[]).unwrap();
    let key = bob.key(22, false);
    load(&mut connection, &key);
    (connection, bob, key)
}

#[test]
fn each_kind_of_token_has_its_grant() {
    let derived = Operation::CompareDerived;
    for (operation, parts) in [(Operation::Words, WORDS), (Operation::Trigrams, TRIGRAMS)] {
        let others = Operation::ALL
            .into_iter()
            .filter(|other| *other != operation);
        let others: Vec<Operation> = others.collect();
        let (mut connection, _, mut key) = alice_with(&engine(false), &others);
        let refused = connection.tokens(parts, &key.text("secret"));
        assert_eq!(refused, Err(no_grant(operation)));
        let (mut connection, _, mut key) = alice_with(&engine(false), &[operation]);
        let made_here = key.seal_as(&Value::Text("secret".into()), Mode::Derived);
        assert!(connection.tokens(parts, &key.text("secret")).is_ok());
        let refused = connection.tokens(parts, &made_here);
        assert_eq!(refused, Err(no_grant(derived)));
        let (mut connection, _, _) = alice_with(&engine(false), &[operation, derived]);
        assert!(connection.tokens(parts, &made_here).is_ok());
    }
}

#[test]
fn words_are_looked_for_under_the_grant_of_their_tokens() {
    let text = Operation::Text;
    let (mut connection, _, mut key) = alice_with(&engine(false), &[text]);
    let (a, query) = (key.text("the quick fox"), key.text("Fox THE"));
    let refused = no_grant(Operation::Words).code();
    assert_eq!(has_words(&mut connection, &a, &query), Err(refused));
    let (mut connection, _, mut key) = alice_with(&engine(false), &[Operation::Words]);
    assert_eq!(has_words(&mut connection, &a, &query), Ok(true));
    let part = key.text("qui");
    assert_eq!(has_words(&mut connection, &a, &part), Ok(false));
    let made_here = key.seal_as(&Value::Text("fox".into()), Mode::Derived);
    let refused = no_grant(Operation::CompareDerived).code();
    assert_eq!(has_words(&mut connection, &a, &made_here), Err(refused));
}

/// Without the grant, or beside another owner's texts, a pattern is matched text by text. That is
/// no refusal, and nothing to write into a log.
#[test]
fn tokens_of_a_pattern_are_told_where_an_index_finds_all() {
    let (mut connection, _, mut key) = alice_with(&engine(false), &[Operation::Text]);
    assert_eq!(connection.tokens(PATTERN, &key.text("%secret%")), Ok(None));
    let (mut connection, _, mut key) = alice_with(&engine(false), &[Operation::Trigrams]);
    let made_here = key.seal_as(&Value::Text("%secret%".into()), Mode::Derived);
    assert_eq!(connection.tokens(PATTERN, &made_here), Ok(None));
    assert!(connection
        .tokens(PATTERN, &key.text("%secret%"))
        .unwrap()
        .is_some());

    let engine = engine(false);
    let (alice, bob) = (Party::new(1), Party::new(2));
    let share = [Operation::Share, Operation::Words, Operation::Trigrams];
    let grant = alice.grant(Subject::Client(bob.public()), &share);
    let mut leaves = connect(&engine, AttachAs::Client);
    open(&mut leaves, &alice, &alice, &[grant], &[]).unwrap();
    let own = bob.grant(Subject::Owner, &[Operation::Trigrams, Operation::Words]);
    let mut session = connect(&engine, AttachAs::Client);
    open(&mut session, &bob, &bob, &[own], &[]).unwrap();
    let (mut alices, mut bobs) = (alice.key(11, false), bob.key(22, false));
    load(&mut session, &alices);
    load(&mut session, &bobs);
    assert_eq!(session.tokens(PATTERN, &bobs.text("%secret%")), Ok(None));
    let (a, b) = (alices.text("secret"), bobs.text("secret"));
    let refused = Refusal::TwoOwners.code();
    assert_eq!(has_words(&mut session, &a, &b), Err(refused));
}

#[test]
fn a_text_has_so_many_tokens_at_most() {
    let (mut connection, _, mut key) = alice_with(&engine(false), &[Operation::Words]);
    let numbers = |count: u32| {
        (0..count)
            .map(|number| format!("{number} "))
            .collect::<String>()
    };
    let most = connection.tokens(WORDS, &key.text(&numbers(1 << 16)));
    assert_eq!(most.unwrap().unwrap().len(), 1 << 16);
    let more = connection.tokens(WORDS, &key.text(&numbers((1 << 16) + 1)));
    assert_eq!(more, Err(Refusal::TooLarge));
    // Fewer than all of a pattern find what all find, and more.
    let (mut connection, _, mut key) = alice_with(&engine(false), &[Operation::Trigrams]);
    let text = numbers(1 << 17);
    let some = connection
        .tokens(PATTERN, &key.text(&text))
        .unwrap()
        .unwrap();
    let all = connection
        .tokens(TRIGRAMS, &key.text(&text))
        .unwrap()
        .unwrap();
    assert_eq!(some.len(), 64);
    assert!(some.iter().all(|token| all.contains(token)));
}
