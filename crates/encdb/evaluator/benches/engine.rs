//! The cost of an operation, inline and isolated, beside a plain function call in the same run:
//! `cargo bench -p pgseal-evaluator --bench engine`, and behind `--` parts of variants' names.
//!
//! Every round runs all variants in a rotating order; figures are medians over the rounds, and the
//! least. The isolated ones call `pgseal-evaluator` as a process, over its ring. Nothing is
//! asserted.
#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/host/mod.rs"]
mod host;

use std::hint::black_box;
use std::time::Instant;

use common::*;
use host::{party, Evaluator};
use pgseal_cell::grant::{Grant, Operation, Subject};
use pgseal_evaluator::engine::{CollationId, Connection, Engine};
use pgseal_evaluator::os::{route_crypto, LockedHeap};
use pgseal_evaluator_proto::{AttachAs, Collation, ComparisonRequest, Request};
use pgseal_value::{AggregateKind, Arithmetic};

#[global_allocator]
static HEAP: LockedHeap = LockedHeap::new();

const ROUNDS: usize = 101;
const CALLS: usize = 200;
/// More cells than the cache keeps.
const MANY: usize = 40_000;

struct Variant<'a> {
    name: &'static str,
    call: Box<dyn FnMut(usize) + 'a>,
    ns: Vec<f64>,
}

impl<'a> Variant<'a> {
    fn new(name: &'static str, call: impl FnMut(usize) + 'a) -> Self {
        Self {
            name,
            call: Box::new(call),
            ns: Vec::new(),
        }
    }

    fn round(&mut self, round: usize) {
        let start = Instant::now();
        for i in 0..CALLS {
            (self.call)(round * CALLS + i);
        }
        let ns = start.elapsed().as_nanos();
        self.ns.push(ns as f64 / CALLS as f64);
    }

    /// The least round, which nobody disturbed, and the median.
    fn figures(&mut self) -> (f64, f64) {
        self.ns.sort_by(f64::total_cmp);
        (self.ns[0], self.ns[self.ns.len() / 2])
    }
}

#[inline(never)]
fn plain_compare(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let number = |bytes: &[u8]| i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    number(a).cmp(&number(b))
}

fn encode_compare(left: &[u8], right: &[u8], into: &mut Vec<u8>) {
    into.clear();
    let collation = Collation::C;
    Request::Comparison(ComparisonRequest::Compare {
        collation,
        left,
        right,
    })
    .encode(into);
}

/// An owner, an engine and cells.
struct World {
    engine: Engine,
    alice: Party,
    grant: Grant,
    cells: Vec<Vec<u8>>,
    texts: Vec<Vec<u8>>,
}

impl World {
    fn new() -> Self {
        let alice = party(1);
        let mut key = alice.key(11, false);
        let number = |i| i32::try_from(i).unwrap();
        let text = |i| format!("customer {i:08}");
        let operations = [
            Operation::Arithmetic,
            Operation::Aggregate,
            Operation::CompareDerived,
        ];
        Self {
            engine: engine(true),
            grant: alice.grant(Subject::Owner, &operations),
            cells: (0..MANY).map(|i| key.int4(number(i))).collect(),
            texts: (0..MANY).map(|i| key.text(&text(i))).collect(),
            alice,
        }
    }

    fn connection(&self) -> Connection {
        let mut connection = connect(&self.engine, AttachAs::Client);
        connection.set_time(self.alice.now);
        let grants = std::slice::from_ref(&self.grant);
        open(&mut connection, &self.alice, &self.alice, grants, &[]).unwrap();
        load(&mut connection, &self.alice.key(11, false));
        connection
    }

    /// One that the cache does not hold any more.
    fn fresh(&self, i: usize) -> &[u8] {
        &self.cells[i * 2 % MANY]
    }

    fn few(&self, count: usize) -> Vec<&[u8]> {
        self.cells[..count].iter().map(Vec::as_slice).collect()
    }
}

