//! Pages of an index: a page that is kept answers as one that is sent, and as a plain search.
#![allow(clippy::unwrap_used)]

mod common;

use std::cmp::Ordering;

use common::*;
use pgseal_evaluator::engine::{CollationId, Connection};
use pgseal_evaluator_proto::{Position, Refusal, MOST_KEPT, MOST_PAGES, POSITION};
use pgseal_value::Value;
use proptest::prelude::*;

const C: CollationId = CollationId::C;

fn numbers(pages: &[u32]) -> Vec<u8> {
    pages.iter().flat_map(|page| page.to_le_bytes()).collect()
}

fn found(
    connection: &mut Connection,
    probe: &[u8],
    pages: &[u32],
) -> Result<Vec<Position>, Refusal> {
    let mut bytes = Vec::new();
    connection.search_kept(probe, &numbers(pages), C, &mut bytes)?;
    Ok(bytes
        .chunks(POSITION)
        .map(|position| Position::parse(position).unwrap())
        .collect())
}

/// By looking at every value.
fn plain(page: &[i32], probe: i32) -> Position {
    let descending = page.first() > page.last();
    let is_before = |value: &&i32| {
        if descending {
            **value > probe
        } else {
            **value < probe
        }
    };
    let before = page.iter().filter(is_before).count();
    let equal = page.iter().filter(|value| **value == probe).count();
    Position {
        before: u32::try_from(before).unwrap(),
        through: u32::try_from(before + equal).unwrap(),
        descending,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn kept_sent_and_plain_agree(
        mut pages in prop::collection::vec(prop::collection::vec(-9..9i32, 0..12), 1..5),
        probe in -10..10i32,
    ) {
        let (mut connection, _, mut key) = alice_with(&engine(false), &[]);
        let sealed = key.int4(probe);
        let mut sent = Vec::new();
        for (number, page) in pages.iter_mut().enumerate() {
            page.sort_unstable();
            if number % 2 == 1 {
                page.reverse();
            }
            let cells: Vec<Vec<u8>> = page.iter().map(|value| key.int4(*value)).collect();
            let cells: Vec<&[u8]> = cells.iter().map(Vec::as_slice).collect();
            connection.keep_page(u32::try_from(number).unwrap(), items(&cells)).unwrap();
            sent.push(connection.search_page(&sealed, &cells, C).unwrap());
        }
        let all: Vec<u32> = (0..u32::try_from(pages.len()).unwrap()).collect();
        let expected: Vec<Position> = pages.iter().map(|page| plain(page, probe)).collect();
        prop_assert_eq!(&found(&mut connection, &sealed, &all).unwrap(), &expected);
        prop_assert_eq!(sent, expected);
    }
}

#[test]
fn stored_cells_of_two_types_are_compared_if_they_are_integers_floats_or_times() {
    let (mut connection, _, mut key) = alice_with(&engine(false), &[]);
    let (real, double) = (Value::Float4(0.1), Value::Float8(0.1));
    let (real, double) = (key.seal(&real), key.seal(&double));
    let (long, wide) = (key.seal(&Value::Int8(1)), key.seal(&Value::Float8(0.5)));
    let (number, day) = (key.int4(1), key.seal(&Value::Date(1)));
    let instant = key.seal(&Value::Timestamp(86_400_000_000));
    let mut compare = |a: &[u8], b: &[u8]| connection.compare(a, b, C);
    assert_eq!(compare(&real, &double), Ok(Ordering::Greater));
    assert_eq!(compare(&number, &long), Ok(Ordering::Equal));
    assert_eq!(compare(&instant, &day), Ok(Ordering::Equal));
    for (a, b) in [(&number, &real), (&number, &day), (&double, &instant)] {
        assert_eq!(compare(a, b), Err(Refusal::WrongType));
    }
    let mut hash = |cell: &[u8]| connection.hash(7, cell).unwrap();
    assert_eq!(hash(&number), hash(&long));
    assert_eq!(hash(&key.seal(&Value::Float4(0.5))), hash(&wide));
    assert_ne!(hash(&day), hash(&instant));
    assert_ne!(hash(&number), hash(&key.seal(&Value::Float8(1.0))));
}

#[test]
fn a_probe_may_be_of_another_type_that_is_compared_with_the_pages() {
    let (mut connection, _, mut key) = alice_with(&engine(false), &[]);
    let days = [7, 8, 9].map(|day| key.seal(&Value::Date(day)));
    let days: Vec<&[u8]> = days.iter().map(Vec::as_slice).collect();
    let noon = key.seal(&Value::Timestamp(8 * 86_400_000_000 + 43_200_000_000));
    connection.keep_page(0, items(&days)).unwrap();
    let sent = connection.search_page(&noon, &days, C).unwrap();
    assert_eq!((sent.before, sent.through), (2, 2));
    assert_eq!(found(&mut connection, &noon, &[0]), Ok(vec![sent]));
}

#[test]
fn a_page_is_replaced_and_ends_with_its_session() {
    let engine = engine(false);
    let (mut connection, alice, mut key) = alice_with(&engine, &[]);
    let (one, two) = (key.int4(1), key.int4(2));
    let last = MOST_PAGES - 1;
    connection.keep_page(last, items(&[&one])).unwrap();
    assert_eq!(found(&mut connection, &two, &[last]).unwrap()[0].before, 1);
    connection.keep_page(last, items(&[&two, &two])).unwrap();
    assert_eq!(found(&mut connection, &two, &[last]).unwrap()[0].through, 2);
    let gone = Err(Refusal::UnknownState);
    assert_eq!(found(&mut connection, &two, &[last, 0]), gone);

    open(&mut connection, &alice, &alice, &[], &[]).unwrap();
    load(&mut connection, &key);
    assert_eq!(found(&mut connection, &two, &[last]), gone);
}

#[test]
fn what_is_no_page_is_refused() {
    let (mut connection, _, mut key) = alice_with(&engine(false), &[]);
    let (one, word) = (key.int4(1), key.text("one"));
    let many = vec![one.as_slice(); MOST_KEPT + 1];
    let too_many = Err(Refusal::TooMany);
    assert_eq!(connection.keep_page(MOST_PAGES, items(&[&one])), too_many);
    assert_eq!(connection.keep_page(0, items(&many)), too_many);
    // More than any page of PostgreSQL's has, and more pages than are kept.
    let long = key.text(&"x".repeat(40_000));
    assert_eq!(connection.keep_page(0, items(&[&long])), too_many);
    let again = [0; MOST_PAGES as usize + 1];
    assert_eq!(found(&mut connection, &one, &again).err(), too_many.err());
    let mut flipped = one.clone();
    flipped[20] ^= 1;
    flipped[0] ^= 1;
    assert!(connection.keep_page(0, items(&[&flipped])).is_err());
    assert_eq!(
        found(&mut connection, &one, &[0]),
        Err(Refusal::UnknownState)
    );
    connection.keep_page(0, items(&[&one, &one])).unwrap();
    assert_eq!(found(&mut connection, &word, &[0]), Err(Refusal::WrongType));
}
