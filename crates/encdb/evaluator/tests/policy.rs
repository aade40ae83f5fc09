//! The rights of a session: the rules of the grants, asked of the engine as a server would, with
//! the attacks that they are there for.
#![allow(clippy::unwrap_used)]

mod common;

use std::cmp::Ordering;

use common::*;
use pgseal_cell::grant::{KeyScope, Operation, Subject};
use pgseal_cell::Mode;
use pgseal_evaluator::audit::Event;
use pgseal_evaluator::engine::{CollationId, Connection};
use pgseal_evaluator_proto::message::Command;
use pgseal_evaluator_proto::{AttachAs, Items, Program, Refusal, Step};
use pgseal_value::{AggregateKind, Arithmetic, Field, Interval, Type};

const C: CollationId = CollationId::C;

fn year_of(connection: &mut Connection, cell: &[u8]) -> Result<bool, Refusal> {
    let program = [b'$', Step::of_field(Field::Year).unwrap()];
    let program = Program::parse(&program, 1);
    let program = program.map_err(|_| Refusal::MalformedRequest)?;
    connection.compute(program, Items::Listed(&[cell]), &mut Vec::new())
}

#[test]
fn without_a_grant_stored_cells_are_compared_and_hashed_and_nothing_else_is_done() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[]);
    let (a, b, text) = (key.int4(5), key.int4(7), key.text("x"));
    assert_eq!(connection.compare(&a, &b, C), Ok(Ordering::Less));
    let same = key.int4(5);
    assert_eq!(connection.compare(&a, &same, C), Ok(Ordering::Equal));
    assert_eq!(connection.hash(1, &a), connection.hash(1, &same));
    assert_ne!(connection.hash(1, &a), connection.hash(2, &a));
    assert_ne!(connection.hash(1, &a), connection.hash(1, &b));

    let mut out = Vec::new();
    let arithmetic = Err(no_grant(Operation::Arithmetic));
    assert_eq!(
        connection.arithmetic(Arithmetic::Div, &a, &a, &mut out),
        arithmetic
    );
    let day = Interval {
        months: 0,
        days: 1,
        microseconds: 0,
    };
    assert_eq!(
        connection.add_interval(day, &a, &mut out).map(|_| ()),
        arithmetic
    );
    let text_op = Err(no_grant(Operation::Text));
    assert_eq!(connection.concat(&text, &text, &mut out), text_op);
    for program in ["$(s1)", "$(l)", "$(u)"] {
        let program = Program::parse(program.as_bytes(), 1).unwrap();
        let refused = connection.compute(program, items(&[&text]), &mut out);
        assert_eq!(refused, Err(no_grant(Operation::Text)));
    }
    assert_eq!(
        connection.length(&text, &mut out),
        Err(no_grant(Operation::Text))
    );
    assert_eq!(
        connection.like(&text, &text, None),
        Err(no_grant(Operation::Text))
    );
    assert_eq!(
        connection.like_escape(&text, "#", &mut out),
        Err(no_grant(Operation::Text))
    );
    assert_eq!(
        connection.cast(Type::Int8, &a, &mut out),
        Err(no_grant(Operation::Cast))
    );
    assert_eq!(
        year_of(&mut connection, &a),
        Err(no_grant(Operation::Extract))
    );
    assert_eq!(
        connection.decrypt_to(&a, &mut out),
        Err(no_grant(Operation::ConvertOut))
    );
    assert_eq!(
        connection.encrypt(key.cipher.id(), INT4, &[0; 4], &mut out),
        Err(no_grant(Operation::ConvertIn))
    );
    assert_eq!(
        connection.generate_key("n", 1, false),
        Err(no_grant(Operation::KeyGenerate))
    );
    let step = connection.aggregate_step(0, AggregateKind::Sum, C, [a.as_slice()]);
    assert_eq!(step, Err(no_grant(Operation::Aggregate)));
    assert_eq!(connection.order_prefix(&a), Err(Refusal::Unsupported));
    assert_eq!(out, []);
}

