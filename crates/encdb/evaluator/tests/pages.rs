//! Pages of an index: a search shows of the pages on its way what looking at every cell would, and
//! nothing to those who do not hold their key.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result)]

mod common;

use std::cmp::Ordering;

use common::*;
use pgseal_cell::grant::Operation;
use pgseal_evaluator::engine::{CollationId, Connection, Engine};
use pgseal_evaluator_proto::{
    AttachAs, Finding, Items, Page, Plain, Position, Refusal, MAX_CELLS, MAX_FINDINGS,
};
use pgseal_value::Value;
use proptest::prelude::*;

const C: CollationId = CollationId::C;

/// A finding that outlives its answer.
#[derive(Debug, PartialEq)]
struct Found {
    block: u32,
    position: Position,
    below: Vec<u8>,
    above: Vec<u8>,
    equal: Vec<Vec<u8>>,
    far: Vec<u8>,
    uniform: bool,
}

fn found(
    connection: &mut Connection,
    probe: &[u8],
    block: u32,
    page: Option<Page<'_>>,
) -> Result<Vec<Found>, Refusal> {
    let found = connection.descend(probe, start(block, page), C)?;
    let items = Items::Received {
        count: found.count,
        bytes: &found.items,
    };
    let each = |item| {
        let finding = Finding::parse(item).unwrap();
        Found {
            block: finding.block,
            position: finding.position,
            below: finding.below.to_vec(),
            above: finding.above.to_vec(),
            equal: finding.equal.iter().map(<[u8]>::to_vec).collect(),
            far: finding.far.to_vec(),
            uniform: finding.uniform,
        }
    };
    Ok(items.iter().map(each).collect())
}

fn blocks(found: &Result<Vec<Found>, Refusal>) -> Vec<u32> {
    let found = found.as_ref().unwrap();
    found.iter().map(|found| found.block).collect()
}

/// A connection more in which alice's session is open, with this key.
fn another(engine: &Engine, alice: &Party, key: &Sealer) -> Connection {
    let mut connection = connect(engine, AttachAs::Client);
    open(&mut connection, alice, alice, &[], &[]).unwrap();
    load(&mut connection, key);
    connection
}

/// The contents of a page, in clear and as cells.
struct Clear {
    block: u32,
    values: Vec<i32>,
    cells: Vec<Vec<u8>>,
    children: Vec<u8>,
    right: u32,
}

impl Clear {
    fn new(block: u32, values: Vec<i32>, children: &[u32], right: u32, key: &mut Sealer) -> Self {
        Self {
            block,
            cells: values.iter().map(|value| key.int4(*value)).collect(),
            values,
            children: children
                .iter()
                .flat_map(|block| block.to_le_bytes())
                .collect(),
            right,
        }
    }

    fn hand_over(&self, connection: &mut Connection, probe: &[u8]) -> Vec<Found> {
        let cells: Vec<&[u8]> = self.cells.iter().map(Vec::as_slice).collect();
        let page = Page {
            cells: items(&cells),
            children: &self.children,
            right: self.right,
        };
        found(connection, probe, self.block, Some(page)).unwrap()
    }

    /// Finds the probe by looking at every value.
    fn plain(&self, probe: i32) -> Found {
        let values = &self.values;
        let descending = values.first() > values.last();
        let is_before = |value: &&i32| {
            if descending {
                **value > probe
            } else {
                **value < probe
            }
        };
        let before = values.iter().filter(is_before).count();
        let through = before + values.iter().filter(|value| **value == probe).count();
        let cell = |at: Option<usize>| at.and_then(|at| self.cells.get(at));
        let cell = |at| cell(at).cloned().unwrap_or_default();
        let equal = &self.cells[before..through];
        let last = equal.last().filter(|_| equal.len() > 1);
        Found {
            block: self.block,
            position: Position {
                before: u32::try_from(before).unwrap(),
                through: u32::try_from(through).unwrap(),
                descending,
            },
            below: cell(before.checked_sub(1)),
            above: cell(Some(through)),
            equal: equal.first().into_iter().chain(last).cloned().collect(),
            far: match (before, through) {
                (_, 0) => cell(values.len().checked_sub(1)),
                _ if before == values.len() => cell(Some(0)),
                _ => Vec::new(),
            },
            uniform: values.first() == values.last(),
        }
    }

    /// The page that a search goes on with.
    fn next(&self, probe: i32) -> Option<u32> {
        let before = self.plain(probe).position.before as usize;
        let child = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        let below = self.children.chunks(4).nth(before).map(child);
        let right = (before == self.values.len()).then_some(self.right);
        below.or(right).filter(|block| *block != 0)
    }
}

