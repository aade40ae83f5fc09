//! Plans, statements and refusals of the online form: no server is asked.

use pgseal_crypto::sign::SigningKey;
use pgseal_crypto::Secret;
use tokio_postgres::types::Type as PgType;

use super::*;
use crate::protect::{ColumnFacts, ForeignKey};

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

fn facts() -> Facts {
    Facts {
        oid: 77,
        types: "public".to_owned(),
        schema: "s".to_owned(),
        table: "T".to_owned(),
        kind: 'r',
        persistence: 'p',
        is_owned: true,
        columns: vec![
            column("c", 2, &PgType::TEXT, "text"),
            column("n", 3, &PgType::INT4, "integer"),
        ],
        ..Facts::default()
    }
}

fn wanted() -> Wanted {
    Wanted::parse("s.\"T\"", "c,n", "k").expect("they are names")
}

fn plan(facts: &Facts, kept: OnlineFacts) -> Result<OnlinePlan, Vec<Obstacle>> {
    OnlinePlan::new((facts, kept), &wanted(), &OwnersList::default())
}

fn index(is_early: bool) -> KeptIndex {
    KeptIndex {
        oid: 88,
        is_unique: true,
        is_early,
        create: "CREATE".to_owned(),
        after: vec!["FINAL".to_owned(), "RENAME".to_owned()],
    }
}

