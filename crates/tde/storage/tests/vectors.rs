//! vectors/files.json: what every name is, and what files of every layout are stored as.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // as in the support module

mod support;

use aws_lc_rs::digest::{digest, SHA256};
use pgseal_crypto::{FileId, Fork, KeyLength};
use pgseal_storage::classify::{classify, Class, TABLE};
use pgseal_storage::layout::{Layout, Root, Spec};
use pgseal_storage::Transfer;
use serde::Deserialize;
use support::{hex, unhex, Kind, MemDisk};

#[derive(Deserialize)]
struct Vectors {
    classes: Vec<NamedClass>,
    bytes: Vec<Bytes>,
}

#[derive(Deserialize)]
struct NamedClass {
    path: String,
    segment_size: Option<u64>,
    class: String,
    root: Option<String>,
    layout: Option<String>,
    id_class: Option<u8>,
    id: Option<String>,
    first_unit: Option<u64>,
}

#[derive(Deserialize)]
struct Bytes {
    name: String,
    path: String,
    keybits: u16,
    segment_size: Option<u64>,
    size: usize,
    writes: Vec<(usize, Content)>,
    #[serde(default)]
    edits: Vec<Edit>,
    stored: Vec<(usize, String)>,
    reads: Vec<(usize, String)>,
    stored_sha256: String,
    clear_sha256: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Content {
    Hex(String),
    Pattern(usize),
    Zeros(usize),
}

impl Content {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Hex(digits) => unhex(digits),
            Self::Pattern(len) => (0..*len).map(|i| (31 * i + 7) as u8).collect(),
            Self::Zeros(len) => vec![0; *len],
        }
    }
}

/// A change of the stored bytes, behind the back of the one who has the key.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase", tag = "do")]
enum Edit {
    Zero { at: usize, length: usize },
    Flip { at: usize, bits: u8 },
    Copy { at: usize, to: usize, length: usize },
    Resize { length: usize },
}

impl Edit {
    fn apply(&self, stored: &mut Vec<u8>) {
        match *self {
            Self::Zero { at, length } => stored[at..at + length].fill(0),
            Self::Flip { at, bits } => stored[at] ^= bits,
            Self::Copy { at, to, length } => stored.copy_within(at..at + length, to),
            Self::Resize { length } => stored.resize(length, 0),
        }
    }
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../../vectors/files.json")).unwrap()
}

fn spec(path: &str, segment_size: Option<u64>) -> Option<Spec> {
    match classify(path.as_bytes()).class {
        Class::Sealed(spec) => Some(spec),
        Class::WalSegment(name) => name.spec(segment_size?),
        _ => None,
    }
}

/// The identity that `class` and the bytes of `info` stand for.
fn identity(class: u8, bytes: &[u8]) -> FileId {
    let number = |i: usize| u32::from_be_bytes(bytes[i..i + 4].try_into().unwrap());
    let fork = |i: usize| [Fork::Main, Fork::Fsm, Fork::Vm, Fork::Init][usize::from(bytes[i])];
    match class {
        1 => FileId::relation(number(0), number(4), fork(8), number(9)),
        2 => FileId::temp_relation(number(0), number(4), number(8), fork(12), number(13)),
        3 => FileId::wal(u64::from_be_bytes(bytes.try_into().unwrap())),
        4 => FileId::slru(bytes).unwrap(),
        _ => FileId::named(bytes).unwrap(),
    }
}

fn layout(name: &str, first_unit: u64) -> Layout {
    match name {
        "pages" => Layout::PAGES,
        "stream" => Layout::STREAM,
        "shared stream" => Layout::STREAM.shared(),
        "control" => Layout::CONTROL,
        "wal" => Layout::wal(first_unit),
        "new wal" => Layout::WAL_SCRATCH,
        "keystream" => Layout::Keystream,
        other => panic!("{other}"),
    }
}

fn wanted_spec(case: &NamedClass) -> Option<Spec> {
    let id = unhex(case.id.as_ref()?);
    Some(Spec {
        id: identity(case.id_class?, &id),
        root: match case.root.as_deref() {
            Some("cluster") => Root::Cluster,
            Some("ephemeral") => Root::Ephemeral,
            other => panic!("{other:?}"),
        },
        layout: match layout(case.layout.as_ref()?, case.first_unit?) {
            Layout::PAGES if lacks_images(case.id_class?, &id) => Layout::PAGES_WITHOUT_IMAGES,
            layout => layout,
        },
    })
}

/// SLRUs and maps are laid out as other pages and read with more care.
fn lacks_images(class: u8, id: &[u8]) -> bool {
    match class {
        1 => [1, 2].contains(&id[8]),
        class => class == 4,
    }
}

#[test]
fn names_are_what_the_table_says() {
    let classes = vectors().classes;
    assert_eq!(classes.len(), 186);
    for case in classes {
        let class = match classify(case.path.as_bytes()).class {
            Class::Clear => "clear",
            Class::KeyDirectory => "key directory",
            Class::Refused(_) => "refused",
            Class::WalRestored => "restored WAL",
            Class::WalSegment(_) | Class::Sealed(_) => "sealed",
        };
        assert_eq!(class, case.class, "{}", case.path);
        assert_eq!(
            spec(&case.path, case.segment_size),
            wanted_spec(&case),
            "{}",
            case.path
        );
    }
}

/// docs/format/files.md names every row of the table.
#[test]
fn the_document_has_every_row() {
    let document = include_str!("../../../../docs/format/files.md");
    for row in TABLE {
        // Tablespaces repeat the vectors of base/.
        let local = row.pattern.replace("pg_tblspc/<oid>/<catver>/", "base/");
        let named = [row.pattern, &local].map(|name| document.contains(&format!("`{name}`")));
        assert!(named[0] || named[1], "{}", row.pattern);
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// Does what a case says, and gives the stored bytes and what they read as.
fn stored_and_clear(case: &Bytes) -> (Vec<u8>, Vec<u8>) {
    let Spec { id, layout, .. } = spec(&case.path, case.segment_size).unwrap();
    let length = KeyLength::try_from(case.keybits).unwrap();
    let kind = Kind { layout, length, id };
    let (file, disk, mut scratch) = (kind.open(), MemDisk::default(), support::scratch());
    for (at, content) in &case.writes {
        let data = content.bytes();
        let written = file.write_at(&mut Transfer::new(&disk, &mut scratch), &data, *at as u64);
        assert_eq!(written, Ok(data.len()), "{}", case.name);
    }
    let sized = file.set_size(&mut Transfer::new(&disk, &mut scratch), case.size as u64);
    assert_eq!(sized, Ok(()), "{}", case.name);
    let mut stored = disk.stored();
    for edit in &case.edits {
        edit.apply(&mut stored);
    }
    let clear = kind.content(&MemDisk::of(stored.clone()));
    (stored, clear)
}

#[test]
fn files_are_stored_and_read_as_the_vectors_say() {
    let cases = vectors().bytes;
    assert_eq!(cases.len(), 83);
    for case in cases {
        let (stored, clear) = stored_and_clear(&case);
        for (image, spots) in [(&stored, &case.stored), (&clear, &case.reads)] {
            for (at, digits) in spots {
                let found = hex(&image[*at..at + digits.len() / 2]);
                assert_eq!(&found, digits, "{} at {at}", case.name);
            }
        }
        assert_eq!(sha256(&stored), case.stored_sha256, "{}", case.name);
        assert_eq!(sha256(&clear), case.clear_sha256, "{}", case.name);
    }
}
