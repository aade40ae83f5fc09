//! Tests of what the stored bytes show, and of what they read as: zeros, granularity, snapshots.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // as in the support module

mod support;

use pgseal_storage::layout::Layout;
use pgseal_storage::scratch::Scratch;
use pgseal_storage::{SealedFile, Transfer};
use proptest::prelude::*;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::Ordering;
use support::{cases, kinds, ops, Data, Kind, MemDisk, Op, Twin, BLOCK, LENGTHS, PAGE};

fn kind(layout: Layout) -> Kind {
    Kind::new(layout, LENGTHS[2])
}

fn filled(layout: Layout, len: usize) -> Twin {
    Twin::built(
        kind(layout),
        &[Op::Write {
            offset: 0,
            len,
            shift: 0,
            data: Data::Seed(1),
        }],
    )
}

/// Blocks (the last one may be a tail) in which two images differ.
fn changed(a: &[u8], b: &[u8]) -> Vec<usize> {
    let pairs = a.chunks(BLOCK).zip(b.chunks(BLOCK)).enumerate();
    pairs.filter(|(_, (a, b))| a != b).map(|(i, _)| i).collect()
}

proptest! {
    #![proptest_config(cases(500))]

    /// The documented granularity is the true one: one clear byte changes its block (its whole
    /// block: 16 bytes that differ are what a cipher gives), the keystream's its byte.
    #[test]
    fn one_byte_changes_its_block(kind in kinds(), len in 1usize..30_000, at in 0usize..30_000) {
        let at = at % len;
        let write = Op::Write { offset: 0, len, shift: 0, data: Data::Seed(1) };
        let mut twin = Twin::built(kind, &[write]);
        let before = twin.disk.stored();
        let value = [twin.plain[at] ^ 0x40];
        prop_assert_eq!(twin.write(&value, at, 0), Ok(1));
        let after = twin.disk.stored();
        prop_assert_eq!(changed(&before, &after), vec![at / BLOCK]);
        let bytes = (0..len).filter(|&i| before[i] != after[i]).count();
        let in_clear = twin.kind.layout == Layout::CONTROL && at < BLOCK && len >= BLOCK;
        let tail = at / BLOCK == len / BLOCK;
        match twin.kind.layout == Layout::Keystream || in_clear || tail {
            true => prop_assert_eq!(bytes, 1),
            false => prop_assert!(bytes > 8, "{} bytes of a block", bytes),
        }
    }

    /// The stored bytes of a file depend on its clear bytes and its holes, not on how they came.
    #[test]
    fn history_does_not_show(kind in kinds(), ops in ops(8)) {
        let twin = Twin::built(kind.clone(), &ops);
        let mut again = Twin::new(kind);
        prop_assert_eq!(again.write(&twin.plain, 0, 0), Ok(twin.plain.len()));
        let (one, two) = (twin.disk.stored(), again.disk.stored());
        for i in changed(&one, &two) {
            let end = (i * BLOCK + BLOCK).min(one.len());
            prop_assert!(one[i * BLOCK..end].iter().all(|&byte| byte == 0), "block {} is no hole", i);
        }
    }
}

/// Relations and SLRUs: a zeroed page reads as zeros, which is the documented limit; a zeroed
/// block, half page or partial page does not. WAL and streams: a zeroed block does, a zeroed tail
/// does not.
#[test]
fn what_reads_as_zeros_when_it_is_zeroed() {
    let reads_as_zeros = |layout, from: usize, to: usize| {
        let twin = filled(layout, 2 * PAGE + 100);
        let mut stored = twin.disk.stored();
        stored[from..to].fill(0);
        let content = twin.kind.content(&MemDisk::of(stored));
        assert_eq!(content[..from], twin.plain[..from]);
        assert_eq!(content[to..], twin.plain[to..]);
        content[from..to].iter().all(|&byte| byte == 0)
    };
    for (from, to, page, block) in [
        (0, PAGE, true, true),
        (PAGE, 2 * PAGE, true, true),
        (0, BLOCK, false, true),
        (PAGE + 512, PAGE + 1024, false, true),
        (PAGE, PAGE + PAGE / 2, false, true),
        (PAGE / 2, PAGE + PAGE / 2, false, true),
        (2 * PAGE, 2 * PAGE + 96, false, true),
        (2 * PAGE + 96, 2 * PAGE + 100, false, false),
    ] {
        assert_eq!(
            reads_as_zeros(Layout::PAGES, from, to),
            page,
            "page rule {from}..{to}"
        );
        assert_eq!(
            reads_as_zeros(Layout::STREAM, from, to),
            block,
            "block rule {from}..{to}"
        );
        assert!(
            !reads_as_zeros(Layout::Keystream, from, to),
            "keystream {from}..{to}"
        );
    }
}

