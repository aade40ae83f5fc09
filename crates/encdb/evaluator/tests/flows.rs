//! Values on their way from one key under another: with them no more may be done there than before.
#![allow(clippy::unwrap_used)]

mod common;

use std::cmp::Ordering;

use common::*;
use pgseal_cell::grant::{Grant, KeyScope, Operation, Subject};
use pgseal_evaluator::engine::{CollationId, Connection};
use pgseal_evaluator_proto::{AttachAs, Collation, Refusal};
use pgseal_value::{AggregateKind, Arithmetic, Type, Value};

const C: CollationId = CollationId::C;

/// Keys of alice's and what each of them is granted to herself, in a session of hers.
fn session<const N: usize>(granted: [&[Operation]; N]) -> (Connection, [Sealer; N]) {
    let alice = Party::new(1);
    let mut seed = 10;
    let keys = granted.map(|_| {
        seed += 1;
        alice.key(seed, false)
    });
    let grants: Vec<Grant> = keys
        .iter()
        .zip(granted)
        .map(|(key, operations)| {
            alice.grant_with(Subject::Owner, operations, |terms| {
                terms.keys = KeyScope::Keys(vec![key.cipher.id()]);
            })
        })
        .collect();
    let mut connection = connect(&engine(false), AttachAs::Client);
    open(&mut connection, &alice, &alice, &grants, &[]).unwrap();
    for key in &keys {
        assert_eq!(load(&mut connection, key), 1);
    }
    (connection, keys)
}

fn sum(connection: &mut Connection, state: u64, cells: &[&[u8]]) -> Result<u64, Refusal> {
    step(connection, state, AggregateKind::Sum, cells)
}

#[test]
fn a_result_goes_under_no_key_with_which_more_may_be_done() {
    let both = [Operation::Arithmetic, Operation::Text];
    let others = [
        Operation::CompareDerived,
        Operation::Aggregate,
        Operation::Cast,
        Operation::Extract,
        Operation::ConvertOut,
    ];
    for more in others {
        let wide = [&both[..], &[more]].concat();
        let (mut connection, [mut open_key, mut closed_key]) = session([&wide, &both]);
        let (zero, secret) = (open_key.int4(0), closed_key.int4(42));
        let mut out = Vec::new();
        let flow = connection.arithmetic(Arithmetic::Add, &zero, &secret, &mut out);
        assert_eq!((flow, out.len()), (Err(no_grant(more)), 0));
        let (none, text) = (open_key.text(""), closed_key.text("secret"));
        let flow = connection.concat(&none, &text, &mut out);
        assert_eq!((flow, out.len()), (Err(no_grant(more)), 0));
        // The other way round no more may be done than before.
        let flow = connection.arithmetic(Arithmetic::Add, &secret, &zero, &mut out);
        assert_eq!((flow, closed_key.open_int4(&out)), (Ok(()), 42));
    }
}

/// A session that may make cells with a key, or new keys, learns no more from what comes under it.
#[test]
fn what_is_not_done_with_derived_values_hinders_no_flow() {
    let wide = [
        Operation::Arithmetic,
        Operation::ConvertIn,
        Operation::KeyGenerate,
    ];
    let (mut connection, [mut one, mut other]) = session([&wide, &wide[..1]]);
    let (a, b, mut out) = (one.int4(40), other.int4(2), Vec::new());
    let flow = connection.arithmetic(Arithmetic::Add, &a, &b, &mut out);
    assert_eq!((flow, one.open_int4(&out)), (Ok(()), 42));
}

#[test]
fn what_may_be_read_may_flow_anywhere() {
    let wide = [Operation::Arithmetic, Operation::CompareDerived];
    let plain = [Operation::Arithmetic, Operation::ConvertOut];
    let (mut connection, [mut one, mut other]) = session([&wide, &plain]);
    let (a, b, mut out) = (one.int4(40), other.int4(2), Vec::new());
    let flow = connection.arithmetic(Arithmetic::Add, &a, &b, &mut out);
    assert_eq!((flow, one.open_int4(&out)), (Ok(()), 42));
}

