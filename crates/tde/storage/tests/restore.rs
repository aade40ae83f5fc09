//! Renames across identities: the same clear bytes under any other layout, key and tweak.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // as in the support module

mod support;

use pgseal_storage::layout::Layout;
use pgseal_storage::restore::{copy, first_page, is_all_zeros, Stored};
use pgseal_storage::{Errno, Transfer};
use support::{layouts, scratch, Data, Fault, Kind, MemDisk, Op, Twin, PAGE};

const SIZES: [usize; 10] = [0, 1, 15, 16, 17, 8191, 8192, 8193, 16384, 3 * 8192 + 4099];

fn source(kind: Kind, size: usize) -> Twin {
    let data = Op::Write {
        offset: 0,
        len: size,
        shift: 0,
        data: Data::Seed(size as u64),
    };
    let mut twin = Twin::new(kind);
    twin.apply(&data);
    twin
}

#[test]
fn a_copy_reads_the_same_across_all_layouts_and_identities() {
    for from in layouts() {
        for to in layouts() {
            for size in SIZES {
                let twin = source(Kind::named(from, "pg_wal/xlogtemp.7"), size);
                let target = Kind::named(to, "pg_stat/pgstat.stat");
                let disk = MemDisk::default();
                let mut page = Box::new([1; PAGE]);
                // Short transfers on both sides: a short read is not the end of the file.
                twin.disk.fail(Fault::Short(size as u64));
                disk.fail(Fault::Short(9));
                let (one, two) = (twin.kind.open(), target.open());
                let ends = (Stored::Sealed(&one), Stored::Sealed(&two));
                let result = copy(
                    (&twin.disk, &ends.0),
                    (&disk, &ends.1),
                    &mut scratch(),
                    &mut page,
                );
                assert_eq!(result, Ok(()));
                disk.fail(Fault::None);
                assert_eq!(target.content(&disk), twin.plain, "{from:?} {to:?} {size}");
                assert_eq!(*page, [0; PAGE], "the clear page is wiped");
            }
        }
    }
}

#[test]
fn a_copy_from_and_to_clear() {
    for layout in layouts() {
        for size in SIZES {
            let twin = source(Kind::named(layout, "pg_wal/xlogtemp.7"), size);
            let file = twin.kind.open();
            let (clear, again) = (MemDisk::default(), MemDisk::default());
            let mut page = Box::new([1; PAGE]);
            let sealed = Stored::Sealed(&file);
            copy(
                (&twin.disk, &sealed),
                (&clear, &Stored::Clear),
                &mut scratch(),
                &mut page,
            )
            .unwrap();
            assert_eq!(clear.stored(), twin.plain);
            copy(
                (&clear, &Stored::Clear),
                (&again, &sealed),
                &mut scratch(),
                &mut page,
            )
            .unwrap();
            assert_eq!(again.stored(), twin.disk.stored(), "{layout:?} {size}");
        }
    }
}

/// A disk that stops in the middle of a page, and then goes on, costs nothing.
#[test]
fn a_copy_goes_on_where_the_disk_stopped() {
    for to in layouts() {
        for calls in 0..4 {
            let twin = source(Kind::named(Layout::STREAM, "a"), 3 * PAGE + 5);
            let target = Kind::named(to, "b");
            let disk = MemDisk::default();
            disk.fail(Fault::Once { calls, takes: 4099 });
            let (one, two) = (twin.kind.open(), target.open());
            let ends = (Stored::Sealed(&one), Stored::Sealed(&two));
            let mut page = Box::new([1; PAGE]);
            let result = copy(
                (&twin.disk, &ends.0),
                (&disk, &ends.1),
                &mut scratch(),
                &mut page,
            );
            assert_eq!(result, Ok(()), "{to:?} {calls}");
            disk.fail(Fault::None);
            assert!(target.content(&disk) == twin.plain, "{to:?} {calls}");
        }
    }
}

/// A hole in the source reads as zeros in the target; its stored form is the target's business.
#[test]
fn holes_are_copied_as_zeros() {
    let mut twin = source(Kind::named(Layout::WAL_SCRATCH, "pg_wal/xlogtemp.7"), 100);
    twin.apply(&Op::SetSize(3 * PAGE));
    let target = Kind::named(Layout::wal(2048), "x");
    let disk = MemDisk::default();
    let (one, two) = (twin.kind.open(), target.open());
    let ends = (Stored::Sealed(&one), Stored::Sealed(&two));
    copy(
        (&twin.disk, &ends.0),
        (&disk, &ends.1),
        &mut scratch(),
        &mut [0; PAGE],
    )
    .unwrap();
    assert_eq!(target.content(&disk), twin.plain);
    assert_eq!(disk.written_zero_block(0), None);
}

/// A failure leaves the source as it was and no clear byte in the caller's page.
#[test]
fn a_failed_copy_leaves_the_source_and_nothing_clear() {
    for calls in 0..4 {
        let twin = source(Kind::named(Layout::STREAM, "a"), 3 * PAGE + 5);
        let before = twin.disk.stored();
        let target = Kind::named(Layout::STREAM, "b");
        let disk = MemDisk::default();
        disk.fail(Fault::Once { calls, takes: 0 });
        let (one, two) = (twin.kind.open(), target.open());
        let ends = (Stored::Sealed(&one), Stored::Sealed(&two));
        let mut page = Box::new([1; PAGE]);
        let result = copy(
            (&twin.disk, &ends.0),
            (&disk, &ends.1),
            &mut scratch(),
            &mut page,
        );
        assert_eq!(result, Err(Errno::EIO), "{calls}");
        assert_eq!(twin.disk.stored(), before);
        assert_eq!(*page, [0; PAGE]);
    }
}

/// A recycled segment: its first page reads under the new name as it did under the old one, all
/// else is not touched.
#[test]
fn the_first_page_of_a_recycled_segment_is_restored() {
    for size in [PAGE, 4 * PAGE, 100] {
        let twin = source(Kind::named(Layout::wal(2048), "x"), size);
        let new = Kind::named(Layout::wal(4096), "x");
        let before = twin.disk.stored();
        let mut page = Box::new([1; PAGE]);
        let result = first_page(
            &mut Transfer::new(&twin.disk, &mut scratch()),
            &twin.kind.open(),
            &new.open(),
            &mut page,
        );
        assert_eq!(result, Ok(()));
        let content = new.content(&twin.disk);
        let first = size.min(PAGE);
        assert_eq!(content[..first], twin.plain[..first]);
        assert_eq!(content.len(), size);
        assert_eq!(twin.disk.stored()[first..], before[first..]);
        assert_eq!(*page, [0; PAGE]);
    }
}

#[test]
fn a_file_of_zeros_is_found_so_whatever_its_size() {
    for size in [0, 1, 17, PAGE, 40 * PAGE, 32 * PAGE, 70 * PAGE + 3] {
        let mut stored = vec![0; size];
        let disk = MemDisk::of(stored.clone());
        disk.fail(Fault::Short(3));
        assert_eq!(
            is_all_zeros(&mut Transfer::new(&disk, &mut scratch())),
            Ok(true),
            "{size}"
        );
        for at in [0, size / 2, size.wrapping_sub(1)] {
            if let Some(byte) = stored.get_mut(at) {
                *byte = 1;
                let disk = MemDisk::of(stored.clone());
                assert_eq!(
                    is_all_zeros(&mut Transfer::new(&disk, &mut scratch())),
                    Ok(false)
                );
                stored[at] = 0;
            }
        }
    }
}
