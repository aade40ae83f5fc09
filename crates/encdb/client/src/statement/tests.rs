//! Tests of tokens, names and ends of statements.

use super::*;

fn tokens(text: &str) -> Vec<Token<'_>> {
    Statement::new(text).tokens().collect()
}

#[test]
fn strings_of_every_kind_are_literals() {
    for text in [
        "'a'",
        "''",
        "'it''s'",
        "E'a\\'b'",
        "e'\\\\'",
        "U&'\\0061'",
        "u&'a'",
        "B'01'",
        "x'1F'",
        "N'a'",
        "$$a$$",
        "$tag$ a $$ 'b' $tag$",
        "$ä$x$ä$",
        "'open",
        "$$open",
        "E'open\\'",
    ] {
        assert_eq!(tokens(text), [Token::Text], "{text}");
    }
    for text in ["1", "1.5", ".5", "1e-5", "1E+5", "0x1F", "1_000", "1."] {
        assert_eq!(tokens(text), [Token::Number], "{text}");
    }
}

#[test]
fn a_string_goes_on_behind_a_new_line() {
    for text in [
        "E'a'\n'b\\'c'",
        "E'a' \t\r 'b\\' FROM person'",
        "'a'\n  'b'\n'c'",
        "E'a' -- it's\n'b\\''",
    ] {
        assert_eq!(tokens(text), [Token::Text], "{text}");
    }
    assert_eq!(tokens("'a' 'b'"), [Token::Text, Token::Text]);
    assert_eq!(tokens("E'a'\n"), [Token::Text]);
    assert_eq!(tokens("E'a' /* \n */ 'b'").len(), 2);
    let shown = "SELECT E'a'\n'b\\'', 1 FROM person WHERE name = 'c'";
    assert!(Statement::new(shown).names("person"));
}

#[test]
fn hexadecimal_numbers_have_no_exponent() {
    assert!(Statement::new("SELECT 0x1e-store(1)").names("store"));
    assert!(Statement::new("SELECT 0X1E+store(1)").names("store"));
    assert_eq!(tokens("1_0e-5"), [Token::Number]);
    assert_eq!(tokens(".5E+3"), [Token::Number]);
}

#[test]
fn names_that_depend_on_the_encoding_are_doubtful() {
    let doubtful = |text| Statement::new(text).has_doubtful_name();
    let long = "\u{e9}".repeat(40);
    let long = format!("SELECT \"{long}\"");
    assert!(doubtful("SELECT 1 FROM K\u{c4}UFER") && doubtful(&long));
    for text in [
        "SELECT \"K\u{c4}UFER\", k\u{e4}ufer, '\u{c4}'",
        &"a".repeat(70),
    ] {
        assert!(!doubtful(text), "{text}");
    }
}

#[test]
fn names_comments_and_signs_are_none() {
    for text in [
        "SELECT c FROM t WHERE c = $1",
        "-- 'a'\nSELECT c",
        "/* 'a' /* 1 */ 2 */ c",
        "\"it's 1\"",
        "a$1",
        "t1",
        "SELECT c::enc_text[] FROM \"a\"\"b\"",
        "a $ b",
        "SELECT c LIMIT 10 OFFSET 5",
        "e",
        "u & v",
    ] {
        assert!(!Statement::new(text).has_literals(), "{text}");
    }
    for text in [
        "c = 'a'",
        "c=E'a'",
        "c -- x\n = 1",
        "c/**/=/**/$$x$$",
        "LIMIT 'a'",
        "LIMIT -1",
        "c = -1",
        "a-1",
        "U&\"c\"",
        "\"open",
        "b = true",
        "b IS NOT False",
    ] {
        assert!(Statement::new(text).has_literals(), "{text}");
    }
    assert!(!Statement::new("SELECT \"true\"").has_literals());
    assert_eq!(tokens("a--b"), [Token::Word("a")]);
    assert_eq!(tokens(" /* c */ -- d"), []);
}

#[test]
fn statements_that_run_code_are_told() {
    for (text, word) in [
        ("do $$ x $$", Some("DO")),
        (
            "CREATE OR REPLACE function f() AS 'x'",
            Some("CREATE FUNCTION"),
        ),
        ("CREATE PROCEDURE f() AS 'x'", Some("CREATE PROCEDURE")),
        ("Explain Execute q(1)", Some("EXECUTE")),
        ("CALL p(1)", Some("CALL")),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", None),
        ("SELECT \"call\", 'execute' FROM t", None),
    ] {
        assert_eq!(Statement::new(text).runs_code(), word, "{text}");
    }
}

