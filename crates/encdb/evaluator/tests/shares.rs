//! The room that one database role leaves to the others: docs/confidential/evaluator.md.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use pgseal_cell::grant::{KeyScope, Operation, Subject};
use pgseal_cell::DataKeyId;
use pgseal_evaluator::audit::Event;
use pgseal_evaluator::engine::{CollationId, Connection, Engine};
use pgseal_evaluator_proto::message::Command;
use pgseal_evaluator_proto::{
    AggregateRequest, AttachAs, Refusal, Request, SessionRequest, Ticket,
};
use pgseal_value::AggregateKind;

/// Bytes of the log that a role fills at once, and in a second; about what a record takes.
const BURST: usize = 16 << 20;
const RATE: u64 = 16 << 10;
const RECORD: usize = 320;
/// The bytes that it cannot fill: for revocations, for what ends, and for a session a second.
const LAST: usize = BURST / 8;

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
    assert!(records.abs_diff((BURST - LAST) / RECORD) < 120, "{records}");
    // What it does is counted, and told when there is room again.
    load(&mut rogue, &alice.key(11, false));
    let cell = alice.key(11, false).int4(1);
    rogue.compare(&cell, &cell, CollationId::C).unwrap();
    assert!(rogue.has_news() && !rogue.may_count());
    assert_eq!(rogue.take_news(), [], "it waits");
    assert!(rogue.has_events() && !rogue.has_news());
    let mut other = of_role(&engine, 2, NOW).unwrap();
    open(&mut other, &bob, &bob, &[], &[]).unwrap();
    assert!(other.may_count());
    // A minute brings as many records as it brings bytes.
    rogue.set_time(NOW + 60);
    let more = fill(&mut rogue, &alice);
    let expected = usize::try_from(60 * RATE).unwrap() / RECORD;
    assert!(more.abs_diff(expected) < 120, "{more}");
}

#[test]
fn an_owner_takes_grants_back_whatever_its_role_has_written() {
    let engine = engine(false);
    let (alice, bob) = (Party::new(1), Party::new(2));
    let mut rogue = of_role(&engine, 1, NOW).unwrap();
    fill(&mut rogue, &bob);
    let mut connection = of_role(&engine, 1, NOW + 1).unwrap();
    let granted = alice.grant(Subject::Client(bob.public()), &[Operation::Text]);
    let grants = std::slice::from_ref(&granted);
    let mut session = open(&mut connection, &alice, &alice, grants, &[]).unwrap();
    let again = granted.encode();
    let refused = command(&mut connection, &mut session, &Command::AddGrant(&again));
    assert_eq!(refused, Err(Refusal::RoleShare.code()));
    let list = alice.revoke(1, &[&granted]).encode();
    command(&mut connection, &mut session, &Command::Revoke(&list)).unwrap();
    let told = connection.take_news();
    assert!(
        matches!(told.last(), Some(Event::Revoked { .. })),
        "{told:?}"
    );
    command(&mut connection, &mut session, &Command::Close).unwrap();
}

/// Anybody stores them in the database, and each client shows those that are for it.
#[test]
fn grants_of_owners_who_are_not_there_fill_no_log() {
    let engine = engine(false);
    let (alice, bob) = (Party::new(1), Party::new(2));
    let for_bob = |owner: &Party| owner.grant(Subject::Client(bob.public()), &[Operation::Text]);
    // One of them has left keys for the victim.
    let mut rogue = of_role(&engine, 1, NOW).unwrap();
    let _session = open(&mut rogue, &alice, &alice, &[for_bob(&alice)], &[]).unwrap();
    let of_many = (10..250).map(|seed| for_bob(&Party::new(seed)));
    let grants: Vec<_> = (0..200).map(|_| for_bob(&alice)).chain(of_many).collect();
    let mut victim = of_role(&engine, 2, NOW).unwrap();
    for _ in 0..200 {
        open(&mut victim, &bob, &bob, &grants, &[]).unwrap();
        let events = victim.take_events();
        assert!(events.len() <= 3, "{events:?}");
    }
}