/// A page of zeros behind its header is as empty when only some of its sectors were ever written.
/// In a page that holds anything else, a sector that is zeroed is noise.
#[test]
fn an_empty_page_of_which_sectors_are_missing() {
    const SECTOR: usize = 512;
    let page_with = |at: Option<usize>| {
        let mut page = vec![0; PAGE];
        page[..24].fill(0xa5);
        at.into_iter().for_each(|at| page[at] = 1);
        page
    };
    let without = |page: &[u8], gone: &[usize]| {
        let mut twin = Twin::built(kind(Layout::PAGES), &[]);
        assert_eq!(twin.write(page, 0, 0), Ok(PAGE));
        let mut stored = twin.disk.stored();
        let sectors = gone.iter().map(|i| i * SECTOR);
        sectors.for_each(|at| stored[at..at + SECTOR].fill(0));
        twin.kind.content(&MemDisk::of(stored))
    };
    let zeros = vec![0; PAGE];
    for gone in [&[0][..], &[15], &[8, 9, 10, 11, 12, 13, 14, 15], &[0, 1, 7]] {
        assert_eq!(without(&zeros, gone), zeros, "zeros without {gone:?}");
        let empty = if gone.contains(&0) {
            &zeros
        } else {
            &page_with(None)
        };
        assert_eq!(
            without(&page_with(None), gone),
            *empty,
            "empty without {gone:?}"
        );
    }
    for at in [24, SECTOR - 1, SECTOR, PAGE - 1] {
        let gone = [if at < SECTOR { 1 } else { 0 }];
        let content = without(&page_with(Some(at)), &gone);
        let sector = &content[gone[0] * SECTOR..][..SECTOR];
        assert!(sector.iter().any(|&byte| byte != 0), "a byte at {at}");
    }
}

/// One flipped stored bit: 16 bytes of noise, one flipped bit in a tail or keystream.
#[test]
fn a_flipped_bit_garbles_its_block() {
    for layout in support::layouts() {
        let twin = filled(layout, PAGE + 100);
        for at in [16, 8191, PAGE, PAGE + 95, PAGE + 96, PAGE + 99] {
            let mut stored = twin.disk.stored();
            stored[at] ^= 1;
            let content = twin.kind.content(&MemDisk::of(stored));
            assert_eq!(
                changed(&content, &twin.plain),
                [at / BLOCK],
                "{layout:?} {at}"
            );
            let bytes = (0..content.len())
                .filter(|&i| content[i] != twin.plain[i])
                .count();
            let mask = layout == Layout::Keystream || at >= PAGE + 96;
            assert_eq!(bytes == 1, mask, "{layout:?} {at}");
        }
    }
}

/// A WAL page is written with a zero tail and again when it is full, at one place under one key.
/// Two snapshots tell which blocks changed, and nothing of what they hold.
#[test]
fn two_snapshots_of_a_wal_page_show_nothing() {
    let mut twin = Twin::new(kind(Layout::wal(2048)));
    let full = support::Rng(2).bytes(PAGE);
    let filled = 3000;
    let mut half = full.clone();
    half[filled..].fill(0);
    assert_eq!(twin.write(&half, 0, 0), Ok(PAGE));
    let first = twin.disk.stored();
    assert_eq!(twin.write(&full, 0, 0), Ok(PAGE));
    let second = twin.disk.stored();

    assert_eq!(
        changed(&first, &second),
        (filled / BLOCK..PAGE / BLOCK).collect::<Vec<_>>()
    );
    let xor = |a: &[u8], b: &[u8]| a.iter().zip(b).map(|(a, b)| a ^ b).collect::<Vec<u8>>();
    for at in (0..PAGE).step_by(BLOCK).skip(filled / BLOCK) {
        let block = at..at + BLOCK;
        let seen = xor(&first[block.clone()], &second[block.clone()]);
        let clear = xor(&half[block.clone()], &full[block]);
        assert_ne!(seen, clear, "at {at}");
        let same = seen.iter().zip(&clear).filter(|(a, b)| a == b).count();
        assert!(
            same < 6,
            "{same} bytes of the XOR at {at} are the clear ones"
        );
    }
    let distinct: HashSet<&[u8]> = first.chunks(BLOCK).collect();
    assert_eq!(
        distinct.len(),
        PAGE / BLOCK,
        "equal blocks would show where the zeros are"
    );
}

