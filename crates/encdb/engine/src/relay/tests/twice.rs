//! Tests of values that a statement has twice: sealed, and where nothing of a table meets them.

use super::*;

/// Returns what the server gets of a `Bind` of these values, each with its format and the type that
/// the driver declared for it.
fn bound(text: &str, values: &[(&[u8], u16, u32)]) -> Vec<u8> {
    let mut relay = relay();
    let count = u16::try_from(values.len()).expect("it is short");
    let mut parse = Writer::new(b'P');
    parse.string(b"s").string(text.as_bytes()).int16(count);
    for (_, _, oid) in values {
        parse.int32(*oid);
    }
    let mut bind = Writer::new(b'B');
    bind.bytes(b"\0s\0").int16(count);
    for (_, format, _) in values {
        bind.int16(*format);
    }
    bind.int16(count);
    for (value, ..) in values {
        bind.value(Some(value)).expect("it is short");
    }
    bind.int16(0);
    to_server(&mut relay, &[parse.end().expect("it is short")]);
    to_server(&mut relay, &[bind.end().expect("it is short")])
}

fn is_refused(text: &str, values: &[(&[u8], u16, u32)]) -> bool {
    let sent = bound(text, values);
    tags(&sent) == "P" && sent.windows(14).any(|it| it == b"pgseal_refused")
}

#[test]
fn parameters_differ_from_the_literals_of_their_text() {
    for text in [
        "SELECT 'xyzzy' AS term, c FROM t WHERE c = $1",
        "SELECT 'Results for XYZZY', c FROM t WHERE c = $1",
        "SELECT $1 AS term, c FROM t WHERE c = 'xyzzy'",
        "SELECT $1 AS term, c FROM t WHERE c LIKE '%Xyzzy%'",
    ] {
        assert!(is_refused(text, &[(b"xyzzy", 0, 0)]), "{text}");
        assert!(is_refused(text, &[(b"xyzzy", 1, 25)]), "{text}");
        assert!(!is_refused(text, &[(b"other", 0, 0)]), "{text}");
    }
}

#[test]
fn parameters_differ_in_whatever_form_they_come() {
    let text = "SELECT $1, c FROM t WHERE c = $2";
    let number: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 5];
    for (loose, sealed) in [
        ((&b"%XYZZY%"[..], 0, 25), (&b"xyzzy"[..], 1, 0)),
        ((b"xyzzy", 1, 0), (b"%xyzzy%", 0, 0)),
        ((b"{b,xyzzy}", 0, 0), (b"xyzzy", 0, 0)),
        ((number, 1, 20), (b"5", 0, 0)),
        ((number, 1, 0), (b"5", 0, 0)),
        ((b"0", 0, 0), (b"0", 0, 0)),
        ((b"", 0, 0), (b"", 0, 0)),
    ] {
        assert!(is_refused(text, &[loose, sealed]), "{loose:?}");
    }
    let other: [(&[u8], u16, u32); 2] = [(b"5", 0, 0), (b"6", 0, 0)];
    assert!(!is_refused(text, &other));
    // The only result asks whether there is a row.
    let one: [(&[u8], u16, u32); 2] = [(b"1", 0, 0), (b"1", 0, 0)];
    assert!(!is_refused("SELECT $1 FROM t WHERE c = $2", &one));
    assert!(is_refused("SELECT $1, c FROM t WHERE c = $2", &one));
    let ada: [(&[u8], u16, u32); 2] = [(b"ada", 0, 0), (b"ada", 0, 0)];
    assert!(is_refused("SELECT $1 FROM t WHERE c = $2", &ada));
}

#[test]
fn numbers_of_a_text_are_constants_beside_parameters() {
    for text in [
        "SELECT 5, true, c FROM t WHERE c = $1",
        "SELECT c FROM t WHERE c = $1 GROUP BY 1 HAVING count(*) > 5",
    ] {
        for value in ["5", "true", "6"] {
            assert!(!is_refused(text, &[(value.as_bytes(), 0, 0)]), "{text}");
        }
    }
    // A text with a literal that is sealed has data in it.
    let both = "SELECT 5, c FROM t WHERE c = $1 OR c = 'xyzzy'";
    assert!(is_refused(both, &[(b"5", 0, 0)]));
    assert!(is_refused(
        "SELECT '5', c FROM t WHERE c = $1",
        &[(b"5", 0, 0)]
    ));
    for (execute, is_sent) in [("EXECUTE p('5')", true), ("EXECUTE p('xyzzy')", false)] {
        let mut relay = relay();
        let prepare = "PREPARE p (text) AS SELECT 5, 'xyzzy', c FROM t WHERE c = $1";
        to_server(&mut relay, &[query(prepare)]);
        let sent = to_server(&mut relay, &[query(execute)]);
        let is_refused = sent.windows(14).any(|it| it == b"pgseal_refused");
        assert_eq!(is_sent, !is_refused, "{execute}");
    }
}

#[test]
fn a_statement_of_sql_keeps_its_literals() {
    for (prepare, execute) in [
        (
            "SELECT 'xyzzy' AS term, c FROM t WHERE c = $1",
            "EXECUTE p('xyzzy')",
        ),
        (
            "SELECT $1 AS term, c FROM t WHERE c = 'xyzzy'",
            "EXECUTE p('xyzzy')",
        ),
    ] {
        let mut relay = relay();
        to_server(
            &mut relay,
            &[query(&format!("PREPARE p (text) AS {prepare}"))],
        );
        let sent = to_server(&mut relay, &[query(execute)]);
        assert!(
            sent.windows(14).any(|it| it == b"pgseal_refused"),
            "{prepare}"
        );
        let sent = to_server(&mut relay, &[query("EXECUTE p('other')")]);
        assert!(
            !sent.windows(14).any(|it| it == b"pgseal_refused"),
            "{prepare}"
        );
    }
}
