//! `pg_control` as initdb of several versions made it (vectors/control.json), and damaged.

#![allow(clippy::unwrap_used)] // a test may panic

mod support;

use pgseal_crypto::{FileCipher, FileId, KeyLength, UNIT};
use pgseal_storage::control::{Control, ControlError};
use pgseal_storage::layout::Layout;
use pgseal_storage::{Disk, SealedFile, Transfer};
use serde::Deserialize;
use support::{unhex as bytes, MemDisk, MASTER};

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
    damaged: Vec<Damaged>,
    carried: Vec<Carried>,
}

#[derive(Deserialize)]
struct Case {
    source: String,
    system_id: u64,
    version: u32,
    catalog_version: u32,
    state: String,
    checkpoint: u64,
    timeline: u32,
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

#[derive(Deserialize)]
struct Carried {
    of: usize,
    keybits: u16,
    stored: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../../vectors/control.json")).unwrap()
}

#[test]
fn real_files_are_read() {
    let cases = vectors().cases;
    assert_eq!(cases.len(), 5);
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
            checkpoint: case.checkpoint,
            timeline: case.timeline,
            block_size: 8192,
            wal_block_size: 8192,
            wal_segment_size: case.wal_segment_size,
            data_checksums: case.data_checksums,
            wal_log_hints: case.wal_log_hints,
        };
        assert_eq!(control, wanted, "{}", case.source);
        assert_eq!(control.check_blocks(), Ok(()), "{}", case.source);
    }
}

/// Returns where the CRC is.
fn crc_at(case: &Case) -> usize {
    match case.version {
        1905 => 308,
        1800 => 292,
        _ => 288,
    }
}

/// The page with the number `value` at `at`, and its CRC made anew.
fn changed(case: &Case, at: usize, value: u32) -> Vec<u8> {
    let mut page = bytes(&case.page);
    let crc_at = crc_at(case);
    page[at..at + 4].copy_from_slice(&value.to_le_bytes());
    let crc = crc32c::crc32c(&page[..crc_at]);
    page[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    page
}

#[test]
fn other_sizes_of_blocks_are_told() {
    for case in vectors().cases {
        let blocks = |at, size| {
            let control = Control::parse(&changed(&case, at, size)).unwrap();
            control.check_blocks()
        };
        let (data, wal) = if case.version == 1905 {
            assert_eq!(blocks(232, 16), Ok(()), "pages of a segment of an SLRU");
            (224, 236)
        } else {
            (216, 224)
        };
        assert_eq!(blocks(data, 4096), Err(ControlError::Blocks("data", 4096)));
        assert_eq!(
            blocks(data, 32768),
            Err(ControlError::Blocks("data", 32768))
        );
        assert_eq!(blocks(wal, 16384), Err(ControlError::Blocks("WAL", 16384)));
        assert_eq!(blocks(data + 4, 4096), Ok(()), "pages of a segment");
    }
}

/// 19 has the version that initdb chose before the one that counts.
#[test]
fn the_checksum_version_that_counts_is_read() {
    let vectors = vectors();
    let case = &vectors.cases[4];
    let checksums = |at, value| {
        let control = Control::parse(&changed(case, at, value)).unwrap();
        control.data_checksums
    };
    assert_eq!(case.version, 1905);
    assert!(checksums(264, 0));
    assert!(!checksums(268, 0));
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
        let end = crc_at(&case) + 4;
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
    let with = |at, value| Control::parse(&changed(&vectors().cases[0], at, value));
    assert_eq!(with(16, 7), Err(ControlError::Value("cluster state")));
    assert_eq!(
        with(228, 3 << 20),
        Err(ControlError::Value("WAL segment size"))
    );
    assert!(with(228, 64 << 20).is_ok());
    let last = &vectors().cases[4];
    assert_eq!(
        Control::parse(&changed(last, 240, 3 << 20)),
        Err(ControlError::Value("WAL segment size"))
    );
}

#[test]
fn the_message_says_what_to_do_and_knows_the_sealed_case() {
    let text = ControlError::Checksum.to_string();
    assert_eq!(
        text,
        "incorrect checksum in pg_control: it is damaged, or sealed with another key"
    );
}

fn file(keybits: u16) -> SealedFile<'static> {
    let length = KeyLength::try_from(keybits).unwrap();
    let id = FileId::named(b"global/pg_control").unwrap();
    SealedFile::new(FileCipher::new(&MASTER, length, &id), Layout::CONTROL)
}

fn padded(hex: &str) -> [u8; UNIT] {
    let mut page = [0; UNIT];
    let head = bytes(hex);
    page[..head.len()].copy_from_slice(&head);
    page
}

/// Returns what a file with these stored bytes reads as, at once and as the server reads it.
fn read(file: &SealedFile, stored: &[u8]) -> Vec<u8> {
    let disk = MemDisk::default();
    disk.write_at(stored, 0).unwrap();
    let (mut whole, mut fields) = (vec![0; UNIT], vec![0; 312]);
    let mut scratch = support::scratch();
    let transfer = &mut Transfer::new(&disk, &mut scratch);
    assert_eq!(file.read_at(transfer, &mut whole, 0), Ok(UNIT));
    assert_eq!(file.read_at(transfer, &mut fields, 0), Ok(312));
    assert_eq!(whole[..312], fields);
    whole
}

#[test]
fn carried_files_are_made_and_read() {
    let vectors = vectors();
    assert_eq!(vectors.carried.len(), 15);
    for case in vectors.carried {
        let (file, clear) = (file(case.keybits), padded(&vectors.cases[case.of].page));
        let carried = padded(&case.stored);
        assert_eq!(file.carry_control(&clear), Some(carried));
        assert_eq!(read(&file, &carried), clear);
        assert!(!Control::is_clear(&carried));
        assert!(Control::is_clear(&clear));
    }
}

/// The CRC shows every alteration.
#[test]
fn carried_files_are_not_believed_when_altered() {
    let vectors = vectors();
    for case in &vectors.carried {
        let carried = padded(&case.stored);
        for at in (0..316).chain([511, 512, UNIT - 1]) {
            let mut altered = carried;
            altered[at] ^= 1;
            let read = read(&file(case.keybits), &altered);
            assert!(!Control::is_clear(&read), "byte {at}");
        }
    }
}

/// A clear file in the place of a sealed one, and one under another key, fail at their CRC.
#[test]
fn clear_and_foreign_files_are_not_taken_for_carried_ones() {
    let vectors = vectors();
    let clear = padded(&vectors.cases[0].page);
    let foreign = file(128).carry_control(&clear).unwrap();
    for stored in [clear, foreign] {
        let read = read(&file(256), &stored);
        assert_eq!(Control::parse(&read), Err(ControlError::Checksum));
    }
}

/// The next write of the server stores the file as usual.
#[test]
fn a_written_page_takes_the_place_of_a_carried_one() {
    let clear = padded(&vectors().cases[2].page);
    let (file, disk) = (file(256), MemDisk::default());
    disk.write_at(&file.carry_control(&clear).unwrap(), 0)
        .unwrap();
    let mut scratch = support::scratch();
    let transfer = &mut Transfer::new(&disk, &mut scratch);
    file.write_at(transfer, &clear, 0).unwrap();
    let mut stored = vec![0; UNIT];
    disk.read_at(&mut stored, 0).unwrap();
    assert!(stored[4096..].chunks(16).all(|block| block != [0; 16]));
    assert_eq!(read(&file, &stored), clear);
}
