//! The formats in which the server is asked for results, and in which a driver gets them.

use super::*;
use crate::values::{BINARY, TEXT};
use crate::wire::{Bind, Frames, Reader};

const INT4: u32 = 23;

/// Returns `Bind` without parameters, with these formats of results.
fn bind_for(formats: &[u16]) -> Vec<u8> {
    let mut writer = Writer::new(b'B');
    writer.bytes(b"\0s\0").int16(0).int16(0);
    writer.int16(u16::try_from(formats.len()).expect("they are few"));
    formats.iter().for_each(|it| _ = writer.int16(*it));
    writer.end().expect("it is short")
}

fn parse(text: &str) -> Vec<u8> {
    message(b'P', &[b"s\0", text.as_bytes(), b"\0\0\0"])
}

/// Returns a relay that knows the columns of statement `s`: an encrypted one, and a plain one.
fn described(text: &str) -> Relay {
    let mut relay = relay();
    to_server(&mut relay, &[parse(text), message(b'S', &[])]);
    let types = message(b't', &[&[0, 0]]);
    let parsed = message(b'1', &[]);
    let columns = description(&[ENC_TEXT, INT4]);
    to_driver(&mut relay, &[parsed, types, columns, ready()]);
    relay
}

/// Returns the formats of results that the server is asked for.
fn asked(relay: &mut Relay, formats: &[u16]) -> Vec<u16> {
    let sent = to_server(relay, &[bind_for(formats)]);
    let mut frames = Frames::default();
    frames.add(&sent);
    let Ok(Some(bind)) = frames.message() else {
        panic!("a message");
    };
    Bind::read(bind).expect("a Bind").result_formats()
}

#[test]
fn cells_come_in_binary_whatever_the_driver_wants() {
    let cases: [(&[u16], &[u16]); 5] = [
        (&[], &[BINARY, TEXT]),
        (&[TEXT], &[BINARY, TEXT]),
        (&[TEXT, BINARY], &[BINARY, BINARY]),
        (&[BINARY], &[BINARY]),
        (&[BINARY, TEXT], &[BINARY, TEXT]),
    ];
    for (wanted, expected) in cases {
        let mut relay = described("SELECT c, n FROM t");
        assert_eq!(asked(&mut relay, wanted), expected, "{wanted:?}");
    }
}

#[test]
fn a_list_of_another_length_is_for_the_server_to_refuse() {
    let mut relay = described("SELECT c, n FROM t");
    assert_eq!(asked(&mut relay, &[TEXT, TEXT, TEXT]), [TEXT, TEXT, TEXT]);
}

#[test]
fn a_statement_whose_columns_may_change_is_asked_as_the_driver_does() {
    for text in ["EXECUTE e", "FETCH c", "SHOW x"] {
        let mut relay = relay();
        to_server(&mut relay, &[parse(text), message(b'D', &[b"Ss\0"])]);
        let columns = description(&[ENC_TEXT, INT4]);
        let types = message(b't', &[&[0, 0]]);
        to_driver(&mut relay, &[message(b'1', &[]), types, columns]);
        assert!(asked(&mut relay, &[]).is_empty(), "{text}");
    }
}

#[test]
fn a_driver_is_told_and_given_the_format_that_it_wants() {
    for (wanted, cell) in [(TEXT, &b"abc"[..]), (BINARY, b"abc")] {
        let mut relay = described("SELECT c, n FROM t");
        let portal = message(b'D', &[b"P\0"]);
        let execute = message(b'E', &[b"\0", &[0; 4]]);
        to_server(&mut relay, &[bind_for(&[wanted, TEXT]), portal, execute]);
        let mut columns = description(&[ENC_TEXT, INT4]);
        let second = description(&[INT4]).len() - 7; // less its header and count
        let at = columns.len() - second - 1;
        columns[at] = 1; // as the server was asked
        let answers = [message(b'2', &[]), columns, row(&[b"cba", b"7"])];
        let got = to_driver(&mut relay, &answers);
        let mut frames = Frames::default();
        frames.add(&got);
        let mut messages = Vec::new();
        while let Ok(Some(message)) = frames.message() {
            messages.push(message.to_vec());
        }
        let mut told = Reader::new(&messages[1]);
        let formats = told.list(|column| {
            column.string()?;
            column.bytes(16)?;
            column.int16()
        });
        assert_eq!(formats.expect("a description"), [wanted, TEXT]);
        assert_eq!(messages[2], row(&[cell, b"7"]));
    }
}

#[test]
fn a_cursor_is_described_as_the_server_describes_it() {
    let mut relay = relay();
    let declared = query("DECLARE x BINARY CURSOR FOR SELECT n FROM other");
    to_server(&mut relay, &[declared, message(b'D', &[b"Px\0"])]);
    let of_declare = message(b'C', &[b"DECLARE CURSOR\0"]);
    to_driver(&mut relay, &[of_declare, message(b'Z', &[b"T"])]);
    let mut columns = description(&[INT4]);
    *columns.last_mut().expect("a format") = 1;
    assert_eq!(to_driver(&mut relay, &[columns.clone()]), columns);
}

#[test]
fn a_description_of_plain_columns_comes_as_it_is() {
    let mut relay = relay();
    to_server(&mut relay, &[query("SELECT n FROM other")]);
    let mut columns = [description(&[INT4]), b"more".to_vec()].concat();
    columns[4] += 4; // the length
    assert_eq!(to_driver(&mut relay, &[columns.clone()]), columns);
}
