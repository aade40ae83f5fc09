//! Tests of the names of statements.

use super::*;

#[test]
fn names_are_those_that_the_server_has() {
    let mut relay = relay();
    let sync = message(b'S', &[]);
    let parse = |sql: &str| message(b'P', &[b"s\0", sql.as_bytes(), b"\0", &[0, 0]]);
    let error = message(b'E', &[b"C42P05\0\0"]);
    let described = [
        message(b't', &[&[0, 1], &ENC_TEXT.to_be_bytes()]),
        message(b'n', &[]),
    ];
    to_server(
        &mut relay,
        &[parse("DELETE FROM t WHERE c = $1"), sync.clone()],
    );
    to_driver(
        &mut relay,
        &[&[message(b'1', &[])], &described[..], &[ready()]].concat(),
    );
    // The name is in use: the server keeps the first statement, and so does the engine.
    to_server(
        &mut relay,
        &[parse("DELETE FROM u WHERE n = $1"), sync.clone()],
    );
    to_driver(&mut relay, &[error.clone(), ready()]);
    let is_sealed = |sent: &[u8]| !sent.windows(3).any(|it| it == b"xyz");
    assert!(is_sealed(&to_server(
        &mut relay,
        &[bind(b"xyz"), sync.clone()]
    )));
    to_driver(&mut relay, &[message(b'2', &[]), ready()]);
    // Closed behind an error, it is not closed.
    let fails = message(b'P', &[b"\0nonsense\0", &[0, 0]]);
    to_server(
        &mut relay,
        &[fails, message(b'C', &[b"Ss\0"]), sync.clone()],
    );
    to_driver(&mut relay, &[error, ready()]);
    assert!(is_sealed(&to_server(
        &mut relay,
        &[bind(b"xyz"), sync.clone()]
    )));
    to_driver(&mut relay, &[message(b'2', &[]), ready()]);
    // SQL has the same names.
    let sent = to_server(&mut relay, &[query("EXECUTE s('xyz')")]);
    assert!(is_sealed(&sent));
    to_driver(&mut relay, &[complete(), ready()]);
    to_server(
        &mut relay,
        &[query("PREPARE p AS DELETE FROM t WHERE c = $1")],
    );
    to_driver(&mut relay, &[complete(), ready()]);
    let bound = message(
        b'B',
        &[b"\0p\0", &[0, 0, 0, 1, 0, 0, 0, 3], b"xyz", &[0, 0]],
    );
    assert!(is_sealed(&to_server(&mut relay, &[bound, sync])));
    // What is deallocated is forgotten.
    to_driver(&mut relay, &[message(b'2', &[]), ready()]);
    to_server(&mut relay, &[query("DEALLOCATE s")]);
    to_driver(&mut relay, &[message(b'C', &[b"DEALLOCATE\0"]), ready()]);
    assert!(relay.statements.find(b"s").is_none());
    assert!(!relay.statements.prepared().contains_key("s"));
}

#[test]
fn a_statement_that_became_another_one_is_not_bound() {
    let mut relay = relay();
    let sync = message(b'S', &[]);
    let insert = |name: &[u8]| {
        let text = b"\0INSERT INTO later (c) VALUES ($1)\0";
        message(b'P', &[name, text, &[0, 0]])
    };
    to_server(&mut relay, &[insert(b"s"), sync.clone()]);
    to_driver(&mut relay, &[message(b'1', &[]), ready()]);
    assert!(is_in_clear(&to_server(
        &mut relay,
        &[bind(b"xyz"), sync.clone()]
    )));
    to_driver(&mut relay, &[message(b'2', &[]), ready()]);
    to_server(
        &mut relay,
        &[query("ALTER TABLE later ALTER c TYPE enc_text USING NULL")],
    );
    to_driver(&mut relay, &[complete(), ready()]);
    assert!(!is_in_clear(&to_server(
        &mut relay,
        &[bind(b"xyz"), sync.clone()]
    )));
    let error = message(b'E', &[b"C42601\0\0"]);
    let told = to_driver(&mut relay, &[error.clone(), ready()]);
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(
        told.contains("0A000\0Mcached plan must not change result type\0"),
        "{told}"
    );
    // Prepared anew, it is sealed; one that has nothing to do with it goes on.
    let other = message(b'P', &[b"o\0INSERT INTO u (n) VALUES ($1)\0", &[0, 0]]);
    to_server(
        &mut relay,
        &[message(b'C', &[b"Ss\0"]), insert(b"s"), other, sync.clone()],
    );
    assert!(!is_in_clear(&to_server(
        &mut relay,
        &[bind(b"xyz"), sync.clone()]
    )));
    to_server(&mut relay, &[query("CREATE TABLE third (c enc_text)")]);
    let bound = message(
        b'B',
        &[b"\0o\0", &[0, 0, 0, 1, 0, 0, 0, 3], b"xyz", &[0, 0]],
    );
    assert!(is_in_clear(&to_server(&mut relay, &[bound, sync])));
    // Nobody knows what SQL has prepared before.
    assert!(!is_in_clear(&to_server(
        &mut relay,
        &[query("EXECUTE early('xyz')")]
    )));
}

#[test]
fn a_deallocation_removes_what_came_before_it_alone() {
    let prepare = |sql: &str| {
        query(&format!(
            "{sql}PREPARE s (text) AS DELETE FROM t WHERE c = $1"
        ))
    };
    let execute = || query("EXECUTE s('xyz')");
    let mut relay = relay();
    to_server(&mut relay, &[query("DEALLOCATE s"), prepare("")]);
    let deallocated = message(b'C', &[b"DEALLOCATE\0"]);
    to_driver(
        &mut relay,
        &[deallocated.clone(), ready(), complete(), ready()],
    );
    assert!(!is_in_clear(&to_server(&mut relay, &[execute()])));
    to_driver(&mut relay, &[complete(), ready()]);
    // The statement of the protocol that had the name before is not what the server has.
    let mut relay = super::relay();
    let sync = message(b'S', &[]);
    let parse = message(b'P', &[b"s\0DELETE FROM u WHERE n = $1\0", &[0, 0]]);
    to_server(
        &mut relay,
        &[parse, sync.clone(), prepare("DEALLOCATE s; ")],
    );
    let answer = [
        message(b'1', &[]),
        ready(),
        deallocated,
        complete(),
        ready(),
    ];
    to_driver(&mut relay, &answer);
    assert!(!is_in_clear(&to_server(&mut relay, &[bind(b"xyz"), sync])));
}
