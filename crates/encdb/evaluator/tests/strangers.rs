//! Clients that nobody granted anything, and that make as many keys as they like: what they send
//! takes nothing from owners and their grantees.
#![allow(clippy::unwrap_used)]

mod common;

use std::cmp::Ordering;

use common::*;
use pgseal_cell::grant::{Grant, GrantTerms, KeyScope, Operation, Revocations, Serial, Subject};
use pgseal_cell::{DataKeyId, MasterKey};
use pgseal_crypto::Secret;
use pgseal_evaluator::engine::{CollationId, Engine};
use pgseal_evaluator_proto::message::{Command, SigningKey};
use pgseal_evaluator_proto::{AttachAs, Refusal};

const C: CollationId = CollationId::C;
/// More than a session takes, and in two sessions more than is handed out to one.
const MANY: u32 = 600;

/// Leaves many grants of its own for a subject, each held for ever.
fn flood(engine: &Engine, mallory: &Party, subject: Subject, sessions: u32) {
    let operations = match subject {
        Subject::Background => Operation::CompareStored,
        _ => Operation::Share,
    };
    let like = mallory.grant(subject, &[operations]);
    for session in 0..sessions {
        let grants: Vec<Grant> = (0..MANY)
            .map(|number| {
                let mut serial = [0xaa; 16];
                serial[..4].copy_from_slice(&(session * MANY + number).to_le_bytes());
                let terms = GrantTerms {
                    serial: Serial(serial),
                    not_after: u64::MAX,
                    ..like.terms().clone()
                };
                Grant::sign(terms, &mallory.signing)
            })
            .collect();
        let mut connection = connect(engine, AttachAs::Client);
        open(&mut connection, mallory, mallory, &grants, &[]).unwrap();
    }
}

/// Another's serial under a master key of one's own is another deposit.
#[test]
fn who_claims_anothers_public_key_displaces_nothing_that_was_left() {
    let engine = engine(false);
    let (alice, bob, mallory) = (Party::new(1), Party::new(2), Party::new(3));
    let mut key = alice.key(11, false);
    let (a, b) = (key.int4(1), key.int4(2));
    let both = [Operation::Share, Operation::CompareStored];
    let share = alice.grant(Subject::Client(bob.public()), &both);
    let background = alice.grant(Subject::Background, &both[1..]);
    let left = [share, background];
    let mut connection = connect(&engine, AttachAs::Client);
    open(&mut connection, &alice, &alice, &left, &[]).unwrap();
    drop(connection);

    // Mallory has a grant of alice's, and read bob's in the database.
    let small = alice.grant(Subject::Client(mallory.public()), &[Operation::Extract]);
    let mut claimed = Party::new(1);
    claimed.master = MasterKey::from_bytes(&mut [99; 32]);
    let shown = [&[small], &left[..]].concat();
    let mut connection = connect(&engine, AttachAs::Client);
    open(&mut connection, &claimed, &mallory, &shown, &[]).unwrap();
    drop(connection);

    let mut bobs = connect(&engine, AttachAs::Client);
    open(&mut bobs, &bob, &bob, &[], &[]).unwrap();
    for mut session in [bobs, connect(&engine, AttachAs::Background)] {
        assert_eq!(load(&mut session, &key), 1);
        assert_eq!(session.compare(&a, &b, C), Ok(Ordering::Less));
    }
}

#[test]
fn what_strangers_leave_for_a_client_does_not_hinder_it() {
    let engine = engine(false);
    let (alice, bob, mallory) = (Party::new(1), Party::new(2), Party::new(9));
    flood(&engine, &mallory, Subject::Client(bob.public()), 2);
    let both = [Operation::Share, Operation::CompareStored];
    let share = alice.grant(Subject::Client(bob.public()), &both);
    let mut connection = connect(&engine, AttachAs::Client);
    open(&mut connection, &alice, &alice, &[share], &[]).unwrap();

    let mut key = alice.key(11, false);
    let (a, b) = (key.int4(1), key.int4(2));
    let own = bob.grant(Subject::Owner, &[Operation::Arithmetic]);
    let mut connection = connect(&engine, AttachAs::Client);
    let mut session = open(&mut connection, &bob, &bob, &[], &[]).unwrap();
    assert_eq!(load(&mut connection, &key), 1);
    assert_eq!(connection.compare(&a, &b, C), Ok(Ordering::Less));
    let own = own.encode();
    let shown = command(&mut connection, &mut session, &Command::AddGrant(&own));
    assert_eq!(shown, Ok(None));
}

