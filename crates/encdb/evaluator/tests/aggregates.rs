//! Aggregates whose states stay in the engine: results as of a plain loop, whatever the order of
//! steps, and limits.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result)]

mod common;

use common::*;
use pgseal_cell::grant::{Operation, Subject};
use pgseal_evaluator::engine::{CollationId, Connection};
use pgseal_evaluator_proto::{
    AggregateRequest, AttachAs, Batch, Collation, ComparisonRequest, ConversionRequest, Input,
    Items, OperationRequest, Program, Refusal, Request, Response, SessionRequest,
};
use pgseal_value::{AggregateKind, Value};

const C: CollationId = CollationId::C;

fn result(connection: &mut Connection, key: &Sealer, state: u64) -> String {
    let mut out = Vec::new();
    assert_eq!(connection.aggregate_finish(state, &mut out), Ok(true));
    key.open_text(&out)
}

#[test]
fn results_are_those_of_all_cells_however_they_came() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[Operation::Aggregate]);
    let numbers = [5, -7, 12, 5, 2_147_483_647, -1, 0];
    let cells: Vec<Vec<u8>> = numbers.iter().map(|number| key.int4(*number)).collect();
    let cells: Vec<&[u8]> = cells.iter().map(Vec::as_slice).collect();
    let expected = [
        (AggregateKind::Count, "7"),
        (AggregateKind::Sum, "2147483661"),
        (AggregateKind::Avg, "306783380.14285714"),
        (AggregateKind::Min, "-7"),
        (AggregateKind::Max, "2147483647"),
        (AggregateKind::VarPop, "564696245401326185"),
        (AggregateKind::StddevSamp, "811672524"),
    ];
    for (kind, expected) in expected {
        for cut in 1..cells.len() {
            // In two steps, and in two states that meet.
            let state = step(&mut connection, 0, kind, &cells[..cut]).unwrap();
            assert_eq!(step(&mut connection, state, kind, &cells[cut..]), Ok(state));
            assert_eq!(result(&mut connection, &key, state), expected);
            let other = step(&mut connection, 0, kind, &cells[..cut]).unwrap();
            let into = step(&mut connection, 0, kind, &cells[cut..]).unwrap();
            connection.aggregate_combine(into, other).unwrap();
            assert_eq!(result(&mut connection, &key, into), expected);
            let gone = connection.aggregate_combine(into, other);
            assert_eq!(gone, Err(Refusal::UnknownState));
            for state in [state, into] {
                connection.aggregate_drop(state).unwrap();
            }
        }
    }
}

fn take(
    connection: &mut Connection,
    state: u64,
    kind: AggregateKind,
    inputs: &[Input<'_>],
) -> Result<u64, Refusal> {
    connection.aggregate_step(state, kind, C, inputs.iter().copied())
}

#[test]
fn pairs_are_taken_together_and_their_halves_make_a_whole() {
    let engine = engine(false);
    let (mut connection, alice, mut key) = alice_with(&engine, &[Operation::Aggregate]);
    let connection = &mut connection;
    let mut other = alice.key(12, false);
    load(connection, &other);
    // y = 2 * x + 1
    let cells = [1, 2, 3, 5].map(|x| [key.int4(2 * x + 1), other.seal(&Value::Int8(x.into()))]);
    let pairs = cells.each_ref().map(|[y, x]| Input::Pair(y, x));
    for (kind, expected) in [
        (AggregateKind::Corr, "1"),
        (AggregateKind::CovarPop, "4.375"),
        (AggregateKind::RegrSlope, "2"),
        (AggregateKind::RegrIntercept, "1"),
        (AggregateKind::RegrAvgX, "2.75"),
        (AggregateKind::RegrAvgY, "6.5"),
        (AggregateKind::RegrSxx, "8.75"),
        (AggregateKind::RegrSyy, "35"),
    ] {
        let state = take(connection, 0, kind, &pairs[..3]).unwrap();
        assert_eq!(take(connection, state, kind, &pairs[3..]), Ok(state));
        assert_eq!(result(connection, &key, state), expected);
        let into = take(connection, 0, kind, &pairs[..2]).unwrap();
        let half = take(connection, 0, kind, &pairs[2..]).unwrap();
        let mut sealed = Vec::new();
        connection.aggregate_export(half, &mut sealed).unwrap();
        let half = connection.aggregate_import(&sealed).unwrap();
        connection.aggregate_combine(into, half).unwrap();
        assert_eq!(result(connection, &key, into), expected);
    }
}

#[test]
fn a_pair_is_of_numbers_and_comes_to_aggregates_of_pairs_alone() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[Operation::Aggregate]);
    let (one, text) = (key.int4(1), key.text("x"));
    let mut taken = |kind, input| take(&mut connection, 0, kind, &[input]);
    let malformed = Err(Refusal::MalformedRequest);
    assert_eq!(taken(AggregateKind::Corr, Input::Cell(&one)), malformed);
    for kind in [AggregateKind::Sum, AggregateKind::Max] {
        assert_eq!(taken(kind, Input::Pair(&one, &one)), malformed);
    }
    assert!(taken(AggregateKind::Corr, Input::Pair(&one, &text)).is_err());
    assert!(taken(AggregateKind::Corr, Input::Pair(&text, &one)).is_err());
    let computed = Input::Computed(Program::parse(b"$~", 1).unwrap(), Items::Listed(&[]));
    assert_eq!(taken(AggregateKind::Corr, computed), malformed);
}

