//! `vectors/keyfile.json`: key files, most of them bad, and what must come of each.

use std::path::Path;

use pgseal_crypto::MasterKey;
use pgseal_format::{
    Altered, Cost, KeyFileError, KeyImage, PayloadError, SlotKind, UnverifiedKeyFile,
};
use pgseal_keys::{open_derived, open_text, DerivedError};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    file: String,
    #[serde(default)]
    zeros_after: usize,
    slot: Option<u8>,
    printed: Option<String>,
    secret: Option<String>,
    result: String,
    key_id: Option<String>,
    master: Option<String>,
    keybits: Option<u16>,
}

/// The outcome of a key file.
#[derive(Debug, PartialEq)]
struct Outcome {
    result: &'static str,
    key_id: Option<String>,
    master: Option<String>,
    keybits: Option<u16>,
}

impl Outcome {
    fn refused(result: &'static str) -> Self {
        Self {
            result,
            key_id: None,
            master: None,
            keybits: None,
        }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("ASCII");
        u8::from_str_radix(pair, 16).expect("hexadecimal digits")
    };
    digits.map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn outcome(case: &Case) -> Outcome {
    let mut bytes = unhex(&case.file);
    bytes.resize(bytes.len() + case.zeros_after, 0);
    match KeyImage::decode(&bytes) {
        Err(error) => Outcome::refused(malformed(error)),
        Ok(KeyImage::Raw(_)) => Outcome::refused("raw"),
        Ok(KeyImage::File(file)) => match open(case, &file) {
            Ok(master) => authenticated(file, &master),
            Err(refusal) => refusal,
        },
    }
}

fn malformed(error: KeyFileError) -> &'static str {
    match error {
        KeyFileError::Empty => "empty",
        KeyFileError::Truncated { .. } => "truncated",
        KeyFileError::TooLong => "too long",
        KeyFileError::NewerFormat(_) => "newer format",
        KeyFileError::UnknownSuite(_) => "unknown suite",
        KeyFileError::UnknownSlot(_) => "unknown slot",
        KeyFileError::Argon2(_) | KeyFileError::Pbkdf2(_) => "bad passphrase slot",
        KeyFileError::Damaged(_) => "damaged",
    }
}

fn open(case: &Case, file: &UnverifiedKeyFile) -> Result<MasterKey, Outcome> {
    let slot = file.slots().iter().find(|slot| Some(slot.id) == case.slot);
    let header = file.header();
    let text = case.printed.as_deref().map(str::as_bytes);
    match &slot.expect("the slot that the vector names").kind {
        SlotKind::Plain { payload } => open_text(payload, header).map_err(wrong_payload),
        SlotKind::Command { .. } | SlotKind::File { .. } | SlotKind::Provider { .. } => {
            open_text(text.expect("what is printed"), header).map_err(wrong_payload)
        }
        SlotKind::Derived {
            source,
            kdf,
            wrapped,
        } => {
            let secret = unhex(case.secret.as_deref().expect("a secret"));
            open_derived(header, source, kdf, wrapped, &secret).map_err(|error| match error {
                DerivedError::Wrong(_) => Outcome::refused("wrong secret"),
                DerivedError::Payload(error) => wrong_payload(error),
                other => panic!("{}: {other}", case.name),
            })
        }
    }
}

fn wrong_payload(error: PayloadError) -> Outcome {
    match error {
        PayloadError::NotAKey => Outcome::refused("not a key"),
        PayloadError::OtherKey { found, .. } => Outcome {
            key_id: Some(found.to_string()),
            ..Outcome::refused("other key")
        },
        PayloadError::HeaderAltered => Outcome::refused("header altered"),
    }
}

fn authenticated(file: UnverifiedKeyFile, master: &MasterKey) -> Outcome {
    match file.authenticate(master) {
        Err(Altered) => Outcome::refused("altered"),
        Ok(file) => Outcome {
            result: "opens",
            key_id: Some(file.header().key_id.to_string()),
            master: Some(hex(master.expose())),
            keybits: Some(file.header().length.bits()),
        },
    }
}

fn vectors() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../vectors/keyfile.json");
    let text = std::fs::read_to_string(path).expect("the vectors are in the tree");
    let vectors: Vectors = serde_json::from_str(&text).expect("the vectors are JSON");
    vectors.cases
}

#[test]
fn every_vector() {
    let cases = vectors();
    assert!(cases.len() > 80);
    for case in cases {
        let Outcome {
            result,
            key_id,
            master,
            keybits,
        } = outcome(&case);
        assert_eq!(result, case.result, "{}", case.name);
        assert_eq!(key_id, case.key_id, "{}", case.name);
        assert_eq!(master, case.master, "{}", case.name);
        assert_eq!(keybits, case.keybits, "{}", case.name);
    }
}

/// Every bit of every file that opens is flipped: none opens, and nothing panics.
#[test]
fn no_flipped_bit_is_accepted() {
    let mut flips = 0;
    for case in vectors().iter().filter(|case| case.result == "opens") {
        // Slots that are hardened cost too much for every bit; one bit a byte is flipped there.
        let bits = if case.secret.is_some() { 1 } else { 8 };
        let file = unhex(&case.file);
        for at in 0..file.len() {
            for bit in 0..bits {
                let mut flipped = file.clone();
                flipped[at] ^= 1 << bit;
                let result = flipped_outcome(case, &flipped);
                assert_ne!(result, Some("opens"), "{}: byte {at}, bit {bit}", case.name);
                flips += 1;
            }
        }
    }
    assert!(flips > 20_000, "only {flips} flips were tried");
}

/// None if the slot that is to be opened is no longer there, or a secret would be needed anew.
fn flipped_outcome(case: &Case, bytes: &[u8]) -> Option<&'static str> {
    let Ok(KeyImage::File(file)) = KeyImage::decode(bytes) else {
        return None;
    };
    let slot = file
        .slots()
        .iter()
        .find(|slot| Some(slot.id) == case.slot)?;
    let known = match &slot.kind {
        SlotKind::Plain { .. } => true,
        SlotKind::Command { .. } | SlotKind::File { .. } | SlotKind::Provider { .. } => {
            case.printed.is_some()
        }
        // A flip in the cost could ask for gigabytes or minutes; its AAD is what the others test.
        SlotKind::Derived { kdf, .. } => {
            case.secret.is_some()
                && match kdf.cost {
                    Cost::Argon2id(params) => params.memory_kib() < 4096,
                    Cost::Pbkdf2(params) => params.iterations() < 5000,
                }
        }
    };
    let master = known.then(|| open(case, &file))?.ok()?;
    Some(authenticated(file, &master).result)
}