#[test]
fn news_leave_what_is_known_to_the_count_of_the_second() {
    let engine = engine(false);
    let alice = Party::new(1);
    let mut connection = of_role(&engine, 1, NOW).unwrap();
    open(&mut connection, &alice, &alice, &[], &[]).unwrap();
    let (mut key, mut other) = (alice.key(11, false), alice.key_of([12; 32], false));
    load(&mut connection, &key);
    let (a, b) = (key.int4(1), other.int4(1));
    connection.compare(&a, &a, CollationId::C).unwrap();
    assert_eq!(connection.take_news().len(), 2, "the session and a key");
    load(&mut connection, &other);
    for _ in 0..10 {
        connection.compare(&a, &a, CollationId::C).unwrap();
        connection.compare(&b, &b, CollationId::C).unwrap();
        let told = connection.take_news().len();
        assert_eq!(told, usize::from(told > 0));
    }
    assert_eq!(connection.take_events().len(), 2);
}

/// Attaches a parallel worker of this role, and returns what came of it and its connection.
fn worker(engine: &Engine, role: u32, ticket: Ticket) -> (Result<(), u16>, Connection) {
    let mut worker = engine.connect();
    worker.set_time(NOW);
    let attach = Request::Session(SessionRequest::Attach {
        kind: AttachAs::ParallelWorker { ticket },
        database: DATABASE,
        role,
    });
    let attached = call(&mut worker, &attach).map(drop);
    (attached, worker)
}

/// Parallel queries without end: their workers are counted, and so is what they do.
#[test]
fn a_role_that_runs_parallel_queries_without_end_fills_no_log() {
    const WORKERS: usize = BURST / RECORD + 100;
    let engine = engine(false);
    let alice = Party::new(1);
    let (mut leader, mut key) = session(&engine, 1, &alice);
    let mut tickets = tickets(&mut leader);
    let (a, b) = (key.int4(1), key.int4(2));
    let mut events = leader.take_events();
    for _ in 0..WORKERS {
        let (attached, mut worker) = worker(&engine, 1, tickets.ticket());
        tickets.advance();
        assert_eq!(attached, Ok(()));
        events.extend(worker.take_news());
        worker.compare(&a, &b, CollationId::C).unwrap();
        worker.hash(0, &a).unwrap();
        events.extend(worker.take_news());
        events.extend(worker.close());
    }
    assert!(leader.may_count() && events.len() < 6, "{events:?}");
    events.extend(leader.close());
    let (mut workers, mut counted) = (0, [0; 3]);
    for event in &events {
        match event {
            Event::Worker { count, .. } => workers += count,
            Event::Cells {
                compared,
                hashed,
                ranked,
                ..
            } => {
                let counts = [compared, hashed, ranked];
                counted
                    .iter_mut()
                    .zip(counts)
                    .for_each(|(sum, count)| *sum += count);
            }
            _ => {}
        }
    }
    let all = WORKERS as u64;
    assert_eq!((workers, counted), (all, [2 * all, all, 0]));
    assert!(events.len() < 8, "{events:?}");
}