/// The sum by one request, with the last cells.
fn finish(
    connection: &mut Connection,
    key: &Sealer,
    state: u64,
    cells: &[&[u8]],
    stays: bool,
) -> Result<String, u16> {
    let batch = Batch::of_cells(AggregateKind::Sum, Collation::C, items(cells));
    let (mut request, mut response) = (Vec::new(), Vec::new());
    Request::Aggregate(AggregateRequest::Finish {
        state,
        batch,
        stays,
    })
    .encode(&mut request);
    connection.call(&request, &mut response);
    match Response::parse(&response).unwrap() {
        Response::Cell(cell) => Ok(key.open_text(cell)),
        Response::Refused(report) => Err(report.code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_step_that_wants_a_key_can_be_tried_again() {
    let engine = engine(false);
    let (mut connection, alice, mut key) = alice_with(&engine, &[Operation::Aggregate]);
    let connection = &mut connection;
    let mut other = alice.key(12, false);
    let cells = [key.int4(1), key.int4(20), other.int4(300)];
    let cells: Vec<&[u8]> = cells.iter().map(Vec::as_slice).collect();
    let missing = Err(Refusal::KeyNotLoaded);
    assert_eq!(step(connection, 0, AggregateKind::Sum, &cells), missing);
    let state = step(connection, 0, AggregateKind::Sum, &cells[..1]).unwrap();
    assert_eq!(
        step(connection, state, AggregateKind::Sum, &cells[1..]),
        missing
    );
    let missing = Err(Refusal::KeyNotLoaded.code());
    assert_eq!(finish(connection, &key, state, &cells[1..], false), missing);
    load(connection, &other);
    let sum = finish(connection, &key, state, &cells[1..], false);
    assert_eq!(sum, Ok("321".to_owned()));
}

#[test]
fn a_result_comes_with_the_last_cells_and_leaves_no_state_that_does_not_stay() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[Operation::Aggregate]);
    let connection = &mut connection;
    let cells: Vec<Vec<u8>> = [40, -5, 7].iter().map(|number| key.int4(*number)).collect();
    let cells: Vec<&[u8]> = cells.iter().map(Vec::as_slice).collect();
    let text = key.text("x");
    let unknown = Err(Refusal::UnknownState.code());
    let of = |sum: &str| Ok(sum.to_owned());
    assert_eq!(finish(connection, &key, 0, &cells, false), of("42"));
    assert_eq!(finish(connection, &key, 0, &cells, true), unknown);
    assert_eq!(finish(connection, &key, 1, &cells, true), unknown);
    // None of these has made a state.
    let sum = AggregateKind::Sum;
    assert_eq!(step(connection, 0, sum, &cells[..1]), Ok(1));
    assert_eq!(finish(connection, &key, 1, &[], true), of("40"));
    assert_eq!(finish(connection, &key, 1, &cells[1..2], true), of("35"));
    assert_eq!(finish(connection, &key, 1, &cells[2..], false), of("42"));
    assert_eq!(finish(connection, &key, 1, &[], false), unknown);
    // A refusal ends a state too.
    assert_eq!(step(connection, 0, sum, &cells[..1]), Ok(2));
    assert!(finish(connection, &key, 2, &[&text], false).is_err());
    assert_eq!(finish(connection, &key, 2, &[], true), unknown);
}

#[test]
fn the_extreme_is_the_cell_that_came_in_and_needs_the_right_to_compare_alone() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[]);
    let (low, high) = (key.int4(1), key.int4(2));
    let state = step(&mut connection, 0, AggregateKind::Max, &[&low, &high, &low]).unwrap();
    let mut out = Vec::new();
    assert_eq!(connection.aggregate_finish(state, &mut out), Ok(true));
    assert_eq!(out, high);
    // Of values that are equal and look different PostgreSQL keeps the later.
    let decimal = |text: &str| Value::parse(pgseal_value::Type::Decimal, text).unwrap();
    let (one, same) = (key.seal(&decimal("1.0")), key.seal(&decimal("1.00")));
    let state = step(&mut connection, 0, AggregateKind::Min, &[&one, &same]).unwrap();
    assert_eq!(result(&mut connection, &key, state), "1.00");
    let text = key.text("x");
    let mixed = step(&mut connection, 0, AggregateKind::Min, &[&low, &text]);
    assert_eq!(mixed, Err(Refusal::WrongType));
    // Also where the values could be compared.
    let floats = [Value::Float4(1.0), Value::Float8(2.0)].map(|value| key.seal(&value));
    let [one, other] =
        floats.map(|cell| step(&mut connection, 0, AggregateKind::Min, &[&cell]).unwrap());
    assert_eq!(
        connection.aggregate_combine(one, other),
        Err(Refusal::WrongType)
    );
}

