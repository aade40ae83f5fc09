//! Keys from the master key: every file and purpose, and what happens if K1 should equal K2.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde::Deserialize;

use super::{first_master, hex, key_length, vectors, FileFields, Hex};
use crate::awslc::{hkdf_expand, Direction};
use crate::derive::{
    cluster_key, keystream_key, schedule_by, tail_key, ClusterPurpose, FilePurpose, Info,
};
use crate::xts::{Engine, Schedule};
use crate::{FileId, Fork, KeyLength, MasterKey};

#[derive(Deserialize)]
struct File {
    files: Vec<OfFile>,
    cluster: Vec<OfCluster>,
}

#[derive(Deserialize)]
struct OfFile {
    master: Hex,
    purpose: u8,
    keybits: u16,
    #[serde(flatten)]
    file: FileFields,
    info: String,
    key: Hex,
}

#[derive(Deserialize)]
struct OfCluster {
    master: Hex,
    purpose: u8,
    info: String,
    key: Hex,
}

#[test]
fn keys_of_files() {
    let File { files, .. } = vectors!("derive.json");
    assert_eq!(files.len(), 288);
    for case in &files {
        let (master, length, id) = (
            case.master.master(),
            key_length(case.keybits),
            case.file.id(),
        );
        let (purpose, key) = match case.purpose {
            1 => (FilePurpose::Xts, expand_pair(&master, length, &id)),
            2 => (FilePurpose::Tail, tail_key(&master, length, &id).to_vec()),
            9 => (
                FilePurpose::Keystream,
                keystream_key(&master, length, &id)[..length.bytes()].to_vec(),
            ),
            other => panic!("purpose {other}"),
        };
        assert_eq!(
            hex(Info::of_file(purpose, length, &id).as_slice()),
            case.info,
            "{id:?}"
        );
        assert_eq!(hex(&key), hex(&case.key.0), "{id:?} {purpose:?} {length:?}");
    }
}

/// The pair of keys that `schedule` expands for XTS.
fn expand_pair(master: &MasterKey, length: KeyLength, id: &FileId) -> Vec<u8> {
    let pair = RefCell::new(Vec::new());
    schedule_by(
        Direction::Seal,
        length,
        Info::of_file(FilePurpose::Xts, length, id),
        |info, out| {
            hkdf_expand(master.expose(), info, out);
            *pair.borrow_mut() = out.to_vec();
        },
    );
    pair.into_inner()
}

#[test]
fn keys_of_the_cluster() {
    let File { cluster, .. } = vectors!("derive.json");
    let purposes: BTreeSet<_> = cluster.iter().map(|case| case.purpose).collect();
    assert_eq!(purposes, BTreeSet::from([4, 5, 6, 7]));
    for case in &cluster {
        let purpose = match case.purpose {
            4 => ClusterPurpose::KeyId,
            5 => ClusterPurpose::Bind,
            6 => ClusterPurpose::KeyFile,
            7 => ClusterPurpose::Receiver,
            other => panic!("purpose {other}"),
        };
        let mut key = vec![0; case.key.0.len()];
        cluster_key(&case.master.master(), purpose, &mut key);
        assert_eq!(hex(Info::of_cluster(purpose).as_slice()), case.info);
        assert_eq!(hex(&key), hex(&case.key.0), "{purpose:?}");
    }
}

/// HKDF's short output is a prefix of its long one: without the length inside, the pair of AES-128
/// would be K1 of AES-256.
#[test]
fn key_lengths_share_no_key() {
    let id = FileId::relation(5, 16384, Fork::Main, 0);
    let pair = |length| expand_pair(&first_master(), length, &id);
    assert_ne!(pair(KeyLength::Bits128), pair(KeyLength::Bits256)[..32]);
    assert_ne!(pair(KeyLength::Bits128), pair(KeyLength::Bits192)[..32]);
}

#[test]
fn equal_halves_are_derived_again_with_one_more_byte() {
    let id = FileId::wal(0);
    for length in [KeyLength::Bits128, KeyLength::Bits192, KeyLength::Bits256] {
        let first = Info::of_file(FilePurpose::Xts, length, &id)
            .as_slice()
            .to_vec();
        let seen = RefCell::new(Vec::new());
        let stub = |info: &[u8], out: &mut [u8]| {
            seen.borrow_mut().push(info.to_vec());
            out.fill(7);
            if info.len() > first.len() {
                out[0] = 8;
            }
        };
        let info = Info::of_file(FilePurpose::Xts, length, &id);
        let mut keys = schedule_by(Direction::Seal, length, info, stub);
        let again = [first.as_slice(), &[1]].concat();
        assert_eq!(*seen.borrow(), [first.clone(), again]);

        let mut pair = vec![7; 2 * length.bytes()];
        pair[0] = 8;
        let (engine, direction) = (Engine::Composed, Direction::Seal);
        let mut expected = Schedule::on(engine, direction, length, &pair).unwrap();
        let (mut got, mut want) = ([0; 16], [0; 16]);
        keys.run([3; 16], &[0; 16], &mut got);
        expected.run([3; 16], &[0; 16], &mut want);
        assert_eq!(got, want, "{length:?}");
    }
}

#[test]
fn the_longest_identity_leaves_room_for_a_second_attempt() {
    let id = FileId::named(&[b'x'; 255]).unwrap();
    let info = Info::of_file(FilePurpose::Xts, KeyLength::Bits256, &id);
    let seen = RefCell::new(Vec::new());
    schedule_by(Direction::Seal, KeyLength::Bits256, info, |info, out| {
        seen.borrow_mut().push(info.len());
        out.fill(7);
        out[0] = u8::try_from(seen.borrow().len()).unwrap() + 6;
    });
    assert_eq!(seen.into_inner(), [14 + 255, 14 + 255 + 1]);
}

#[test]
fn identities_have_bounds() {
    assert!(FileId::named(b"").is_none());
    assert!(FileId::slru(&[b'x'; 256]).is_none());
    assert!(FileId::named(&[b'x'; 255]).is_some());
    assert_ne!(
        FileId::slru(b"pg_xact/0000"),
        FileId::named(b"pg_xact/0000")
    );
    assert_ne!(
        FileId::relation(5, 16400, Fork::Main, 0),
        FileId::temp_relation(5, 16400, 0, Fork::Main, 0)
    );
}