#[test]
fn a_sum_is_of_keys_with_which_no_less_may_be_done() {
    let wide = [Operation::Aggregate, Operation::CompareDerived];
    let (mut connection, [mut open_key, mut closed_key]) = session([&wide, &wide[..1]]);
    let connection = &mut connection;
    let (zero, secret) = (open_key.int4(0), closed_key.int4(42));
    let refused = Err(no_grant(Operation::CompareDerived));
    assert_eq!(sum(connection, 0, &[&zero, &secret]), refused);
    let state = sum(connection, 0, &[&zero]).unwrap();
    assert_eq!(sum(connection, state, &[&secret]), refused);
    let (into, from) = (
        sum(connection, 0, &[&zero]).unwrap(),
        sum(connection, 0, &[&secret]).unwrap(),
    );
    let met = connection.aggregate_combine(into, from);
    assert_eq!(met, Err(no_grant(Operation::CompareDerived)));

    let state = sum(connection, 0, &[&secret, &zero]).unwrap();
    let mut out = Vec::new();
    assert_eq!(connection.aggregate_finish(state, &mut out), Ok(true));
    assert_eq!(closed_key.open_text(&out), "42");
}

/// The first cell's key is not the only one of a state, here and after its way to another process.
#[test]
fn states_that_meet_are_asked_for_all_their_keys() {
    let wide = [Operation::Aggregate, Operation::ConvertOut];
    let middle = [Operation::Aggregate, Operation::CompareDerived];
    let granted: [&[Operation]; 3] = [&middle, &wide, &middle];
    let (mut connection, [mut first, mut plain, mut second]) = session(granted);
    let connection = &mut connection;
    let cells = [first.int4(1), plain.int4(20), second.int4(300)];
    let [a, b, c] = cells.each_ref().map(Vec::as_slice);
    let from = sum(connection, 0, &[a, b]).unwrap();
    let mut sealed = Vec::new();
    connection.aggregate_export(from, &mut sealed).unwrap();
    let from = connection.aggregate_import(&sealed).unwrap();
    let into = sum(connection, 0, &[c]).unwrap();
    connection.aggregate_combine(into, from).unwrap();
    let mut out = Vec::new();
    assert_eq!(connection.aggregate_finish(into, &mut out), Ok(true));
    assert_eq!(second.open_text(&out), "321");
    let bare = sum(connection, 0, &[b]).unwrap();
    let met = connection.aggregate_combine(bare, into);
    assert_eq!(met, Err(no_grant(Operation::ConvertOut)));
}

/// One of two keys may be compared with what was derived. An extreme that such a cell leads is
/// compared with the other one too.
#[test]
fn an_extreme_is_compared_with_every_cell_that_may_lead() {
    let wide = [Operation::Arithmetic, Operation::CompareDerived];
    let (mut connection, [mut open_key, mut closed_key]) = session([&wide, &[]]);
    let (a, zero, secret) = (open_key.int4(40), open_key.int4(0), closed_key.int4(42));
    let mut known = Vec::new();
    connection
        .arithmetic(Arithmetic::Add, &a, &zero, &mut known)
        .unwrap();
    assert_eq!(connection.compare(&zero, &known, C), Ok(Ordering::Less));
    assert_eq!(connection.compare(&zero, &secret, C), Ok(Ordering::Less));
    let refused = no_grant(Operation::CompareDerived);
    assert_eq!(connection.compare(&secret, &known, C), Err(refused));
    let cells = [zero.as_slice(), &known, &secret];
    let kind = AggregateKind::Max;
    let whole = connection.aggregate_step(0, kind, C, cells);
    assert_eq!(whole, Err(refused));
    let state = connection.aggregate_step(0, kind, C, cells[..2].iter().copied());
    let other = connection.aggregate_step(0, kind, C, cells[2..].iter().copied());
    let met = connection.aggregate_combine(state.unwrap(), other.unwrap());
    assert_eq!(met, Err(refused));
}

