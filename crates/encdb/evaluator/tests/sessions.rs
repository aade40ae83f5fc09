//! Sessions: whose they are, how they begin and end, and what of them goes to parallel workers.
#![allow(clippy::unwrap_used)]

mod common;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use common::*;
use pgseal_cell::grant::{Operation, Subject};
use pgseal_evaluator::audit::Event;
use pgseal_evaluator::engine::{CollationId, Connection, Engine};
use pgseal_evaluator_proto::message::Command;
use pgseal_evaluator_proto::{AttachAs, Refusal, Request, Response, SessionRequest, Ticket};
use pgseal_value::AggregateKind;

const C: CollationId = CollationId::C;

#[test]
fn a_session_is_its_connections_alone_and_ends_with_it() {
    let engine = engine(false);
    let (connection, alice, mut key) = alice_with(&engine, &[]);
    let a = key.int4(1);
    let mut foreign = connect(&engine, AttachAs::Client);
    assert_eq!(foreign.compare(&a, &a, C), Err(Refusal::NoSession));
    assert_eq!(
        foreign.load_keys([key.row.as_slice()].into_iter()),
        Err(Refusal::NoSession)
    );
    let mut connection = connection;
    let mut tickets = tickets(&mut connection);
    let ticket = tickets.ticket();
    let mut worker = connect(&engine, AttachAs::ParallelWorker { ticket });
    assert_eq!(worker.compare(&a, &a, C), Ok(Ordering::Equal));
    assert_eq!(worker.tickets(), Err(Refusal::NoSession));
    assert_eq!(
        relay(&mut worker, &[1, 1]),
        Err(Refusal::Unsupported.code())
    );
    // Keys that the worker loads are the session's.
    let mut other = alice.key(12, false);
    assert_eq!(load(&mut worker, &other), 1);
    let b = other.int4(2);
    assert_eq!(connection.compare(&a, &b, C), Ok(Ordering::Less));

    let mut stray = engine.connect();
    let attach = stray.attach(AttachAs::ParallelWorker { ticket: [0; 16] }, DATABASE);
    assert_eq!(attach, Err(Refusal::UnknownTicket));
    drop(connection);
    assert_eq!(worker.compare(&a, &a, C), Err(Refusal::NoSession));
    tickets.advance();
    let late = attach_by(&engine, tickets.ticket());
    assert_eq!(late.err(), Some(Refusal::UnknownTicket));
}

fn attach_by(engine: &Engine, ticket: Ticket) -> Result<Connection, Refusal> {
    let mut connection = engine.connect();
    connection.attach(AttachAs::ParallelWorker { ticket }, DATABASE)?;
    Ok(connection)
}

#[test]
fn a_ticket_is_good_for_one_worker_and_each_of_them_is_counted_in_the_log() {
    let engine = engine(false);
    let (mut leader, ..) = alice_with(&engine, &[]);
    let mut tickets = tickets(&mut leader);
    for _ in 0..3 {
        let ticket = tickets.ticket();
        let mut worker = connect(&engine, AttachAs::ParallelWorker { ticket });
        let counted = Event::Worker {
            session: 1,
            count: 1,
        };
        assert_eq!(worker.take_events(), [counted]);
        let mut second = engine.connect();
        let attach = second.attach(AttachAs::ParallelWorker { ticket }, DATABASE);
        assert_eq!(attach, Err(Refusal::UnknownTicket));
        assert!(second.take_events().is_empty());
        tickets.advance();
    }
    // What was not taken is not good once there are new ones.
    let (before, after) = (tickets.ticket(), self::tickets(&mut leader).ticket());
    assert!(attach_by(&engine, before).is_err());
    assert!(attach_by(&engine, after).is_ok());
}

/// Returns the counts that the engine has of itself, by their names.
fn counters(connection: &mut Connection) -> BTreeMap<String, u64> {
    let (mut request, mut response) = (Vec::new(), Vec::new());
    Request::Session(SessionRequest::Status).encode(&mut request);
    connection.call(&request, &mut response);
    let Ok(Response::Status(status)) = Response::parse(&response) else {
        panic!("a status was asked for");
    };
    let counter = |counter: &[u8]| {
        let (name, count) = counter.split_last_chunk().unwrap();
        let name = String::from_utf8(name.to_vec()).unwrap();
        (name, u64::from_le_bytes(*count))
    };
    status.counters.iter().map(counter).collect()
}

#[test]
fn sessions_are_counted_once_each_however_often_events_are_taken() {
    let engine = engine(false);
    let mut other = engine.connect();
    for number in 1..=3 {
        let (mut connection, ..) = alice_with(&engine, &[]);
        assert!(!connection.take_events().is_empty());
        assert!(connection.take_events().is_empty());
        assert_eq!(counters(&mut other).get("opened"), Some(&number));
        connection.close();
        drop(connection);
        assert_eq!(counters(&mut other).get("closed"), Some(&number));
    }
}