/// PostgreSQL sees a state's handle alone, and no memory of its own grows with what it keeps.
#[test]
fn the_leading_cells_are_bounded_by_what_they_take() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[]);
    let (long, short) = (key.text(&"x".repeat(4_000_000)), key.text("a"));
    let mut max = |state, cell: &[u8]| step(&mut connection, state, AggregateKind::Max, &[cell]);
    let all = [(); 8].map(|()| max(0, &long).unwrap());
    let small = max(0, &short).unwrap();
    assert_eq!(max(0, &long), Err(Refusal::TooMany));
    assert_eq!(max(small, &long), Err(Refusal::TooMany));
    assert_eq!(max(small, &short), Err(Refusal::UnknownState));
    connection.aggregate_drop(all[0]).unwrap();
    connection.aggregate_combine(all[1], all[2]).unwrap();
    for _ in 0..2 {
        step(&mut connection, 0, AggregateKind::Max, &[&long]).unwrap();
    }
    let full = step(&mut connection, 0, AggregateKind::Max, &[&long]);
    assert_eq!(full, Err(Refusal::TooMany));
}

/// Nor with a sum, which has a place for every four digits between its highest and its lowest.
#[test]
fn sums_are_bounded_by_what_they_take() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[Operation::Aggregate]);
    let decimal = |text| Value::parse(pgseal_value::Type::Decimal, text).unwrap();
    let (high, low) = (
        key.seal(&decimal("1e131071")),
        key.seal(&decimal("1e-16383")),
    );
    let mut sum = |state, cell: &[u8]| step(&mut connection, state, AggregateKind::Sum, &[cell]);
    let mut wide = Vec::new();
    let refused = loop {
        let state = sum(0, &high).unwrap();
        match sum(state, &low) {
            Ok(state) => wide.push(state),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refused, Refusal::TooMany);
    assert!((200..240).contains(&wide.len()), "{}", wide.len());
    connection.aggregate_drop(wide[0]).unwrap();
    let state = step(&mut connection, 0, AggregateKind::Sum, &[&high, &low]);
    assert!(state.is_ok());
}

#[test]
fn states_are_bounded_and_end_with_the_session() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[Operation::Aggregate]);
    let cell = key.int4(1);
    for _ in 0..1000 {
        step(&mut connection, 0, AggregateKind::Sum, &[&cell]).unwrap();
    }
    let more = step(&mut connection, 0, AggregateKind::Sum, &[&cell]);
    assert_eq!(more, Err(Refusal::TooMany));
    connection.aggregate_drop(7).unwrap();
    assert_eq!(
        step(&mut connection, 0, AggregateKind::Sum, &[&cell]),
        Ok(1001)
    );
    assert_eq!(connection.aggregate_drop(1002), Err(Refusal::UnknownState));
    assert_eq!(connection.aggregate_drop(0), Err(Refusal::UnknownState));
}