fn comparisons(world: &World) -> Vec<Variant<'_>> {
    let (cells, texts) = (&world.cells, &world.texts);
    let (mut a, mut b) = (world.connection(), world.connection());
    let (mut c, mut d) = (world.connection(), world.connection());
    let mut e = world.connection();
    vec![
        Variant::new("a plain function call on two int4", |i| {
            let (a, b) = (&cells[i % 500][35..], &cells[7][35..]);
            black_box(plain_compare(black_box(a), black_box(b)));
        }),
        Variant::new("compare int4, both cached, inline", move |i| {
            black_box(a.compare(&cells[i % 500], &cells[7], CollationId::C)).unwrap();
        }),
        Variant::new("compare text, both cached, inline", move |i| {
            black_box(b.compare(&texts[i % 500], &texts[7], CollationId::C)).unwrap();
        }),
        Variant::new("compare int4, one cached, inline", move |i| {
            black_box(c.compare(world.fresh(i), &cells[7], CollationId::C)).unwrap();
        }),
        Variant::new("compare int4, none cached, inline", move |i| {
            let other = &cells[(i * 2 + 1) % MANY];
            black_box(d.compare(world.fresh(i), other, CollationId::C)).unwrap();
        }),
        Variant::new("hash int4, cached, inline", move |i| {
            black_box(e.hash(0, &cells[i % 500])).unwrap();
        }),
    ]
}

fn others(world: &World) -> Vec<Variant<'_>> {
    let cells = &world.cells;
    let (mut a, mut b, mut c) = (world.connection(), world.connection(), world.connection());
    let (mut sealed, mut sum) = (Vec::new(), Vec::new());
    let (hundred, page) = (world.few(100), world.few(200));
    vec![
        Variant::new("int4 + int4, both cached, inline", move |i| {
            sealed.clear();
            let (left, right) = (&cells[i % 500], &cells[7]);
            a.arithmetic(Arithmetic::Add, left, right, &mut sealed)
                .unwrap();
        }),
        Variant::new("SUM of 100 int4, none cached, inline", move |_| {
            sum.clear();
            let cells = hundred.iter().copied();
            let state = b.aggregate_step(0, AggregateKind::Sum, CollationId::C, cells);
            let state = state.unwrap();
            b.aggregate_finish(state, &mut sum).unwrap();
            b.aggregate_drop(state).unwrap();
        }),
        Variant::new("search a page of 200 int4, cached, inline", move |i| {
            black_box(c.search_page(&cells[i % 200], &page, CollationId::C)).unwrap();
        }),
    ]
}

fn isolated<'a>(world: &'a World, evaluator: &Evaluator) -> Vec<Variant<'a>> {
    let cells = &world.cells;
    let backend = || evaluator.backend(&world.alice, std::slice::from_ref(&world.grant));
    let (mut a, mut b) = (backend(), backend());
    let (mut request, mut response) = (Vec::new(), Vec::new());
    let (mut other_request, mut other_response) = (Vec::new(), Vec::new());
    vec![
        Variant::new("compare int4, both cached, isolated", move |i| {
            encode_compare(&cells[i % 500], &cells[7], &mut request);
            a.send_into(&request, &mut response);
            assert_eq!(response.len(), 2);
        }),
        Variant::new("compare int4, one cached, isolated", move |i| {
            encode_compare(world.fresh(i), &cells[7], &mut other_request);
            b.send_into(&other_request, &mut other_response);
            assert_eq!(other_response.len(), 2);
        }),
    ]
}

fn main() {
    route_crypto();
    let world = World::new();
    let evaluator = Evaluator::start(&[]);
    let mut variants = comparisons(&world);
    variants.extend(others(&world));
    variants.extend(isolated(&world, &evaluator));
    // Arguments choose variants by parts of their names.
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    variants.retain(|variant| {
        chosen.is_empty() || chosen.iter().any(|part| variant.name.contains(part))
    });
    for round in 0..ROUNDS {
        let count = variants.len();
        for at in 0..count {
            variants[(at + round) % count].round(round);
        }
    }
    for variant in &mut variants {
        let (least, median) = variant.figures();
        println!("{:45} {median:9.0} ns, least {least:9.0}", variant.name);
    }
}
