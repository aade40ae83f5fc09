//! WAL that is sealed on its way: in a tar, and before it is compressed, piece by piece.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // as in the support module

mod support;

use pgseal_crypto::{FileCipher, KeyLength};
use pgseal_storage::layout::Spec;
use pgseal_storage::passing::Passing;
use pgseal_storage::tar::{Keys, TarFile, TarStream, HEADER};
use pgseal_storage::wal::WalName;
use pgseal_storage::{Errno, SealedFile, Transfer};
use support::{scratch, MemDisk, Rng, MASTER};

const SIZE: usize = 1 << 20;
const NAMES: [&str; 2] = ["00000001000000020000000A", "00000001000000020000000B"];

struct Segments;

impl Keys<'static> for Segments {
    fn segment_size(&self) -> u64 {
        SIZE as u64
    }

    fn open(&self, spec: &Spec) -> SealedFile<'static> {
        let cipher = FileCipher::new(&MASTER, KeyLength::Bits256, &spec.id);
        SealedFile::new(cipher, spec.layout)
    }
}

fn open(name: &str) -> SealedFile<'static> {
    let name = WalName::parse(name.as_bytes()).unwrap();
    Segments.open(&name.spec(SIZE as u64).unwrap())
}

/// Returns what the file of a segment holds.
fn stored(name: &str, clear: &[u8]) -> Vec<u8> {
    let disk = MemDisk::default();
    open(name)
        .write_at(&mut Transfer::new(&disk, &mut scratch()), clear, 0)
        .unwrap();
    disk.stored()
}

/// Lengths as WAL comes in: most end in the middle of a block.
fn pieces(data: &[u8], seed: u64) -> Vec<&[u8]> {
    let mut rng = Rng(seed);
    let mut rest = data;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let limit = [3, 40, 9000, 140_000][rng.below(4)];
        let (piece, after) = rest.split_at((1 + rng.below(limit)).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// A header as tarCreateHeader makes it, as far as it is read.
fn header(name: &str, size: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..136].copy_from_slice(format!("{size:011o} ").as_bytes());
    header[257..265].copy_from_slice(b"ustar\x0000");
    let others: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    let sum = others + 8 * u32::from(b' ');
    header[148..156].copy_from_slice(format!("{sum:07o} ").as_bytes());
    header
}

/// A whole segment, and one whose end has not come: the rest is zeros.
fn contents() -> [Vec<u8>; 2] {
    let whole = Rng(1).bytes(SIZE);
    let mut cut = Rng(2).bytes(300_008);
    cut.resize(SIZE, 0);
    [whole, cut]
}

const HISTORY: &[u8] = b"1\t0/3000000\tno recovery target specified\n";

/// The tar that is expected, in which segments are as their files.
fn expected() -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, clear) in NAMES.iter().zip(contents()) {
        tar.extend(header(name, SIZE));
        tar.extend(stored(name, &clear));
        tar.extend(header(&format!("archive_status/{name}.done"), 0));
    }
    tar.extend(header("00000002.history", HISTORY.len()));
    tar.extend(HISTORY);
    tar.resize(tar.len().next_multiple_of(HEADER) + 2 * HEADER, 0);
    tar
}

#[test]
fn segments_pass_by_as_their_files() {
    for (seed, len) in [(1, SIZE), (2, SIZE), (3, 300_000), (4, 300_008), (5, 5)] {
        let clear = Rng(seed).bytes(len);
        let mut passing = Passing::new(open(NAMES[0]));
        let mut out = Vec::new();
        for piece in pieces(&clear, seed) {
            passing.push(&mut scratch(), piece, &mut out).unwrap();
            assert_eq!(out.len() % 16, 0);
            assert!((passing.taken() as usize) < out.len() + 16);
        }
        assert_eq!(passing.taken() as usize, len);
        passing.finish(&mut scratch(), &mut out).unwrap();
        let mut whole = clear;
        whole.resize(len.next_multiple_of(16), 0);
        assert!(out == stored(NAMES[0], &whole), "{seed}");
    }
}

/// walmethods.c without compression: a segment is filled with zeros first, then written over.
#[test]
fn a_tar_in_a_file() {
    let (disk, mut tar, mut at) = (MemDisk::default(), TarFile::default(), 0);
    let mut write = |data: &[u8], at: usize| {
        let mut scratch = scratch();
        let transfer = &mut Transfer::new(&disk, &mut scratch);
        let done = tar.write_at(&Segments, transfer, data, at as u64);
        assert_eq!(done, Ok(data.len()));
    };
    for (name, clear) in NAMES.iter().zip(contents()) {
        write(&header(name, 0), at);
        let start = at + HEADER;
        for page in (start..start + SIZE).step_by(8192) {
            write(&[0; 8192], page);
        }
        let came = &clear[..clear.iter().rposition(|&byte| byte != 0).unwrap() + 1];
        let mut place = start;
        for piece in pieces(came, 7) {
            write(piece, place);
            place += piece.len();
        }
        write(&header(name, SIZE), at);
        at = start + SIZE;
        for _ in 0..2 {
            write(&header(&format!("archive_status/{name}.done"), 0), at);
        }
        at += HEADER;
    }
    write(&header("00000002.history.tmp", 0), at);
    write(HISTORY, at + HEADER);
    write(&[0; HEADER][HISTORY.len()..], at + HEADER + HISTORY.len());
    write(&header("00000002.history", HISTORY.len()), at);
    write(&[0; 2 * HEADER], at + 2 * HEADER);
    assert!(disk.stored() == expected());
}

