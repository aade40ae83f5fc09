//! Tests of the relay with a driver and a server that are bytes.

mod copying;
mod formats;
mod names;
mod replay;
mod twice;

use proptest::prelude::*;

use super::*;
use crate::refusal::Refusal;
use crate::sql::hexadecimal;
use crate::wire::Writer;
use pgseal_client::Type;
use pgseal_value::Value;

const ENC_TEXT: u32 = 70001;
const ENC_TEXTS: u32 = 70002;

/// Keys whose cells are the text of the value, from its last letter to its first.
struct Reversed;

impl crate::Seal for Reversed {
    fn seal(&self, _: &str, value: &Value) -> Result<Vec<u8>, Refusal> {
        Ok(value.to_text().bytes().rev().collect())
    }
}

impl Keys for Reversed {
    fn open(&self, _: Option<Type>, cell: &[u8]) -> Result<Value, Refusal> {
        let text: Vec<u8> = cell.iter().rev().copied().collect();
        let text = String::from_utf8(text).map_err(|_| Refusal::NoCell)?;
        match text.starts_with('!') {
            true => Err(Refusal::NoCell),
            false => Ok(Value::Text(text)),
        }
    }
}

fn relay() -> Relay {
    let mut catalog = Catalog::new("k");
    let key = Arc::clone(catalog.default_key());
    let cells = |ty: &str| Cells::by_type(ty, &key).expect("a type of encdb");
    catalog.add_column(&"public.t.c".parse().expect("a name"), cells("enc_text"));
    catalog.add_own_type(ENC_TEXT, cells("enc_text"));
    catalog.add_own_type(ENC_TEXTS, cells("enc_text[]"));
    Relay::new(Arc::new(catalog), Arc::new(Reversed))
}

fn message(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut writer = Writer::new(tag);
    parts.iter().for_each(|part| _ = writer.bytes(part));
    writer.end().expect("it is short")
}

fn query(text: &str) -> Vec<u8> {
    message(b'Q', &[text.as_bytes(), b"\0"])
}

fn bind(value: &[u8]) -> Vec<u8> {
    let length = u32::try_from(value.len())
        .expect("it is short")
        .to_be_bytes();
    message(b'B', &[b"\0s\0", &[0, 0, 0, 1], &length, value, &[0, 0]])
}

/// Returns `RowDescription` of columns of these types, in text.
fn description(types: &[u32]) -> Vec<u8> {
    let count = u16::try_from(types.len()).expect("it is short");
    let mut writer = Writer::new(b'T');
    writer.int16(count);
    for oid in types {
        writer
            .string(b"c")
            .bytes(&[0; 6])
            .int32(*oid)
            .int16(u16::MAX)
            .int32(u32::MAX)
            .int16(0);
    }
    writer.end().expect("it is short")
}

fn row(values: &[&[u8]]) -> Vec<u8> {
    let mut writer = Writer::new(b'D');
    writer.int16(u16::try_from(values.len()).expect("it is short"));
    for value in values {
        writer.value(Some(value)).expect("it is short");
    }
    writer.end().expect("it is short")
}

fn ready() -> Vec<u8> {
    message(b'Z', &[b"I"])
}

fn complete() -> Vec<u8> {
    message(b'C', &[b"SELECT 1\0"])
}

fn to_server(relay: &mut Relay, messages: &[Vec<u8>]) -> Vec<u8> {
    relay
        .from_driver(&messages.concat())
        .expect("it is the protocol");
    relay.take_for_server()
}

fn to_driver(relay: &mut Relay, messages: &[Vec<u8>]) -> Vec<u8> {
    relay
        .from_server(&messages.concat())
        .expect("it is the protocol");
    relay.take_for_driver()
}

/// Returns the cell of a text as the server shows it in text format.
fn shown(text: &str) -> Vec<u8> {
    let cell: Vec<u8> = text.bytes().rev().collect();
    hexadecimal(&cell).into_bytes()
}

fn tags(mut bytes: &[u8]) -> String {
    let mut tags = String::new();
    while let Some(&[tag, a, b, c, d]) = bytes.first_chunk() {
        tags.push(char::from(tag));
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).expect("it is short");
        bytes = &bytes[1 + length..];
    }
    tags
}

