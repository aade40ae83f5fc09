//! `pg_control` as initdb of several versions made it (vectors/control.json), and damaged.

#![allow(clippy::unwrap_used)] // a test may panic

mod support;

use pgseal_storage::control::{Control, ControlError};
use serde::Deserialize;
use support::unhex as bytes;

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
    damaged: Vec<Damaged>,
}

#[derive(Deserialize)]
struct Case {
    source: String,
    system_id: u64,
    version: u32,
    catalog_version: u32,
    state: String,
    wal_segment_size: u32,
    data_checksums: bool,
    wal_log_hints: bool,
    page: String,
}

#[derive(Deserialize)]
struct Damaged {
    of: usize,
    at: usize,
    byte: String,
    error: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../vectors/control.json")).unwrap()
}

#[test]
fn real_files_are_read() {
    let cases = vectors().cases;
    assert_eq!(cases.len(), 4);
    for case in cases {
        let control = Control::parse(&bytes(&case.page)).unwrap();
        assert_eq!(
            format!("{:?}", control.state),
            case.state,
            "{}",
            case.source
        );
        let wanted = Control {
            system_id: case.system_id,
            version: case.version,
            catalog_version: case.catalog_version,
            state: control.state,
            wal_segment_size: case.wal_segment_size,
            data_checksums: case.data_checksums,
            wal_log_hints: case.wal_log_hints,
        };
        assert_eq!(control, wanted, "{}", case.source);
    }
}

#[test]
fn damage_is_found() {
    let vectors = vectors();
    for damaged in &vectors.damaged {
        let mut page = bytes(&vectors.cases[damaged.of].page);
        page[damaged.at] = bytes(&damaged.byte)[0];
        let error = Control::parse(&page).unwrap_err();
        let name = format!("{error:?}");
        assert!(
            name.starts_with(&damaged.error),
            "{} at {}: {name}",
            damaged.of,
            damaged.at
        );
    }
}

#[test]
fn every_bit_below_the_crc_counts() {
    for case in vectors().cases {
        let page = bytes(&case.page);
        let end = if case.version == 1800 { 296 } else { 292 };
        for bit in 0..end * 8 {
            let mut flipped = page.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let result = Control::parse(&flipped);
            let in_version = (8..12).contains(&(bit / 8));
            match result {
                Err(ControlError::Version(_)) => assert!(in_version, "bit {bit}"),
                other => assert_eq!(other, Err(ControlError::Checksum), "bit {bit}"),
            }
        }
        let mut padded = page.clone();
        padded[end] ^= 1;
        assert!(Control::parse(&padded).is_ok(), "the rest is padding");
    }
}

#[test]
fn a_cut_file_and_impossible_values_are_refused() {
    let page = bytes(&vectors().cases[0].page);
    assert_eq!(Control::parse(&page[..511]), Err(ControlError::Cut(511)));
    assert_eq!(Control::parse(&[]), Err(ControlError::Cut(0)));
    let with = |at: usize, value: u32| {
        let mut page = page.clone();
        page[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let crc = crc32c::crc32c(&page[..288]);
        page[288..292].copy_from_slice(&crc.to_le_bytes());
        Control::parse(&page)
    };
    assert_eq!(with(16, 7), Err(ControlError::Value("cluster state")));
    assert_eq!(
        with(228, 3 << 20),
        Err(ControlError::Value("WAL segment size"))
    );
    assert!(with(228, 64 << 20).is_ok());
}

#[test]
fn the_message_says_what_to_do_and_knows_the_sealed_case() {
    let text = ControlError::Checksum.to_string();
    assert_eq!(
        text,
        "incorrect checksum in pg_control: it is damaged, or sealed with another key"
    );
}
