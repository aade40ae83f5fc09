//! Traffic between a driver and its server, as either may have written it: nothing panics, and the
//! same bytes in other pieces have the same outcome.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use pgseal_engine::{Catalog, Cells, Keys, Refusal, Relay, Seal};
use pgseal_value::{Type, Value};

const ENC_TEXT: u32 = 70001;

/// Keys whose cells are the values' own texts.
struct Open;

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
}

fn relay() -> Relay {
    let mut catalog = Catalog::new("k");
    let key = Arc::clone(catalog.default_key());
    for (name, ty) in [
        ("public.t.c", "enc_text"),
        ("public.t.n", "enc_int4"),
        ("public.t.a", "enc_text[]"),
    ] {
        let cells = Cells::by_type(ty, &key).expect("a type of encdb");
        catalog.add_column(&name.parse().expect("a name"), cells);
    }
    let cells = Cells::by_type("enc_text", &key).expect("a type of encdb");
    catalog.add_own_type(ENC_TEXT, cells);
    Relay::new(Arc::new(catalog), Arc::new(Open))
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

/// Returns what either side is sent; none after bytes that are not the protocol.
fn run(steps: &[(bool, &[u8])], piece: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut relay = relay();
    let (mut to_driver, mut to_server) = (Vec::new(), Vec::new());
    for (is_driver, bytes) in steps {
        for part in bytes.chunks(piece) {
            match is_driver {
                true => relay.from_driver(part).ok()?,
                false => relay.from_server(part).ok()?,
            }
            to_driver.extend(relay.take_for_driver());
            to_server.extend(relay.take_for_server());
        }
    }
    Some((to_driver, to_server))
}

/// Returns messages without the frames of COPY's rows, which are cut as they come.
fn without_rows(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((header, _)) = bytes.split_first_chunk::<5>() {
        let [tag, a, b, c, d] = *header;
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        let length = length.saturating_add(1).clamp(5, bytes.len());
        let (message, rest) = bytes.split_at(length);
        out.extend_from_slice(if tag == b'd' { &message[5..] } else { message });
        bytes = rest;
    }
    out
}

fuzz_target!(|data: &[u8]| {
    let steps = steps(data);
    let whole = run(&steps, usize::MAX);
    let pieces = run(&steps, 3);
    if let (Some(whole), Some(pieces)) = (whole, pieces) {
        assert_eq!(without_rows(&whole.0), without_rows(&pieces.0));
        assert_eq!(without_rows(&whole.1), without_rows(&pieces.1));
    }
});