#[test]
fn what_strangers_leave_for_background_work_does_not_hinder_it() {
    let engine = engine(false);
    let (alice, mallory) = (Party::new(1), Party::new(9));
    flood(&engine, &mallory, Subject::Background, 8);
    let mut key = alice.key(11, false);
    let (a, b) = (key.int4(1), key.int4(2));
    let mut connection = connect(&engine, AttachAs::Client);
    let mut session = open(&mut connection, &alice, &alice, &[], &[]).unwrap();
    let grant = alice.grant(Subject::Background, &[Operation::CompareStored]);
    let left = Command::AddGrant(&grant.encode());
    assert_eq!(command(&mut connection, &mut session, &left), Ok(None));
    let mut background = connect(&engine, AttachAs::Background);
    assert_eq!(load(&mut background, &key), 1);
    assert_eq!(background.compare(&a, &b, C), Ok(Ordering::Less));
}

/// A list that nobody asked for, of a key that was made for it.
fn throwaway_list(number: u32) -> Revocations {
    let mut seed = [0x77; 32];
    seed[..4].copy_from_slice(&number.to_le_bytes());
    Revocations::sign(
        1,
        vec![Serial([7; 16])],
        &SigningKey::from_seed(&Secret::from_bytes(&mut seed)),
    )
}

#[test]
fn lists_of_strangers_keep_no_owner_from_revoking() {
    let engine = engine(false);
    let (alice, mallory) = (Party::new(1), Party::new(9));
    let mut key = alice.key(11, false);
    let (cell, mut out) = (key.int4(5), Vec::new());
    let grant = alice.grant(Subject::Owner, &[Operation::ConvertOut]);
    let mut connection = connect(&engine, AttachAs::Client);
    let shown = std::slice::from_ref(&grant);
    let mut session = open(&mut connection, &alice, &alice, shown, &[]).unwrap();
    load(&mut connection, &key);
    assert_eq!(connection.decrypt_to(&cell, &mut out), Ok(()));

    let lists: Vec<Revocations> = (0..4096).map(throwaway_list).collect();
    let mut strangers = connect(&engine, AttachAs::Client);
    open(&mut strangers, &mallory, &mallory, &[], &lists).unwrap();
    let list = alice.revoke(1, &[&grant]);
    let revoke = command(
        &mut connection,
        &mut session,
        &Command::Revoke(&list.encode()),
    );
    assert_eq!(revoke, Ok(None));
    let revoked = Err(Refusal::GrantRevoked);
    assert_eq!(connection.decrypt_to(&cell, &mut out), revoked);
    // Anyone who shows the grant later, without the list or with it.
    for lists in [&[][..], &[list]] {
        let mut connection = connect(&engine, AttachAs::Client);
        open(&mut connection, &alice, &alice, shown, lists).unwrap();
        load(&mut connection, &key);
        assert_eq!(connection.decrypt_to(&cell, &mut out), revoked);
    }
}

/// Grants are signed by anybody: with one of them in the session, another's list takes no room.
#[test]
fn a_list_is_not_kept_for_a_grant_alone() {
    let engine = engine(false);
    let (alice, mallory) = (Party::new(1), Party::new(9));
    let mut key = alice.key(11, false);
    let (cell, mut out) = (key.int4(5), Vec::new());
    let own = alice.grant(Subject::Owner, &[Operation::ConvertOut]);
    let others = alice.grant(Subject::Client(mallory.public()), &[Operation::Extract]);
    let list = alice.revoke(1, &[&own]);
    let mut strangers = connect(&engine, AttachAs::Client);
    let shown = std::slice::from_ref(&others);
    open(
        &mut strangers,
        &mallory,
        &mallory,
        shown,
        std::slice::from_ref(&list),
    )
    .unwrap();
    for (lists, is_revoked) in [(&[][..], false), (&[list][..], true), (&[], true)] {
        let mut connection = connect(&engine, AttachAs::Client);
        open(
            &mut connection,
            &alice,
            &alice,
            std::slice::from_ref(&own),
            lists,
        )
        .unwrap();
        load(&mut connection, &key);
        let opened = connection.decrypt_to(&cell, &mut out);
        assert_eq!(opened == Err(Refusal::GrantRevoked), is_revoked);
    }
}