/// The fill of a new WAL segment may stay zeros; what is not zeros is sealed.
#[test]
fn only_zero_blocks_of_a_new_segment_stay_zeros() {
    let mut twin = Twin::new(kind(Layout::WAL_SCRATCH));
    let mut page = vec![0; PAGE];
    page[40] = 1;
    assert_eq!(twin.write(&page, 0, 0), Ok(PAGE));
    let stored = twin.disk.stored();
    assert_eq!(changed(&stored, &vec![0; PAGE]), [40 / BLOCK]);
    assert_ne!(stored[32..48], page[32..48]);
}

/// Asking for the size is a system call, which most pages of a relation are written without.
#[test]
fn the_size_is_asked_for_only_if_it_is_not_known() {
    let (kind, disk) = (kind(Layout::PAGES), MemDisk::default());
    let asked = |file: &SealedFile<'_>, pages: Range<usize>| {
        let before = disk.sized.load(Ordering::Relaxed);
        for page in pages {
            let (mut scratch, at) = (Scratch::default(), (page * PAGE) as u64);
            let written = file.write_at(&mut Transfer::new(&disk, &mut scratch), &[1; PAGE], at);
            assert_eq!(written, Ok(PAGE));
        }
        disk.sized.load(Ordering::Relaxed) - before
    };
    let file = kind.open();
    assert_eq!(asked(&file, 0..9), 0, "each page follows the one before");
    assert_eq!(asked(&file, 3..6), 0, "pages that were written before");
    let again = kind.open();
    assert_eq!(asked(&again, 8..9), 1, "nothing is known of the file yet");
    assert_eq!(asked(&again, 4..9), 0, "its size was seen");
    let (mut scratch, cut) = (Scratch::default(), 2 * PAGE as u64 + 5);
    let done = again.set_size(&mut Transfer::new(&disk, &mut scratch), cut);
    assert_eq!(done, Ok(()));
    assert_eq!(asked(&again, 2..3), 0, "the cut page");
    assert_eq!(asked(&again, 5..6), 1, "beyond the new end");
}

/// Only WAL is read twice: its writer may be in the middle of a block.
#[test]
fn a_whole_page_is_one_transfer() {
    for (layout, transfers) in [
        (Layout::PAGES, 1),
        (Layout::PAGES_WITHOUT_IMAGES, 1),
        (Layout::STREAM, 1),
        (Layout::WAL_SCRATCH, 1),
        (Layout::wal(2048), 2),
        (Layout::Keystream, 1),
    ] {
        let mut twin = filled(layout, 2 * PAGE);
        let before = twin.disk.reads.load(Ordering::Relaxed);
        let read = twin
            .read(PAGE, PAGE, 0)
            .map(|read| read == twin.plain[PAGE..]);
        assert_eq!(read, Ok(true), "{layout:?}");
        let after = twin.disk.reads.load(Ordering::Relaxed);
        assert_eq!(after - before, transfers, "{layout:?}");
    }
}

/// Of WAL, only a last block that is read in part is read again; of other files nothing is.
#[test]
fn only_what_may_be_half_written_is_read_twice() {
    let reads = |layout, offset: usize, len: usize| {
        let mut twin = filled(layout, 2 * PAGE + 32);
        let before = twin.disk.reads.load(Ordering::Relaxed);
        let read = twin.read(offset, len, 0).unwrap();
        let end = (offset + len).min(twin.plain.len());
        assert!(
            read == twin.plain[offset.min(end)..end],
            "{layout:?} {offset}"
        );
        twin.disk.reads.load(Ordering::Relaxed) - before
    };
    // The last but one goes to the end of the file, which a second read finds; the last is beyond.
    for (offset, len, of_wal, of_others) in [
        (PAGE + 16, 32, 1, 1),
        (PAGE + 16, 5, 2, 1),
        (PAGE, 100, 2, 1),
        (PAGE, 2 * PAGE, 2, 2),
        (3 * PAGE, 5, 1, 1),
    ] {
        assert_eq!(
            reads(Layout::wal(2048), offset, len),
            of_wal,
            "{offset} {len}"
        );
        for layout in [Layout::PAGES, Layout::STREAM, Layout::WAL_SCRATCH] {
            assert_eq!(
                reads(layout, offset, len),
                of_others,
                "{layout:?} {offset} {len}"
            );
        }
    }
}

