//! Plans and refusals, from tables of facts: no server is asked.

use super::*;
use crate::protect::TriggerFacts;

fn column(name: &str, number: i16, ty: &PgType, bare: &str) -> ColumnFacts {
    ColumnFacts {
        name: name.to_owned(),
        number,
        ty: ty.oid(),
        type_name: bare.to_owned(),
        bare_type: bare.to_owned(),
        ..ColumnFacts::default()
    }
}

/// A table with two texts and a number, of which all are wanted, and nothing in the way.
fn facts() -> Facts {
    Facts {
        types: "public".to_owned(),
        schema: "public".to_owned(),
        table: "customers".to_owned(),
        kind: 'r',
        persistence: 'p',
        is_owned: true,
        rows: 10,
        columns: vec![
            column("email", 2, &PgType::TEXT, "text"),
            column("Ssn", 3, &PgType::VARCHAR, "character varying"),
            column("age", 5, &PgType::INT4, "integer"),
        ],
        ..Facts::default()
    }
}

fn wanted() -> Wanted {
    Wanted::parse("customers", "email,\"Ssn\",age", "k").expect("they are names")
}

fn plan(facts: &Facts) -> Result<Plan, Vec<Obstacle>> {
    Plan::new(facts, &wanted(), &OwnersList::default())
}

/// Returns the sentences of all obstacles.
fn refusal(change: impl FnOnce(&mut Facts)) -> String {
    let mut facts = facts();
    change(&mut facts);
    let found = plan(&facts).err().unwrap_or_default();
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    texts.join("\n")
}

/// A change of the facts, and what its refusal says.
type Refused<'a> = (&'a str, fn(&mut Facts));

