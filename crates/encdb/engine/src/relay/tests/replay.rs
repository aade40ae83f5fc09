//! Tests of statements that are sent again with a new session.

use super::*;

fn lost() -> Vec<u8> {
    message(b'E', &[b"SERROR\0CPE009\0Mno session\0\0"])
}

fn tag(text: &str) -> Vec<u8> {
    message(b'C', &[text.as_bytes(), b"\0"])
}

fn in_transaction(status: u8) -> Vec<u8> {
    message(b'Z', &[&[status]])
}

/// Gives the relay a new session, with the same keys.
fn restore(relay: &mut Relay) {
    assert!(relay.wants_session());
    let (catalog, keys) = (Arc::clone(&relay.catalog), Arc::clone(&relay.keys));
    relay.restored(catalog, keys).expect("it is the protocol");
}

#[test]
fn a_statement_without_a_session_is_sent_again() {
    let select = query("SELECT c FROM t WHERE c = 'ada'");
    let mut relay = relay();
    let sent = to_server(&mut relay, &[select]);
    assert_eq!(tags(&to_driver(&mut relay, &[lost()])), "");
    assert!(!relay.wants_session());
    // What the driver sends meanwhile waits.
    assert_eq!(to_server(&mut relay, &[query("SELECT 2")]), b"");
    assert_eq!(tags(&to_driver(&mut relay, &[ready()])), "");
    restore(&mut relay);
    let again = relay.take_for_server();
    assert_eq!(tags(&again), "QQ");
    assert!(again.starts_with(&sent));
    let answer = [
        description(&[ENC_TEXT]),
        row(&[&shown("ada")]),
        complete(),
        ready(),
    ];
    assert_eq!(tags(&to_driver(&mut relay, &answer)), "TDCZ");
    assert_eq!(tags(&to_driver(&mut relay, &[complete(), ready()])), "CZ");
}

/// Psycopg 2 and 3 do so: `BEGIN` is answered before the statement that finds no session.
#[test]
fn a_transaction_that_has_done_nothing_begins_again() {
    let mut relay = relay();
    to_server(&mut relay, &[query("BEGIN")]);
    assert_eq!(
        tags(&to_driver(
            &mut relay,
            &[tag("BEGIN"), in_transaction(b'T')]
        )),
        "CZ"
    );
    let parse = message(b'P', &[b"s\0SELECT c FROM t WHERE c = $1\0", &[0, 0]]);
    let portal = message(b'D', &[b"P\0"]);
    let execute = message(b'E', &[b"\0", &[0; 4]]);
    let sync = message(b'S', &[]);
    let flight = [parse, bind(b"ada"), portal, execute, sync];
    let sent = to_server(&mut relay, &flight);
    assert_eq!(tags(&sent), "PDBDES");
    let answer = [
        message(b'1', &[]),
        message(b't', &[&[0, 1], &ENC_TEXT.to_be_bytes()]),
        description(&[ENC_TEXT]),
        message(b'2', &[]),
        description(&[ENC_TEXT]),
    ];
    assert_eq!(tags(&to_driver(&mut relay, &answer)), "12T");
    assert_eq!(
        tags(&to_driver(&mut relay, &[lost(), in_transaction(b'E')])),
        ""
    );
    assert_eq!(relay.take_for_server(), query("ROLLBACK"));
    assert_eq!(
        tags(&to_driver(&mut relay, &[tag("ROLLBACK"), ready()])),
        ""
    );
    restore(&mut relay);
    assert_eq!(relay.take_for_server(), [query("BEGIN"), sent].concat());
    let begun = [tag("BEGIN"), in_transaction(b'T')].concat();
    let rest = [row(&[&shown("ada")]), complete(), in_transaction(b'T')].concat();
    let answer = [begun, answer.concat(), rest];
    assert_eq!(tags(&to_driver(&mut relay, &answer)), "DCZ");
}

#[test]
fn what_cannot_be_sent_again_fails() {
    let select = || query("SELECT c FROM t WHERE c = 'ada'");
    let fails = |messages: &[Vec<u8>], answer: &[Vec<u8>], expected: &str| {
        let mut relay = relay();
        to_server(&mut relay, messages);
        let answer = [answer, &[lost(), in_transaction(b'E')]].concat();
        assert_eq!(tags(&to_driver(&mut relay, &answer)), expected);
        assert!(!relay.wants_session());
    };
    // The transaction has seen or changed data, or another statement is on its way.
    let begun = [tag("BEGIN"), in_transaction(b'T')];
    let changed = [&begun[..], &[tag("UPDATE 1"), in_transaction(b'T')]].concat();
    let update = query("UPDATE u SET n = 1");
    fails(
        &[query("BEGIN"), update.clone(), select()],
        &changed,
        "CZCZEZ",
    );
    fails(&[select(), update], &[], "EZ");
    fails(&[query("CALL p(); SELECT c FROM t")], &[], "EZ");
    let large = query(&format!(
        "SELECT c FROM t WHERE 'x' = '{}'",
        "x".repeat(1 << 20)
    ));
    fails(&[large], &[], "EZ");
    // Once is enough.
    let mut relay = relay();
    to_server(&mut relay, &[select()]);
    to_driver(&mut relay, &[lost(), ready()]);
    restore(&mut relay);
    assert_eq!(tags(&to_driver(&mut relay, &[lost(), ready()])), "EZ");
    // And the next statement may have another session.
    to_server(&mut relay, &[select()]);
    to_driver(&mut relay, &[lost(), ready()]);
    assert!(relay.wants_session());
    let why = pgseal_client::ClientError::NotInstalled;
    relay.not_restored(&why).expect("it is the protocol");
    assert_eq!(tags(&relay.take_for_driver()), "EZ");
    assert_eq!(tags(&to_server(&mut relay, &[select()])), "Q");
}