/// The attack of HEDB: 1 = x / x, then 2 = 1 + 1 and so on, each compared with the secret.
#[test]
fn the_arithmetic_oracle_gets_no_first_constant() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[]);
    let secret = key.int4(42);
    let mut one = Vec::new();
    let refused = connection.arithmetic(Arithmetic::Div, &secret, &secret, &mut one);
    assert_eq!(
        (refused, one.len()),
        (Err(no_grant(Operation::Arithmetic)), 0)
    );
}

#[test]
fn the_arithmetic_oracle_gets_no_comparison_with_what_it_derived() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[Operation::Arithmetic]);
    let secret = key.int4(42);
    let (mut one, mut two) = (Vec::new(), Vec::new());
    connection
        .arithmetic(Arithmetic::Div, &secret, &secret, &mut one)
        .unwrap();
    connection
        .arithmetic(Arithmetic::Add, &one, &one, &mut two)
        .unwrap();
    assert_eq!((key.open_int4(&one), key.open_int4(&two)), (1, 2));
    let derived = no_grant(Operation::CompareDerived);
    assert_eq!(connection.compare(&secret, &one, C), Err(derived));
    assert_eq!(connection.compare(&two, &secret, C), Err(derived));
    assert_eq!(connection.compare(&one, &two, C), Err(derived));
    assert_eq!(connection.hash(0, &one), Err(derived));
    assert_eq!(connection.search_page(&secret, &[&one], C), Err(derived));
    for (probe, cell) in [(&secret, &one), (&one, &one), (&one, &secret)] {
        let found = connection.descend(probe, start(0, Some(leaf(&[cell]))), C);
        assert_eq!(found.err(), Some(derived));
        // The page is kept, and shows no more.
        let found = connection.descend(probe, start(0, None), C);
        assert_eq!(found.map(|found| found.count), Ok(0));
    }
    let extremes = connection.aggregate_step(0, AggregateKind::Max, C, [secret.as_slice(), &two]);
    assert_eq!(extremes, Err(derived));
    // What was stored is still compared.
    assert_eq!(connection.compare(&secret, &secret, C), Ok(Ordering::Equal));
}

/// A cell cannot lose that it was derived: its mode is authenticated.
#[test]
fn a_derived_cell_does_not_pass_for_a_stored_one() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[Operation::Arithmetic]);
    let secret = key.int4(42);
    let mut one = Vec::new();
    connection
        .arithmetic(Arithmetic::Div, &secret, &secret, &mut one)
        .unwrap();
    for mode in [Mode::Randomised, Mode::Deterministic] {
        let mut forged = one.clone();
        forged[0] ^= forged[2] ^ (0x10 | mode as u8);
        forged[2] = 0x10 | mode as u8;
        assert_eq!(
            connection.compare(&secret, &forged, C),
            Err(Refusal::NotAuthentic)
        );
    }
}

#[test]
fn results_under_a_deterministic_key_are_derived_too() {
    let engine = engine(false);
    let alice = Party::new(1);
    let grant = alice.grant(
        Subject::Owner,
        &[Operation::Arithmetic, Operation::ConvertIn],
    );
    let mut connection = connect(&engine, AttachAs::Client);
    open(&mut connection, &alice, &alice, &[grant], &[]).unwrap();
    let key = alice.key(12, true);
    load(&mut connection, &key);
    let (mut a, mut b, mut sum) = (Vec::new(), Vec::new(), Vec::new());
    connection
        .encrypt(key.cipher.id(), INT4, &[0, 0, 0, 9], &mut a)
        .unwrap();
    connection
        .encrypt(key.cipher.id(), INT4, &[0, 0, 0, 9], &mut b)
        .unwrap();
    assert_eq!(a, b, "deterministic");
    connection
        .arithmetic(Arithmetic::Add, &a, &b, &mut sum)
        .unwrap();
    let derived = no_grant(Operation::CompareDerived);
    assert_eq!(connection.compare(&a, &sum, C), Err(derived));
}