/// (known - known) under the one key, plus the secret of the other, was counted to.
#[test]
fn a_secret_is_not_counted_to_by_way_of_another_key() {
    let wide = [Operation::Arithmetic, Operation::CompareDerived];
    let (mut connection, [mut open_key, mut closed_key]) = session([&wide, &wide[..1]]);
    let (known, secret) = (open_key.seal(&Value::Int4(5)), closed_key.int4(42));
    let (mut zero, mut moved) = (Vec::new(), Vec::new());
    connection
        .arithmetic(Arithmetic::Sub, &known, &known, &mut zero)
        .unwrap();
    let flow = connection.arithmetic(Arithmetic::Add, &zero, &secret, &mut moved);
    assert_eq!(flow, Err(no_grant(Operation::CompareDerived)));
}

/// A maximum that went on as a sum was asked for the right to sum, and compared.
#[test]
fn a_state_goes_on_as_what_it_began_as() {
    let (mut connection, [mut key]) = session([&[Operation::Aggregate]]);
    let connection = &mut connection;
    let (one, two) = (key.int4(1), key.int4(2));
    let gone = Err(Refusal::UnknownState);
    let mut sealed = Vec::new();
    let of_numbers =
        |kind: &AggregateKind| kind.result_type(Type::Int4).is_some() && !kind.takes_pairs();
    let kinds: Vec<AggregateKind> = AggregateKind::ALL.into_iter().filter(of_numbers).collect();
    for began in kinds.iter().copied() {
        for asked in kinds.iter().copied().filter(|kind| *kind != began) {
            for cells in [&[&two[..]][..], &[]] {
                let state = step(connection, 0, began, &[&one]).unwrap();
                assert_eq!(step(connection, state, asked, cells), gone);
                assert_eq!(
                    connection.aggregate_finish(state, &mut Vec::new()),
                    gone.map(|_: u64| true)
                );
            }
            let state = step(connection, 0, began, &[&one]).unwrap();
            let other = step(connection, 0, asked, &[&two]).unwrap();
            let met = connection.aggregate_combine(state, other);
            assert_eq!(met, Err(Refusal::UnknownState));
            // What it is goes with it to another process.
            let state = step(connection, 0, began, &[&one]).unwrap();
            sealed.clear();
            connection.aggregate_export(state, &mut sealed).unwrap();
            let state = connection.aggregate_import(&sealed).unwrap();
            assert_eq!(step(connection, state, asked, &[&two]), gone);
        }
    }
}

#[test]
fn a_state_goes_on_in_the_collation_that_it_began_in() {
    let (mut connection, [mut key]) = session([&[Operation::Aggregate]]);
    let connection = &mut connection;
    let (a, b) = (key.text("a"), key.text("B"));
    let other = connection.collation(Collation::Libc("C.UTF-8")).unwrap();
    let max = |connection: &mut Connection, state, collation, cells: &[&[u8]]| {
        connection.aggregate_step(state, AggregateKind::Max, collation, cells.iter().copied())
    };
    let state = max(connection, 0, C, &[&a]).unwrap();
    assert_eq!(
        max(connection, state, other, &[&b]),
        Err(Refusal::UnknownState)
    );
    // Without cells nothing is compared.
    let state = max(connection, 0, other, &[&a, &b]).unwrap();
    assert_eq!(max(connection, state, C, &[]), Ok(state));
    let into = max(connection, 0, C, &[&a]).unwrap();
    assert_eq!(
        connection.aggregate_combine(into, state),
        Err(Refusal::UnknownState)
    );
}