#[test]
fn a_simple_query_is_sealed_and_its_rows_are_opened() {
    let mut relay = relay();
    let sent = to_server(&mut relay, &[query("SELECT c, 1 FROM t WHERE c = 'ada'")]);
    let sent = String::from_utf8(sent[5..].to_vec()).expect("it is text");
    let cell = hexadecimal(b"ada").replace("\\x", "E'\\\\x");
    assert_eq!(
        sent,
        format!("SELECT c, 1 FROM t WHERE c = {cell}'::enc_text\0")
    );
    let answer = [
        description(&[ENC_TEXT, 23]),
        row(&[&shown("ada"), b"1"]),
        complete(),
        ready(),
    ];
    let expected = [
        description(&[25, 23]),
        row(&[b"ada", b"1"]),
        complete(),
        ready(),
    ];
    assert_eq!(to_driver(&mut relay, &answer), expected.concat());
}

#[test]
fn each_statement_of_a_simple_query_has_its_own_columns() {
    let mut relay = relay();
    to_server(
        &mut relay,
        &[query("SELECT c FROM t; SELECT 'x' FROM u; SELECT c FROM t")],
    );
    let one = [description(&[ENC_TEXT]), row(&[&shown("ada")]), complete()];
    let other = [description(&[25]), row(&[b"\\x00"]), complete()];
    let answer = [&one[..], &other, &one, &[ready()]].concat();
    let plain = [description(&[25]), row(&[b"ada"]), complete()];
    let expected = [&plain[..], &other, &plain, &[ready()]].concat();
    assert_eq!(to_driver(&mut relay, &answer), expected.concat());
}

#[test]
fn a_pipeline_is_described_once_without_being_asked() {
    let mut relay = relay();
    let parse = message(
        b'P',
        &[
            b"s\0SELECT c FROM t WHERE c = $1\0",
            &[0, 1],
            &1043_u32.to_be_bytes(),
        ],
    );
    let execute = message(b'E', &[b"\0", &[0; 4]]);
    let sync = message(b'S', &[]);
    let sent = to_server(
        &mut relay,
        &[parse, bind(b"ada"), execute.clone(), sync.clone()],
    );
    assert_eq!(tags(&sent), "PDBES");
    assert!(
        sent.windows(4).any(|it| it == ENC_TEXT.to_be_bytes()),
        "the type is declared"
    );
    assert!(sent
        .windows(3)
        .all(|it| it != b"ada" || b"ada".iter().rev().eq(it)));
    let answer = [
        message(b'1', &[]),
        message(b't', &[&[0, 1], &ENC_TEXT.to_be_bytes()]),
        description(&[ENC_TEXT]),
        message(b'2', &[]),
        row(&[&shown("grace")]),
        complete(),
        ready(),
    ];
    let given = to_driver(&mut relay, &answer);
    assert_eq!(tags(&given), "12DCZ");
    assert!(given.windows(5).any(|it| it == b"grace"));
    // The second time nothing is inserted.
    let sent = to_server(&mut relay, &[bind(b"ada"), execute, sync]);
    assert_eq!(tags(&sent), "BES");
    let answer = [
        message(b'2', &[]),
        row(&[&shown("grace")]),
        complete(),
        ready(),
    ];
    assert_eq!(tags(&to_driver(&mut relay, &answer)), "2DCZ");
}

#[test]
fn drivers_are_told_plain_types() {
    let mut relay = relay();
    let parse = message(b'P', &[b"s\0SELECT c FROM t WHERE c = $1\0", &[0, 0]]);
    let describe = message(b'D', &[b"Ss\0"]);
    let sent = to_server(&mut relay, &[parse, describe, message(b'H', &[])]);
    assert_eq!(tags(&sent), "PDDH");
    let told = [
        message(b't', &[&[0, 1], &ENC_TEXT.to_be_bytes()]),
        description(&[ENC_TEXT]),
    ];
    let answer = [&[message(b'1', &[])], &told[..], &told].concat();
    let expected = [
        message(b'1', &[]),
        message(b't', &[&[0, 1], &25_u32.to_be_bytes()]),
        description(&[25]),
    ];
    assert_eq!(to_driver(&mut relay, &answer), expected.concat());
}

