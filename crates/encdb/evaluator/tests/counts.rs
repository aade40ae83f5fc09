//! Counts of cells that are compared, hashed and ranked: docs/format/audit-log.md.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use pgseal_cell::grant::{Operation, Subject};
use pgseal_evaluator::audit::Event;
use pgseal_evaluator::engine::{CollationId, Connection, Engine};
use pgseal_evaluator_proto::{
    AttachAs, Collation, ComparisonRequest, Page, Request, SessionRequest, Tickets,
};
use pgseal_value::{AggregateKind, Arithmetic};

const C: CollationId = CollationId::C;

/// Returns the counts of one connection for each key since it was asked last: the key, and cells
/// compared, hashed and ranked.
fn cells(connection: &mut Connection) -> Vec<(u32, [u64; 3])> {
    let events = connection.take_events().into_iter();
    let counted = events.filter_map(|event| match event {
        Event::Cells {
            key,
            compared,
            hashed,
            ranked,
            ..
        } => Some((key, [compared, hashed, ranked])),
        _ => None,
    });
    counted.collect()
}

#[test]
fn a_comparison_counts_two_cells_and_a_hash_one() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[]);
    let id = key.cipher.id().0;
    let (a, b, text) = (key.int4(1), key.int4(2), key.text("x"));
    assert_eq!(cells(&mut connection), []);
    for _ in 0..5 {
        connection.compare(&a, &b, C).unwrap();
    }
    assert_eq!(cells(&mut connection), [(id, [10, 0, 0])]);
    assert_eq!(cells(&mut connection), [], "they are told once");
    connection.hash(0, &a).unwrap();
    connection.hash(0, &a).unwrap();
    assert_eq!(cells(&mut connection), [(id, [0, 2, 0])]);
    // What is of no such type was asked for, and is counted; what is no cell is not.
    assert!(connection.compare(&a, &text, C).is_err());
    assert!(connection.compare(&a, b"no cell", C).is_err());
    assert_eq!(cells(&mut connection), [(id, [2, 0, 0])]);
}

#[test]
fn a_search_counts_two_for_each_comparison_that_it_makes() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[]);
    let id = key.cipher.id().0;
    let sealed: Vec<Vec<u8>> = (0..7).map(|i| key.int4(i)).collect();
    let page: Vec<&[u8]> = sealed.iter().map(Vec::as_slice).collect();
    // One for the direction, and three to find each end of what is equal.
    connection.search_page(&key.int4(3), &page, C).unwrap();
    assert_eq!(cells(&mut connection), [(id, [2 * 7, 0, 0])]);
}

#[test]
fn a_descent_counts_what_it_compares_on_kept_pages_too() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[]);
    let id = key.cipher.id().0;
    let sealed: Vec<Vec<u8>> = (0..2).map(|i| key.int4(i * 10)).collect();
    let page: Vec<&[u8]> = sealed.iter().map(Vec::as_slice).collect();
    let children: Vec<u8> = [6_u32, 7, 8].iter().flat_map(|b| b.to_le_bytes()).collect();
    let inner = Page {
        cells: items(&page),
        children: &children,
        right: 0,
    };
    let probe = key.int4(15);
    let leaf_cells = [key.int4(11), key.int4(12), key.int4(13)];
    let leaf_page: Vec<&[u8]> = leaf_cells.iter().map(Vec::as_slice).collect();
    let found = connection
        .descend(&probe, start(3, Some(inner)), C)
        .unwrap();
    assert_eq!(found.count, 1);
    let [(_, one)] = cells(&mut connection)[..] else {
        panic!("one key was asked for")
    };
    connection
        .descend(&probe, start(8, Some(leaf(&leaf_page))), C)
        .unwrap();
    let [(_, other)] = cells(&mut connection)[..] else {
        panic!("one key was asked for")
    };
    assert!(one[0] >= 4 && other[0] >= 4, "{one:?} {other:?}");
    // Nothing is handed over, and as much is compared.
    for _ in 0..3 {
        connection.descend(&probe, start(3, None), C).unwrap();
    }
    let kept = 3 * (one[0] + other[0]);
    assert_eq!(cells(&mut connection), [(id, [kept, 0, 0])]);
}