/// A segment that is given up is cut off, and what comes in its place is sealed by its own header.
/// A cut inside a segment leaves it the one that is written.
#[test]
fn a_member_that_is_given_up() {
    let (disk, mut tar) = (MemDisk::default(), TarFile::default());
    let mut scratch = scratch();
    let mut write = |tar: &mut TarFile<'static>, data: &[u8], at: usize| {
        let transfer = &mut Transfer::new(&disk, &mut scratch);
        tar.write_at(&Segments, transfer, data, at as u64)
    };
    let clear = Rng(1).bytes(SIZE);
    let start = HEADER + HEADER;
    write(&mut tar, &header(NAMES[0], 0), HEADER).unwrap();
    write(&mut tar, &clear[..8192], start).unwrap();
    for kept in [start + 16, start] {
        tar.cut(&disk, kept as u64).unwrap();
        assert_eq!(disk.stored().len(), kept);
        write(&mut tar, &clear, start).unwrap();
        assert!(disk.stored()[start..] == stored(NAMES[0], &clear), "{kept}");
    }
    tar.cut(&disk, HEADER as u64).unwrap();
    assert_eq!(disk.stored().len(), HEADER);
    assert_eq!(write(&mut tar, &clear[..8192], start), Err(Errno::EIO));
    write(&mut tar, &header("00000002.history.tmp", 0), HEADER).unwrap();
    write(&mut tar, HISTORY, start).unwrap();
    assert_eq!(&disk.stored()[start..], HISTORY);
}

/// The zeros come last in a compressed tar, and headers come again where the segment ends.
#[test]
fn a_tar_that_is_compressed() {
    let mut tar = TarStream::default();
    let mut push = |data: &[u8]| {
        let mut out = Vec::new();
        tar.push(&Segments, &mut scratch(), data, &mut out).unwrap();
        out
    };
    let mut whole = Vec::new();
    for (name, clear) in NAMES.iter().zip(contents()) {
        push(&header(name, 0));
        let sealed: Vec<u8> = pieces(&clear, 8).into_iter().flat_map(&mut push).collect();
        whole.extend(push(&header(name, SIZE)));
        whole.extend(sealed);
        push(&header(&format!("archive_status/{name}.done"), 0));
        whole.extend(push(&header(&format!("archive_status/{name}.done"), 0)));
    }
    push(&header("00000002.history.tmp", 0));
    let history = [push(HISTORY), push(&[0; HEADER][HISTORY.len()..])].concat();
    whole.extend(push(&header("00000002.history", HISTORY.len())));
    whole.extend(history);
    whole.extend(push(&[0; 2 * HEADER]));
    assert!(whole == expected());
}

/// Both kinds of tar refuse what might be WAL and cannot be sealed.
#[test]
fn nothing_unknown_passes() {
    let segment = header(NAMES[0], 0);
    let mut spoilt = segment;
    spoilt[0] = b'1';
    let past_its_end = vec![1; SIZE + 1];
    for (before, bad) in [
        (None, &b"WAL without a header"[..]),
        (None, &spoilt),
        (None, &header("base/5/1259", 0)),
        (Some(&header("00000002.history", 0)), &header("x", 0)),
        (Some(&segment), &past_its_end),
    ] {
        let (disk, mut file, mut stream) =
            (MemDisk::default(), TarFile::default(), TarStream::default());
        let mut out = Vec::new();
        let mut write = |data: &[u8], at: usize| {
            let mut scratch = scratch();
            let transfer = &mut Transfer::new(&disk, &mut scratch);
            file.write_at(&Segments, transfer, data, at as u64)
        };
        if let Some(before) = before {
            write(before, 0).unwrap();
            stream
                .push(&Segments, &mut scratch(), before, &mut out)
                .unwrap();
        }
        let end = out.len();
        assert_eq!(write(bad, end), Err(Errno::EIO));
        let pushed = stream.push(&Segments, &mut scratch(), bad, &mut out);
        assert_eq!((pushed, out.len()), (Err(Errno::EIO), end));
        assert_eq!(disk.stored().len(), end);
    }
    let closed_before_its_end = header(NAMES[0], SIZE);
    let pushed = TarStream::default().push(
        &Segments,
        &mut scratch(),
        &closed_before_its_end,
        &mut Vec::new(),
    );
    assert_eq!(pushed, Err(Errno::EIO));
}
