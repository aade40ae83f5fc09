//! Tests against `vectors/` at the root of the repository, and of the properties that the storage
//! crate relies on. They are inside the crate because keys do not leave it.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

#[cfg(feature = "fips")]
mod approved;
mod beside;
mod derivation;
mod files;
mod foreign;
mod key_file;
mod properties;
mod sealing;
mod sharing;
mod shown;
mod standard;
mod traces;

use serde::Deserialize;

use crate::{FileId, Fork, KeyLength, MasterKey};

/// Reads one file of `vectors/`.
macro_rules! vectors {
    ($name:literal) => {
        serde_json::from_str(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../vectors/",
            $name
        )))
        .unwrap()
    };
}
use vectors;

/// The fields that name a file in `vectors/`, of whatever class.
#[derive(Deserialize)]
struct FileFields {
    class: u8,
    #[serde(default)]
    backend: u32,
    #[serde(default)]
    database: u32,
    #[serde(default)]
    relation: u32,
    #[serde(default)]
    fork: u8,
    #[serde(default)]
    segment: u32,
    #[serde(default)]
    epoch: u64,
    #[serde(default)]
    path: String,
}

impl FileFields {
    fn id(&self) -> FileId {
        let fork = [Fork::Main, Fork::Fsm, Fork::Vm, Fork::Init][usize::from(self.fork)];
        let Self {
            backend,
            database,
            relation,
            segment,
            ..
        } = *self;
        match self.class {
            1 => FileId::relation(database, relation, fork, segment),
            2 => FileId::temp_relation(backend, database, relation, fork, segment),
            3 => FileId::wal(self.epoch),
            4 => FileId::slru(self.path.as_bytes()).unwrap(),
            5 => FileId::named(self.path.as_bytes()).unwrap(),
            other => panic!("class {other}"),
        }
    }
}

/// A byte string that `vectors/` writes in hex.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Hex(Vec<u8>);

impl TryFrom<String> for Hex {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let byte = |i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16);
        (0..text.len() / 2)
            .map(byte)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Hex {
    fn master(&self) -> MasterKey {
        MasterKey::from_bytes(&mut self.array())
    }

    fn array<const N: usize>(&self) -> [u8; N] {
        self.0.as_slice().try_into().unwrap()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn key_length(bits: u16) -> KeyLength {
    bits.try_into().unwrap()
}

/// The plaintext of the vectors that do not carry one.
fn plain(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((31 * i + 7) % 256) as u8).collect()
}

/// The master key 00 01 .. 1f.
fn first_master() -> MasterKey {
    MasterKey::from_bytes(&mut std::array::from_fn(|i| i as u8))
}