/// A session keeps a thousand grants: none may be of any length.
#[test]
fn a_grant_that_names_too_many_keys_is_refused() {
    let engine = engine(false);
    let alice = Party::new(1);
    let own = alice.grant(Subject::Owner, &[Operation::ConvertOut]);
    let mut connection = connect(&engine, AttachAs::Client);
    let mut session = open(&mut connection, &alice, &alice, &[], &[]).unwrap();
    for (number, serial, shown) in [
        (3000, 1, Ok(None)),
        (5000, 2, Err(Refusal::TooLarge.code())),
    ] {
        let terms = GrantTerms {
            serial: Serial([serial; 16]),
            keys: KeyScope::Keys((0..number).map(DataKeyId).collect()),
            ..own.terms().clone()
        };
        let grant = Grant::sign(terms, &alice.signing).encode();
        let answer = command(&mut connection, &mut session, &Command::AddGrant(&grant));
        assert_eq!(answer, shown);
    }
}

/// A list that is shown acts, however long it is and no matter who shows it: on what is shown with
/// it, on what was left, and in every session.
#[test]
fn a_list_acts_even_if_it_is_too_long_to_be_kept() {
    let engine = engine(false);
    let (alice, bob) = (Party::new(1), Party::new(2));
    let mut key = alice.key(11, false);
    let (cell, mut out) = (key.int4(5), Vec::new());
    let own = alice.grant(Subject::Owner, &[Operation::ConvertOut]);
    let both = [Operation::Share, Operation::CompareStored];
    let share = alice.grant(Subject::Client(bob.public()), &both);
    let background = alice.grant(Subject::Background, &both[1..]);
    let grants = [own, share, background];
    let mut serials: Vec<Serial> = grants.iter().map(|grant| grant.terms().serial).collect();
    serials.extend((0..1_100_000u32).map(|number| {
        let mut serial = [0; 16];
        serial[..4].copy_from_slice(&number.to_le_bytes());
        Serial(serial)
    }));
    let list = Revocations::sign(1, serials, &alice.signing);

    let mut connection = connect(&engine, AttachAs::Client);
    open(&mut connection, &alice, &alice, &grants, &[]).unwrap();
    load(&mut connection, &key);
    let mut bobs = connect(&engine, AttachAs::Client);
    open(&mut bobs, &bob, &bob, &[], &[]).unwrap();
    let mut background = connect(&engine, AttachAs::Background);
    for session in [&mut bobs, &mut background] {
        load(session, &key);
        assert_eq!(session.compare(&cell, &cell, C), Ok(Ordering::Equal));
    }

    // A stranger shows it: it is alice's all the same.
    let mallory = Party::new(9);
    let mut stranger = connect(&engine, AttachAs::Client);
    open(
        &mut stranger,
        &mallory,
        &mallory,
        &[],
        std::slice::from_ref(&list),
    )
    .unwrap();
    let revoked = Err(Refusal::GrantRevoked);
    for session in [&mut bobs, &mut background] {
        assert_eq!(
            session.compare(&cell, &cell, C),
            revoked.map(|()| Ordering::Equal)
        );
    }
    assert_eq!(connection.decrypt_to(&cell, &mut out), revoked);
    let mut late = connect(&engine, AttachAs::Background);
    assert_eq!(late.compare(&cell, &cell, C), Err(Refusal::NoSession));
    let mut again = connect(&engine, AttachAs::Client);
    open(&mut again, &alice, &alice, &grants, &[list]).unwrap();
    load(&mut again, &key);
    assert_eq!(again.decrypt_to(&cell, &mut out), revoked);
    let mut late = connect(&engine, AttachAs::Background);
    assert_eq!(late.compare(&cell, &cell, C), Err(Refusal::NoSession));
}

#[test]
fn an_opening_whose_list_is_not_its_owners_fails() {
    let engine = engine(false);
    let alice = Party::new(1);
    let grant = alice.grant(Subject::Owner, &[Operation::ConvertOut]);
    let mut forged = alice.revoke(1, &[&grant]).encode();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    let forged = Revocations::parse(&forged).unwrap();
    let mut connection = connect(&engine, AttachAs::Client);
    let opened = open(&mut connection, &alice, &alice, &[grant], &[forged]);
    assert_eq!(opened.map(|_| ()), Err(Refusal::GrantRefused.code()));
    assert!(!connection.has_session());
}
