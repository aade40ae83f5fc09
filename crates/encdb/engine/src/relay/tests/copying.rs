//! Tests of rows of COPY in the relay.

use super::*;

/// While it takes rows of COPY, a server passes over `Sync`; libpq sends one all the same.
#[test]
fn a_sync_within_copy_has_no_answer() {
    let copy = |relay: &mut Relay, at_once: bool| {
        let execute = message(b'E', &[b"\0", &[0; 4]]);
        let sync = message(b'S', &[]);
        let rows = [message(b'd', &[b"x"]), message(b'c', &[]), sync.clone()];
        let parse = message(b'P', &[b"\0COPY u FROM STDIN\0", &[0, 0]]);
        let bind = message(b'B', &[b"\0\0", &[0; 6]]);
        to_server(relay, &[parse, bind, execute, sync]);
        let begun = [message(b'1', &[]), message(b'2', &[])].concat();
        assert_eq!(tags(&to_driver(relay, &[begun])), "12");
        let begun = message(b'G', &[&[0, 0, 1, 0, 0]]);
        if at_once {
            to_server(relay, &rows);
            assert_eq!(tags(&to_driver(relay, &[begun])), "G");
        } else {
            assert_eq!(tags(&to_driver(relay, &[begun])), "G");
            to_server(relay, &rows);
        }
    };
    for at_once in [false, true] {
        let mut relay = relay();
        copy(&mut relay, at_once);
        assert_eq!(tags(&to_driver(&mut relay, &[complete(), ready()])), "CZ");
        copy(&mut relay, at_once);
        let error = message(b'E', &[b"C22P02\0\0"]);
        assert_eq!(tags(&to_driver(&mut relay, &[error, ready()])), "EZ");
        assert!(relay.expected.is_empty(), "{:?}", relay.expected);
    }
}

fn copies_in() -> Vec<u8> {
    message(b'G', &[&[0, 0, 2, 0, 0, 0, 0]])
}

/// A driver says which value it cannot encode.
#[test]
fn the_server_does_not_get_a_drivers_reason_to_end_rows() {
    let mut relay = relay();
    to_server(&mut relay, &[query("COPY t (a, c) FROM STDIN")]);
    assert_eq!(tags(&to_driver(&mut relay, &[copies_in()])), "G");
    let sent = to_server(&mut relay, &[message(b'f', &[b"xyzzy is no text\0"])]);
    assert_eq!(tags(&sent), "f");
    assert!(!String::from_utf8_lossy(&sent).contains("xyzzy"));
    let error = message(b'E', &[b"C57014\0\0"]);
    let given = to_driver(&mut relay, &[error, ready()]);
    assert_eq!(tags(&given), "EZ");
    let given = String::from_utf8_lossy(&given).into_owned();
    assert!(
        given.contains("57014") && given.contains("xyzzy"),
        "{given}"
    );

    // Where nothing is encrypted, the server gets it.
    to_server(&mut relay, &[query("COPY u FROM STDIN")]);
    assert_eq!(tags(&to_driver(&mut relay, &[copies_in()])), "G");
    let sent = to_server(&mut relay, &[message(b'f', &[b"xyzzy\0"])]);
    assert!(String::from_utf8_lossy(&sent).contains("xyzzy"));
}

/// Rows wait for the server's word: the statement may fail, and nobody takes them then.
#[test]
fn rows_are_sealed_once_the_server_takes_them() {
    let rows = message(b'd', &[b"1\tada\n2\t\\N\n"]);
    let done = message(b'c', &[]);
    let mut relay = relay();
    let sent = to_server(
        &mut relay,
        &[
            query("COPY t (a, c) FROM STDIN"),
            rows.clone(),
            done.clone(),
        ],
    );
    assert_eq!(tags(&sent), "Q");
    assert_eq!(tags(&to_driver(&mut relay, &[copies_in()])), "G");
    let sent = relay.take_for_server();
    assert_eq!(tags(&sent), "dc");
    let sent = String::from_utf8_lossy(&sent).into_owned();
    assert!(sent.contains("1\t\\\\x616461\n2\t\\N\n"), "{sent}");
    assert_eq!(tags(&to_driver(&mut relay, &[complete(), ready()])), "CZ");

    let sent = to_server(
        &mut relay,
        &[
            query("COPY t (a, c) FROM STDIN"),
            rows.clone(),
            done.clone(),
        ],
    );
    assert_eq!(tags(&sent), "Q");
    let error = message(b'E', &[b"C42P01\0\0"]);
    assert_eq!(tags(&to_driver(&mut relay, &[error, ready()])), "EZ");
    assert_eq!(tags(&relay.take_for_server()), "");

    // Those of a statement of the same text belong to the second COPY.
    let both = query("COPY u FROM STDIN; COPY t (a, c) FROM STDIN");
    to_server(&mut relay, &[both]);
    for expected in ["1\tada", "1\t\\\\x616461"] {
        assert_eq!(tags(&to_driver(&mut relay, &[copies_in()])), "G");
        let sent = to_server(&mut relay, &[rows.clone(), done.clone()]);
        let sent = String::from_utf8_lossy(&sent).into_owned();
        assert!(sent.contains(expected), "{sent}");
        assert_eq!(tags(&to_driver(&mut relay, &[complete()])), "C");
    }
    assert_eq!(tags(&to_driver(&mut relay, &[ready()])), "Z");
    assert_eq!(tags(&to_server(&mut relay, &[rows, done])), "");
}

