//! Tests of statements: what is sealed in them, what their parameters are, what is refused.

use super::*;
use pgseal_client::{from_hex, ColumnName};

/// "Seals" a value so that a test can read it: its key, its type and its text.
pub(super) struct Legible;

impl Seal for Legible {
    fn seal(&self, keyname: &str, value: &Value) -> Result<Vec<u8>, Refusal> {
        Ok(format!("{keyname}:{}:{}", value.ty().name(), value.to_text()).into_bytes())
    }
}

pub(super) fn catalog() -> Catalog {
    let mut catalog = Catalog::new("d");
    let columns = [
        ("public.person.name", "enc_text"),
        ("public.person.age", "enc_int4"),
        ("public.person.born", "enc_date"),
        ("public.person.tags", "enc_text[]"),
        ("public.person.paid", "enc_decimal"),
        ("public.person.any_", "rnd_type"),
        ("public.person.flag", "enc_bool"),
        ("public.pet.nick", "enc_text"),
        ("public.shift.starts", "enc_timestamptz"),
        ("public.shift.ends", "enc_timestamptz"),
        ("public.shift.lasts", "enc_interval"),
        ("public.pet.system_user", "enc_text"),
    ];
    for (name, ty) in columns {
        let name: ColumnName = name.parse().expect("a name");
        let key = name.column[..1].into();
        catalog.add_column(&name, Cells::by_type(ty, &key).expect("a type of encdb"));
    }
    let text = Cells::by_type("enc_text", &"f".into());
    let addr = "public.person.addr".parse().expect("a name");
    catalog.add_column(&addr, Cells::mixed(&"a".into()));
    for mixed in ["mail", "person_like"] {
        catalog.add_mixed(mixed);
    }
    catalog.add_function("store", vec![None, text.clone()]);
    let mixed = Some(Cells::mixed(&"f".into()));
    catalog.add_function("move_to", vec![text.clone(), mixed]);
    catalog.add_function("twice", vec![None, text.clone()]);
    catalog.add_function("twice", vec![text, None]);
    catalog
}

/// Reads a file of statements, each with a comment of one line behind it.
fn cases(file: &'static str) -> Vec<(&'static str, &'static str)> {
    let parts = file.split("\n\n").skip(1);
    let case = |part: &'static str| part.trim_end().rsplit_once("\n-- ").expect("a case");
    parts.map(case).collect()
}

fn analyzed(sql: &str) -> Result<Analysis, Refusal> {
    analyze(sql, &catalog(), &PreparedByName::new(), &Legible)
}

/// Returns the text that is sent, with cells legible: `<key:type:value>`.
fn sent(sql: &str) -> String {
    let analysis = analyzed(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    legible(&analysis.text.unwrap_or_else(|| sql.to_owned()))
}

pub(super) fn legible(sql: &str) -> String {
    // Strings with backslashes are E'…', and those within an array have a second one.
    let sql = sql
        .replace("E'", "'")
        .replace("\\\\", "\\")
        .replace("\\\\", "\\");
    let mut parts = sql.split("\\x");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_hexdigit());
        let (digits, rest) = part.split_at(end.unwrap_or(part.len()));
        let bytes = from_hex(digits).expect("hexadecimal digits");
        shown.push_str(&format!("<{}>{rest}", String::from_utf8_lossy(&bytes)));
    }
    // Each has its type.
    let typed = shown.matches("'::enc_").count();
    let ends = shown.matches(">'").count() + shown.matches(">\"}'").count();
    assert!(typed >= ends, "{shown}");
    let mut parts = shown.split("'::enc_");
    let mut bare = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        bare.push_str(&format!("'{}", rest.strip_prefix("[]").unwrap_or(rest)));
    }
    bare
}