fn all_refused(cases: &[Refused<'_>]) {
    for (expected, change) in cases {
        let said = refusal(change);
        assert!(said.contains(expected), "{expected}: {said:?}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_table_that_nothing_blocks_is_planned() {
    let mut facts = facts();
    facts.columns[2].default = Some("7".to_owned());
    facts.columns[0].default = Some("NULL::text".to_owned());
    facts.indexes = vec![IndexFacts {
        name: "customers_email_key".to_owned(),
        method: "btree".to_owned(),
        ..IndexFacts::default()
    }];
    let plan = plan(&facts).expect("nothing blocks it");
    let types: Vec<&str> = plan.columns.iter().map(PlannedColumn::encrypted).collect();
    assert_eq!(types, ["enc_text", "enc_text", "enc_int4"]);
    assert_eq!(plan.indexes, ["customers_email_key"]);
    let defaults = plan.columns.iter().map(|column| {
        let default = column.default.as_ref().map(Value::to_text);
        (column.has_default, default.unwrap_or_default())
    });
    let expected = [(true, ""), (false, ""), (true, "7")];
    assert_eq!(
        defaults.collect::<Vec<_>>(),
        expected.map(|(has, text)| (has, text.to_owned()))
    );
    assert_eq!(plan.name(), "public.customers");
    let (name, listed) = &plan.entries()[1];
    assert_eq!(name.to_string(), "public.customers.\"Ssn\"");
    assert_eq!(
        (listed.ty.as_str(), listed.keyname.as_str()),
        ("enc_text", "k")
    );
}

#[test]
fn the_table_is_rewritten_once_with_cells_that_are_looked_up() {
    let mut facts = facts();
    facts.columns.truncate(2);
    facts.columns[1].default = Some("'x'::character varying".to_owned());
    facts.columns[1].collation = Some("pg_catalog.\"C\"".to_owned());
    let wanted = Wanted::parse("customers", "email,\"Ssn\"", "k").expect("they are names");
    let plan = Plan::new(&facts, &wanted, &OwnersList::default());
    let plan = plan.expect("nothing blocks it");
    assert_eq!(
        plan.alter(&[None, Some(vec![0xab])]),
        "ALTER TABLE ONLY \"public\".\"customers\" \
         ALTER COLUMN \"email\" TYPE \"public\".enc_text USING CASE WHEN \"email\" IS NULL THEN \
         NULL::\"public\".enc_text ELSE (pg_temp.pgseal_row(ctid)).c1 END, \
         ALTER COLUMN \"Ssn\" DROP DEFAULT, \
         ALTER COLUMN \"Ssn\" TYPE \"public\".enc_text COLLATE pg_catalog.\"C\" USING CASE WHEN \
         \"Ssn\" IS NULL THEN NULL::\"public\".enc_text ELSE (pg_temp.pgseal_row(ctid)).c2 END, \
         ALTER COLUMN \"Ssn\" SET DEFAULT '\\xab'::\"public\".enc_text"
    );
}

#[test]
fn tables_that_cannot_be_rewritten_are_refused() {
    all_refused(&[
        ("not an ordinary table", |facts| facts.kind = 'v'),
        ("temporary", |facts| facts.persistence = 't'),
        ("the system", |facts| facts.schema = "pg_catalog".to_owned()),
        ("the system", |facts| facts.schema = "encdb".to_owned()),
        ("does not own", |facts| facts.is_owned = false),
        ("DETACH", |facts| facts.is_related = true),
        ("DETACH", |facts| facts.kind = 'p'),
        ("NOT OF", |facts| facts.is_typed = true),
        ("has no column \"Ssn\"", |facts| _ = facts.columns.remove(1)),
    ]);
}

#[test]
fn columns_that_would_lose_something_are_refused() {
    fn becomes(facts: &mut Facts, ty: &PgType, full: &str, bare: &str) {
        facts.columns[0] = column("email", 2, ty, bare);
        facts.columns[0].type_name = full.to_owned();
    }
    all_refused(&[
        ("TYPE integer first", |facts| {
            becomes(facts, &PgType::INT2, "smallint", "smallint")
        }),
        ("TYPE text first", |facts| {
            becomes(facts, &PgType::BPCHAR, "character(9)", "character")
        }),
        ("TYPE text first", |facts| {
            becomes(facts, &PgType::JSONB, "jsonb", "jsonb")
        }),
        ("TYPE text first", |facts| {
            becomes(facts, &PgType::INET, "inet", "inet")
        }),
        ("no encrypted type", |facts| {
            becomes(facts, &PgType::POINT, "point", "point")
        }),
        ("email TYPE interval first", |facts| {
            becomes(
                facts,
                &PgType::INTERVAL,
                "interval day to second",
                "interval",
            )
        }),
        ("email TYPE interval first", |facts| {
            becomes(facts, &PgType::INTERVAL, "interval(3)", "interval")
        }),
        ("no encrypted type", |facts| {
            becomes(facts, &PgType::TEXT_ARRAY, "text[]", "text[]")
        }),
        ("email TYPE timestamp without time zone first", |facts| {
            becomes(
                facts,
                &PgType::TIMESTAMP,
                "timestamp(3) without time zone",
                "timestamp without time zone",
            );
        }),
        ("ICU", |facts| facts.columns[0].is_icu = true),
        ("DROP IDENTITY", |facts| facts.columns[2].is_identity = true),
        ("DROP EXPRESSION", |facts| {
            facts.columns[2].is_generated = true
        }),
        ("age is nextval('s'::regclass)", |facts| {
            facts.columns[2].default = Some("nextval('s'::regclass)".to_owned());
        }),
        ("column add public.customers.email", |facts| {
            facts.columns[0].encrypted = Some("enc_text".to_owned());
        }),
    ]);
}

#[test]
fn limits_are_dropped_if_that_is_wanted() {
    let mut facts = facts();
    facts.columns = vec![
        column("a", 1, &PgType::INT2, "smallint"),
        column("b", 2, &PgType::BPCHAR, "character"),
        column("c", 3, &PgType::NUMERIC, "numeric"),
        column("d", 4, &PgType::VARCHAR, "character varying"),
    ];
    for (place, full) in [
        (1, "character(9)"),
        (2, "numeric(9,2)"),
        (3, "character varying(9)"),
    ] {
        facts.columns[place].type_name = full.to_owned();
    }
    facts.columns[0].default = Some("'-7'::smallint".to_owned());
    facts.columns[3].default = Some("'x'::character varying".to_owned());
    let wanted = Wanted {
        drops_limits: true,
        ..Wanted::parse("customers", "a,b,c,d", "k").expect("they are names")
    };
    let made = |facts: &Facts| Plan::new(facts, &wanted, &OwnersList::default());
    let plan = made(&facts).expect("nothing blocks it");
    let types: Vec<&str> = plan.columns.iter().map(PlannedColumn::encrypted).collect();
    assert_eq!(types, ["enc_int4", "enc_text", "enc_decimal", "enc_text"]);
    assert!(plan.declare().contains(
        "SELECT ctid, \"a\"::pg_catalog.int4, \"b\"::pg_catalog.text, \"c\", \"d\" FROM"
    ));
    let notes = plan.notes.join("; ");
    for limit in [
        "smallint",
        "character(9)",
        "numeric(9,2)",
        "character varying(9)",
    ] {
        assert!(
            notes.contains(&format!("loses the limit of {limit}:")),
            "{notes}"
        );
    }
}

#[test]
fn limits_that_encrypted_types_have_stay() {
    let mut facts = facts();
    facts.columns = vec![
        column("a", 1, &PgType::NUMERIC, "numeric"),
        column("b", 2, &PgType::VARCHAR, "character varying"),
        column("c", 3, &PgType::TIMESTAMP, "timestamp without time zone"),
    ];
    let made = |facts: &Facts| {
        let wanted = Wanted::parse("customers", "a,b,c", "k").expect("they are names");
        Plan::new(facts, &wanted, &OwnersList::default())
    };
    for (place, full) in [
        (0, "numeric(9,2)"),
        (1, "character varying(9)"),
        (2, "timestamp(6) without time zone"),
    ] {
        facts.columns[place].type_name = full.to_owned();
    }
    // The default 1 of numeric(9,2) is 1.00.
    facts.columns[0].default = Some("1".to_owned());
    facts.columns[1].default = Some("'x'::character varying".to_owned());
    let plan = made(&facts).expect("nothing blocks it");
    let limits: Vec<&str> = plan.columns.iter().map(|it| it.limit.as_str()).collect();
    assert_eq!(limits, ["(9,2)", "(9)", ""]);
    let defaults = plan.columns.iter().map(|it| it.default.as_ref());
    let defaults: Vec<_> = defaults.flatten().map(Value::to_text).collect();
    assert_eq!(defaults, ["1.00", "x"]);
    assert_eq!(plan.type_of(&plan.columns[1]), "\"public\".enc_text(9)");
    let notes = plan.notes.join("; ");
    assert!(
        notes.contains("keeps the limit of numeric(9,2):"),
        "{notes}"
    );
    assert!(!notes.contains("timestamp"), "{notes}");
    facts.columns[0].default = Some("12345678.5".to_owned());
    let found = made(&facts).err().unwrap_or_default();
    assert!(matches!(&found[..], [Obstacle::Default { column, .. }] if column == "a"));
}

fn with_index(facts: &mut Facts, change: impl FnOnce(&mut IndexFacts)) {
    let mut index = IndexFacts {
        name: "I".to_owned(),
        method: "btree".to_owned(),
        ..IndexFacts::default()
    };
    change(&mut index);
    facts.indexes.push(index);
}

#[test]
fn indexes_that_cells_do_not_have_are_refused() {
    all_refused(&[
        ("\"I\" is of type gin", |facts| {
            with_index(facts, |it| it.method = "gin".to_owned())
        }),
        ("text_pattern_ops", |facts| {
            with_index(facts, |it| it.class = Some("text_pattern_ops".to_owned()));
        }),
        ("ICU", |facts| with_index(facts, |it| it.is_icu = true)),
        ("expression", |facts| {
            with_index(facts, |it| it.has_expression = true)
        }),
        ("condition", |facts| {
            with_index(facts, |it| it.has_predicate = true)
        }),
        ("exclusion", |facts| {
            with_index(facts, |it| it.is_exclusion = true)
        }),
    ]);
}

#[test]
fn foreign_keys_stay_if_both_sides_are_encrypted() {
    let key = |is_own, from: &[i16], to: &[i16]| ForeignKey {
        name: "fk".to_owned(),
        table: "customers".to_owned(),
        is_own,
        from: from.to_vec(),
        to: to.to_vec(),
    };
    for (expected, key) in [
        (true, key(true, &[2], &[3])),
        (true, key(true, &[2, 9], &[3, 8])),
        (false, key(true, &[2, 9], &[8, 3])),
        (false, key(true, &[2], &[9])),
        (false, key(false, &[2], &[3])),
    ] {
        let said = refusal(|facts| facts.foreign_keys = vec![key]);
        assert_eq!(said.is_empty(), expected, "{said}");
        assert!(expected || said.contains("DROP CONSTRAINT fk"), "{said}");
    }
}

#[test]
fn whatever_depends_on_a_column_is_refused() {
    for (kind, expected) in [
        (ObjectKind::Check, "x reads column email: drop it"),
        (ObjectKind::WholeRow, "x reads whole rows of the table"),
        (ObjectKind::Sequence, "OWNED BY NONE"),
        (ObjectKind::RowType, "x holds rows of public.customers"),
        (ObjectKind::Rule, "x depends on column email"),
        (ObjectKind::Other, "x depends on column email"),
    ] {
        let object = Object {
            kind,
            name: "x".to_owned(),
            column: "email".to_owned(),
        };
        let said = refusal(|facts| facts.objects = vec![object]);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn triggers_are_refused_if_they_name_a_column() {
    let with = |body: &str| {
        let trigger = TriggerFacts {
            name: "t".to_owned(),
            body: body.to_owned(),
        };
        refusal(|facts| facts.triggers = vec![trigger])
    };
    for body in ["NEW.Email := 1", "x \"ssn\"", "age", "a,email"] {
        assert!(with(body).contains("trigger t"), "{body}");
    }
    for body in ["NEW.email_2 := 1", "page", "ages", ""] {
        assert_eq!(with(body), "", "{body}");
    }
}

#[test]
fn columns_that_are_encrypted_and_listed_are_done() {
    let mut facts = facts();
    let (mut list, wanted) = (OwnersList::default(), wanted());
    for column in &mut facts.columns {
        column.encrypted = Some("enc_text".to_owned());
        let name = ColumnName {
            schema: facts.schema.clone(),
            table: facts.table.clone(),
            column: column.name.clone(),
        };
        let listed = ListedColumn {
            ty: "enc_text".to_owned(),
            keyname: "k".to_owned(),
        };
        list.add(name, listed).expect("the type is encrypted");
    }
    let plan = Plan::new(&facts, &wanted, &list).expect("all is done");
    assert_eq!((plan.columns.len(), plan.done.len()), (0, 3));
    facts.columns[0].encrypted = Some("enc_int4".to_owned());
    let found = Plan::new(&facts, &wanted, &list)
        .err()
        .expect("the list says otherwise");
    assert_eq!(
        found,
        [Obstacle::Encrypted("public.customers.email".to_owned())]
    );
}
