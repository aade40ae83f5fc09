//! Every refusal has a number, an SQLSTATE and a sentence of its own, and a row in
//! `docs/encdb-errors.md`.

use std::collections::HashSet;

use pgseal_cell::grant::Operation;
use pgseal_evaluator_proto::{Refusal, Report, Response};
use pgseal_value::{Type, ValueError};

const ALL: [Refusal; 29] = [
    Refusal::MalformedCell,
    Refusal::WrongLength,
    Refusal::UnknownVersion,
    Refusal::UnknownAlgorithm,
    Refusal::WrongType,
    Refusal::NotAuthentic,
    Refusal::UnknownKey,
    Refusal::KeyNotLoaded,
    Refusal::NoSession,
    Refusal::SessionExpired,
    Refusal::NoGrant(Operation::Arithmetic),
    Refusal::GrantExpired,
    Refusal::GrantRevoked,
    Refusal::GrantRefused,
    Refusal::EvaluatorAbsent,
    Refusal::MalformedRequest,
    Refusal::MalformedMessage,
    Refusal::MessageRefused,
    Refusal::KeyRefused,
    Refusal::UnknownCollation,
    Refusal::UnknownState,
    Refusal::UnknownTicket,
    Refusal::TooLarge,
    Refusal::TooMany,
    Refusal::Unsupported,
    Refusal::NoRandom,
    Refusal::TwoOwners,
    Refusal::RoleShare,
    Refusal::OutOfMemory,
];

fn row(refusal: Refusal) -> String {
    let code = match refusal {
        Refusal::NoGrant(_) => "256 + the operation's bit".to_owned(),
        other => other.code().to_string(),
    };
    let sentence = refusal.to_string().replace("arithmetic", "…");
    format!("| {} | {code} | {sentence} |", refusal.sqlstate())
}

#[test]
fn the_table_has_a_row_for_each_and_no_other() {
    let table = include_str!("../../../../docs/encdb-errors.md");
    let rows: Vec<_> = table
        .lines()
        .filter(|line| line.starts_with("| PE") || line.starts_with("| 53200"))
        .filter(|line| !line.contains(" | | "))
        .collect();
    let expected: Vec<_> = ALL.map(row).to_vec();
    assert_eq!(rows, expected, "\n{}", expected.join("\n"));
}

/// Returns the text of a string literal of C, up to its end or its first value.
fn sentence(source: &str) -> String {
    let mut said = String::new();
    let mut rest = source.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '"' | '%' => break,
            '\\' => said.extend(rest.next()),
            letter => said.push(letter),
        }
    }
    said
}

#[test]
fn the_table_has_a_row_for_what_the_extension_says_by_itself() {
    let table = include_str!("../../../../docs/encdb-errors.md");
    let own: Vec<_> = { table.lines() }
        .filter_map(|line| line.split_once(" | | "))
        .map(|(_, sentence)| sentence)
        .collect();
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../extension/encdb/src");
    let mut told = 0;
    for file in std::fs::read_dir(sources).expect("the extension's sources") {
        let source = std::fs::read_to_string(file.expect("a file").path()).expect("a text");
        for said in source.split("errmsg(\"").skip(1).map(sentence) {
            let listed = own.iter().any(|row| row.starts_with(&said));
            assert!(listed, "{said:?} has no row");
            told += 1;
        }
    }
    assert!(told > own.len() / 2);
    let states = ALL.map(|refusal| refusal.sqlstate());
    let reused = |line: &str| states.iter().any(|state| line.contains(state));
    assert!(!table
        .lines()
        .any(|line| line.contains(" | | ") && reused(line)));
}

#[test]
fn numbers_and_states_are_distinct() {
    let codes: HashSet<_> = ALL.iter().map(|refusal| refusal.code()).collect();
    let states: HashSet<_> = ALL.iter().map(|refusal| refusal.sqlstate()).collect();
    let sentences: HashSet<_> = ALL.iter().map(ToString::to_string).collect();
    assert_eq!([codes.len(), states.len(), sentences.len()], [ALL.len(); 3]);
    for operation in Operation::ALL {
        let refusal = Refusal::NoGrant(operation);
        assert_eq!(refusal.code(), 256 + u16::from(operation as u8));
        assert!(refusal.to_string().contains(operation.name()));
    }
}

#[test]
fn errors_of_values_pass_as_postgresql_says_them() {
    let refusal = Refusal::from(ValueError::OutOfRange(Type::Int4));
    let report = Report::from(refusal);
    assert_eq!((report.code, report.sqlstate), (512, *b"22003"));
    assert_eq!(report.text, "integer out of range");
    let mut bytes = Vec::new();
    Response::from(refusal).encode(&mut bytes);
    assert_eq!(Response::parse(&bytes), Ok(Response::Refused(report)));
}