/// Returns what each parameter is: `-` plain, otherwise key and type.
fn parameters(sql: &str) -> String {
    let analysis = analyzed(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let shown = |parameter: &Parameter| match parameter {
        Parameter::Unused => "?".to_owned(),
        Parameter::Plain => "-".to_owned(),
        Parameter::Loose => "loose".to_owned(),
        Parameter::Mark => "mark".to_owned(),
        Parameter::OnlyNull(_) => "null".to_owned(),
        Parameter::Cells(cells, by) => {
            let ty = cells.type_name().unwrap_or("any");
            let array = if cells.is_array { "[]" } else { "" };
            let cast = by.by.map_or(String::new(), |by| format!("<{by:?}"));
            format!("{}:{ty}{array}{cast}", cells.keyname)
        }
    };
    let all: Vec<String> = analysis.parameters.iter().map(shown).collect();
    all.join(" ")
}

#[test]
fn what_names_nothing_encrypted_is_left_alone() {
    for sql in ["SELECT 'ada' FROM t WHERE name = 'x'", "nonsense (", ""] {
        let analysis = analyzed(sql).expect("it is none of our business");
        assert!(analysis.text.is_none() && !analysis.concerns, "{sql}");
    }
}

#[test]
fn literals_beside_encrypted_columns_are_sealed() {
    for (sql, expected) in cases(include_str!("cases/literals.sql")) {
        assert_eq!(sent(sql), expected, "{sql}");
    }
}

#[test]
fn names_are_resolved_as_the_server_does() {
    for (sql, cells) in cases(include_str!("cases/names.sql")) {
        let sent = sent(sql);
        for cell in cells.split(' ') {
            assert!(sent.contains(cell), "{sql}\n{sent}");
        }
        for plain in ["'a'", "'b'", "'c'", "'d'"] {
            assert!(!sent.contains(plain), "{sql}\n{sent}");
        }
    }
}

#[test]
fn conflicts_are_found_by_an_index_that_has_no_nulls() {
    for (conflict, expected) in [
        ("(name)", "(name) WHERE name IS NOT NULL"),
        (
            "(id, name, age) WHERE id > 0 OR id < 9",
            "(id, name, age) WHERE name IS NOT NULL AND age IS NOT NULL AND (id > 0 OR id < 9)",
        ),
        ("(id)", "(id)"),
        ("(lower(note), id)", "(lower(note), id)"),
        ("ON CONSTRAINT k", "ON CONSTRAINT k"),
    ] {
        for action in ["NOTHING", "UPDATE SET id = 1"] {
            let begin = "INSERT INTO person (name, id) VALUES ($1, $2) ON CONFLICT";
            assert_eq!(
                sent(&format!("{begin} {conflict} DO {action}")),
                format!("{begin} {expected} DO {action}")
            );
        }
    }
}

#[test]
fn parameters_are_told_apart() {
    for (sql, expected) in [
        (
            "SELECT * FROM person WHERE name = $2 AND id = $1 LIMIT $3",
            "- n:enc_text -",
        ),
        (
            "SELECT * FROM person WHERE name = $1::varchar",
            "n:enc_text<To(Text)",
        ),
        (
            "SELECT * FROM person WHERE age = $1::smallint",
            "a:enc_int4<Int2",
        ),
        ("SELECT * FROM person WHERE age = ANY($1)", "a:enc_int4[]"),
        ("SELECT * FROM person WHERE $1 = ANY(tags)", "t:enc_text"),
        (
            "SELECT * FROM person WHERE name IN ($1, $2)",
            "n:enc_text n:enc_text",
        ),
        (
            "INSERT INTO person (id, name, any_) VALUES ($1, $2, $3)",
            "- n:enc_text a:any",
        ),
        (
            "UPDATE person SET born = born + $1 WHERE age > $3",
            "b:enc_int4 ? a:enc_int4",
        ),
        (
            "SELECT 1 FROM person WHERE born BETWEEN $1::date AND $1::date + interval '1 year'",
            "b:enc_date<To(Date)",
        ),
        (
            "SELECT 1 FROM person WHERE born < $1::date + 30 OR born - $2::int > born - $3::date",
            "b:enc_date<To(Date) b:enc_int4<To(Int4) b:enc_date<To(Date)",
        ),
        (
            "UPDATE person SET name = $1, age = age * $2 WHERE id = $3",
            "n:enc_text a:enc_int4 -",
        ),
        (
            "SELECT * FROM person WHERE name = $1 OR name > $1",
            "n:enc_text",
        ),
        ("SELECT * FROM person WHERE $1 IS NULL OR id = 1", "-"),
        (
            "SELECT 1 FROM person WHERE born IN ($1, CURRENT_DATE) OR born < now() - $2::interval",
            "b:enc_date -",
        ),
        (
            "SELECT 1 FROM person WHERE born BETWEEN $1::date AND now()",
            "b:enc_date<To(Date)",
        ),
        (
            "INSERT INTO person (id, name) SELECT * FROM unnest($1::int[], $2::varchar(9)[]) t",
            "- n:enc_text[]<Varchar(9)",
        ),
        (
            "SELECT 1 FROM person WHERE paid = $1::numeric(10, 2) AND born = $2::date::date",
            "p:enc_decimal<Numeric(10, 2) b:enc_date<To(Date)",
        ),
    ] {
        assert_eq!(parameters(sql), expected, "{sql}");
    }
    assert_eq!(
        sent("SELECT 1 FROM person WHERE name = CAST($1 AS varchar)"),
        "SELECT 1 FROM person WHERE name = $1"
    );
}

#[test]
fn parameters_that_meet_no_column_are_told_apart() {
    for (sql, expected) in [
        (
            "SELECT * FROM person WHERE ($1 IS NULL OR name = $2) AND ($3 IS NULL OR note = $3)",
            "null n:enc_text -",
        ),
        (
            "SELECT * FROM person WHERE $1 IS NULL OR name = $1",
            "n:enc_text",
        ),
        (
            "SELECT $1, note = $2, set_config('a', $3, false) FROM person WHERE name = $4 LIMIT $5",
            "loose - loose n:enc_text -",
        ),
        (
            "SELECT $1::int AS a FROM person WHERE name = $2",
            "mark n:enc_text",
        ),
        (
            "SELECT id, CASE WHEN flag THEN $1 ELSE lower($2) END FROM person WHERE name = $3",
            "mark loose n:enc_text",
        ),
        ("SELECT $1 FROM person WHERE note = $2 OR $3 = ''", "- - -"),
    ] {
        assert_eq!(parameters(sql), expected, "{sql}");
    }
}

#[test]
fn a_parameter_is_sealed_in_a_comparison_with_literals_if_it_is_elsewhere() {
    for (sql, expected, sent_as) in [
        (
            "SELECT 1 FROM person WHERE $1 = '' OR name = $1",
            "n:enc_text",
            "SELECT 1 FROM person WHERE $1 = '<n:text:>' OR name = $1",
        ),
        (
            "SELECT 1 FROM person WHERE (name = $2 OR $2 IN ('', 'all')) AND (0 <> $1 OR age > $1)",
            "a:enc_int4 n:enc_text",
            "SELECT 1 FROM person WHERE (name = $2 OR $2 IN ('<n:text:>', '<n:text:all>')) \
             AND ('<a:integer:0>' <> $1 OR age > $1)",
        ),
        (
            "SELECT 1 FROM person WHERE $1::text = '' OR name = $1::text",
            "n:enc_text<To(Text)",
            "SELECT 1 FROM person WHERE $1 = '<n:text:>' OR name = $1",
        ),
        // As the refusal of other comparisons says
        (
            "SELECT 1 FROM person WHERE $1::enc_text = '' OR name = $2",
            "d:enc_text n:enc_text",
            "SELECT 1 FROM person WHERE $1 = '<d:text:>' OR name = $2",
        ),
        (
            "SELECT 5::enc_int4, name FROM person WHERE age = 5",
            "",
            "SELECT '<d:integer:5>', name FROM person WHERE age = '<a:integer:5>'",
        ),
    ] {
        assert_eq!(parameters(sql), expected, "{sql}");
        let sent = sent(sql)
            .replace("::enc_text", "")
            .replace("::enc_int4", "");
        assert_eq!(sent, sent_as, "{sql}");
    }
    for sql in [
        "SELECT 1 FROM person WHERE $1 = '' OR name = $2",
        "SELECT 1 FROM person WHERE $1 < '' OR name = $1",
        "SELECT 1 FROM person WHERE length($1) = 0 OR name = $1",
        "SELECT 1 FROM person WHERE $1 = note OR name = $1",
        "SELECT 1 FROM person WHERE $1 = '' OR name = $1 OR age = $1",
        "SELECT 1 FROM person WHERE $1 = 'xyzzy' OR note = $1 OR name = $1",
    ] {
        assert!(analyzed(sql).is_err(), "{sql}");
    }
}

#[test]
fn what_cannot_be_decided_is_refused() {
    let file = include_str!("cases/refused.sql").split("\n\n").skip(1);
    let mut sent = Vec::new();
    for sql in file.map(str::trim_end) {
        match analyzed(sql) {
            Err(refusal) => {
                let shown = format!("{refusal} {refusal:?}");
                assert!(!shown.contains("xyzzy"), "{shown}");
                assert!(!shown.contains("3000000000"), "{shown}");
                assert_eq!(refusal.sqlstate().len(), 5);
            }
            Ok(analysis) => sent.push((sql, analysis.text)),
        }
    }
    assert!(sent.is_empty(), "{sent:#?}");
}

/// Returns what becomes of the last of several texts, each of which the server gets.
fn after(texts: &[&str]) -> Result<Analysis, Refusal> {
    let mut catalog = catalog();
    let (last, before) = texts.split_last().expect("a text");
    for text in before {
        let analysis = analyze(text, &catalog, &PreparedByName::new(), &Legible)?;
        let defined = analysis.defined.into_iter();
        defined.for_each(|definition| catalog.define(definition));
    }
    analyze(last, &catalog, &PreparedByName::new(), &Legible)
}

#[test]
fn what_is_not_read_may_change_what_is_known() {
    let insert = "INSERT INTO kid (secret) VALUES ('xyzzy')";
    let add = "ALTER TABLE u ADD secret enc_text";
    for before in [
        "CREATE TABLE kid () INHERITS (u)",
        "SELECT 1; create table kid partition of u default",
        "ALTER TABLE kid INHERIT u",
        "ALTER TABLE u ATTACH PARTITION kid DEFAULT",
    ] {
        let analysis = after(&[before, add, insert]).expect("it is sealed");
        let text = analysis.text.expect("it is changed");
        assert!(!text.contains("xyzzy"), "{before}: {text}");
    }
    let analysis = after(&[add, insert]).expect("it is plain");
    assert!(!analysis.concerns);
    let analysis = after(&[
        "CREATE TABLE a.t5 (c enc_text); CREATE TABLE b.t5 (d enc_text)",
        "ALTER SCHEMA b RENAME TO old",
        "ALTER SCHEMA a RENAME TO b",
        "INSERT INTO b.t5 (c) VALUES ('xyzzy')",
    ]);
    let text = analysis.expect("it is sealed").text;
    assert!(!text.expect("it is changed").contains("xyzzy"));
}

#[test]
fn what_is_plain_is_sent_as_it_is() {
    for sql in include_str!("cases/plain.sql").split("\n\n").skip(1) {
        let analysis = analyzed(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(analysis.text, None, "{sql}");
    }
}

#[test]
fn a_parameter_is_rounded_only_where_it_is_assigned() {
    for (sql, expected) in [
        ("UPDATE person SET age = $1 WHERE age > $2", "r="),
        ("UPDATE person SET age = $1 WHERE age = $1", "="),
        ("UPDATE person SET age = $1 + 1", "="),
        ("UPDATE person SET (age, paid) = ($1, $2)", "rr"),
        (
            "UPDATE person SET age = CASE WHEN paid < $1 THEN $2 ELSE age END",
            "=r",
        ),
        (
            "INSERT INTO person (age, name) VALUES ($1, $2), (COALESCE($3, $4), '')",
            "rrrr",
        ),
        (
            "INSERT INTO person (age) SELECT $1 FROM person WHERE age IN ($2, 3)",
            "r=",
        ),
        (
            "SELECT 1 FROM person WHERE age = ANY ($1) AND paid BETWEEN $2 AND $3",
            "===",
        ),
        (
            "SELECT 1 FROM person WHERE (age, paid) = ($1, $2) OR age = (SELECT $3)",
            "===",
        ),
    ] {
        let analysis = analyzed(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let rounds = |parameter: &Parameter| match parameter {
            Parameter::Cells(_, Conversion { rounds: true, .. }) => 'r',
            Parameter::Cells(..) => '=',
            _ => '?',
        };
        let found: String = analysis.parameters.iter().map(rounds).collect();
        assert_eq!(found, expected, "{sql}");
    }
}

#[test]
fn a_value_that_is_compared_keeps_its_value() {
    let times = || Times::default();
    let given = |text: &str, from: Type, to: Type, rounds: bool| {
        let value = Value::parse(from, text).expect("a value");
        let conversion = Conversion { by: None, rounds };
        let made = conversion.convert(value, to, &times);
        made.map(|it| it.to_text()).map_err(|it| it.sqlstate())
    };
    use Type::{Date, Decimal, Float4, Float8, Int4, Int8, Text, Timestamp};
    for (text, from, to, assigned, compared) in [
        ("2.5", Decimal, Int4, "3", Err("0A000")),
        ("2.00", Decimal, Int4, "2", Ok("2")),
        ("2.5", Float8, Int8, "2", Err("0A000")),
        ("-7", Float8, Int4, "-7", Ok("-7")),
        ("0.1", Float8, Decimal, "0.1", Ok("0.1")),
        ("0.30000000000000004", Float8, Decimal, "0.3", Err("0A000")),
        ("0.1", Float8, Float4, "0.1", Ok("0.1")),
        ("5", Int4, Decimal, "5", Ok("5")),
        ("007", Text, Int4, "7", Ok("7")),
        (
            "2026-01-02 00:00",
            Timestamp,
            Date,
            "2026-01-02",
            Ok("2026-01-02"),
        ),
        (
            "2026-01-02 00:01",
            Timestamp,
            Date,
            "2026-01-02",
            Err("0A000"),
        ),
    ] {
        let found = given(text, from, to, true);
        assert_eq!(found.as_deref(), Ok(assigned), "{text} assigned");
        let found = given(text, from, to, false);
        assert_eq!(
            found.as_deref().map_err(|it| *it),
            compared,
            "{text} compared"
        );
    }
    assert_eq!(given("3000000000", Int8, Int4, false), Err("22003"));
}

/// Seals a value into a cell that no other has.
#[derive(Default)]
struct Numbered(std::cell::Cell<u8>);

impl Seal for Numbered {
    fn seal(&self, _: &str, _: &Value) -> Result<Vec<u8>, Refusal> {
        self.0.set(self.0.get() + 1);
        Ok(vec![self.0.get()])
    }
}

#[test]
fn equal_literals_have_the_same_cell_only_where_expressions_must_be_the_same() {
    for (sql, cells) in [
        (
            "SELECT upper(name || 'x') FROM person GROUP BY upper(name || 'x')",
            1,
        ),
        (
            "SELECT DISTINCT name || 'x', age + 1.5 FROM person ORDER BY name || 'x', age + 1.5",
            2,
        ),
        ("SELECT name || 'x', name || 'y' FROM person ORDER BY 1", 2),
        ("SELECT 1 FROM person WHERE name = 'x' OR name = 'x'", 2),
        ("INSERT INTO person (name) VALUES ('x'), ('x')", 2),
        (
            "INSERT INTO person (name) SELECT 'x' FROM pet GROUP BY 1 ORDER BY 1",
            1,
        ),
        ("UPDATE person SET name = 'x' WHERE name = 'x'", 2),
    ] {
        let seal = Numbered::default();
        let analysis = analyze(sql, &catalog(), &PreparedByName::new(), &seal);
        analysis.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(seal.0.get(), cells, "{sql}");
    }
}