#[test]
fn ranks_and_extremes_count_each_cell_once() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[]);
    let id = key.cipher.id().0;
    let sealed: Vec<Vec<u8>> = (0..100).map(|i| key.int4(i * 37 % 100)).collect();
    let many: Vec<&[u8]> = sealed.iter().map(Vec::as_slice).collect();
    connection.rank(&many, C).unwrap();
    assert_eq!(cells(&mut connection), [(id, [0, 0, 100])]);
    let state = step(&mut connection, 0, AggregateKind::Max, &many).unwrap();
    let state = step(&mut connection, state, AggregateKind::Max, &many[..10]).unwrap();
    let mut out = Vec::new();
    assert!(connection.aggregate_finish(state, &mut out).unwrap());
    assert_eq!(cells(&mut connection), [(id, [0, 0, 110])]);
    // On its way to another process of the session no cell is counted again.
    let mut sealed = Vec::new();
    connection.aggregate_export(state, &mut sealed).unwrap();
    let other = connection.aggregate_import(&sealed).unwrap();
    connection.aggregate_combine(state, other).unwrap();
    assert_eq!(cells(&mut connection), []);
}

#[test]
fn a_sum_is_a_use_of_its_grant_and_no_comparison_and_what_it_gives_is_counted_when_compared() {
    let engine = engine(false);
    let operations = [
        Operation::Aggregate,
        Operation::Arithmetic,
        Operation::CompareDerived,
    ];
    let (mut connection, _, mut key) = alice_with(&engine, &operations);
    let id = key.cipher.id().0;
    let (a, b) = (key.int4(1), key.int4(2));
    step(&mut connection, 0, AggregateKind::Sum, &[&a, &b]).unwrap();
    let mut sum = Vec::new();
    connection
        .arithmetic(Arithmetic::Add, &a, &b, &mut sum)
        .unwrap();
    assert_eq!(cells(&mut connection), []);
    connection.compare(&sum, &a, C).unwrap();
    assert_eq!(cells(&mut connection), [(id, [2, 0, 0])]);
}

#[test]
fn each_key_and_each_session_has_counts_of_its_own() {
    let engine = engine(false);
    let (mut connection, alice, mut key) = alice_with(&engine, &[]);
    let mut other = alice.key(12, false);
    load(&mut connection, &other);
    let (one, two) = (key.cipher.id().0, other.cipher.id().0);
    let (a, b) = (key.int4(1), other.int4(1));
    connection.compare(&a, &b, C).unwrap();
    connection.compare(&a, &a, C).unwrap();
    assert_eq!(cells(&mut connection), [(one, [3, 0, 0]), (two, [1, 0, 0])]);
    // What was counted when a session ends is its own.
    connection.compare(&b, &b, C).unwrap();
    let grant = alice.grant(Subject::Owner, &[Operation::Text]);
    open(&mut connection, &alice, &alice, &[grant], &[]).unwrap();
    let events = connection.take_events();
    let (Event::Cells { session, .. }, Event::Close { session: closed }) = (&events[0], &events[1])
    else {
        panic!("{events:?}")
    };
    assert_eq!(session, closed);
    load(&mut connection, &other);
    connection.compare(&b, &b, C).unwrap();
    assert_eq!(cells(&mut connection), [(two, [2, 0, 0])]);
}

/// A session that nobody granted anything is told of at once, and then counted.
#[test]
fn the_first_cell_of_a_session_is_news() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[]);
    drop(connection.take_events());
    let cell = key.int4(1);
    let request = Request::Comparison(ComparisonRequest::Compare {
        collation: Collation::C,
        left: &cell,
        right: &cell,
    });
    assert!(!connection.has_events());
    call(&mut connection, &request).unwrap();
    assert!(connection.has_news());
    assert_eq!(cells(&mut connection).len(), 1);
    call(&mut connection, &request).unwrap();
    assert!(connection.has_events() && !connection.has_news());
}

#[test]
fn background_work_is_counted_as_its_own_session() {
    let engine = engine(false);
    let alice = Party::new(1);
    let left = alice.grant(Subject::Background, &[Operation::CompareStored]);
    let mut connection = connect(&engine, AttachAs::Client);
    open(&mut connection, &alice, &alice, &[left], &[]).unwrap();
    let mut key = alice.key(11, false);
    let mut background = connect(&engine, AttachAs::Background);
    load(&mut background, &key);
    let cell = key.int4(1);
    background.compare(&cell, &cell, C).unwrap();
    let events = background.take_events();
    let told = |event: &Event| {
        matches!(
            event,
            Event::Cells {
                session: 2,
                compared: 2,
                ..
            }
        )
    };
    assert!(events.iter().any(told), "{events:?}");
}