#[test]
fn each_grant_allows_what_it_says() {
    let engine = engine(false);
    let all = [
        Operation::CompareDerived,
        Operation::Arithmetic,
        Operation::Text,
        Operation::Aggregate,
        Operation::Cast,
        Operation::ConvertIn,
        Operation::ConvertOut,
        Operation::KeyGenerate,
    ];
    let (mut connection, _, mut key) = alice_with(&engine, &all);
    let (a, b, text) = (key.int4(5), key.int4(7), key.text("pgseal"));
    let mut out = Vec::new();
    connection
        .arithmetic(Arithmetic::Mul, &a, &b, &mut out)
        .unwrap();
    assert_eq!(key.open_int4(&out), 35);
    assert_eq!(connection.compare(&out, &b, C), Ok(Ordering::Greater));
    out.clear();
    connection.concat(&text, &text, &mut out).unwrap();
    assert_eq!(key.open_text(&out), "pgsealpgseal");
    out.clear();
    assert_eq!(connection.cast(Type::Int8, &a, &mut out), Ok(true));
    assert_eq!(key.open_text(&out), "5");
    out.clear();
    connection.decrypt_to(&text, &mut out).unwrap();
    assert_eq!(out, b"pgseal");
    out.clear();
    connection
        .encrypt(key.cipher.id(), Type::Text, b"abc", &mut out)
        .unwrap();
    assert_eq!(key.open_text(&out), "abc");
    let sum = connection
        .aggregate_step(0, AggregateKind::Sum, C, [a.as_slice(), &b])
        .unwrap();
    out.clear();
    assert_eq!(connection.aggregate_finish(sum, &mut out), Ok(true));
    assert_eq!(key.open_text(&out), "12");
    let wrapped = connection.generate_key("|alice|shop|", 3, false).unwrap();
    assert!(pgseal_cell::WrappedKey::parse(&wrapped).unwrap().group() == 3);
}

#[test]
fn a_grant_is_bound_to_subject_database_keys_and_time() {
    let all = [Operation::Arithmetic];
    let (alice, bob) = (Party::new(1), Party::new(2));
    let cases: [(&str, _, Refusal); 6] = [
        (
            "another's",
            alice.grant(Subject::Client(bob.public()), &all),
            no_grant(Operation::Arithmetic),
        ),
        (
            "another database",
            alice.grant_with(Subject::Owner, &all, |terms| {
                terms.database = Some(pgseal_cell::grant::DatabaseId([1; 16]));
            }),
            no_grant(Operation::Arithmetic),
        ),
        (
            "another group",
            alice.grant_with(Subject::Owner, &all, |terms| {
                terms.keys = KeyScope::Groups(vec![GROUP + 1]);
            }),
            no_grant(Operation::Arithmetic),
        ),
        (
            "over",
            alice.grant_with(Subject::Owner, &all, |terms| terms.not_after = NOW - 1),
            Refusal::GrantExpired,
        ),
        (
            "not begun",
            alice.grant_with(Subject::Owner, &all, |terms| terms.not_before = NOW + 5),
            no_grant(Operation::Arithmetic),
        ),
        (
            "bob's own",
            bob.grant(Subject::Owner, &all),
            no_grant(Operation::Arithmetic),
        ),
    ];
    for (name, grant, refusal) in cases {
        let engine = engine(false);
        let mut connection = connect(&engine, AttachAs::Client);
        open(&mut connection, &alice, &alice, &[grant], &[]).unwrap();
        let mut key = alice.key(11, false);
        load(&mut connection, &key);
        let (a, mut out) = (key.int4(1), Vec::new());
        let result = connection.arithmetic(Arithmetic::Add, &a, &a, &mut out);
        assert_eq!(result, Err(refusal), "{name}");
    }
}

