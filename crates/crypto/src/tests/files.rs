//! A file's bytes as they are stored: pages, tails, streams.

use aws_lc_rs::digest::{digest, SHA256};
use serde::Deserialize;

use super::{first_master, hex, key_length, plain, vectors, FileFields, Hex};
use crate::{FileCipher, FileId, Fork, KeyLength};

#[derive(Deserialize)]
struct Pages {
    pages: Vec<Page>,
}

#[derive(Deserialize)]
struct Page {
    master: Hex,
    keybits: u16,
    #[serde(flatten)]
    file: FileFields,
    unit: u64,
    length: usize,
    cipher_first: String,
    cipher_sha256: String,
}

#[test]
fn pages() {
    let Pages { pages } = vectors!("xts.json");
    assert_eq!(pages.len(), 66);
    for case in &pages {
        let (master, id) = (case.master.master(), case.file.id());
        let cipher = FileCipher::new(&master, key_length(case.keybits), &id);
        let plain = plain(case.length);
        let mut buf = vec![0; case.length];
        cipher.seal(case.unit, &plain, &mut buf);
        let what = format!("{id:?} {} unit {}", case.keybits, case.unit);
        assert_eq!(
            hex(&buf[..case.length.min(32)]),
            case.cipher_first,
            "{what}"
        );
        assert_eq!(
            hex(digest(&SHA256, &buf).as_ref()),
            case.cipher_sha256,
            "{what}"
        );
        cipher.open(case.unit, &mut buf);
        assert_eq!(buf, plain, "{what}");
    }
}

/// The values that the design fixes, so that no change of `vectors/` can move them.
#[test]
fn pages_of_the_design() {
    let relation = FileId::relation(5, 16384, Fork::Main, 0);
    let fixed = [
        (128, &relation, 3, "48cd4a150c5b5504"),
        (192, &relation, 3, "ec732e3d440d07ee"),
        (256, &relation, 3, "0fa1bafce877fd1e"),
        (256, &FileId::wal(0), 2048, "dfd762ad81c5cd3e"),
        (256, &FileId::wal(1), 1 << 27, "99a352b4008e3859"),
    ];
    for (bits, id, unit, expected) in fixed {
        let master = first_master();
        let mut out = vec![0; 8192];
        FileCipher::new(&master, key_length(bits), id).seal(unit, &plain(8192), &mut out);
        assert_eq!(hex(&out[..8]), expected, "{bits} {id:?}");
    }
}

#[derive(Deserialize)]
struct Tails {
    cases: Vec<Tail>,
}

#[derive(Deserialize)]
struct Tail {
    master: Hex,
    keybits: u16,
    #[serde(flatten)]
    file: FileFields,
    block: u64,
    mask: String,
}

#[test]
fn tails() {
    let Tails { cases } = vectors!("tail.json");
    assert_eq!(cases.len(), 324);
    for case in &cases {
        let (master, id) = (case.master.master(), case.file.id());
        let cipher = FileCipher::new(&master, key_length(case.keybits), &id);
        let mut tail = vec![0; case.mask.len() / 2];
        cipher.mask_tail(case.block, &mut tail);
        assert_eq!(hex(&tail), case.mask, "{id:?} block {}", case.block);
    }
}

#[test]
fn tails_of_the_design() {
    let master = first_master();
    let id = FileId::named(b"pg_stat/pgstat.stat").unwrap();
    let cipher = FileCipher::new(&master, KeyLength::Bits256, &id);
    for expected in ["04b1bf00ed", "234fdaf89e10"] {
        let mut tail = vec![0; expected.len() / 2];
        cipher.mask_tail(2, &mut tail);
        assert_eq!(hex(&tail), expected);
    }
}

/// A later block of zeros at the same place must not give away the mask.
#[test]
fn a_mask_is_no_stored_block_of_zeros() {
    let master = first_master();
    let id = FileId::named(b"pg_stat/pgstat.stat").unwrap();
    for length in [KeyLength::Bits128, KeyLength::Bits192, KeyLength::Bits256] {
        let cipher = FileCipher::new(&master, length, &id);
        let mut zeros = vec![0; 8192];
        cipher.seal(0, &[0; 8192], &mut zeros);
        for (block, stored) in zeros.chunks(16).enumerate() {
            let mut mask = [0; 15];
            cipher.mask_tail(block as u64, &mut mask);
            assert_ne!(mask, stored[..15], "{length:?} block {block}");
        }
    }
}

#[derive(Deserialize)]
struct Streams {
    cases: Vec<Stream>,
}

#[derive(Deserialize)]
struct Stream {
    master: Hex,
    keybits: u16,
    #[serde(flatten)]
    file: FileFields,
    offset: u64,
    stream: String,
}

#[test]
fn keystreams() {
    let Streams { cases } = vectors!("keystream.json");
    assert_eq!(cases.len(), 48);
    for case in &cases {
        let (master, id) = (case.master.master(), case.file.id());
        let cipher = FileCipher::new(&master, key_length(case.keybits), &id);
        let mut buf = vec![0; case.stream.len() / 2];
        cipher.keystream(case.offset, &mut buf);
        assert_eq!(
            hex(&buf),
            case.stream,
            "{} offset {}",
            case.keybits,
            case.offset
        );
    }
}
