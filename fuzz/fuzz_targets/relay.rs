//! Traffic between a driver and its server, as either may have written it: nothing panics, the
//! same bytes in other pieces have the same outcome, and what touches nothing encrypted comes out
//! byte for byte. What an engine sends is no more than a multiple of what it was sent; run.sh
//! limits its memory.

#![no_main]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use pgseal_client::{Identity, OwnersList, Policy};
use pgseal_engine::{
    Catalog, Cells, Engine, Event, Keys, Owner, Owners, Refusal, Relay, Seal, ServerTrust,
};
use pgseal_value::{Type, Value};

const ENC_TEXT: u32 = 70001;
/// The beginning of names that traffic with nothing encrypted does not have
const SECRET: &str = "secret";
/// The most bytes that are sent for each byte that came, and for nothing
const MOST: usize = 512;

/// Keys whose cells are the values' own texts.
#[derive(Default)]
struct Open {
    has_refused: AtomicBool,
}

impl Seal for Open {
    fn seal(&self, _: &str, value: &Value) -> Result<Vec<u8>, Refusal> {
        Ok(value.to_text().into_bytes())
    }
}

impl Keys for Open {
    fn open(&self, ty: Option<Type>, cell: &[u8]) -> Result<Value, Refusal> {
        let text = std::str::from_utf8(cell).map_err(|_| Refusal::NoCell)?;
        Ok(Value::parse(ty.unwrap_or(Type::Text), text)?)
    }