fn sentences(found: Result<OnlinePlan, Vec<Obstacle>>) -> String {
    let found = found.err().unwrap_or_default();
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

#[test]
fn the_state_is_read_as_it_was_written() {
    let begun = Unfinished {
        columns: vec![2, 15],
        keyname: "a key\nof two lines".to_owned(),
    };
    let comment = begun.to_comment();
    assert_eq!(Unfinished::from_comment(&comment), Some(begun));
    for other in ["", "pgseal client protect --online\n2 x\nk", "2\nk"] {
        assert_eq!(Unfinished::from_comment(other), None, "{other}");
    }
}

#[test]
fn an_application_that_updates_a_row_takes_its_cells_away() {
    let plain = plan(&facts(), OnlineFacts::default()).expect("nothing blocks it");
    assert!(!plain
        .begin()
        .contains("OLD.\"pgseal_protect_c2\" IS NOT NULL"));
    let kept = OnlineFacts {
        indexes: vec![index(false)],
        ..OnlineFacts::default()
    };
    let plan = plan(&facts(), kept).expect("nothing blocks it");
    for (statement, part) in [
        (
            plan.begin(),
            "ADD COLUMN \"pgseal_protect_c2\" \"public\".enc_text",
        ),
        (
            plan.begin(),
            "ELSIF OLD.\"pgseal_protect_c2\" IS NOT NULL OR",
        ),
        (plan.begin(), "ENABLE ALWAYS TRIGGER \"~pgseal_protect\""),
        (
            plan.refresh(),
            "THEN NEW.\"pgseal_protect_c2\" := NULL; NEW.\"pgseal_protect_c3\" := NULL; END IF",
        ),
        (plan.read_dirty(5), "LIMIT 5 FOR UPDATE SKIP LOCKED"),
        (
            plan.read_blocks((0, 9), 5),
            "ctid < '(9,0)' AND ((\"c\" IS NOT NULL AND \"pgseal_protect_c2\" IS NULL) OR",
        ),
    ] {
        assert!(statement.contains(part), "{part}: {statement}");
    }
}

#[test]
fn an_index_that_applications_would_compare_in_has_an_interim_one() {
    let plan_of = |is_early, made: &[(&str, bool)]| {
        let made = made
            .iter()
            .map(|(name, whole)| ((*name).to_owned(), *whole));
        let kept = OnlineFacts {
            indexes: vec![index(is_early)],
            made: made.collect(),
            ..OnlineFacts::default()
        };
        plan(&facts(), kept).expect("nothing blocks it")
    };
    let (interim, last) = ("pgseal_protect_i88", "pgseal_protect_f88");
    assert!(plan_of(false, &[(interim, true)]).is_built());
    assert!(!plan_of(false, &[(interim, false)]).is_built());
    assert!(!plan_of(false, &[(last, true)]).is_built());
    assert!(plan_of(true, &[(last, true)]).is_built());
    let plan = plan_of(false, &[]);
    let key = SigningKey::from_seed(&Secret::from_bytes(&mut [1; 32]));
    assert!(plan
        .exchange(&[None, None], &key)
        .contains("''FINAL'', ''RENAME''"));
    let finish = ["RENAME".to_owned()];
    let replaced = plan.plan.replace_index(interim, &finish);
    assert_eq!(replaced, "DROP INDEX \"s\".\"pgseal_protect_i88\"; RENAME");
    let named = plan.plan.replace_index(last, &finish);
    assert_eq!(
        named,
        "COMMENT ON INDEX \"s\".\"pgseal_protect_f88\" IS NULL; RENAME"
    );
    assert_eq!(names::finished_of(interim).as_deref(), Some(last));
    assert_eq!(names::finished_of(last), None);
}

#[test]
fn constraints_are_added_by_the_exchange_and_proved_later() {
    let kept = OnlineFacts {
        constraints: vec![KeptConstraint {
            name: "pgseal_protect_n2".to_owned(),
            add: "ADD".to_owned(),
            after: vec!["PROVE".to_owned(), "REPLACE".to_owned()],
        }],
        ..OnlineFacts::default()
    };
    let plan = plan(&facts(), kept).expect("nothing blocks it");
    let key = SigningKey::from_seed(&Secret::from_bytes(&mut [1; 32]));
    let exchange = plan.exchange(&[None, None], &key);
    let comment =
        "; ADD; DO 'BEGIN EXECUTE pg_catalog.format(''COMMENT ON CONSTRAINT %I ON %I.%I IS \
        %L'', ''pgseal_protect_n2'', ''s'', ''T'', ARRAY[''";
    assert!(exchange.contains(comment), "{exchange}");
    assert!(exchange.contains("''PROVE'', ''REPLACE''"), "{exchange}");
}

#[test]
fn another_run_is_neither_continued_nor_taken_back() {
    let begun = |columns: &[i16], keyname: &str| {
        let mut facts = facts();
        facts.unfinished = Some(Unfinished {
            columns: columns.to_vec(),
            keyname: keyname.to_owned(),
        });
        facts
    };
    assert!(plan(&begun(&[2, 3], "k"), OnlineFacts::default()).is_ok_and(|plan| plan.is_begun));
    for facts in [begun(&[2], "k"), begun(&[2, 3], "other")] {
        let said = sentences(plan(&facts, OnlineFacts::default()));
        assert!(said.contains("finish it with its own options"), "{said}");
    }
    assert_eq!(other_run(&begun(&[2, 3], "other"), None), None);
    let undo = sql::undo(&begun(&[2, 3], "k")).expect("there is a run");
    assert!(undo.ends_with("DROP COLUMN \"pgseal_protect_c2\", DROP COLUMN \"pgseal_protect_c3\""));
    assert_eq!(sql::undo(&facts()), None);
}

#[test]
fn obstacles_of_the_online_form_are_said_beside_the_others() {
    let mut facts = facts();
    facts.publications = vec!["p".to_owned()];
    facts.foreign_keys = vec![ForeignKey {
        name: "fk".to_owned(),
        table: "T".to_owned(),
        is_own: true,
        from: vec![2],
        to: vec![3],
    }];
    facts.columns[0].is_icu = true;
    let kept = OnlineFacts {
        obstacles: vec![OnlineObstacle::Rule("r".to_owned())],
        by_order: vec!["function f()".to_owned()],
        ..OnlineFacts::default()
    };
    let said = sentences(plan(&facts, kept.clone()));
    for part in ["ICU", "publication p", "foreign key fk", "rule r"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("function f()"), "{said}");
    facts.behind = vec!["last".to_owned()];
    assert!(sentences(plan(&facts, kept)).contains("function f()"));
}