/// Beside its writer, a file of any layout reads as ever. Only the pages of which WAL has no images
/// are read until two reads agree.
#[test]
fn reading_beside_a_writer_gives_the_same_bytes() {
    for layout in support::layouts()
        .into_iter()
        .chain([Layout::PAGES_WITHOUT_IMAGES])
    {
        let twin = filled(layout, 2 * PAGE + 37);
        let (file, mut scratch) = (twin.kind.open(), support::scratch());
        assert_eq!(file.lacks_images(), layout == Layout::PAGES_WITHOUT_IMAGES);
        let is_changed_meanwhile = layout == layout.shared() || file.is_raced();
        assert_eq!(file.opens_in_place(), !is_changed_meanwhile, "{layout:?}");
        let mut bytes = vec![0; 3 * PAGE];
        let transfer = &mut Transfer::new(&twin.disk, &mut scratch);
        assert_eq!(file.read_beside(transfer, &mut bytes, 5), Ok(2 * PAGE + 32));
        assert!(bytes[..2 * PAGE + 32] == twin.plain[5..], "{layout:?}");
    }
}

/// Data, wherever it is written and if only a tail's mask, makes a file one that depends on a key.
#[test]
fn what_was_written_tells_whether_a_new_segment_holds_only_zeros() {
    let only_zeros = |layout, len: usize, data: Option<usize>| {
        let (kind, disk) = (kind(layout), MemDisk::of(Vec::new()));
        let file = kind.open();
        let write = |bytes: &[u8], at| {
            let mut scratch = Scratch::default();
            let written = file.write_at(&mut Transfer::new(&disk, &mut scratch), bytes, at);
            assert_eq!(written, Ok(bytes.len()));
        };
        write(&vec![0; len], 0);
        data.into_iter().for_each(|at| write(&[1], at as u64));
        file.wrote_only_zeros()
    };
    let segment = 40 * PAGE;
    assert!(only_zeros(Layout::WAL_SCRATCH, segment, None));
    assert!(only_zeros(Layout::WAL_SCRATCH, PAGE + 16, None));
    assert!(!only_zeros(Layout::WAL_SCRATCH, PAGE + 5, None));
    for at in [0, 17, PAGE, segment - 1, segment] {
        assert!(!only_zeros(Layout::WAL_SCRATCH, segment, Some(at)), "{at}");
    }
    assert!(!only_zeros(Layout::STREAM, segment, None));
}

/// A mask is none of the blocks that zeros are stored as, so that a tail that grows into a block
/// shows nothing of itself.
#[test]
fn masks_are_not_the_ciphertext_of_zeros() {
    let blocks: HashSet<Vec<u8>> = {
        let twin = Twin::built(
            kind(Layout::STREAM),
            &[Op::Write {
                offset: 0,
                len: PAGE,
                shift: 0,
                data: Data::Zeros,
            }],
        );
        twin.disk
            .stored()
            .chunks(BLOCK)
            .map(<[u8]>::to_vec)
            .collect()
    };
    for block in 0..PAGE / BLOCK {
        for len in 8..BLOCK {
            let mut twin = Twin::built(kind(Layout::STREAM), &[Op::SetSize(block * BLOCK)]);
            assert_eq!(twin.write(&vec![0; len], block * BLOCK, 0), Ok(len));
            let stored = twin.disk.stored();
            let mask = &stored[block * BLOCK..];
            assert!(
                blocks.iter().all(|other| !other.starts_with(mask)),
                "{block} {len}"
            );
        }
    }
}

/// `pg_control`'s first block is what other programs read; the rest is not.
#[test]
fn the_head_of_pg_control_is_clear() {
    let twin = filled(Layout::CONTROL, PAGE);
    let stored = twin.disk.stored();
    assert_eq!(stored[..BLOCK], twin.plain[..BLOCK]);
    let same = changed(&stored, &twin.plain);
    assert_eq!(same, (1..PAGE / BLOCK).collect::<Vec<_>>());
}
