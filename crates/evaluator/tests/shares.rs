//! What one database role leaves to the others: docs/operations/evaluator.md.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use pgseal_cell::grant::{Operation, Subject};
use pgseal_evaluator::engine::{Connection, Engine};
use pgseal_evaluator_proto::{AttachAs, Refusal, Request};

/// Bytes of the log that a role fills at once, and in a second; about what a record takes.
const BURST: usize = 16 << 20;
const RATE: u64 = 16 << 10;
const RECORD: usize = 320;

fn of_role(engine: &Engine, role: u32, now: u64) -> Result<Connection, Refusal> {
    let mut connection = engine.connect();
    connection.set_time(now);
    connection.enter(role)?;
    connection.attach(AttachAs::Client, DATABASE)?;
    Ok(connection)
}

/// Opens sessions with some grants each until that is refused; how many records they left.
fn fill(connection: &mut Connection, owner: &Party) -> usize {
    let mut records = 0;
    let grant = || owner.grant(Subject::Owner, &[Operation::Text]);
    let grants: Vec<_> = (0..50).map(|_| grant()).collect();
    loop {
        match open(connection, owner, owner, &grants, &[]) {
            Ok(_) => records += connection.take_events().len(),
            Err(code) => {
                assert_eq!(code, Refusal::RoleShare.code());
                return records;
            }
        }
    }
}

#[test]
fn a_role_that_opens_sessions_without_end_waits_and_others_do_not() {
    let engine = engine(false);
    let (alice, bob) = (Party::new(1), Party::new(2));
    let mut rogue = of_role(&engine, 1, NOW).unwrap();
    let records = fill(&mut rogue, &alice);
    assert!(records.abs_diff(BURST / RECORD) < 60, "{records}");
    assert_eq!(of_role(&engine, 1, NOW).err(), Some(Refusal::RoleShare));
    // What it does is counted, and told when there is room again.
    load(&mut rogue, &alice.key(11, false));
    let cell = alice.key(11, false).int4(1);
    rogue
        .compare(&cell, &cell, pgseal_evaluator::engine::CollationId::C)
        .unwrap();
    assert!(rogue.has_news() && !rogue.may_do() && !rogue.may_count());
    let mut other = of_role(&engine, 2, NOW).unwrap();
    open(&mut other, &bob, &bob, &[], &[]).unwrap();
    assert!(other.may_do() && other.may_count());
    // A minute brings as many records as it brings bytes.
    rogue.set_time(NOW + 60);
    let more = fill(&mut rogue, &alice);
    let expected = usize::try_from(60 * RATE).unwrap() / RECORD;
    assert!(more.abs_diff(expected) < 60, "{more}");
}

#[test]
fn who_is_turned_away_does_nothing_and_leaves_no_record() {
    let engine = engine(false);
    let _taken: Vec<_> = (0..500)
        .map(|_| of_role(&engine, 1, NOW).unwrap())
        .collect();
    let mut connection = engine.connect();
    connection.set_time(NOW);
    let attach = |role| Request::Attach {
        kind: AttachAs::Client,
        database: DATABASE,
        role,
    };
    assert_eq!(
        call(&mut connection, &attach(1)),
        Err(Refusal::RoleShare.code())
    );
    assert!(!connection.has_events());
    assert_eq!(
        relay(&mut connection, b"hello"),
        Err(Refusal::Unsupported.code())
    );
    assert!(call(&mut engine.connect(), &attach(2)).is_ok());
}

#[test]
fn a_connection_is_of_one_role_and_its_place_is_free_when_it_ends() {
    let engine = engine(false);
    let mut first = of_role(&engine, 1, NOW).unwrap();
    assert_eq!(first.enter(2), Err(Refusal::MalformedRequest));
    let others: Vec<_> = (0..1000)
        .map_while(|_| of_role(&engine, 1, NOW).ok())
        .collect();
    assert_eq!(others.len(), 499);
    drop(first);
    assert!(of_role(&engine, 1, NOW).is_ok());
}