/// The way round both rules: 2 * known, which was derived, under a maximum that began stored; and a
/// cell of a key without any grant, in a sum.
#[test]
fn an_extreme_is_no_way_to_compare_derived_cells_and_a_sum_none_to_another_key() {
    let rights: [&[Operation]; 2] = [&[Operation::Arithmetic, Operation::Aggregate], &[]];
    let (mut connection, [mut key, mut bare]) = session(rights);
    let connection = &mut connection;
    let (secret, known, mut derived) = (key.int4(123_457), key.int4(100_000), Vec::new());
    connection
        .arithmetic(Arithmetic::Add, &known, &known, &mut derived)
        .unwrap();
    let refused = Err(no_grant(Operation::CompareDerived));
    for kind in [AggregateKind::Min, AggregateKind::Max] {
        assert_eq!(step(connection, 0, kind, &[&secret, &derived]), refused);
        for asked in [AggregateKind::Sum, AggregateKind::Count, AggregateKind::Avg] {
            let state = step(connection, 0, kind, &[&secret]).unwrap();
            let way = step(connection, state, asked, &[&derived]);
            assert_eq!(way, Err(Refusal::UnknownState));
        }
    }
    let most = key.seal(&Value::Float8(f64::MAX));
    let hidden = bare.seal(&Value::Float8(1e300));
    for kind in [AggregateKind::Min, AggregateKind::Max] {
        let state = step(connection, 0, AggregateKind::Sum, &[&most]).unwrap();
        let way = step(connection, state, kind, &[&hidden]);
        assert_eq!(way, Err(Refusal::UnknownState));
    }
}

/// A documented limit: the length of an `enc_decimal` grows with its value, so sums of sums tell a
/// value to anyone who may do nothing but sum.
#[test]
fn lengths_of_sums_of_sums_tell_a_value() {
    let (mut connection, [mut key]) = session([&[Operation::Aggregate]]);
    let secret = key.int4(123_457);
    let mut sum = |cells: &[&[u8]]| {
        let (mut out, kind, cells) = (Vec::new(), AggregateKind::Sum, cells.iter().copied());
        let there = connection.aggregate_end(0, kind, C, cells, &mut out);
        assert_eq!(there, Ok(true));
        out
    };
    // int8, numeric, and that times each power of two.
    let long = sum(&[&secret]);
    let mut doubles = vec![sum(&[&long])];
    for at in 0..60 {
        doubles.push(sum(&[&doubles[at], &doubles[at]]));
    }
    // The greatest n whose n * secret has no sixth digit of base 10000.
    let shorter = doubles.iter().map(Vec::len).min().unwrap() + 2 * 3;
    let (mut n, mut reached) = (0_u128, None::<Vec<u8>>);
    for (bit, double) in doubles.iter().enumerate().rev() {
        let more = reached
            .as_ref()
            .map_or_else(|| double.clone(), |cell| sum(&[cell, double]));
        if more.len() <= shorter {
            (n, reached) = (n + (1 << bit), Some(more));
        }
    }
    assert_eq!(10_u128.pow(20) / n, 123_457);
}

/// A documented limit: what one session moves under another key, where itself may do no more with
/// it, another session opens there.
#[test]
fn what_one_session_moves_another_may_open() {
    let engine = engine(false);
    let (alice, mover, reader) = (Party::new(1), Party::new(2), Party::new(3));
    let (mut closed_key, mut open_key) = (alice.key(11, false), alice.key(12, false));
    let of_open = KeyScope::Keys(vec![open_key.cipher.id()]);
    let [moves, reads] = [&mover, &reader].map(|party| Subject::Client(party.public()));
    let moves = alice.grant(moves, &[Operation::Arithmetic]);
    let reads = alice.grant_with(reads, &[Operation::ConvertOut], |terms| {
        terms.keys = of_open
    });
    let [mut mover, mut reader] = [(&mover, moves), (&reader, reads)].map(|(party, grant)| {
        let mut connection = connect(&engine, AttachAs::Client);
        open(&mut connection, &alice, party, &[grant], &[]).unwrap();
        load(&mut connection, &closed_key);
        load(&mut connection, &open_key);
        connection
    });
    let (secret, zero) = (closed_key.int4(4242), open_key.int4(0));
    let (mut moved, mut plain) = (Vec::new(), Vec::new());
    let refused = Err(no_grant(Operation::ConvertOut));
    assert_eq!(reader.decrypt_to(&secret, &mut plain), refused);
    let flow = mover.arithmetic(Arithmetic::Add, &zero, &secret, &mut moved);
    assert_eq!(flow, Ok(()));
    assert_eq!(reader.decrypt_to(&moved, &mut plain), Ok(()));
    assert_eq!(plain, 4242_i32.to_be_bytes());
}
