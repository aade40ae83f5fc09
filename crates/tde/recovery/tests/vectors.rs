//! `vectors/recovery_sheet.json`: sheets and shares as they are typed, most of them wrong, and the
//! payload that they give.

use pgseal_keys::open_derived;
use pgseal_recovery::{join, JoinError, Part, Sheet, SheetError, Wrapped};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    pages: Vec<Vec<String>>,
    result: String,
    payload: Option<String>,
}

/// Returns the master key that the pages give, in hexadecimal, or why they give none.
fn recovered(pages: &[Vec<String>]) -> Result<String, &'static str> {
    let sheets = pages.iter().map(|page| Sheet::parse(&page.join("\n")));
    let sheets = sheets.collect::<Result<Vec<_>, _>>().map_err(of_a_sheet)?;
    let (key, secret) = match (&sheets[0].part, sheets.len()) {
        (Part::Whole(secret), 1) => (&sheets[0].key, secret.clone()),
        _ => join(&sheets).map_err(of_shares)?,
    };
    let (source, kdf) = (Wrapped::source(), key.kdf());
    let opened = open_derived(key.header(), &source, &kdf, key.wrapped(), &secret[..]);
    let master = opened.map_err(|_| "wrong secret")?;
    let digits = master.expose().iter().map(|byte| format!("{byte:02x}"));
    Ok(digits.collect())
}

fn of_a_sheet(error: SheetError) -> &'static str {
    match error {
        SheetError::NoLines | SheetError::Missing(_) | SheetError::TooMany(_) => "not one sheet",
        SheetError::Mistyped(_) | SheetError::Mixed => "mistyped",
        SheetError::NewerFormat(_) => "newer",
        SheetError::Damaged(_) => "damaged",
    }
}

fn of_shares(error: JoinError) -> &'static str {
    match error {
        JoinError::TooFew { .. } => "too few",
        JoinError::OtherSet(_) => "of two sets",
        _ => "damaged",
    }
}

#[test]
fn every_sheet_gives_what_it_must() {
    let text = include_str!("../../../../vectors/recovery_sheet.json");
    let Vectors { cases } = serde_json::from_str(text).expect("the vectors are JSON");
    assert_eq!(cases.len(), 19);
    for case in cases {
        let (result, master) = match recovered(&case.pages) {
            Ok(master) => ("holds", Some(master)),
            Err(why) => (why, None),
        };
        assert_eq!(result, case.result, "{}", case.name);
        // A payload is a mark, the key, and its binding to the header.
        let expected = case.payload.map(|payload| payload[8..72].to_owned());
        assert_eq!(master, expected, "{}", case.name);
    }
}