#[test]
fn a_grant_begins_and_ends_while_the_session_is_open() {
    let engine = engine(false);
    let alice = Party::new(1);
    let grant = alice.grant_with(Subject::Owner, &[Operation::Arithmetic], |terms| {
        (terms.not_before, terms.not_after) = (NOW + 10, NOW + 20);
    });
    let mut connection = connect(&engine, AttachAs::Client);
    open(&mut connection, &alice, &alice, &[grant], &[]).unwrap();
    let mut key = alice.key(11, false);
    load(&mut connection, &key);
    let (a, mut out) = (key.int4(1), Vec::new());
    let mut at = |now: u64| {
        connection.set_time(now);
        connection.arithmetic(Arithmetic::Add, &a, &a, &mut out)
    };
    assert_eq!(at(NOW + 9), Err(no_grant(Operation::Arithmetic)));
    assert_eq!(at(NOW + 10), Ok(()));
    assert_eq!(at(NOW + 19), Ok(()));
    assert_eq!(at(NOW + 20), Err(Refusal::GrantExpired));
    // The session itself ends at NOW + 500.
    assert_eq!(at(NOW + 500), Err(Refusal::SessionExpired));
    assert_eq!(connection.compare(&a, &a, C), Err(Refusal::SessionExpired));
}

#[test]
fn a_revoked_grant_is_none_in_every_session_at_once() {
    let engine = engine(false);
    let alice = Party::new(1);
    let grant = alice.grant(Subject::Owner, &[Operation::Arithmetic]);
    let mut key = alice.key(11, false);
    let (a, mut out) = (key.int4(1), Vec::new());
    let mut sessions: Vec<_> = (0..2)
        .map(|_| {
            let mut connection = connect(&engine, AttachAs::Client);
            let session = open(
                &mut connection,
                &alice,
                &alice,
                std::slice::from_ref(&grant),
                &[],
            )
            .unwrap();
            load(&mut connection, &key);
            (connection, session)
        })
        .collect();
    for (connection, _) in &mut sessions {
        assert_eq!(
            connection.arithmetic(Arithmetic::Add, &a, &a, &mut out),
            Ok(())
        );
    }
    let list = alice.revoke(1, &[&grant]).encode();
    let (connection, session) = &mut sessions[1];
    assert_eq!(
        command(connection, session, &Command::Revoke(&list)),
        Ok(None)
    );
    for (connection, _) in &mut sessions {
        let result = connection.arithmetic(Arithmetic::Add, &a, &a, &mut out);
        assert_eq!(result, Err(Refusal::GrantRevoked));
    }
    // An older list changes nothing back, and a new session with the old grant gets nothing.
    let older = alice.revoke(0, &[]).encode();
    let (connection, session) = &mut sessions[0];
    assert_eq!(
        command(connection, session, &Command::Revoke(&older)),
        Ok(None)
    );
    let mut connection = connect(&engine, AttachAs::Client);
    open(&mut connection, &alice, &alice, &[grant], &[]).unwrap();
    load(&mut connection, &key);
    let result = connection.arithmetic(Arithmetic::Add, &a, &a, &mut out);
    assert_eq!(result, Err(Refusal::GrantRevoked));
}

/// Each database keeps a list of its own, from 1 on; the evaluator knows owners.
#[test]
fn lists_of_any_sequence_add_up() {
    let engine = engine(false);
    let alice = Party::new(1);
    let all = [Operation::Arithmetic, Operation::Text, Operation::Cast];
    let grants = all.map(|operation| alice.grant(Subject::Owner, &[operation]));
    let (mut key, mut out) = (alice.key(11, false), Vec::new());
    let (a, text) = (key.int4(1), key.text("x"));
    let use_all = |connection: &mut Connection, out: &mut Vec<u8>| {
        [
            connection.arithmetic(Arithmetic::Add, &a, &a, out),
            connection.concat(&text, &text, out),
            connection.cast(Type::Int8, &a, out).map(|_| ()),
        ]
    };
    let mut connection = connect(&engine, AttachAs::Client);
    let mut session = open(&mut connection, &alice, &alice, &grants, &[]).unwrap();
    load(&mut connection, &key);
    assert_eq!(use_all(&mut connection, &mut out), [Ok(()); 3]);
    let lists = [(5, &grants[0]), (5, &grants[1]), (1, &grants[2])];
    let mut expected = [Ok(()); 3];
    for (place, (sequence, grant)) in lists.into_iter().enumerate() {
        let list = alice.revoke(sequence, &[grant]).encode();
        let revoke = command(&mut connection, &mut session, &Command::Revoke(&list));
        assert_eq!(revoke, Ok(None));
        expected[place] = Err(Refusal::GrantRevoked);
        assert_eq!(use_all(&mut connection, &mut out), expected);
    }
    // Anyone who shows the grants later finds all lists.
    let mut later = connect(&engine, AttachAs::Client);
    open(&mut later, &alice, &alice, &grants, &[]).unwrap();
    load(&mut later, &key);
    assert_eq!(use_all(&mut later, &mut out), expected);
}