/// A handle that somebody still has names no other's state: not when its state was dropped, was
/// taken into another one or was refused, and not when a session began after its own.
#[test]
fn no_handle_is_given_twice() {
    let engine = engine(false);
    let (mut connection, alice, mut key) = alice_with(&engine, &[Operation::Aggregate]);
    let connection = &mut connection;
    let (cell, text) = (key.int4(1), key.text("x"));
    let sum = AggregateKind::Sum;
    let mut states = [0; 4];
    for state in &mut states {
        *state = step(connection, 0, sum, &[&cell]).unwrap();
    }
    let [dropped, taken, refused, kept] = states;
    connection.aggregate_drop(dropped).unwrap();
    connection.aggregate_combine(kept, taken).unwrap();
    assert!(step(connection, refused, sum, &[&text]).is_err());
    for _ in 0..5 {
        let other = step(connection, 0, sum, &[&cell]).unwrap();
        assert!(!states.contains(&other));
    }
    let grant = alice.grant(Subject::Owner, &[Operation::Aggregate]);
    open(connection, &alice, &alice, &[grant], &[]).unwrap();
    load(connection, &key);
    for _ in 0..10 {
        let other = step(connection, 0, sum, &[&cell]).unwrap();
        assert!(other > kept);
    }
    let gone = Err(Refusal::UnknownState);
    for state in states {
        assert_eq!(connection.aggregate_finish(state, &mut Vec::new()), gone);
        assert_eq!(connection.aggregate_drop(state), Err(Refusal::UnknownState));
    }
}

#[test]
fn an_exported_state_goes_to_the_session_s_workers_and_to_nobody_else() {
    let engine = engine(false);
    let (mut leader, _, mut key) = alice_with(&engine, &[Operation::Aggregate]);
    let (a, b) = (key.int4(20), key.int4(22));
    let ticket = tickets(&mut leader).ticket();
    let mut worker = connect(&engine, AttachAs::ParallelWorker { ticket });
    for (kind, expected) in [(AggregateKind::Sum, "42"), (AggregateKind::Min, "20")] {
        let part = step(&mut worker, 0, kind, &[&b]).unwrap();
        let mut sealed = Vec::new();
        worker.aggregate_export(part, &mut sealed).unwrap();
        let state = step(&mut leader, 0, kind, &[&a]).unwrap();
        let part = leader.aggregate_import(&sealed).unwrap();
        leader.aggregate_combine(state, part).unwrap();
        assert_eq!(result(&mut leader, &key, state), expected);
        for at in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1;
            let refused = leader.aggregate_import(&flipped);
            assert_eq!(refused, Err(Refusal::UnknownState), "byte {at}");
        }
        let (mut foreign, ..) = alice_with(&engine, &[Operation::Aggregate]);
        let refused = foreign.aggregate_import(&sealed);
        assert_eq!(refused, Err(Refusal::UnknownState));
    }
}

/// Requests that are cut, changed and made up: each has an answer, and the session goes on.
#[test]
fn any_request_is_answered_and_harms_nothing() {
    let engine = engine(true);
    let all: Vec<Operation> = Operation::ALL.into_iter().collect();
    let (mut connection, _, mut key) = alice_with(&engine, &all);
    let (a, text) = (key.int4(20), key.text("text"));
    let cells: [&[u8]; 2] = [&a, &text];
    let requests = [
        Request::Session(SessionRequest::Status),
        Request::Comparison(ComparisonRequest::Hash { seed: 1, cell: &a }),
        Request::Comparison(ComparisonRequest::OrderPrefix(&a)),
        Request::Operation(OperationRequest::Length(&text)),
        Request::Conversion(ConversionRequest::Decrypt(&text)),
        Request::Aggregate(AggregateRequest::Import(&a)),
        Request::Session(SessionRequest::LoadKeys(items(&cells))),
        Request::Comparison(ComparisonRequest::Descend {
            collation: Collation::C,
            probe: &a,
            index: [1; 16],
            block: 1,
            page: Some(leaf(&cells)),
        }),
        Request::Comparison(ComparisonRequest::Descend {
            collation: Collation::C,
            probe: &a,
            index: [1; 16],
            block: 1,
            page: None,
        }),
    ];
    let mut state: u64 = 1;
    let mut random = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % bound.max(1)
    };
    let mut response = Vec::new();
    for round in 0..30_000 {
        let mut bytes = Vec::new();
        requests[round % requests.len()].encode(&mut bytes);
        for _ in 0..random(4) {
            let at = random(bytes.len());
            bytes[at] ^= u8::try_from(random(256)).unwrap();
        }
        bytes.truncate(random(2 * bytes.len()).max(1));
        connection.call(&bytes, &mut response);
        assert!(Response::parse(&response).is_ok());
    }
    assert_eq!(connection.compare(&a, &a, C), Ok(std::cmp::Ordering::Equal));
}
