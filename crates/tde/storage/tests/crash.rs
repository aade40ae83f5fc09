//! Power loss: every sector holds what it held at the last sync or at any moment since, and so does
//! the size, independently. What each layout then promises (docs/format/files.md#crashes).

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // as in the support module

mod support;

use pgseal_storage::layout::Layout;
use proptest::prelude::*;
use support::{cases, place, Data, Kind, MemDisk, Op, Rng, Twin, BLOCK, LENGTHS, PAGE};

const SECTORS: [usize; 2] = [512, 4096];

fn kind(layout: Layout) -> Kind {
    Kind::new(layout, LENGTHS[2])
}

/// The blocks of a clear file: (index, bytes), whole ones only.
fn blocks(content: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    content.chunks_exact(BLOCK).enumerate()
}

fn is_block_of(block: &[u8], i: usize, versions: &[Vec<u8>]) -> bool {
    let at = i * BLOCK;
    versions
        .iter()
        .any(|v| v.get(at..at + BLOCK) == Some(block))
}

proptest! {
    #![proptest_config(cases(1500))]

    /// `pg_logical/mappings`: what was synced is read again, however size and data part after it.
    #[test]
    fn keystream_bytes_that_were_synced_survive(
        durable in 1usize..9000, appends in prop::collection::vec(1usize..3000, 0..5),
        again: bool, sector in prop::sample::select(&SECTORS[..]), seed: u64,
    ) {
        let mut twin = Twin::new(kind(Layout::Keystream));
        let write = |twin: &mut Twin, len, seed| {
            let offset = twin.plain.len();
            twin.apply(&Op::Write { offset, len, shift: 0, data: Data::Seed(seed) });
        };
        write(&mut twin, durable, 1);
        twin.disk.sync();
        for &len in &appends {
            write(&mut twin, len, 2);
        }
        if again {
            // Replay cuts to what it knows of and appends the same records.
            twin.apply(&Op::SetSize(durable));
            for &len in &appends {
                write(&mut twin, len, 2);
            }
        }
        let content = twin.kind.content(&twin.disk.after_power_loss(sector, seed));
        prop_assert!(content.len() >= durable);
        prop_assert!(content[..durable] == twin.plain[..durable]);
    }

    /// Relations: a page that is rewritten in place, with any few bytes changed, tears into old and
    /// new blocks; nothing else changes. So a hint bit loses nothing, checksums or not.
    #[test]
    fn a_torn_page_is_old_and_new_blocks(
        changes in prop::collection::vec((0usize..4 * PAGE, any::<u8>()), 1..8),
        sector in prop::sample::select(&SECTORS[..]), seed: u64,
    ) {
        let all = Op::Write { offset: 0, len: 4 * PAGE, shift: 0, data: Data::Seed(3) };
        let mut twin = Twin::built(kind(Layout::PAGES), &[all]);
        twin.disk.sync();
        let mut versions = vec![twin.plain.clone()];
        for (at, value) in changes {
            let page = at - at % PAGE;
            let mut new = twin.plain[page..page + PAGE].to_vec();
            new[at - page] = value;
            prop_assert_eq!(twin.write(&new, page, 0), Ok(PAGE));
            support::put(&mut twin.plain, page, &new);
            versions.push(twin.plain.clone());
        }
        let content = twin.kind.content(&twin.disk.after_power_loss(sector, seed));
        prop_assert_eq!(content.len(), 4 * PAGE);
        for (i, block) in blocks(&content) {
            prop_assert!(is_block_of(block, i, &versions), "block {i}");
        }
    }

    /// Relations: pages without rows that extend a file, of which the disk took some sectors only,
    /// or its new size alone, are those pages or, sector by sector, zeros.
    #[test]
    fn a_torn_extension_by_empty_pages_is_empty(
        header in prop::array::uniform24(any::<u8>()), old_pages in 0usize..2, new in 1usize..6,
        reserved: bool, sector in prop::sample::select(&SECTORS[..]), seed: u64,
    ) {
        let old = Op::Write { offset: 0, len: old_pages * PAGE, shift: 0, data: Data::Seed(7) };
        let mut twin = Twin::built(kind(Layout::PAGES), &[old]);
        if reserved {
            twin.apply(&Op::SetSize((old_pages + new) * PAGE));
        }
        twin.disk.sync();
        let (mut empty, start) = (vec![0; new * PAGE], old_pages * PAGE);
        for page in empty.chunks_mut(2 * PAGE) {
            page[..24].copy_from_slice(&header);
        }
        prop_assert_eq!(twin.write(&empty, start, 0), Ok(new * PAGE));
        let content = twin.kind.content(&twin.disk.after_power_loss(sector, seed));
        prop_assert!(content[..start] == twin.plain[..start]);
        for (i, found) in content[start..].chunks(512).enumerate() {
            let written = &empty[i * 512..][..found.len()];
            prop_assert!(found == written || found.iter().all(|&byte| byte == 0), "sector {i}");
        }
    }

    /// Streams, one write after a sync: every block that was whole is old or new. The tail, which
    /// that write may have made part of a whole block, is old, new or noise: noise only if size and
    /// data come from different moments.
    #[test]
    fn a_stream_loses_at_most_its_tail(
        old_len in place(), offset in place(), len in 1usize..20_000, shared: bool,
        sector in prop::sample::select(&SECTORS[..]), seed: u64,
    ) {
        let layout = if shared { Layout::STREAM.shared() } else { Layout::STREAM };
        let before = Op::Write { offset: 0, len: old_len, shift: 0, data: Data::Seed(4) };
        let mut twin = Twin::built(kind(layout), &[before]);
        twin.disk.sync();
        let old = twin.plain.clone();
        twin.apply(&Op::Write { offset, len, shift: 0, data: Data::Seed(5) });
        let lost = twin.disk.after_power_loss(sector, seed);
        let content = twin.kind.content(&lost);
        let versions = [old.clone(), twin.plain.clone()];
        let whole = old.len() - old.len() % BLOCK;
        for (i, block) in blocks(&content[..whole]) {
            prop_assert!(is_block_of(block, i, &versions), "block {i}");
        }
        // The tail: its stored bytes and the size agree on a moment, or nothing is promised.
        let stored = lost.stored();
        let moment = |state: &[u8], plain: &[u8]| {
            let end = (whole + BLOCK).min(state.len());
            stored.len().min(whole + BLOCK) == end
                && stored.get(whole..end) == Some(&state[whole..end])
                && content[whole..end.min(content.len())] != plain[whole..end]
        };
        let before = Twin::built(kind(layout), &[Op::Write {
            offset: 0, len: old_len, shift: 0, data: Data::Seed(4),
        }]);
        prop_assert!(!moment(&before.disk.stored(), &old));
        prop_assert!(!moment(&twin.disk.stored(), &twin.plain));
    }

    /// A crash in the middle of growth by ftruncate or fallocate loses no whole block.
    #[test]
    fn growth_that_a_crash_cuts_keeps_whole_granules(
        layout in prop::sample::select(vec![Layout::PAGES, Layout::STREAM, Layout::wal(0)]),
        old_len in place(), to in place(), seed: u64,
    ) {
        let before = Op::Write { offset: 0, len: old_len, shift: 0, data: Data::Seed(6) };
        let mut twin = Twin::built(kind(layout), &[before]);
        twin.disk.sync();
        let old = twin.plain.clone();
        twin.apply(&Op::SetSize(to.max(old_len)));
        let content = twin.kind.content(&twin.disk.after_power_loss(512, seed));
        let whole = old.len() - old.len() % BLOCK;
        prop_assert!(content[..whole] == old[..whole]);
    }
}