/// PostgreSQL prepares more parameters than the count has room for. Drivers go by the length.
#[test]
fn plain_types_are_described_as_the_server_did() {
    let mut relay = relay();
    let parse = message(b'P', &[b"s\0SELECT $1, $65536\0", &[0, 0]]);
    to_server(&mut relay, &[parse, message(b'D', &[b"Ss\0"])]);
    let answer = [
        message(b'1', &[]),
        message(b't', &[&[0, 0], &[0, 0, 0, 25].repeat(65_536)]),
        description(&[25, 25]),
    ];
    assert_eq!(to_driver(&mut relay, &answer), answer.concat());
}

#[test]
fn a_refusal_comes_in_its_turn_and_ends_at_sync() {
    let mut relay = relay();
    let plain = message(b'P', &[b"\0SELECT 1\0", &[0, 0]]);
    let refused = message(b'P', &[b"s\0SELECT f(c, 'ada') FROM t\0", &[0, 0]]);
    let sync = message(b'S', &[]);
    let sent = to_server(
        &mut relay,
        &[plain.clone(), refused, bind(b"x"), sync.clone()],
    );
    assert_eq!(tags(&sent), "PPS");
    assert!(!sent.windows(3).any(|it| it == b"ada"));
    let error = message(b'E', &[b"C42601\0\0"]);
    let given = to_driver(&mut relay, &[message(b'1', &[]), error.clone(), ready()]);
    assert_eq!(tags(&given), "1EZ");
    assert!(given.windows(5).any(|it| it == b"0A000"));
    // An error of the server comes first, and alone.
    let refused = message(b'P', &[b"s\0SELECT f(c, 'ada') FROM t\0", &[0, 0]]);
    to_server(&mut relay, &[plain.clone(), refused, sync.clone()]);
    let given = to_driver(&mut relay, &[error, ready()]);
    assert_eq!(tags(&given), "EZ");
    assert!(given.windows(5).any(|it| it == b"42601"));
    assert_eq!(tags(&to_server(&mut relay, &[plain, sync])), "PS");
    assert_eq!(
        tags(&to_driver(&mut relay, &[message(b'1', &[]), ready()])),
        "1Z"
    );
}

fn is_in_clear(sent: &[u8]) -> bool {
    sent.windows(3).any(|it| it == b"xyz")
}

/// Returns a `Bind` of these values, in text.
fn bind_all(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut writer = Writer::new(b'B');
    let count = u16::try_from(values.len()).expect("it is short");
    writer.bytes(b"\0s\0").int16(0).int16(count);
    for value in values {
        writer.value(*value).expect("it is short");
    }
    writer.int16(0);
    writer.end().expect("it is short")
}

#[test]
fn of_a_parameter_that_is_asked_for_null_the_server_learns_that_alone() {
    let mut relay = relay();
    let text = b"SELECT 1 FROM t WHERE ($1::text IS NULL OR c = $2)\0";
    let types = [0, 2, 0, 0, 4, 19, 0, 0, 4, 19]; // varchar
    let sent = to_server(&mut relay, &[message(b'P', &[b"s\0", text, &types])]);
    let sent = String::from_utf8_lossy(&sent).into_owned();
    assert!(
        sent.contains("$1 IS NULL OR c = $2\0\0\u{2}\0\0\0\u{10}"),
        "{sent:?}"
    );
    let sent = to_server(&mut relay, &[bind_all(&[Some(b"xyzzy"), Some(b"xyzzy")])]);
    assert!(!sent.windows(5).any(|part| part == b"xyzzy"), "{sent:?}");
    assert!(
        sent.windows(7).any(|part| part == [0, 2, 0, 0, 0, 1, 1]),
        "{sent:?}"
    );
    let sent = to_server(&mut relay, &[bind_all(&[None, None])]);
    assert!(
        sent.windows(6)
            .any(|part| part == [0, 2, 255, 255, 255, 255]),
        "{sent:?}"
    );
}

#[test]
fn a_parameter_that_meets_nothing_is_not_one_that_is_sealed() {
    for (value, is_sent) in [(&b"xyzzy"[..], false), (b"other", true)] {
        let mut relay = relay();
        let text = b"SELECT $1, c FROM t WHERE c = $2\0";
        to_server(&mut relay, &[message(b'P', &[b"s\0", text, &[0, 0]])]);
        let sent = to_server(&mut relay, &[bind_all(&[Some(value), Some(b"xyzzy")])]);
        assert!(!sent.windows(5).any(|part| part == b"xyzzy"), "{sent:?}");
        assert_eq!(tags(&sent), if is_sent { "B" } else { "P" });
    }
}

