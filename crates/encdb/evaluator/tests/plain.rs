//! Plain values that the server has, beside cells.
#![allow(clippy::unwrap_used)]

mod common;

use std::cmp::Ordering;

use common::*;
use pgseal_cell::grant::Operation;
use pgseal_cell::Mode;
use pgseal_evaluator::engine::CollationId;
use pgseal_evaluator_proto::{Plain, Refusal};
use pgseal_value::{AggregateKind, Arithmetic, Type, Value};

const C: CollationId = CollationId::C;

/// A plain value of the server is compared under a grant of its own, and serves nothing else.
#[test]
fn a_plain_value_is_compared_under_its_own_grant_and_is_no_cell() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[Operation::CompareDerived]);
    let (secret, plain) = (key.int4(42), Plain::of(&Value::Int4(43)));
    let derived = key.seal_as(&Value::Int4(44), Mode::Derived);
    let refused = no_grant(Operation::ComparePlain);
    assert_eq!(connection.compare(&secret, &plain, C), Err(refused));
    assert_eq!(connection.compare(&plain, &derived, C), Err(refused));
    assert_eq!(connection.search_page(&plain, &[&secret], C), Err(refused));
    for page in [Some(leaf(&[&secret])), None] {
        let found = connection.descend(&plain, start(0, page), C);
        assert!(found.map_or_else(|error| error == refused, |found| found.count == 0));
    }

    let (mut connection, _, mut key) = alice_with(&engine, &[Operation::ComparePlain]);
    let (secret, derived) = (key.int4(42), key.seal_as(&Value::Int4(44), Mode::Derived));
    assert_eq!(connection.compare(&secret, &plain, C), Ok(Ordering::Less));
    assert_eq!(
        connection.compare(&plain, &secret, C),
        Ok(Ordering::Greater)
    );
    let wider = Plain::of(&Value::Int8(42));
    assert_eq!(connection.compare(&secret, &wider, C), Ok(Ordering::Equal));
    let of_derived = Err(no_grant(Operation::CompareDerived));
    assert_eq!(connection.compare(&derived, &plain, C), of_derived);
    for wrong in [Plain::of(&Value::Date(1)), vec![0, 9, 0xf0, 1]] {
        assert!(connection.compare(&secret, &wrong, C).is_err());
    }
    let both = connection.compare(&plain, &plain, C);
    assert_eq!(both, Err(Refusal::MalformedRequest));
    // A loaded key, and every right, make no cell of it.
    let all = Operation::ALL.map(|operation| operation);
    let (mut connection, _, mut key) = alice_with(&engine, &all);
    let secret = key.int4(42);
    let (unknown, mut out) = (Refusal::UnknownVersion, Vec::new());
    let sum = connection.arithmetic(Arithmetic::Add, &secret, &plain, &mut out);
    assert_eq!(sum, Err(unknown));
    assert_eq!(connection.hash(0, &plain), Err(unknown));
    assert_eq!(connection.cast(Type::Int8, &plain, &mut out), Err(unknown));
    assert_eq!(connection.decrypt_to(&plain, &mut out), Err(unknown));
    assert_eq!(connection.rank(&[&plain, &secret], C), Err(unknown));
    let text = Plain::of(&Value::Text("x".into()));
    assert_eq!(connection.like(&text, &text, None), Err(unknown));
    let extremes = connection.aggregate_step(0, AggregateKind::Max, C, [plain.as_slice()]);
    assert_eq!(extremes, Err(unknown));
    let page = connection.search_page(&secret, &[&plain], C);
    assert_eq!(page.err(), Some(unknown));
    let kept = connection.descend(&secret, start(9, Some(leaf(&[&plain]))), C);
    assert_eq!(kept.err(), Some(unknown));
    assert_eq!(out, []);
}
