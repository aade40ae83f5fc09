//! Measures the cost of statements that touch nothing encrypted, in a database where a table is:
//! `cargo bench -p pgseal-engine`. Bytes of driver and server go through a relay. It prints medians
//! over rounds, on one thread, and asserts nothing.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use pgseal_engine::{Catalog, Cells, Keys, Refusal, Relay, Seal};
use pgseal_value::{Type, Value};

const ROUNDS: usize = 101;
const CALLS: u32 = 500;

/// Keys that nothing needs.
struct Unused;

impl Seal for Unused {
    fn seal(&self, _: &str, _: &Value) -> Result<Vec<u8>, Refusal> {
        Err(Refusal::NoCell)
    }
}

impl Keys for Unused {
    fn open(&self, _: Option<Type>, _: &[u8]) -> Result<Value, Refusal> {
        Err(Refusal::NoCell)
    }
}

const PREPARED: &str = "SELECT c FROM sbtest1 WHERE id = $1";

fn main() {
    let mut line = relay();
    simple(&mut line);
    prepared(&mut line);
    unnamed(&mut line);
}

/// Measures simple queries.
fn simple(line: &mut Relay) {
    let point = "SELECT c FROM sbtest1 WHERE id = 50123";
    let range = "SELECT c FROM sbtest1 WHERE id BETWEEN 50000 AND 50099";
    let write = format!(
        "UPDATE sbtest1 SET c = '{}' WHERE id = 50123",
        "12345-".repeat(20)
    );
    let long = format!("{point} -- {}", "a".repeat(1000));
    for (name, text, rows) in [
        ("simple, point", point, 1),
        ("simple, 100 rows", range, 100),
        ("simple, write", &write, 0),
        ("simple, BEGIN", "BEGIN", 0),
        ("simple, 1 kB", &long, 1),
    ] {
        let asked = message(b'Q', &[text.as_bytes(), b"\0"]);
        let answered = answer_of(&[description()], rows);
        measure(name, || pass(line, &asked, &answered));
    }
}

/// Measures a statement that is parsed once and run many times.
fn prepared(line: &mut Relay) {
    let sync = message(b'S', &[]);
    let asked = [parse(b"s"), message(b'D', &[b"Ss\0"]), sync.clone()].concat();
    let told = message(b't', &[&[0, 1, 0, 0, 0, 23]]);
    let ready = message(b'Z', &[b"I"]);
    let answered = [message(b'1', &[]), told, description(), ready].concat();
    measure("parse and describe", || pass(line, &asked, &answered));
    let asked = [bind(b"s"), describe(), execute(), sync].concat();
    for (name, rows) in [
        ("prepared, point", 1),
        ("prepared, 100 rows", 100),
        ("prepared, write", 0),
    ] {
        let answered = answer_of(&[message(b'2', &[]), description()], rows);
        measure(name, || pass(line, &asked, &answered));
    }
}

/// Measures a statement without a name, which is parsed each time.
fn unnamed(line: &mut Relay) {
    let sync = message(b'S', &[]);
    let asked = [parse(b""), bind(b""), describe(), execute(), sync].concat();
    let answered = answer_of(&[message(b'1', &[]), message(b'2', &[]), description()], 1);
    measure("unnamed, point", || pass(line, &asked, &answered));
}

fn parse(name: &[u8]) -> Vec<u8> {
    message(b'P', &[name, b"\0", PREPARED.as_bytes(), b"\0\0\0"])
}

/// Returns `Bind` of one number in binary.
fn bind(name: &[u8]) -> Vec<u8> {
    let value = [&4_u32.to_be_bytes()[..], &50_123_u32.to_be_bytes()].concat();
    message(
        b'B',
        &[b"\0", name, b"\0", &[0, 1, 0, 1, 0, 1], &value, &[0, 0]],
    )
}

fn describe() -> Vec<u8> {
    message(b'D', &[b"P\0"])
}

fn execute() -> Vec<u8> {
    message(b'E', &[&[0; 5]])
}

/// Returns the relay of a database with one encrypted table beside those that are plain.
fn relay() -> Relay {
    let mut catalog = Catalog::new("k");
    let key = Arc::clone(catalog.default_key());
    for column in ["k", "c", "pad"] {
        let name = format!("public.sealed.{column}").parse().expect("a name");
        let cells = Cells::by_type("enc_text", &key).expect("a type of encdb");
        catalog.add_listed(&name, cells.clone());
        catalog.add_column(&name, cells);
    }
    Relay::new(Arc::new(catalog), Arc::new(Unused))
}

fn message(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let length = u32::try_from(body.len() + 4).expect("it is short");
    [&[tag][..], &length.to_be_bytes(), &body].concat()
}

/// Returns `RowDescription` of one column of text.
fn description() -> Vec<u8> {
    let of_type = [&[0; 6][..], &25_u32.to_be_bytes(), &[0xff; 6], &[0, 0]].concat();
    message(b'T', &[&[0, 1], b"c\0", &of_type])
}

/// Returns an answer with so many rows of 120 bytes.
fn answer_of(before: &[Vec<u8>], rows: usize) -> Vec<u8> {
    let row = message(b'D', &[&[0, 1], &120_u32.to_be_bytes(), &[b'7'; 120]]);
    let rest = [message(b'C', &[b"SELECT 1\0"]), message(b'Z', &[b"I"])];
    [before.concat(), row.repeat(rows), rest.concat()].concat()
}

fn pass(relay: &mut Relay, asked: &[u8], answered: &[u8]) {
    relay.from_driver(black_box(asked)).expect("the protocol");
    black_box(relay.take_for_server());
    relay
        .from_server(black_box(answered))
        .expect("the protocol");
    black_box(relay.take_for_driver());
}

fn measure(name: &str, mut call: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..CALLS).for_each(|_| call());
            start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:<24} {:>9.1} ns", rounds[ROUNDS / 2]);
}