#[test]
fn functions_are_called_by_the_protocol_for_large_objects_alone() {
    let call = |oid: u32| {
        message(
            b'F',
            &[
                &oid.to_be_bytes(),
                &[0, 0, 0, 1, 0, 0, 0, 3],
                b"xyz",
                &[0, 0],
            ],
        )
    };
    for (oid, passes) in [(955, true), (2000, false), (20000, false)] {
        assert_eq!(
            is_in_clear(&to_server(&mut relay(), &[call(oid)])),
            passes,
            "{oid}"
        );
    }
}

#[test]
fn a_parameter_that_the_server_calls_encrypted_is_not_sent_in_clear() {
    let mut relay = relay();
    let parse = message(b'P', &[b"s\0SELECT unknown_to_us($1)\0", &[0, 0]]);
    let sync = message(b'S', &[]);
    to_server(
        &mut relay,
        &[parse, message(b'D', &[b"Ss\0"]), sync.clone()],
    );
    let told = message(b't', &[&[0, 1], &ENC_TEXT.to_be_bytes()]);
    to_driver(
        &mut relay,
        &[message(b'1', &[]), told, description(&[25]), ready()],
    );
    let sent = to_server(&mut relay, &[bind(b"xyz"), sync]);
    assert!(!sent.windows(3).any(|it| it == b"xyz"));
}

#[test]
fn what_a_statement_defines_is_known_to_the_next() {
    let mut relay = relay();
    for sql in [
        "CREATE TABLE made (n enc_text); INSERT INTO made (n) VALUES ('xyz')",
        "CREATE TEMP TABLE copied AS SELECT c AS k FROM t",
        "INSERT INTO copied (k) VALUES ('xyz')",
        "ALTER TABLE copied RENAME TO renamed",
        "DELETE FROM renamed WHERE k = 'xyz'",
        "ALTER TABLE plain ADD COLUMN p enc_text",
        "UPDATE plain SET p = 'xyz'",
        "CREATE VIEW v (w) AS SELECT p FROM plain",
        "SELECT 1 FROM v WHERE w = 'xyz'",
        "SELECT c INTO into_ FROM t",
        "SELECT 1 FROM into_ WHERE c = 'xyz'",
    ] {
        let sent = to_server(&mut relay, &[query(sql)]);
        assert!(!sent.windows(5).any(|it| it == b"'xyz'"), "{sql}");
        to_driver(&mut relay, &[complete(), ready()]);
    }
}

#[test]
fn strings_that_the_server_reads_otherwise_are_refused() {
    for (name, value) in [
        (&b"standard_conforming_strings"[..], &b"off"[..]),
        (b"client_encoding", b"LATIN1"),
    ] {
        let mut relay = relay();
        to_driver(&mut relay, &[message(b'S', &[name, b"\0", value, b"\0"])]);
        let sent = to_server(
            &mut relay,
            &[query("SELECT 'it\\'s\u{e4}', c FROM t WHERE c = 'xyz'")],
        );
        assert!(!sent.windows(3).any(|it| it == b"xyz"));
        to_driver(&mut relay, &[message(b'E', &[b"\0"]), ready()]);
        let plain = query("SELECT 'x'");
        assert_eq!(to_server(&mut relay, std::slice::from_ref(&plain)), plain);
    }
}

#[test]
fn a_refused_simple_query_leaves_the_connection_ready() {
    let mut relay = relay();
    let sent = to_server(&mut relay, &[query("SELECT f(c, 'ada') FROM t")]);
    assert_eq!(tags(&sent), "Q");
    assert!(!sent.windows(3).any(|it| it == b"ada"));
    let error = message(b'E', &[b"C42601\0\0"]);
    let given = to_driver(&mut relay, &[error, ready()]);
    assert_eq!(tags(&given), "EZ");
    assert!(given.windows(5).any(|it| it == b"0A000"));
    assert_eq!(tags(&to_server(&mut relay, &[query("SELECT 1")])), "Q");
}

