//! Tars of WAL as `pg_waldump` reads them: sealed segments come out clear, all else as it is.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // as in the support module

mod support;

use pgseal_crypto::{FileCipher, KeyLength};
use pgseal_storage::layout::Spec;
use pgseal_storage::untar::{Keys, Untar};
use pgseal_storage::wal::WalName;
use pgseal_storage::{Errno, SealedFile, Transfer};
use support::{scratch, MemDisk, Rng, MASTER};

const BLOCK: usize = 512;
const SIZE: usize = 1 << 20;
const NAMES: [&str; 3] = [
    "00000001000000020000000A",
    "00000001000000020000000B",
    "00000001000000020000000C",
];

/// The size of segments that the cluster says, if there is one.
struct Cluster(Option<u64>);

impl Keys<'static> for Cluster {
    fn segment_size(&self) -> Option<u64> {
        self.0
    }

    fn open(&self, spec: &Spec) -> SealedFile<'static> {
        let cipher = FileCipher::new(&MASTER, KeyLength::Bits256, &spec.id);
        SealedFile::new(cipher, spec.layout)
    }
}

fn sealed(name: &str, clear: &[u8]) -> Vec<u8> {
    let name = WalName::parse(name.as_bytes()).unwrap();
    let file = Cluster(None).open(&name.spec(SIZE as u64).unwrap());
    let disk = MemDisk::default();
    let mut scratch = scratch();
    file.write_at(&mut Transfer::new(&disk, &mut scratch), clear, 0)
        .unwrap();
    disk.stored()
}

/// A segment with the header of its first page.
fn segment(number: u32, len: usize) -> Vec<u8> {
    let mut segment = Rng(number.into()).bytes(len);
    segment[..4].copy_from_slice(&[0x22, 0xD1, 2, 0]);
    let start = (2u64 << 32) + u64::from(number) * SIZE as u64;
    segment[8..16].copy_from_slice(&start.to_le_bytes());
    segment[32..36].copy_from_slice(&(SIZE as u32).to_le_bytes());
    segment[36..40].copy_from_slice(&8192u32.to_le_bytes());
    segment
}

/// A header as GNU tar makes it; from 8 GB on the size is no octal number.
fn header(name: &str, size: u64, kind: u8) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    header[..name.len()].copy_from_slice(name.as_bytes());
    if size < 1 << 33 {
        header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    } else {
        header[124] = 0x80;
        header[128..136].copy_from_slice(&size.to_be_bytes());
    }
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar  \0");
    let others: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    let sum = others + 8 * u32::from(b' ');
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

fn tar(members: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, kind, content) in members {
        tar.extend(header(name, content.len() as u64, *kind));
        tar.extend(*content);
        tar.resize(tar.len().next_multiple_of(BLOCK), 0);
    }
    tar.resize(tar.len() + 2 * BLOCK, 0);
    tar
}

/// Reads a tar in pieces of some blocks.
fn read(cluster: &Cluster, tar: &[u8], seed: u64) -> Vec<u8> {
    let (mut rng, mut untar, mut read) = (Rng(seed), Untar::default(), tar.to_vec());
    let mut rest = &mut read[..];
    while !rest.is_empty() {
        let limit = [1, 3, 40, 5000][rng.below(4)];
        let len = (BLOCK * (1 + rng.below(limit))).min(rest.len());
        let (piece, others) = rest.split_at_mut(len);
        untar.pass(cluster, &mut scratch(), piece).unwrap();
        rest = others;
    }
    read
}

#[test]
fn sealed_segments_come_out_clear() {
    let [first, second, clear] = [10, 11, 12].map(|number| segment(number, SIZE));
    let noise = Rng(4).bytes(SIZE);
    let history = b"1\t0/3000000\tno recovery target specified\n";
    let with = |first: &[u8], second: &[u8]| {
        tar(&[
            ("pg_wal/", b'5', b""),
            (&format!("pg_wal/{}", NAMES[1]), b'0', second),
            ("base/5/1259", b'0', &noise[..8192]),
            ("00000002.history", b'0', history),
            (NAMES[0], 0, first),
            (
                &format!("pg_wal/archive_status/{}.done", NAMES[0]),
                b'0',
                b"",
            ),
            (NAMES[2], b'0', &clear),
        ])
    };
    let stored = with(&sealed(NAMES[0], &first), &sealed(NAMES[1], &second));
    let expected = with(&first, &second);
    for seed in 0..8 {
        assert!(read(&Cluster(None), &stored, seed) == expected, "{seed}");
    }
}

/// The first page of a recycled segment is that of the one that it was.
#[test]
fn a_recycled_segment_is_opened_too() {
    let recycled = segment(3, SIZE);
    let stored = tar(&[(NAMES[0], b'0', &sealed(NAMES[0], &recycled))]);
    assert!(read(&Cluster(None), &stored, 1) == tar(&[(NAMES[0], b'0', &recycled)]));
}

/// A segment that was cut has its place by the cluster's size of segments, and none without it.
#[test]
fn a_segment_that_was_cut() {
    let cut = segment(10, SIZE / 2 + 8192);
    let stored = tar(&[(NAMES[0], b'0', &sealed(NAMES[0], &cut))]);
    let expected = tar(&[(NAMES[0], b'0', &cut)]);
    assert!(read(&Cluster(Some(SIZE as u64)), &stored, 2) == expected);
    assert!(read(&Cluster(None), &stored, 2) == stored);
}

/// A member that is no file stays, whatever its name, and so do blocks that no header announces.
#[test]
fn what_is_no_segment_stays() {
    let noise = Rng(5).bytes(SIZE);
    for stored in [
        tar(&[(NAMES[0], b'x', &noise)]),
        tar(&[("00000001000000020000000A.partial", b'0', &noise)]),
        noise,
    ] {
        assert!(read(&Cluster(Some(SIZE as u64)), &stored, 3) == stored);
    }
}

#[test]
fn a_large_member_is_passed_over() {
    const LARGE: u64 = (1 << 33) + 5;
    let mut untar = Untar::default();
    let mut pass = |blocks: &mut [u8]| untar.pass(&Cluster(None), &mut scratch(), blocks);
    pass(&mut header("large", LARGE, b'0')).unwrap();
    let segment = segment(10, SIZE);
    let stored = tar(&[(NAMES[0], b'0', &sealed(NAMES[0], &segment))]);
    let mut within = stored.clone();
    let mut left = LARGE.next_multiple_of(BLOCK as u64);
    pass(&mut within).unwrap();
    assert!(within == stored, "in the member");
    left -= within.len() as u64;
    let mut zeros = vec![0; 64 << 20];
    while left > 0 {
        let len = left.min(zeros.len() as u64);
        pass(&mut zeros[..len as usize]).unwrap();
        left -= len;
    }
    let mut behind = stored;
    pass(&mut behind).unwrap();
    assert!(behind == tar(&[(NAMES[0], b'0', &segment)]));
}

#[test]
fn the_size_of_segments_is_that_of_the_last_one() {
    let mut untar = Untar::default();
    assert_eq!(untar.segment_size(), None);
    let mut stored = tar(&[(NAMES[0], b'0', &sealed(NAMES[0], &segment(10, SIZE)))]);
    untar
        .pass(&Cluster(None), &mut scratch(), &mut stored)
        .unwrap();
    assert_eq!(untar.segment_size(), Some(SIZE as u64));
}

#[test]
fn blocks_are_whole() {
    let mut untar = Untar::default();
    let cut = &mut [0; BLOCK + 1];
    let passed = untar.pass(&Cluster(None), &mut scratch(), cut);
    assert_eq!(passed, Err(Errno::EINVAL));
}