/// Attaches a parallel worker with this ticket of its leader.
fn worker(engine: &Engine, tickets: &mut Tickets) -> Connection {
    let ticket = tickets.ticket();
    tickets.advance();
    connect(engine, AttachAs::ParallelWorker { ticket })
}

/// Returns the record of a session's cells under a key.
fn compared(session: u64, key: u32, compared: u64) -> Event {
    Event::Cells {
        session,
        key,
        compared,
        hashed: 0,
        ranked: 0,
    }
}

/// The first of a kind has a record at once. All else is one record a second for the session.
#[test]
fn counts_of_workers_are_summed_with_their_leaders() {
    let engine = engine(false);
    let (mut leader, _, mut key) = alice_with(&engine, &[]);
    let id = key.cipher.id().0;
    let (a, b) = (key.int4(1), key.int4(2));
    let mut tickets = tickets(&mut leader);
    drop(leader.take_due());
    let mut news = Vec::new();
    for _ in 0..25 {
        let mut worker = worker(&engine, &mut tickets);
        news.extend(worker.take_news());
        worker.compare(&a, &b, C).unwrap();
        news.extend(worker.take_news());
        worker.compare(&a, &b, C).unwrap();
        assert_eq!(worker.take_due(), [], "this second has its records");
        worker.compare(&a, &b, C).unwrap();
        assert_eq!(worker.close(), []);
    }
    let workers = |count| Event::Worker { session: 1, count };
    assert_eq!(news, [workers(1), compared(1, id, 2)]);
    leader.compare(&a, &b, C).unwrap();
    assert_eq!(
        leader.take_news(),
        [],
        "the session has a record of this key"
    );
    assert_eq!(leader.take_due(), []);
    assert_eq!(engine.take_due(NOW), []);
    let rest = compared(1, id, 2 * (3 * 25 - 1) + 2);
    assert_eq!(engine.take_due(NOW + 1), [workers(24), rest]);
    leader.set_time(NOW + 1);
    leader.compare(&a, &b, C).unwrap();
    assert_eq!(leader.take_due(), []);
    leader.set_time(NOW + 2);
    assert_eq!(leader.take_due(), [compared(1, id, 2)]);
    assert_eq!(engine.take_due(NOW + 9), []);
    // A clock that is set back keeps no count from its record.
    leader.set_time(NOW - 1000);
    leader.compare(&a, &b, C).unwrap();
    assert_eq!(leader.take_due(), [compared(1, id, 2)]);
}

#[test]
fn refusals_and_uses_of_workers_are_summed_too() {
    let engine = engine(false);
    let (mut leader, _, mut key) = alice_with(&engine, &[Operation::Arithmetic]);
    let (a, b) = (key.int4(1), key.int4(2));
    let mut tickets = tickets(&mut leader);
    drop(leader.take_events());
    let mut out = Vec::new();
    for _ in 0..3 {
        let mut worker = worker(&engine, &mut tickets);
        worker
            .arithmetic(Arithmetic::Add, &a, &b, &mut out)
            .unwrap();
        call(&mut worker, &Request::Session(SessionRequest::Tickets)).unwrap_err();
        drop(worker.close());
    }
    let events = engine.take_due(NOW + 1);
    let counted = |event: &Event| match event {
        Event::Worker { count, .. } => ("worker", *count),
        Event::Use { count, .. } => ("use", *count),
        Event::Refused { count, .. } => ("refused", *count),
        other => panic!("{other:?}"),
    };
    let counts: Vec<_> = events.iter().map(counted).collect();
    assert_eq!(counts, [("worker", 3), ("use", 3), ("refused", 3)]);
}

/// A worker's thread may end after its leader's: no count of it is lost.
#[test]
fn what_a_worker_did_is_counted_when_its_leader_has_ended() {
    let engine = engine(false);
    let (mut leader, _, mut key) = alice_with(&engine, &[]);
    let id = key.cipher.id().0;
    let a = key.int4(1);
    let mut tickets = tickets(&mut leader);
    let (mut one, mut other) = (worker(&engine, &mut tickets), worker(&engine, &mut tickets));
    let _ = leader.take_events();
    one.compare(&a, &a, C).unwrap();
    other.compare(&a, &a, C).unwrap();
    one.close();
    let closed = Event::Close { session: 1 };
    assert_eq!(leader.close(), [compared(1, id, 2), closed]);
    drop(leader);
    assert_eq!(other.close(), []);
    drop(other);
    assert_eq!(engine.take_due(NOW), []);
    assert_eq!(engine.take_rest(), [compared(1, id, 2)]);
    assert_eq!(engine.take_rest(), []);
}