#[test]
fn another_owners_list_revokes_nothing() {
    let engine = engine(false);
    let (alice, mallory) = (Party::new(1), Party::new(3));
    let grant = alice.grant(Subject::Owner, &[Operation::Arithmetic]);
    let mut connection = connect(&engine, AttachAs::Client);
    let list = mallory.revoke(9, &[&grant]);
    open(&mut connection, &alice, &alice, &[grant], &[list]).unwrap();
    let mut key = alice.key(11, false);
    load(&mut connection, &key);
    let (a, mut out) = (key.int4(1), Vec::new());
    assert_eq!(
        connection.arithmetic(Arithmetic::Add, &a, &a, &mut out),
        Ok(())
    );
}

#[test]
fn background_work_compares_what_the_owner_lets_it_and_nothing_else() {
    let engine = engine(false);
    let alice = Party::new(1);
    let mut key = alice.key(11, false);
    let (a, b) = (key.int4(1), key.int4(2));
    // Before the owner left anything.
    let mut early = connect(&engine, AttachAs::Background);
    assert_eq!(early.compare(&a, &b, C), Err(Refusal::NoSession));

    let both = [Operation::CompareStored, Operation::CompareDerived];
    let grant = alice.grant(Subject::Background, &both);
    let mut connection = connect(&engine, AttachAs::Client);
    open(
        &mut connection,
        &alice,
        &alice,
        std::slice::from_ref(&grant),
        &[],
    )
    .unwrap();
    drop(connection);

    let mut background = connect(&engine, AttachAs::Background);
    // Anyone who reads the log learns that this session began, and that it lives of one grant.
    let handed = Event::Handed {
        session: 2,
        grants: 1,
    };
    assert_eq!(background.take_events(), [handed]);
    assert_eq!(background.compare(&a, &b, C), Err(Refusal::KeyNotLoaded));
    assert_eq!(load(&mut background, &key), 1);
    assert_eq!(background.compare(&a, &b, C), Ok(Ordering::Less));
    let mut out = Vec::new();
    let arithmetic = background.arithmetic(Arithmetic::Add, &a, &b, &mut out);
    assert_eq!(arithmetic, Err(no_grant(Operation::Arithmetic)));
    assert_eq!(
        background.decrypt_to(&a, &mut out),
        Err(no_grant(Operation::ConvertOut))
    );
    assert_eq!(background.tickets(), Err(Refusal::NoSession));
    assert_eq!(
        relay(&mut background, &[1, 1]),
        Err(Refusal::Unsupported.code())
    );

    // It ends with the grant: by time, and by revocation.
    background.set_time(NOW + 1000);
    assert_eq!(background.compare(&a, &b, C), Err(Refusal::GrantExpired));
    background.set_time(NOW);
    let mut connection = connect(&engine, AttachAs::Client);
    let list = alice.revoke(1, &[&grant]);
    open(&mut connection, &alice, &alice, &[], &[list]).unwrap();
    assert_eq!(background.compare(&a, &b, C), Err(Refusal::GrantRevoked));
    let mut late = connect(&engine, AttachAs::Background);
    assert_eq!(late.compare(&a, &b, C), Err(Refusal::NoSession));
}

#[test]
fn a_wider_grant_for_background_work_is_none() {
    let engine = engine(false);
    let alice = Party::new(1);
    let wide = [Operation::CompareStored, Operation::ConvertOut];
    let grant = alice.grant(Subject::Background, &wide);
    let mut connection = connect(&engine, AttachAs::Client);
    let mut session = open(&mut connection, &alice, &alice, &[], &[]).unwrap();
    let refused = command(
        &mut connection,
        &mut session,
        &Command::AddGrant(&grant.encode()),
    );
    assert_eq!(refused, Err(Refusal::GrantRefused.code()));
    let mut background = connect(&engine, AttachAs::Background);
    let key = alice.key(11, false);
    assert_eq!(
        background.load_keys([key.row.as_slice()].into_iter()),
        Err(Refusal::NoSession)
    );
}

