//! Sessions with keys of several owners: none finds another's values by way of its own.
#![allow(clippy::unwrap_used)]

mod common;

use std::cmp::Ordering;

use common::*;
use pgseal_cell::grant::{KeyScope, Operation, Subject};
use pgseal_evaluator::engine::CollationId;
use pgseal_evaluator_proto::{AttachAs, Program, Refusal};
use pgseal_value::AggregateKind;

const C: CollationId = CollationId::C;

/// Their hashes differ, so they are not equal either: a join would depend on its plan. And who
/// knows the values of one owner must not find the other's by halving.
#[test]
fn cells_of_two_owners_are_not_compared_whatever_is_granted() {
    let engine = engine(false);
    let (alice, bob) = (Party::new(1), Party::new(2));
    let (mut alices, mut bobs) = (alice.key(11, false), bob.key(22, false));
    let (a, b) = (alices.int4(1), bobs.int4(2));
    let meet = |share: &[Operation]| {
        let grant = alice.grant(Subject::Client(bob.public()), share);
        let mut connection = connect(&engine, AttachAs::Client);
        open(&mut connection, &alice, &alice, &[grant], &[]).unwrap();
        let own = [Operation::CompareDerived, Operation::Aggregate];
        let grant = bob.grant(Subject::Owner, &own);
        let mut session = connect(&engine, AttachAs::Client);
        open(&mut session, &bob, &bob, &[grant], &[]).unwrap();
        load(&mut session, &alices);
        load(&mut session, &bobs);
        session
    };
    let stored = [
        Operation::Share,
        Operation::CompareStored,
        Operation::Aggregate,
    ];
    let derived = [&stored[..], &[Operation::CompareDerived]].concat();
    for share in [&stored[..], &derived] {
        let mut session = meet(share);
        let refused = Refusal::TwoOwners;
        assert_eq!(session.compare(&a, &b, C), Err(refused));
        assert_eq!(session.search_page(&b, &[&a], C), Err(refused));
        assert_eq!(
            session.descend(&b, start(0, Some(leaf(&[&a]))), C).err(),
            Some(refused)
        );
        // What the one owner's search left is not found by the other's.
        assert!(session.descend(&a, start(0, Some(leaf(&[&a]))), C).is_ok());
        assert_eq!(
            session
                .descend(&b, start(0, None), C)
                .map(|found| found.count),
            Ok(0)
        );
        assert_eq!(session.rank(&[&a, &b], C), Err(refused));
        let both = [a.as_slice(), &b];
        let extreme = session.aggregate_step(0, AggregateKind::Max, C, both);
        assert_eq!(extreme, Err(refused));
        let reversed = [b.as_slice(), &a];
        let sum = session.aggregate_step(0, AggregateKind::Sum, C, reversed);
        assert_eq!(sum, Err(no_grant(Operation::ConvertOut)));
        // Each by itself is compared and hashed.
        assert_eq!(session.compare(&a, &a, C), Ok(Ordering::Equal));
        assert!(session.hash(1, &a).is_ok() && session.hash(1, &b).is_ok());
    }
}

/// A pattern shows what a comparison does, and is hashed by nobody.
#[test]
fn a_pattern_of_another_owner_meets_a_text_by_a_grant_of_both_alone() {
    let engine = engine(false);
    let (alice, bob) = (Party::new(1), Party::new(2));
    let (mut alices, mut bobs) = (alice.key(11, false), bob.key(22, false));
    let (text, pattern) = (alices.text("secret"), bobs.text("s%"));
    let text_alone = [Operation::Share, Operation::Text];
    let derived = [&text_alone[..], &[Operation::CompareDerived]].concat();
    let refused = Err(no_grant(Operation::CompareDerived));
    for (share, expected) in [(&text_alone[..], refused), (&derived, Ok(true))] {
        let grant = alice.grant(Subject::Client(bob.public()), share);
        let mut connection = connect(&engine, AttachAs::Client);
        open(&mut connection, &alice, &alice, &[grant], &[]).unwrap();
        let own = bob.grant(
            Subject::Owner,
            &[Operation::Text, Operation::CompareDerived],
        );
        let mut session = connect(&engine, AttachAs::Client);
        open(&mut session, &bob, &bob, &[own], &[]).unwrap();
        load(&mut session, &alices);
        load(&mut session, &bobs);
        assert_eq!(session.like(&text, &pattern, None), expected);
    }
}