    fn note(&self, event: Event) {
        if let Event::Refused(_) = event {
            self.has_refused.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns a catalog of one table, whose name and columns begin with a text.
fn catalog(begin: &str) -> Catalog {
    let mut catalog = Catalog::new("k");
    let key = Arc::clone(catalog.default_key());
    for (column, ty) in [("c", "enc_text"), ("n", "enc_int4"), ("a", "enc_text[]")] {
        let cells = Cells::by_type(ty, &key).expect("a type of encdb");
        let name = format!("public.{begin}t.{begin}{column}");
        catalog.add_column(&name.parse().expect("a name"), cells);
    }
    let cells = Cells::by_type("enc_text", &key).expect("a type of encdb");
    catalog.add_own_type(ENC_TEXT, cells);
    catalog
}

/// Splits the input: a byte whose first bit is the side and whose rest is a length, then the bytes.
fn steps(mut data: &[u8]) -> Vec<(bool, &[u8])> {
    let mut steps = Vec::new();
    while let Some((&head, rest)) = data.split_first() {
        let length = usize::from(head >> 1).min(rest.len());
        let (bytes, rest) = rest.split_at(length);
        steps.push((head & 1 == 0, bytes));
        data = rest;
    }
    steps
}

/// The bytes that either side was sent.
#[derive(Default)]
struct Outcome {
    to_driver: Vec<u8>,
    to_server: Vec<u8>,
    /// A side did not speak the protocol.
    has_failed: bool,
}

fn run(mut relay: Relay, steps: &[(bool, &[u8])], piece: usize) -> Outcome {
    let mut outcome = Outcome::default();
    for (is_driver, bytes) in steps {
        for part in bytes.chunks(piece) {
            let taken = match is_driver {
                true => relay.from_driver(part),
                false => relay.from_server(part),
            };
            outcome.to_driver.extend(relay.take_for_driver());
            outcome.to_server.extend(relay.take_for_server());
            if taken.is_err() {
                outcome.has_failed = true;
                return outcome;
            }
        }
    }
    outcome
}

/// Returns all that one side sent.
fn all_of(is_driver: bool, steps: &[(bool, &[u8])]) -> Vec<u8> {
    let its_own = steps.iter().filter(|(side, _)| *side == is_driver);
    its_own
        .flat_map(|(_, bytes)| bytes.iter().copied())
        .collect()
}

/// Returns the messages, of which the last may have only begun.
fn messages(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let length = match bytes.first_chunk::<5>() {
            Some(&[_, a, b, c, d]) => u32::from_be_bytes([a, b, c, d]),
            None => u32::MAX,
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let length = length.saturating_add(1).max(5).min(bytes.len());
        let (message, rest) = bytes.split_at(length);
        messages.push(message);
        bytes = rest;
    }
    messages
}

/// Returns messages without the frames of COPY's rows, which are cut as they come.
fn without_rows(bytes: &[u8]) -> Vec<u8> {
    let content = |message: &&[u8]| match message {
        [b'd', _, _, _, _, rows @ ..] => rows.to_vec(),
        message => message.to_vec(),
    };
    messages(bytes).iter().flat_map(content).collect()
}

/// Checks that bytes in other pieces have the same outcome.
fn agrees(steps: &[(bool, &[u8])], sent: usize) {
    let relay = || Relay::new(Arc::new(catalog("")), Arc::new(Open::default()));
    let whole = run(relay(), steps, usize::MAX);
    assert!(whole.to_driver.len() + whole.to_server.len() <= MOST * (sent + 1));
    let pieces = run(relay(), steps, 3);
    if !whole.has_failed && !pieces.has_failed {
        assert_eq!(
            without_rows(&whole.to_driver),
            without_rows(&pieces.to_driver)
        );
        assert_eq!(
            without_rows(&whole.to_server),
            without_rows(&pieces.to_server)
        );
    }
}

/// Bytes that touch nothing encrypted come out as they are.
fn passes(steps: &[(bool, &[u8])], catalog: Catalog) {
    let (driver, server) = (all_of(true, steps), all_of(false, steps));
    let small = driver.to_ascii_lowercase();
    let has = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|it| it == part);
    // A session that the server calls lost is opened again.
    let is_apart = ![SECRET.as_bytes(), b"enc", b"u&"]
        .iter()
        .any(|it| has(&small, it))
        && !has(&server, &ENC_TEXT.to_be_bytes())
        && ![&b"PE0"[..], b"DISCARD ALL"]
            .iter()
            .any(|it| has(&server, it));
    if !is_apart {
        return;
    }
    let keys = Arc::new(Open::default());
    let outcome = run(
        Relay::new(Arc::new(catalog), keys.clone()),
        steps,
        usize::MAX,
    );
    if keys.has_refused.load(Ordering::Relaxed) {
        return;
    }
    assert!(
        server.starts_with(&outcome.to_driver),
        "the driver gets other bytes"
    );
    let rest = &server[outcome.to_driver.len()..];
    assert!(
        outcome.has_failed || messages(rest).len() <= 1,
        "the driver lacks bytes"
    );
    reach_the_server(&driver, &server, &outcome);
}

/// The driver's messages reach the server in their order, and each of them unless it is one of rows
/// that nobody takes, or comes after an error that the server skips up to `Sync`.
fn reach_the_server(driver: &[u8], server: &[u8], outcome: &Outcome) {
    let may_wait = |message: &&[u8]| matches!(message[0], b'd' | b'c' | b'f');
    let has_error = messages(server).iter().any(|message| message[0] == b'E');
    let came = messages(driver);
    if !has_error && !came.iter().any(may_wait) {
        assert!(
            driver.starts_with(&outcome.to_server),
            "the server gets other bytes"
        );
        let rest = &driver[outcome.to_server.len()..];
        assert!(
            outcome.has_failed || messages(rest).len() <= 1,
            "the server lacks bytes"
        );
        return;
    }
    let mut came = came.iter();
    for message in messages(&outcome.to_server) {
        assert!(
            came.any(|it| it.starts_with(message)),
            "nobody sent {message:?}"
        );
    }
}

struct One(Owner);

impl Owners for One {
    fn owner(&self, _: &str, _: &str) -> Option<Owner> {
        Some(self.0.clone())
    }
}

/// A server may say anything while the owner's session is opened.
fn connects(steps: &[(bool, &[u8])], sent: usize) {
    let owner = Owner {
        identity: Arc::new(Identity::for_tests(1)),
        policy: Arc::new(Policy::software()),
        list: OwnersList::default(),
        trust: ServerTrust::default(),
        keyname: "k".to_owned(),
    };
    let mut engine = Engine::new(Arc::new(One(owner)));
    let (mut out, mut start) = (Vec::new(), b"\0\0\0\0\0\x03\0\0user\0a\0\0".to_vec());
    start[3] = u8::try_from(start.len()).expect("it is short");
    engine.from_driver(&start).expect("it is a start");
    for (is_driver, bytes) in steps {
        let taken = match is_driver {
            true => engine.from_driver(bytes),
            false => engine.from_server(bytes),
        };
        engine.move_for_driver(&mut out);
        engine.move_for_server(&mut out);
        if taken.is_err() {
            break;
        }
    }
    // The opening of a session has bytes of its own.
    assert!(out.len() <= MOST * (sent + 1) + (64 << 10));
}

fuzz_target!(|data: &[u8]| {
    let steps = steps(data);
    agrees(&steps, data.len());
    passes(&steps, Catalog::new("k"));
    passes(&steps, catalog(SECRET));
    connects(&steps, data.len());
});
