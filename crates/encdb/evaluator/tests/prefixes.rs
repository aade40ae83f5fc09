//! The beginnings of patterns, as searches in indexes look for them.
#![allow(clippy::unwrap_used)]

mod common;

use std::cmp::Ordering;

use common::*;
use pgseal_cell::grant::{Operation, Subject};
use pgseal_cell::Mode;
use pgseal_evaluator::engine::CollationId;
use pgseal_evaluator_proto::{AttachAs, Collation, Plain, Prefix, Refusal};
use pgseal_value::{PrefixEnd, Type, Value};

const C: CollationId = CollationId::C;

const LOW: PrefixEnd = PrefixEnd::Low;
const HIGH: PrefixEnd = PrefixEnd::High;

#[test]
fn the_ends_of_a_prefix_have_their_places_among_texts() {
    let (mut connection, _, mut key) = alice_with(&engine(false), &[Operation::Text]);
    let texts: Vec<Vec<u8>> = ["aa", "ab", "ab%", "abz", "ac"]
        .map(|text| key.text(text))
        .into();
    let cells: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let pattern = key.text("ab%z");
    for (end, place) in [(LOW, 1_u32), (HIGH, 4)] {
        let prefix = Prefix::of(&pattern, end);
        for (at, cell) in (0..).zip(&cells) {
            let order = u32::cmp(&at, &place).then(Ordering::Greater);
            assert_eq!(connection.compare(cell, &prefix, C), Ok(order));
            assert_eq!(connection.compare(&prefix, cell, C), Ok(order.reverse()));
        }
        let found = connection.search_page(&prefix, &cells, C).unwrap();
        assert_eq!((found.before, found.through), (place, place));
        // The first request sends the page, the second finds it.
        for page in [Some(leaf(&cells)), None] {
            let found = connection.descend(&prefix, start(1, page), C).unwrap();
            assert_eq!(found.count, 1);
        }
    }
    assert_eq!(connection.has_prefix(&key.text("ab%z")), Ok(true));
    assert_eq!(connection.has_prefix(&key.text("%ab")), Ok(false));
}

#[test]
fn ends_have_an_order_among_each_other_and_beside_plain_values() {
    let granted = [Operation::Text, Operation::ComparePlain];
    let (mut connection, _, mut key) = alice_with(&engine(false), &granted);
    let (outer, inner) = (key.text("a%"), key.text("ab%"));
    let mut order = |(left, left_end): (&[u8], _), (right, right_end): (&[u8], _)| {
        let (left, right) = (Prefix::of(left, left_end), Prefix::of(right, right_end));
        connection.compare(&left, &right, C)
    };
    let (outer, inner) = (&outer[..], &inner[..]);
    let ascending = [(outer, LOW), (inner, LOW), (inner, HIGH), (outer, HIGH)];
    for (at, left) in ascending.into_iter().enumerate() {
        for (other, right) in ascending.into_iter().enumerate() {
            assert_eq!(order(left, right), Ok(at.cmp(&other)));
        }
    }
    let plain = Plain::of(&Value::Text("abc".into()));
    for (end, expected) in [(LOW, Ordering::Less), (HIGH, Ordering::Greater)] {
        let prefix = Prefix::of(inner, end);
        assert_eq!(connection.compare(&prefix, &plain, C), Ok(expected));
        assert_eq!(
            connection.compare(&plain, &prefix, C),
            Ok(expected.reverse())
        );
    }
    let (mut connection, _, mut key) = alice_with(&engine(false), &[Operation::Text]);
    let refused = connection.compare(&plain, &Prefix::of(&key.text("a%"), LOW), C);
    assert_eq!(refused, Err(no_grant(Operation::ComparePlain)));
}

#[test]
fn a_prefix_is_compared_by_those_who_may_match_and_compare() {
    let (mut connection, _, mut key) = alice_with(&engine(false), &[Operation::CompareDerived]);
    let (text, pattern) = (key.text("abc"), key.text("ab%"));
    let prefix = Prefix::of(&pattern, LOW);
    let refused = Err(no_grant(Operation::Text));
    assert_eq!(connection.compare(&text, &prefix, C), refused);
    assert_eq!(connection.compare(&prefix, &prefix, C), refused);
    assert_eq!(connection.has_prefix(&pattern), Ok(false));
    let (mut connection, _, mut key) = alice_with(&engine(false), &[Operation::Text]);
    let made_here = key.seal_as(&Value::Text("ab%".into()), Mode::Derived);
    let refused = Err(no_grant(Operation::CompareDerived));
    assert_eq!(
        connection.compare(&text, &Prefix::of(&made_here, LOW), C),
        refused
    );
    assert_eq!(connection.has_prefix(&made_here), Ok(false));
}

/// LIKE matches a pattern of another owner, where both grant it, and an index does not compare it.
#[test]
fn beside_texts_of_other_owners_a_pattern_has_no_prefix() {
    let engine = engine(false);
    let (alice, bob) = (Party::new(1), Party::new(2));
    let granted = [Operation::Share, Operation::Text];
    let grant = alice.grant(Subject::Client(bob.public()), &granted);
    let mut leaves = connect(&engine, AttachAs::Client);
    open(&mut leaves, &alice, &alice, &[grant], &[]).unwrap();
    let own = bob.grant(Subject::Owner, &granted);
    let mut session = connect(&engine, AttachAs::Client);
    open(&mut session, &bob, &bob, &[own], &[]).unwrap();
    let mut bobs = bob.key(22, false);
    load(&mut session, &bobs);
    let pattern = bobs.text("ab%");
    assert_eq!(session.has_prefix(&pattern), Ok(true));
    load(&mut session, &alice.key(11, false));
    assert_eq!(session.has_prefix(&pattern), Ok(false));
}

#[test]
fn a_prefix_is_no_cell_and_no_other_order_has_one() {
    let all = Operation::ALL;
    let (mut connection, _, mut key) = alice_with(&engine(false), &all);
    let (text, number, mut out) = (key.text("abc"), key.int4(1), Vec::new());
    let prefix = Prefix::of(&key.text("ab%"), HIGH);
    let unknown = Refusal::UnknownVersion;
    assert_eq!(connection.hash(0, &prefix), Err(unknown));
    assert_eq!(
        connection.cast(Type::Bytea, &prefix, &mut out),
        Err(unknown)
    );
    assert_eq!(connection.decrypt_to(&prefix, &mut out), Err(unknown));
    assert_eq!(connection.like(&text, &prefix, None), Err(unknown));
    assert_eq!(connection.rank(&[&prefix, &text], C), Err(unknown));
    let twice = Prefix::of(&prefix, LOW);
    assert_eq!(connection.compare(&text, &twice, C), Err(unknown));
    assert_eq!(connection.compare(&prefix, &twice, C), Err(unknown));
    assert_eq!(
        connection.compare(&number, &prefix, C),
        Err(Refusal::WrongType)
    );
    let other = connection.collation(Collation::Libc("C.UTF-8")).unwrap();
    let refused = connection.compare(&text, &prefix, other);
    assert_eq!(refused, Err(Refusal::UnknownCollation));
}