#[test]
fn messages_of_other_sessions_and_repeated_ones_are_refused() {
    let engine = engine(false);
    let alice = Party::new(1);
    let mut first = connect(&engine, AttachAs::Client);
    let mut second = connect(&engine, AttachAs::Client);
    let mut session = open(&mut first, &alice, &alice, &[], &[]).unwrap();
    open(&mut second, &alice, &alice, &[], &[]).unwrap();
    let grant = alice.grant(Subject::Owner, &[Operation::Arithmetic]);
    let message = session.command(&Command::AddGrant(&grant.encode()));
    assert_eq!(
        relay(&mut second, &message),
        Err(Refusal::MessageRefused.code())
    );
    for at in 0..message.len() {
        let mut flipped = message.clone();
        flipped[at] ^= 1;
        assert!(relay(&mut first, &flipped).is_err(), "byte {at}");
    }
    assert!(relay(&mut first, &message).is_ok());
    assert_eq!(
        relay(&mut first, &message),
        Err(Refusal::MessageRefused.code())
    );
    let close = session.command(&Command::Close);
    assert!(relay(&mut first, &close).is_ok());
    assert!(!first.has_session());
    assert_eq!(
        relay(&mut first, &close),
        Err(Refusal::MessageRefused.code())
    );
}

#[test]
fn a_row_of_another_owner_or_an_altered_one_loads_nothing() {
    let engine = engine(false);
    let (mut connection, _, _) = alice_with(&engine, &[]);
    let foreign = Party::new(2).key(22, false);
    assert_eq!(load(&mut connection, &foreign), 0);
    let whole = Party::new(1).key(13, false);
    for at in 0..whole.row.len() {
        let mut row = whole.row.clone();
        row[at] ^= 1;
        assert_eq!(
            connection.load_keys([row.as_slice()].into_iter()),
            Ok(0),
            "byte {at}"
        );
    }
    assert_eq!(load(&mut connection, &whole), 1);
    assert_eq!(load(&mut connection, &whole), 0, "it is here already");
}

#[test]
fn an_inline_session_goes_to_its_workers_by_export() {
    let leader_engine = engine(true);
    let (mut leader, _, mut key) = alice_with(&leader_engine, &[Operation::Aggregate]);
    let (a, b) = (key.int4(20), key.int4(22));
    let mut secret = Vec::new();
    leader.export_session(&mut secret).unwrap();

    let worker_engine = engine(true);
    let mut worker = worker_engine.connect();
    worker.set_time(NOW);
    worker.import_session(&secret, DATABASE).unwrap();
    assert_eq!(worker.compare(&a, &b, C), Ok(Ordering::Less));
    let state = worker
        .aggregate_step(0, AggregateKind::Sum, C, [a.as_slice(), &b])
        .unwrap();
    let mut sealed = Vec::new();
    worker.aggregate_export(state, &mut sealed).unwrap();
    let state = leader.aggregate_import(&sealed).unwrap();
    let mut out = Vec::new();
    assert_eq!(leader.aggregate_finish(state, &mut out), Ok(true));
    assert_eq!(key.open_text(&out), "42");

    for len in 0..secret.len() {
        let mut torn = worker_engine.connect();
        assert!(torn.import_session(&secret[..len], DATABASE).is_err());
    }
    let isolated = engine(false);
    let (mut connection, ..) = alice_with(&isolated, &[]);
    assert_eq!(
        connection.export_session(&mut secret),
        Err(Refusal::Unsupported)
    );
    assert_eq!(
        connection.import_session(&secret, DATABASE),
        Err(Refusal::MalformedRequest)
    );
}

#[test]
fn requests_before_attaching_and_malformed_ones_are_answered() {
    let engine = engine(false);
    let mut connection = engine.connect();
    let refused = call(&mut connection, &Request::Session(SessionRequest::Tickets));
    assert_eq!(refused, Err(Refusal::NoSession.code()));
    assert!(call(&mut connection, &Request::Session(SessionRequest::Status)).is_ok());
    let mut response = Vec::new();
    for bytes in [&b""[..], b"\0", b"\xff\xff", &[7; 100]] {
        connection.call(bytes, &mut response);
        assert!(matches!(
            Response::parse(&response),
            Ok(Response::Refused(_))
        ));
    }
    let attach = Request::Session(SessionRequest::Attach {
        kind: AttachAs::Client,
        database: DATABASE,
        role: 10,
    });
    assert!(call(&mut connection, &attach).is_ok());
    assert_eq!(
        call(&mut connection, &attach),
        Err(Refusal::MalformedRequest.code())
    );
}