/// A tree of two levels as nbtree makes it: the high key of a leaf is the first key of the next.
fn tree(values: &[i32], each: usize, key: &mut Sealer) -> Vec<Clear> {
    let leaves: Vec<&[i32]> = values.chunks(each).collect();
    let block = |leaf: usize| u32::try_from(leaf + 2).unwrap();
    let mut pages: Vec<Clear> = leaves
        .iter()
        .enumerate()
        .map(|(leaf, values)| {
            let high = leaves.get(leaf + 1).map(|right| right[0]);
            let right = high.map_or(0, |_| block(leaf + 1));
            let values = values.iter().copied().chain(high).collect();
            Clear::new(block(leaf), values, &[], right, key)
        })
        .collect();
    let children: Vec<u32> = (0..leaves.len()).map(block).collect();
    let separators = leaves[1..].iter().map(|leaf| leaf[0]).collect();
    pages.insert(0, Clear::new(1, separators, &children, 0, key));
    pages
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_descent_tells_what_looking_at_every_value_does(
        mut values in prop::collection::vec(-30..30i32, 2..60),
        each in 1..9_usize,
        descends: bool,
        plain: bool,
        probe in -31..31i32,
    ) {
        values.sort_unstable();
        if descends {
            values.reverse();
        }
        prop_assume!(values.len() > each);
        let operations: &[_] = if plain { &[Operation::ComparePlain] } else { &[] };
        let (mut connection, _, mut key) = alice_with(&engine(false), operations);
        let sealed = match plain {
            true => Plain::of(&Value::Int4(probe)),
            false => key.int4(probe),
        };
        let pages = tree(&values, each, &mut key);
        for page in &pages {
            let told = page.hand_over(&mut connection, &sealed);
            prop_assert_eq!(&told[0], &page.plain(probe));
            let cells: Vec<&[u8]> = page.cells.iter().map(Vec::as_slice).collect();
            let sent = connection.search_page(&sealed, &cells, C).unwrap();
            prop_assert_eq!(sent, page.plain(probe).position);
        }
        // All on the way in one request.
        let page = |block: u32| pages.iter().find(|page| page.block == block).unwrap();
        let told = found(&mut connection, &sealed, 1, None).unwrap();
        let mut next = Some(1);
        for finding in &told {
            prop_assert_eq!(Some(finding.block), next);
            prop_assert_eq!(finding, &page(finding.block).plain(probe));
            next = page(finding.block).next(probe);
        }
        prop_assert!(next.is_none() || told.len() == MAX_FINDINGS as usize);
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
    let sent = connection.search_page(&noon, &days, C).unwrap();
    assert_eq!((sent.before, sent.through), (2, 2));
    let told = found(&mut connection, &noon, 0, Some(leaf(&days))).unwrap();
    assert_eq!(told[0].position, sent);
    assert_eq!(found(&mut connection, &noon, 0, None), Ok(told));
    let word = key.text("one");
    let wrong = found(&mut connection, &word, 0, Some(leaf(&days)));
    assert_eq!(wrong, Err(Refusal::WrongType));
    assert_eq!(found(&mut connection, &word, 0, None), Ok(vec![]));
}

#[test]
fn a_page_is_replaced_by_the_page_that_is_handed_over_and_no_other_is() {
    let (mut connection, _, mut key) = alice_with(&engine(false), &[]);
    let (one, two, three) = (key.int4(1), key.int4(2), key.int4(3));
    let one_more = key.int4(0);
    let mut tell = |block, cells: &[&[u8]], right| {
        let page = Page {
            right,
            ..leaf(cells)
        };
        let page = (!cells.is_empty()).then_some(page);
        found(&mut connection, &two, block, page).unwrap()
    };
    tell(5, &[&one, &three], 0);
    tell(6, &[&two, &three], 0);
    let told = tell(5, &[], 0);
    assert_eq!((&told[0].below, &told[0].above), (&one, &three));
    tell(5, &[&two, &three], 0);
    let told = tell(5, &[], 0);
    assert_eq!(told[0].below, [0; 0]);
    assert_eq!(told[0].equal, std::slice::from_ref(&two));
    assert_eq!((tell(6, &[], 0).len(), tell(7, &[], 0).len()), (1, 0));
    // A page that is the next of itself ends the search.
    assert_eq!(tell(8, &[&one_more, &one], 8).len(), MAX_FINDINGS as usize);
}

#[test]
fn pages_are_there_for_all_sessions_of_their_key_and_go_with_the_last() {
    let engine = engine(false);
    let (mut first, alice, mut key) = alice_with(&engine, &[]);
    let (one, two) = (key.int4(1), key.int4(2));
    found(&mut first, &two, 3, Some(leaf(&[&one, &two]))).unwrap();
    let mut second = another(&engine, &alice, &key);
    let mut third = another(&engine, &alice, &key);
    assert_eq!(blocks(&found(&mut second, &two, 3, None)), [3]);
    drop(first);
    assert_eq!(blocks(&found(&mut second, &two, 3, None)), [3]);
    // A session that ends for another of its connection's.
    open(&mut second, &alice, &alice, &[], &[]).unwrap();
    load(&mut second, &key);
    assert_eq!(blocks(&found(&mut third, &two, 3, None)), [3]);
    drop(third);
    drop(second);
    let mut last = another(&engine, &alice, &key);
    assert_eq!(blocks(&found(&mut last, &two, 3, None)), [0; 0]);
}

#[test]
fn a_session_that_has_expired_keeps_no_pages() {
    let engine = engine(false);
    let (mut first, alice, mut key) = alice_with(&engine, &[]);
    let (one, two) = (key.int4(1), key.int4(2));
    found(&mut first, &two, 3, Some(leaf(&[&one]))).unwrap();
    first.set_time(NOW + 500);
    assert_eq!(
        found(&mut first, &two, 3, None),
        Err(Refusal::SessionExpired)
    );
    let mut second = another(&engine, &alice, &key);
    assert_eq!(blocks(&found(&mut second, &two, 3, None)), [0; 0]);
    // Nor does it while nobody asks in it.
    found(&mut second, &two, 3, Some(leaf(&[&one]))).unwrap();
    let mut third = another(&engine, &alice, &key);
    third.set_time(NOW + 500);
    drop(third);
    assert_eq!(blocks(&found(&mut second, &two, 3, None)), [0; 0]);
}

#[test]
fn who_does_not_hold_the_key_or_names_another_database_finds_nothing() {
    let engine = engine(false);
    let (mut connection, alice, mut key) = alice_with(&engine, &[]);
    let (one, two) = (key.int4(1), key.int4(2));
    found(&mut connection, &two, 3, Some(leaf(&[&one, &two]))).unwrap();
    let mut elsewhere = engine.connect();
    elsewhere.set_time(NOW);
    elsewhere.attach(AttachAs::Client, [1; 16]).unwrap();
    open(&mut elsewhere, &alice, &alice, &[], &[]).unwrap();
    load(&mut elsewhere, &key);
    assert_eq!(blocks(&found(&mut elsewhere, &two, 3, None)), [0; 0]);
    // Another key of the same owner.
    let mut other = alice.key(8, false);
    let mut keyless = another(&engine, &alice, &other);
    let probe = other.int4(2);
    assert_eq!(
        found(&mut keyless, &two, 3, None),
        Err(Refusal::KeyNotLoaded)
    );
    assert_eq!(blocks(&found(&mut keyless, &probe, 3, None)), [0; 0]);
    load(&mut keyless, &key);
    assert_eq!(blocks(&found(&mut keyless, &probe, 3, None)), [3]);
}

#[test]
fn pages_of_two_keys_are_answered_and_not_kept() {
    let engine = engine(false);
    let (mut connection, alice, mut key) = alice_with(&engine, &[Operation::Arithmetic]);
    let mut other = alice.key(8, false);
    load(&mut connection, &other);
    let (one, two, three) = (key.int4(1), other.int4(2), key.int4(3));
    let page = [one.as_slice(), &two];
    let told = found(&mut connection, &three, 3, Some(leaf(&page))).unwrap();
    assert_eq!((told.len(), told[0].position.before), (1, 2));
    assert_eq!(blocks(&found(&mut connection, &three, 3, None)), [0; 0]);
}

#[test]
fn what_is_no_page_is_refused() {
    let (mut connection, _, mut key) = alice_with(&engine(false), &[]);
    let one = key.int4(1);
    let many = vec![one.as_slice(); MAX_CELLS + 1];
    // More than any page of PostgreSQL's has, and more than the usual one, which is not kept.
    let large = key.text(&"x".repeat(8_200));
    let word = key.text("y");
    let told = found(&mut connection, &word, 4, Some(leaf(&[&large])));
    assert_eq!(told.unwrap()[0].position.before, 1);
    assert_eq!(found(&mut connection, &word, 4, None), Ok(vec![]));
    let long = key.text(&"x".repeat(40_000));
    let cells = [one.as_slice()];
    let wide = Page {
        children: &[0; 12],
        ..leaf(&cells)
    };
    let huge = [long.as_slice()];
    for page in [leaf(&many), leaf(&huge), wide] {
        let refused = found(&mut connection, &one, 3, Some(page));
        assert_eq!(refused, Err(Refusal::TooMany));
    }
    let mut flipped = one.clone();
    flipped[20] ^= 1;
    flipped[0] ^= 1;
    let refused = found(&mut connection, &one, 3, Some(leaf(&[&flipped])));
    assert_eq!(refused, Err(Refusal::NotAuthentic));
    assert_eq!(found(&mut connection, &one, 3, None), Ok(vec![]));
    assert!(found(
        &mut connection,
        &one,
        3,
        Some(leaf(&[b"no cell".as_slice()]))
    )
    .is_err());
}