/// An evaluator that was started again knows no leader's tickets. Each refusal has a record, until
/// the role has filled its share; then none has.
#[test]
fn a_role_whose_workers_have_no_tickets_fills_no_more_than_its_share() {
    let engine = engine(false);
    let alice = Party::new(1);
    let (mut leader, _) = session(&engine, 1, &alice);
    let mut tickets = tickets(&mut leader);
    let mut records = leader.take_events().len();
    let refused = |role| {
        let (attached, mut worker) = worker(&engine, role, [7; 16]);
        (attached.unwrap_err(), worker.close().len())
    };
    while let (code, 1) = refused(1) {
        assert_eq!(code, Refusal::UnknownTicket.code());
        records += 1;
    }
    assert!(records.abs_diff((BURST - LAST) / RECORD) < 5, "{records}");
    assert_eq!(refused(1), (Refusal::RoleShare.code(), 0));
    assert_eq!(refused(2), (Refusal::UnknownTicket.code(), 1));
    // A worker of a session is let in, and counted when there is room again.
    let (attached, mut let_in) = worker(&engine, 1, tickets.ticket());
    assert_eq!((attached, let_in.take_news()), (Ok(()), Vec::new()));
    drop(let_in);
    assert_eq!(engine.take_due(NOW + 1), []);
    let counted = Event::Worker {
        session: 1,
        count: 1,
    };
    assert_eq!(engine.take_due(NOW + 1000), [counted]);
    // A ticket that was shown is good no more, also if there was no place for the worker.
    let places: Vec<_> = (0..1000)
        .map_while(|_| of_role(&engine, 1, NOW).ok())
        .collect();
    tickets.advance();
    let (full, _) = worker(&engine, 1, tickets.ticket());
    assert_eq!(full, Err(Refusal::RoleShare.code()));
    drop(places);
    let (again, _) = worker(&engine, 2, tickets.ticket());
    assert_eq!(again, Err(Refusal::UnknownTicket.code()));
}