#[test]
fn an_error_of_the_server_ends_what_was_expected() {
    let mut relay = relay();
    let parse = message(b'P', &[b"s\0SELECT c FROM t WHERE c = $1\0", &[0, 0]]);
    let sync = message(b'S', &[]);
    to_server(&mut relay, &[parse.clone(), bind(b"x"), sync.clone()]);
    let error = message(b'E', &[b"C42P01\0\0"]);
    assert_eq!(tags(&to_driver(&mut relay, &[error, ready()])), "EZ");
    to_server(&mut relay, &[parse, sync]);
    let answer = [
        message(b'1', &[]),
        message(b't', &[&[0, 0]]),
        message(b'n', &[]),
        ready(),
    ];
    assert_eq!(tags(&to_driver(&mut relay, &answer)), "1Z");
}

#[test]
fn a_cell_that_cannot_be_opened_is_an_error_of_its_statement_alone() {
    let mut relay = relay();
    to_server(&mut relay, &[query("SELECT c FROM t")]);
    let rows = [
        description(&[ENC_TEXT]),
        row(&[&shown("!")]),
        row(&[&shown("ada")]),
    ];
    let answer = [&rows[..], &[complete(), ready()]].concat();
    assert_eq!(tags(&to_driver(&mut relay, &answer)), "TEZ");
    to_server(&mut relay, &[query("SELECT c FROM t")]);
    let answer = [
        description(&[ENC_TEXT]),
        row(&[&shown("ada")]),
        complete(),
        ready(),
    ];
    assert_eq!(tags(&to_driver(&mut relay, &answer)), "TDCZ");
}

#[test]
fn bytes_that_are_not_the_protocol_end_the_connection() {
    for bytes in [&b"Q\0\0\0\x03"[..], b"P\0\0\0\x05x", b"B\0\0\0\x04"] {
        assert!(relay().from_driver(bytes).is_err(), "{bytes:?}");
    }
    for bytes in [
        message(b'D', &[&[0, 0]]),
        message(b'1', &[]),
        message(b't', &[&[0, 0]]),
    ] {
        // A row that passes is not looked at.
        assert_eq!(relay().from_server(&bytes).is_err(), bytes[0] != b'D');
    }
}

/// Messages of either side that have nothing encrypted.
fn plain_traffic() -> (Vec<u8>, Vec<u8>) {
    let driver = [
        query("SELECT 'c' FROM u"),
        message(
            b'P',
            &[
                b"s\0INSERT INTO u VALUES ($1)\0",
                &[0, 1],
                &23_u32.to_be_bytes(),
            ],
        ),
        bind(b"1"),
        message(b'D', &[b"P\0"]),
        message(b'E', &[b"\0", &[0; 4]]),
        message(b'C', &[b"Ss\0"]),
        message(b'S', &[]),
        query("COPY u FROM STDIN"),
        message(b'd', &[&[b'x'; 3000]]),
        message(b'c', &[]),
        message(b'X', &[]),
    ];
    let server = [
        description(&[25]),
        row(&[&[b'y'; 5000]]),
        complete(),
        ready(),
        message(b'1', &[]),
        message(b'2', &[]),
        message(b'n', &[]),
        complete(),
        message(b'3', &[]),
        ready(),
        message(b'G', &[&[0, 0, 1, 0, 0]]),
        message(b'N', &[b"\0"]),
        complete(),
        ready(),
    ];
    (driver.concat(), server.concat())
}

proptest! {
    #[test]
    fn what_has_nothing_encrypted_comes_out_as_it_went_in(
        steps in prop::collection::vec(1_usize..4000, 1..60),
    ) {
        let (driver, server) = plain_traffic();
        let mut relay = relay();
        let (mut sent, mut given) = (Vec::new(), Vec::new());
        for part in pieces(&driver, &steps) {
            relay.from_driver(part).expect("it is the protocol");
            sent.extend(relay.take_for_server());
        }
        for part in pieces(&server, &steps) {
            relay.from_server(part).expect("it is the protocol");
            given.extend(relay.take_for_driver());
            sent.extend(relay.take_for_server());
        }
        prop_assert!(sent == driver, "sent");
        prop_assert!(given == server, "given");
    }
}

/// Cuts bytes after each of these lengths, the last of which is used for the rest.
fn pieces<'b>(mut bytes: &'b [u8], steps: &[usize]) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    let mut steps = steps.iter().chain(std::iter::repeat(&997));
    while !bytes.is_empty() {
        let step = steps.next().copied().unwrap_or(1).min(bytes.len());
        let (piece, rest) = bytes.split_at(step);
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}