/// A master key of one's own beside another's public key is another owner, whose keys nobody gets.
#[test]
fn who_claims_anothers_public_key_leaves_nothing_under_its_name() {
    let engine = engine(false);
    let (alice, bob, mallory) = (Party::new(1), Party::new(2), Party::new(3));
    // Mallory's master key, alice's name, and grants of hers that Mallory got hold of.
    let mut fake = Party::new(1);
    fake.master = Party::new(3).master;
    let everything = [
        Operation::Share,
        Operation::CompareStored,
        Operation::CompareDerived,
    ];
    let grant = alice.grant(Subject::Client(bob.public()), &everything);
    let background = alice.grant(Subject::Background, &everything[1..]);
    let mut connection = connect(&engine, AttachAs::Client);
    open(&mut connection, &fake, &mallory, &[grant, background], &[]).unwrap();
    let mut key = fake.key(33, false);
    let cell = key.int4(1);
    let mut bobs = connect(&engine, AttachAs::Client);
    open(&mut bobs, &bob, &bob, &[], &[]).unwrap();
    for mut session in [connect(&engine, AttachAs::Background), bobs] {
        let loaded = session.load_keys([key.row.as_slice()].into_iter());
        assert!(matches!(loaded, Ok(0) | Err(Refusal::NoSession)));
        assert!(session.compare(&cell, &cell, C).is_err());
    }
}

#[test]
fn a_pattern_that_was_derived_is_a_comparison() {
    let engine = engine(false);
    let (mut connection, _, mut key) = alice_with(&engine, &[Operation::Text]);
    let (text, pattern) = (key.text("secret"), key.text("s%"));
    assert_eq!(connection.like(&text, &pattern, None), Ok(true));
    let mut part = Vec::new();
    let first = Program::parse(b"$(s1,1)", 1).unwrap();
    let made = connection.compute(first, items(&[&text]), &mut part);
    assert_eq!(made, Ok(true));
    let refused = no_grant(Operation::CompareDerived);
    assert_eq!(connection.like(&text, &part, None), Err(refused));
    assert_eq!(connection.starts_with(&text, &part), Err(refused));
    assert_eq!(connection.starts_with(&text, &pattern), Ok(false));
    // One that is escaped is as long as what occurs in it.
    for cell in [&pattern, &part] {
        let mut escaped = Vec::new();
        let way = connection.like_escape(cell, "#", &mut escaped);
        assert_eq!((way, escaped.len()), (Err(refused), 0));
    }
}

/// A key is used as far as some grant shares it, whatever grants there are for it.
#[test]
fn what_is_shared_of_one_key_opens_no_other() {
    let engine = engine(false);
    let alice = Party::new(1);
    let mut connection = connect(&engine, AttachAs::Client);
    let mut out = Vec::new();
    let (mut first, mut second) = (alice.key(13, false), alice.key(14, false));
    let dave = Party::new(5);
    let for_dave = |operations: &[Operation], key: &Sealer| {
        alice.grant_with(Subject::Client(dave.public()), operations, |terms| {
            terms.keys = KeyScope::Keys(vec![key.cipher.id()]);
        })
    };
    let share = for_dave(&[Operation::Share, Operation::CompareStored], &first);
    let unshared = for_dave(&[Operation::ConvertOut, Operation::CompareStored], &second);
    open(&mut connection, &alice, &alice, &[share], &[]).unwrap();
    let mut session = connect(&engine, AttachAs::Client);
    open(&mut session, &dave, &dave, &[unshared], &[]).unwrap();
    let loaded = (load(&mut session, &first), load(&mut session, &second));
    assert_eq!(loaded, (1, 1));
    let (a, b) = (first.int4(1), second.int4(1));
    assert_eq!(session.compare(&a, &first.int4(1), C), Ok(Ordering::Equal));
    let refused = session.decrypt_to(&b, &mut out);
    assert_eq!(refused, Err(no_grant(Operation::ConvertOut)));
    let refused = session.compare(&b, &second.int4(1), C);
    assert_eq!(refused, Err(no_grant(Operation::CompareStored)));
}

/// An owner who makes more keys than a session takes, and shares them, displaces no other owner's.
#[test]
fn keys_that_a_stranger_shares_leave_room_for_all_others() {
    const EACH: u32 = 16_384 / 2;
    let engine = engine(false);
    let (mallory, bob, dave) = (Party::new(1), Party::new(2), Party::new(3));
    for sharing in [&mallory, &bob] {
        let share = sharing.grant(Subject::Client(dave.public()), &[Operation::Share]);
        let mut connection = connect(&engine, AttachAs::Client);
        open(&mut connection, sharing, sharing, &[share], &[]).unwrap();
    }
    let mut session = connect(&engine, AttachAs::Client);
    open(&mut session, &dave, &dave, &[], &[]).unwrap();
    let numbered = |number: u32| {
        let mut bytes = [7; 32];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        mallory.key_of(bytes, false).row
    };
    let rows: Vec<_> = (0..EACH + 10).map(numbered).collect();
    let loaded = session.load_keys(rows.iter().map(Vec::as_slice));
    assert_eq!(loaded, Ok(EACH));
    assert_eq!(load(&mut session, &bob.key(22, false)), 1);
    assert_eq!(load(&mut session, &dave.key(33, false)), 1);
}