#[test]
fn who_is_turned_away_does_nothing_and_leaves_no_record() {
    let engine = engine(false);
    let _taken: Vec<_> = (0..500)
        .map(|_| of_role(&engine, 1, NOW).unwrap())
        .collect();
    let mut connection = engine.connect();
    connection.set_time(NOW);
    let attach = |role| {
        Request::Session(SessionRequest::Attach {
            kind: AttachAs::Client,
            database: DATABASE,
            role,
        })
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

/// The memory that all connections share beside what each has a bound for, as `common::engine`
/// says.
const MEMORY: usize = 64 << 20;

/// A session of this owner for this role, and its key.
fn session(engine: &Engine, role: u32, owner: &Party) -> (Connection, Sealer) {
    let mut connection = of_role(engine, role, NOW).unwrap();
    open(&mut connection, owner, owner, &[], &[]).unwrap();
    let key = owner.key(11, false);
    assert_eq!(load(&mut connection, &key), 1);
    (connection, key)
}

/// The states of a query, or of a cursor: a `GROUP BY` with a long text for each group.
fn fill_states(connection: &mut Connection, cell: &[u8]) -> usize {
    let begin = |_: &usize| match step(connection, 0, AggregateKind::Max, &[cell]) {
        Ok(_) => true,
        Err(refusal) => {
            assert_eq!(refusal, Refusal::RoleShare);
            false
        }
    };
    (0..1000).take_while(begin).count() * 2 * cell.len()
}

#[test]
fn a_role_whose_aggregates_fill_memory_leaves_some_to_others() {
    let engine = engine(false);
    let (alice, bob) = (Party::new(1), Party::new(2));
    let mut sessions = [(); 3].map(|()| session(&engine, 1, &alice).0);
    let cell = alice.key(11, false).text(&"x".repeat(100_000));
    let filled: usize = sessions.iter_mut().map(|one| fill_states(one, &cell)).sum();
    assert!(filled.abs_diff(MEMORY / 2) < MEMORY / 20, "{filled}");
    // Another role's sessions, and their states, are what they would be without.
    let (mut other, mut key) = session(&engine, 2, &bob);
    let cells: Vec<_> = (0..100).map(|number| key.int4(number)).collect();
    for cell in &cells {
        assert!(step(&mut other, 0, AggregateKind::Max, &[cell]).is_ok());
    }
    assert!(fill_states(&mut other, &key.text(&"x".repeat(100_000))) > MEMORY / 5);
    // What has ended leaves its room, by a transaction's end and by a session's.
    let dropped = Request::Aggregate(AggregateRequest::Drop(1));
    assert!(call(&mut sessions[0], &dropped).is_ok());
    assert!(step(&mut sessions[0], 0, AggregateKind::Max, &[&cell]).is_ok());
    let [first, mut second, _third] = sessions;
    drop(first);
    assert!(fill_states(&mut second, &cell) > MEMORY / 5);
}

#[test]
fn a_role_whose_sessions_hold_many_keys_leaves_memory_to_others() {
    let engine = engine(false);
    let (alice, bob) = (Party::new(1), Party::new(2));
    let row = |number: u32| {
        let mut bytes = [7; 32];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        alice.key_of(bytes, false).row
    };
    let rows: Vec<_> = (0..2000).map(row).collect();
    let mut sessions = Vec::new();
    let refused = loop {
        let mut one = of_role(&engine, 1, NOW).unwrap();
        let opened = open(&mut one, &alice, &alice, &[], &[]);
        let loaded = one.load_keys(rows.iter().map(Vec::as_slice));
        sessions.push(one);
        assert!(sessions.len() < 100);
        if opened.is_err() || loaded != Ok(2000) {
            break loaded;
        }
    };
    assert_eq!(refused, Err(Refusal::RoleShare));
    let (mut other, mut key) = session(&engine, 2, &bob);
    let (a, b) = (key.int4(1), key.int4(2));
    assert!(other.compare(&a, &b, CollationId::C).is_ok());
    drop(sessions);
    session(&engine, 1, &alice);
}

#[test]
fn a_role_with_many_owners_leaves_pages_to_others() {
    let (engine, alice) = (engine(false), Party::new(1));
    let (mut one, mut key) = session(&engine, 1, &alice);
    let cells = [key.int4(1), key.int4(2)];
    let cells = [cells[0].as_slice(), &cells[1]];
    let kept = |connection: &mut Connection, cell: &[u8], block| {
        let found = connection.descend(cell, start(block, None), CollationId::C);
        found.unwrap().count > 0
    };
    for block in 1..400 {
        one.descend(cells[0], start(block, Some(leaf(&cells))), CollationId::C)
            .unwrap();
    }
    // 1000 pages are kept: each owner of the other role has three of them.
    let mut rogues = Vec::new();
    for number in 0..400 {
        let mut seed = [9; 32];
        seed[..4].copy_from_slice(&u32::to_le_bytes(number));
        let owner = Party::of(seed);
        let (mut rogue, mut key) = session(&engine, 2, &owner);
        let cell = key.int4(1);
        for block in 1..4 {
            rogue
                .descend(&cell, start(block, Some(leaf(&[&cell]))), CollationId::C)
                .unwrap();
        }
        rogues.push(rogue);
    }
    assert!((1..400).all(|block| kept(&mut one, cells[0], block)));
}

/// Keys that owners left for others outlive sessions. A role leaves some in the name of ever more
/// owners, none of whom has more than one.
#[test]
fn a_role_with_many_owners_leaves_room_for_what_others_leave() {
    let engine = engine(false);
    // As long as a grant may be: about 2000 of these fill all the room that there is.
    let long = |owner: &Party| {
        let keys = (0..3900).map(DataKeyId).collect();
        owner.grant_with(Subject::Background, &[Operation::CompareStored], |terms| {
            terms.keys = KeyScope::Keys(keys);
        })
    };
    let mut rogue = of_role(&engine, 1, NOW).unwrap();
    for number in 0..2100 {
        let mut seed = [9; 32];
        seed[..4].copy_from_slice(&u32::to_le_bytes(number));
        let owner = Party::of(seed);
        open(&mut rogue, &owner, &owner, &[long(&owner)], &[]).unwrap();
    }
    // Another's second one is more than any of those owners has.
    let (alice, mut other) = (Party::new(1), of_role(&engine, 2, NOW).unwrap());
    let mut session = open(&mut other, &alice, &alice, &[], &[]).unwrap();
    for _ in 0..20 {
        let grant = long(&alice).encode();
        let shown = command(&mut other, &mut session, &Command::AddGrant(&grant));
        assert_eq!(shown, Ok(None));
    }
    // The role that has the most gets no more.
    let bob = Party::new(2);
    let mut session = open(&mut rogue, &bob, &bob, &[], &[]).unwrap();
    let grant = long(&bob).encode();
    let shown = command(&mut rogue, &mut session, &Command::AddGrant(&grant));
    assert_eq!(shown, Err(Refusal::TooMany.code()));
}