#[test]
fn another_subject_uses_keys_that_their_owner_shares() {
    let engine = engine(false);
    let (alice, bob) = (Party::new(1), Party::new(2));
    let mut alices = alice.key(11, false);
    let mut bobs = bob.key(22, false);
    let (a, b) = (alices.int4(1), bobs.int4(1));

    let shared = [
        Operation::Share,
        Operation::CompareStored,
        Operation::Arithmetic,
    ];
    let grant = alice.grant(Subject::Client(bob.public()), &shared);
    let mut connection = connect(&engine, AttachAs::Client);
    open(&mut connection, &alice, &alice, &[grant], &[]).unwrap();

    let grant = bob.grant(
        Subject::Owner,
        &[
            Operation::Arithmetic,
            Operation::ConvertOut,
            Operation::CompareDerived,
        ],
    );
    let mut session = connect(&engine, AttachAs::Client);
    open(&mut session, &bob, &bob, &[grant], &[]).unwrap();
    assert_eq!(
        (load(&mut session, &alices), load(&mut session, &bobs)),
        (1, 1)
    );
    let same = alices.int4(1);
    assert_eq!(session.compare(&a, &same, C), Ok(Ordering::Equal));
    let mut sum = Vec::new();
    session
        .arithmetic(Arithmetic::Add, &a, &a, &mut sum)
        .unwrap();
    assert_eq!(alices.open_int4(&sum), 2);
    // Not granted: her plaintext, comparisons with what was derived, and results under Mallory's
    // key.
    let mut out = Vec::new();
    assert_eq!(
        session.decrypt_to(&a, &mut out),
        Err(no_grant(Operation::ConvertOut))
    );
    assert_eq!(
        session.compare(&a, &sum, C),
        Err(no_grant(Operation::CompareDerived))
    );
    let flow = session.arithmetic(Arithmetic::Add, &b, &a, &mut out);
    assert_eq!(flow, Err(no_grant(Operation::ConvertOut)));
    assert_eq!(
        session.generate_key("x", 1, false),
        Err(no_grant(Operation::KeyGenerate))
    );

    // Without the word Share nothing is left for others.
    let carol = Party::new(4);
    let grant = alice.grant(Subject::Client(carol.public()), &[Operation::CompareStored]);
    open(&mut connection, &alice, &alice, &[grant], &[]).unwrap();
    let mut session = connect(&engine, AttachAs::Client);
    open(&mut session, &carol, &carol, &[], &[]).unwrap();
    assert_eq!(load(&mut session, &alices), 0);
    assert_eq!(session.compare(&a, &a, C), Err(Refusal::KeyNotLoaded));
}

#[test]
fn plaintext_does_not_leave_by_way_of_another_key() {
    let engine = engine(false);
    let alice = Party::new(1);
    let (mut open_key, mut closed_key) = (alice.key(11, false), alice.key(12, false));
    let out_of_one = alice.grant_with(Subject::Owner, &[Operation::ConvertOut], |terms| {
        terms.keys = KeyScope::Keys(vec![open_key.cipher.id()]);
    });
    let arithmetic = alice.grant(Subject::Owner, &[Operation::Arithmetic]);
    let mut connection = connect(&engine, AttachAs::Client);
    open(
        &mut connection,
        &alice,
        &alice,
        &[out_of_one, arithmetic],
        &[],
    )
    .unwrap();
    load(&mut connection, &open_key);
    load(&mut connection, &closed_key);
    let (zero, secret) = (open_key.int4(0), closed_key.int4(42));
    let mut out = Vec::new();
    let flow = connection.arithmetic(Arithmetic::Add, &zero, &secret, &mut out);
    assert_eq!(flow, Err(no_grant(Operation::ConvertOut)));
    connection
        .arithmetic(Arithmetic::Add, &secret, &zero, &mut out)
        .unwrap();
    assert_eq!(closed_key.open_int4(&out), 42);
}
