//! A disk that fills up or fails in the middle of a call: what was not asked to change has not
//! changed, and no count is larger than what reads back (docs/format/files.md#failures).

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // as in the support module

mod support;

use pgseal_storage::layout::Layout;
use pgseal_storage::Errno;
use proptest::prelude::*;
use std::sync::atomic::Ordering;
use support::{cases, kinds, ops, place, put, Fault, Kind, Op, Twin, LENGTHS, PAGE};

fn faults() -> impl Strategy<Value = Fault> {
    let space = prop_oneof![0u64..100, 0u64..20_000];
    let takes = prop_oneof![Just(0usize), 1usize..40, 0usize..9000];
    prop_oneof![
        space.prop_map(Fault::Space),
        (0usize..6, takes).prop_map(|(calls, takes)| Fault::Once { calls, takes }),
    ]
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn a_failed_write_changes_nothing_outside_its_range(
        kind in kinds(), before in ops(6), offset in place(), len in 1usize..40_000,
        shift in 0usize..17, seed: u64, fault in faults(),
    ) {
        let mut twin = Twin::built(kind, &before);
        let old = twin.plain.clone();
        let data = support::Data::Seed(seed).bytes(len);
        twin.disk.fail(fault);
        let result = twin.write(&data, offset, shift);
        twin.disk.fail(Fault::None);
        let content = twin.kind.content(&twin.disk);
        match result {
            Ok(count) => {
                assert!((1..=len).contains(&count), "{count} of {len}");
                let mut wanted = old;
                put(&mut wanted, offset, &data[..count]);
                same_outside(&content, &wanted, offset + count..offset + len);
            }
            Err(errno) => {
                assert!([Errno::EIO, Errno::ENOSPC].contains(&errno), "{errno:?}");
                same_outside(&content, &old, offset..offset + len);
            }
        }
    }

    #[test]
    fn a_failed_growth_changes_nothing(
        kind in kinds(), before in ops(6), size in place(), by in 1usize..20_000,
        allocate: bool, fault in faults(),
    ) {
        let mut twin = Twin::built(kind, &before);
        let old = twin.plain.clone();
        let size = size.max(old.len());
        twin.disk.fail(fault);
        let result = if allocate { twin.allocate(size, by) } else { twin.set_size(size + by) };
        twin.disk.fail(Fault::None);
        if result.is_ok() {
            twin.plain.resize(size + by, 0);
        }
        twin.check();
    }

    /// A cut is the one call whose failure may cost bytes below it: those of the granule it ends
    /// in, when the disk took the cut and then refused to rewrite what it left of the granule.
    #[test]
    fn a_failed_cut_costs_at_most_its_last_granule(
        kind in kinds(), before in ops(6), keep in 0usize..100, calls in 0usize..4,
        takes in 0usize..20,
    ) {
        let mut twin = Twin::built(kind, &before);
        let old = twin.plain.clone();
        let size = old.len() * keep / 100;
        twin.disk.fail(Fault::Once { calls, takes });
        let result = twin.set_size(size);
        twin.disk.fail(Fault::None);
        let content = twin.kind.content(&twin.disk);
        if result.is_ok() {
            assert!(content == old[..size]);
        } else if content.len() == old.len() {
            assert!(content == old);
        } else {
            assert_eq!(content.len(), size);
            let safe = size - size % twin.kind.granule();
            assert!(content[..safe] == old[..safe]);
        }
    }
}

/// Same bytes but in `except`; same size.
fn same_outside(content: &[u8], wanted: &[u8], except: std::ops::Range<usize>) {
    assert_eq!(content.len(), wanted.len(), "size");
    let differs = |&i: &usize| content[i] != wanted[i] && !except.contains(&i);
    assert_eq!(
        (0..content.len()).find(differs),
        None,
        "first byte that differs"
    );
}

/// The short count of a disk that is full is the count of a plain file, to the byte.
#[test]
fn a_full_disk_takes_as_much_as_of_a_plain_file() {
    for layout in [
        Layout::PAGES,
        Layout::STREAM,
        Layout::CONTROL,
        Layout::Keystream,
    ] {
        for space in [1, 15, 16, 17, 4096, PAGE, PAGE + 5] {
            let mut twin = Twin::new(Kind::new(layout, LENGTHS[2]));
            twin.disk.fail(Fault::Space(space as u64));
            assert_eq!(
                twin.write(&vec![7; 2 * PAGE], 0, 0),
                Ok(space),
                "{layout:?}"
            );
            twin.plain = vec![7; space];
            twin.check();
        }
    }
}