#[test]
fn names_are_folded_as_postgresql_folds_them() {
    let names = |text, name| Statement::new(text).names(name);
    assert!(names("SELECT * FROM Test1", "test1") && names("\"Test1\"", "Test1"));
    assert!(
        !names("\"Test1\"", "test1") && !names("'test1'", "test1") && !names("test12", "test1")
    );
    assert!(names("U&\"te\\0073t1\"", "test1") && names("\"a\"\"b\"", "a\"b"));
    let cut = "t".repeat(64);
    assert!(Statement::new(&cut).names("test1"));
    assert!(names("SELECT ÄB", "Äb") && names("SELECT ÄB", "äb"));
}

#[test]
fn a_schema_before_a_table_is_seen() {
    let bare = |text| Statement::new(text).names_bare("s", "t");
    assert!(!bare("SELECT c FROM s.t") && !bare("S . \"t\"") && !bare("other"));
    assert!(bare("FROM t") && bare("FROM o.t") && bare("s.t, t") && bare("t.c FROM s.t"));
    assert!(bare("U&\"s\".t"));
}

#[test]
fn statements_end_outside_of_strings_and_brackets() {
    let end = |text: &str| Statement::end(text).map(|end| text[..end].to_owned());
    for (text, first) in [
        ("a; b", "a"),
        (
            "a ';' \";\" $$;$$ /*;*/ --;\n(;) ; b",
            "a ';' \";\" $$;$$ /*;*/ --;\n(;) ",
        ),
        ("a \\bind 1;", "a "),
    ] {
        assert_eq!(end(text).as_deref(), Some(first), "{text}");
    }
    assert_eq!(end("a"), None);
    assert!(Statement::new(" -- a").is_empty());
}

#[test]
fn statements_are_split_where_they_end() {
    for text in [
        "",
        "a",
        "a;",
        "a; b (;) c; d",
        "SELECT '1;2' /* ; */; b -- ;\n; c",
        "a ); b \\ (c; d) ; e",
        "(a; \\ b; c",
        ";;",
    ] {
        let mut expected = Vec::new();
        let mut rest = Some(text);
        while let Some(text) = rest {
            let end = Statement::end(text);
            rest = end.and_then(|end| text.get(end + 1..));
            let statement = &text[..end.unwrap_or(text.len())];
            expected.push(tokens(statement));
        }
        let split = Statement::new(text).split();
        let split: Vec<Vec<Token<'_>>> = split.iter().map(|it| it.tokens().collect()).collect();
        assert_eq!(split, expected, "{text}");
    }
}

#[test]
fn a_name_that_may_be_there_is_never_missed() {
    let long = "T".repeat(64);
    let texts = [
        "FROM Test1",
        "\"Test1\"",
        "\"TE\"\"ST\"",
        "U&\"te\\0073t1\"",
        "SELECT \u{c4}B, \"\u{c4}b\"",
        "'test1' -- test1",
        "test12 || \"open",
        &long,
    ];
    for text in texts {
        let statement = Statement::new(text);
        for name in [
            "test1", "Test1", "TE\"ST", "\u{e4}b", "\u{c4}b", "\u{c4}B", "x",
        ] {
            let folded = name.to_lowercase();
            let may = statement.may_have_name(|it| it == folded);
            assert!(may || !statement.names(name), "{text}: {name}");
        }
    }
    let plain = Statement::new("SELECT 'test1' FROM t");
    assert!(!plain.may_have_name(|it| it == "test1"));
    assert!(plain.has_name(|it| it.starts_with("sel")));
    assert!(!Statement::new("\"Sel\"").has_name(|it| it.starts_with("sel")));
    assert_eq!(
        Statement::first_word_of(" /* a */ Select 1"),
        Some("Select")
    );
    assert_eq!(Statement::first_word_of("\"select\" 1"), None);
}

#[test]
fn qualified_names_are_that_and_nothing_else() {
    let names = |text| Statement::new(text).qualified_name().join("|");
    assert_eq!(names("A.\"b C\" . d"), "a|b C|d");
    for text in ["a b", "a.", ".a", "a..b", "a.1", "", "a.b;"] {
        assert_eq!(names(text), "", "{text}");
    }
}