/// The documented loss is real: size 20 of a stream, then 40 bytes; the new size without the new
/// data turns the four bytes of the old tail into noise.
#[test]
fn the_tail_of_a_stream_can_be_lost() {
    let before = Op::Write {
        offset: 0,
        len: 20,
        shift: 0,
        data: Data::Seed(1),
    };
    let twin = Twin::built(kind(Layout::STREAM), &[before]);
    let mut stored = twin.disk.stored();
    stored.resize(40, 0);
    let content = twin.kind.content(&MemDisk::of(stored));
    assert_eq!(content[..16], twin.plain[..16]);
    assert_ne!(content[16..20], twin.plain[16..]);
}

/// The model of a crash does lose things: without a sync nothing is sure to be there.
#[test]
fn the_model_loses_writes() {
    let disk = MemDisk::default();
    let mut twin = Twin::new(kind(Layout::STREAM));
    twin.apply(&Op::Write {
        offset: 0,
        len: 3 * PAGE,
        shift: 0,
        data: Data::Seed(1),
    });
    let mut rng = Rng(1);
    let mut sizes: Vec<usize> = (0..50)
        .map(|_| twin.disk.after_power_loss(512, rng.next()).stored().len())
        .collect();
    sizes.sort_unstable();
    assert_eq!((sizes[0], sizes[49]), (0, 3 * PAGE));
    assert_eq!(disk.stored().len(), 0);
}

/// PostgreSQL counts on `pg_control` being written in one sector. The padding behind its fields is
/// stored as it was, so that only the sector with the fields changes.
#[test]
fn a_new_pg_control_changes_one_sector() {
    let mut page = vec![0; PAGE];
    page[..292].copy_from_slice(&Rng(1).bytes(292));
    let mut twin = Twin::new(kind(Layout::CONTROL));
    assert_eq!(twin.write(&page, 0, 0), Ok(PAGE));
    twin.disk.sync();
    let before = twin.disk.stored();
    page[..292].copy_from_slice(&Rng(2).bytes(292));
    assert_eq!(twin.write(&page, 0, 0), Ok(PAGE));
    assert_eq!(twin.disk.stored()[304..], before[304..]);
    let mut rng = Rng(3);
    for _ in 0..20 {
        let content = twin
            .kind
            .content(&twin.disk.after_power_loss(512, rng.next()));
        assert_eq!(content.len(), PAGE);
        assert_eq!(content[292..], page[292..]);
    }
}