/// A full disk takes as much of pages that lie apart, also where it stops in a later transfer.
#[test]
fn a_full_disk_takes_as_much_of_pages_that_lie_apart() {
    for layout in [Layout::PAGES, Layout::STREAM] {
        for space in [1, 17, PAGE, 3 * PAGE + 5, 32 * PAGE, 33 * PAGE + 4099] {
            let mut twin = Twin::new(Kind::new(layout, LENGTHS[2]));
            let data = support::Data::Seed(5).bytes(40 * PAGE);
            twin.disk.fail(Fault::Space(space as u64));
            assert_eq!(twin.write_gathered(&data, 0), Ok(Some(space)), "{layout:?}");
            twin.plain = data[..space].to_vec();
            twin.check();
        }
        let mut twin = Twin::new(Kind::new(layout, LENGTHS[2]));
        twin.disk.fail(Fault::Space(0));
        assert_eq!(twin.write_gathered(&[7; 2 * PAGE], 0), Err(Errno::ENOSPC));
    }
}

/// So is that of a write that begins in the middle of a file, in several transfers or in one.
#[test]
fn a_full_disk_takes_as_much_behind_what_is_there() {
    for layout in [Layout::PAGES, Layout::STREAM, Layout::CONTROL] {
        for (size, len, space) in [(3, 2 * PAGE, PAGE), (PAGE - 16, 64, 16), (0, 64, 16)] {
            let mut twin = Twin::built(Kind::new(layout, LENGTHS[2]), &[Op::SetSize(size)]);
            let data = support::Data::Seed(3).bytes(len);
            twin.disk.fail(Fault::Space(space as u64));
            assert_eq!(twin.write(&data, size, 1), Ok(space), "{layout:?} {size}");
            put(&mut twin.plain, size, &data[..space]);
            twin.check();
        }
    }
}

/// A call that changes no size, or that cuts between granules, needs neither a read nor a write, so
/// a disk that fails does not stop it.
#[test]
fn a_size_that_cuts_no_granule_touches_no_byte() {
    for layout in support::layouts() {
        let write = Op::Write {
            offset: 0,
            len: 2 * PAGE + 5,
            shift: 0,
            data: support::Data::Seed(1),
        };
        let mut twin = Twin::built(Kind::new(layout, LENGTHS[2]), &[write]);
        for size in [2 * PAGE + 5, 2 * PAGE, 2 * PAGE, PAGE, 0, 0] {
            let before = transfers(&twin);
            assert_eq!(twin.set_size(size), Ok(()));
            assert_eq!(transfers(&twin), before, "{layout:?} {size}");
            twin.plain.truncate(size);
            twin.check();
        }
    }
}

/// How often something was read and written.
fn transfers(twin: &Twin) -> [usize; 2] {
    [&twin.disk.reads, &twin.disk.writes].map(|count| count.load(Ordering::Relaxed))
}

/// A page that was a hole and took half a page: no zeros may be read where half a page is noise.
#[test]
fn half_a_page_over_a_hole_is_not_zeros() {
    let mut twin = Twin::built(Kind::new(Layout::PAGES, LENGTHS[2]), &[Op::SetSize(PAGE)]);
    twin.disk.fail(Fault::Once {
        calls: 0,
        takes: 4096,
    });
    assert_eq!(twin.write(&[7; PAGE], 0, 0), Ok(4096));
    let content = twin.kind.content(&twin.disk);
    assert_eq!(content[..4096], [7; 4096]);
    assert!(content[4096..].chunks(16).all(|block| block != [0; 16]));
}

#[test]
fn offsets_that_libc_cannot_name_are_refused() {
    for layout in support::layouts() {
        let mut twin = Twin::new(Kind::new(layout, LENGTHS[2]));
        let last = usize::MAX >> 1;
        assert_eq!(twin.write(&[1], last, 0), Err(Errno::EFBIG));
        assert_eq!(twin.write(&[1], usize::MAX, 0), Err(Errno::EFBIG));
        assert_eq!(twin.allocate(last, 1), Err(Errno::EFBIG));
        twin.check();
    }
}

/// No clear byte stays in the working memory, whatever fails.
#[test]
fn the_scratch_holds_nothing_clear() {
    let layouts = [
        Layout::PAGES,
        Layout::STREAM,
        Layout::STREAM.shared(),
        Layout::Keystream,
    ];
    for (layout, calls) in layouts
        .into_iter()
        .flat_map(|l| (0..6).map(move |calls| (l, calls)))
    {
        let fault = Fault::Once { calls, takes: 0 };
        let mut twin = Twin::new(Kind::new(layout, LENGTHS[2]));
        let clear = support::Rng(1).bytes(40);
        assert_eq!(twin.write(&clear.repeat(500), 3, 1), Ok(20_000));
        twin.disk.fail(fault);
        let _ = twin.read(3, 19_000, 1);
        assert!(!twin.scratch_holds(&clear), "read, {layout:?}, {calls}");
        twin.disk.fail(fault);
        let _ = twin.write(&clear, 40, 0);
        assert!(!twin.scratch_holds(&clear), "write, {layout:?}, {calls}");
        twin.disk.fail(fault);
        let _ = twin.set_size(8192 + 100);
        assert!(!twin.scratch_holds(&clear), "cut, {layout:?}, {calls}");
    }
}