#[test]
fn a_row_that_cannot_be_sealed_ends_its_copy_alone() {
    let rows = message(b'd', &[b"1\tada\n2\tada\t3\n"]);
    let done = message(b'c', &[]);
    let execute = message(b'E', &[b"\0", &[0; 4]]);
    let sync = message(b'S', &[]);
    let parse = message(b'P', &[b"s\0COPY t (a, c) FROM STDIN\0", &[0, 0]]);
    let bind = message(b'B', &[b"\0s\0", &[0; 6]]);
    let mut relay = relay();
    to_server(&mut relay, &[query("COPY t (a, c) FROM STDIN")]);
    to_driver(&mut relay, &[copies_in()]);
    let sent = to_server(&mut relay, &[rows.clone(), rows.clone(), done.clone()]);
    assert_eq!(tags(&sent), "df");
    let before = String::from_utf8_lossy(&sent).into_owned();
    assert!(before.contains("1\t\\\\x616461\n"), "{before}");
    let error = message(b'E', &[b"C57014\0\0"]);
    let told = to_driver(&mut relay, &[error.clone(), ready()]);
    assert_eq!(tags(&told), "EZ");
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(told.contains("22P04") && told.contains("row 2"), "{told}");

    to_server(&mut relay, &[parse, bind, execute, sync.clone()]);
    let answer = [message(b'1', &[]), message(b't', &[&[0, 0]])];
    let answer = [&answer[..], &[message(b'n', &[]), message(b'2', &[])]].concat();
    assert_eq!(tags(&to_driver(&mut relay, &answer)), "12");
    assert_eq!(tags(&to_driver(&mut relay, &[copies_in()])), "G");
    let sent = to_server(&mut relay, &[rows, done, sync]);
    assert_eq!(tags(&sent), "df");
    assert_eq!(tags(&to_driver(&mut relay, &[error])), "E");
    assert_eq!(tags(&relay.take_for_server()), "S");
    assert_eq!(tags(&to_driver(&mut relay, &[ready()])), "Z");
    to_server(&mut relay, &[query("SELECT 1")]);
    assert_eq!(tags(&to_driver(&mut relay, &[complete(), ready()])), "CZ");
    assert!(relay.expected.is_empty(), "{:?}", relay.expected);
}

#[test]
fn rows_that_are_copied_out_are_opened() {
    let mut relay = relay();
    let text = "COPY (SELECT c, 1 FROM t) TO STDOUT";
    to_server(&mut relay, &[query(text)]);
    let row = |text: &str| {
        let cell = String::from_utf8(shown(text)).expect("it is text");
        message(b'd', &[b"\\", cell.as_bytes(), b"\t1\n"])
    };
    let begun = message(b'H', &[&[0, 0, 2, 0, 0, 0, 0]]);
    let answer = [begun.clone(), row("ada"), row("bob"), message(b'c', &[])];
    let told = to_driver(&mut relay, &answer);
    assert_eq!(tags(&told), "Hddc");
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(
        told.contains("ada\t1\n") && told.contains("bob\t1\n"),
        "{told}"
    );
    assert_eq!(tags(&to_driver(&mut relay, &[complete(), ready()])), "CZ");

    to_server(&mut relay, &[query(text)]);
    let answer = [
        begun,
        row("!"),
        row("bob"),
        message(b'c', &[]),
        complete(),
        ready(),
    ];
    assert_eq!(tags(&to_driver(&mut relay, &answer)), "HEZ");
}

/// A server that begins another COPY than the statement's would get rows in clear.
#[test]
fn a_server_gets_no_rows_that_were_not_for_it() {
    let rows = [message(b'd', &[b"1\txyz\n"]), message(b'c', &[])];
    for (text, answer) in [
        // The statement was refused, and an error replaced: nothing is to be copied.
        (
            "COPY t FROM STDIN",
            vec![message(b'E', &[b"C42601\0\0"]), copies_in()],
        ),
        (
            "COPY u TO STDOUT; COPY t (a, c) FROM STDIN",
            vec![copies_in()],
        ),
        (
            "COPY t (a, c) FROM STDIN; COPY u FROM STDIN",
            vec![copies_in(), copies_in()],
        ),
        (
            "COPY t (a, c) FROM STDIN; COPY u FROM STDIN",
            vec![copies_in(), complete()],
        ),
    ] {
        let mut relay = relay();
        to_server(&mut relay, &[query(text), rows.concat()]);
        let mut other = super::relay();
        other.from_driver(&query(text)).expect("it is the protocol");
        assert!(other.from_server(&answer.concat()).is_err(), "{text}");
        let _ = relay.from_server(&answer.concat());
        assert!(!is_in_clear(&relay.take_for_server()), "{text}");
    }
}

#[test]
fn rows_in_an_encoding_that_hides_delimiters_are_refused() {
    let mut relay = relay();
    let encoding = message(b'S', &[b"client_encoding\0SJIS\0"]);
    to_driver(&mut relay, &[encoding]);
    to_server(&mut relay, &[query("COPY t (a, c) FROM STDIN")]);
    let error = message(b'E', &[b"C42601\0\0"]);
    let told = to_driver(&mut relay, &[error, ready()]);
    assert!(told.windows(5).any(|it| it == b"22021"));
}
