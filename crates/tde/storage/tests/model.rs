//! Any sequence of calls behaves on a sealed file as on a plain one, byte for byte, and leaves
//! stored bytes that keep the promises of docs/format/files.md.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // as in the support module

mod support;

use pgseal_storage::layout::Layout;
use pgseal_storage::Transfer;
use proptest::prelude::*;
use std::sync::atomic::Ordering;
use support::{cases, kinds, layouts, ops, Data, Kind, Op, Twin, LENGTHS, PAGE};

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn any_sequence_of_calls_equals_the_plain_twin(kind in kinds(), ops in ops(16)) {
        let mut twin = Twin::new(kind);
        for op in &ops {
            twin.apply(op);
            twin.check();
        }
    }

    #[test]
    fn short_transfers_change_nothing(kind in kinds(), ops in ops(10), seed: u64) {
        let mut twin = Twin::new(kind);
        for op in &ops {
            twin.disk.fail(support::Fault::Short(seed));
            twin.apply(op);
            twin.disk.fail(support::Fault::None);
            twin.check();
        }
    }
}

/// Longer than what one transfer carries, at odd offsets and alignments.
#[test]
fn transfers_of_many_runs() {
    const LONG: usize = (1 << 19) + 12_345;
    for layout in layouts() {
        for length in LENGTHS {
            let mut twin = Twin::new(Kind::new(layout, length));
            let data = Data::Seed(7);
            for (offset, len) in [(0, 1 << 19), (5, LONG), (PAGE, 1 << 19), (1 << 20, LONG)] {
                twin.apply(&Op::Write {
                    offset,
                    len,
                    shift: 3,
                    data,
                });
                twin.apply(&Op::Read {
                    offset,
                    len,
                    shift: 0,
                });
                twin.apply(&Op::Read {
                    offset: offset + 1,
                    len,
                    shift: 1,
                });
            }
            twin.check();
        }
    }
}

/// Pages that lie apart are stored as those that lie together, by as few transfers. What completes
/// a file's last, partial page is not taken so.
#[test]
fn pages_that_lie_apart() {
    const PAGES: usize = 70;
    for layout in layouts() {
        let mut twin = Twin::new(Kind::new(layout, LENGTHS[2]));
        for offset in [0, 3 * PAGE, 200 * PAGE] {
            let mut data = Data::Seed(offset as u64).bytes(PAGES * PAGE);
            data[5 * PAGE..7 * PAGE].fill(0);
            let before = twin.disk.writes.load(Ordering::Relaxed);
            let written = twin.write_gathered(&data, offset).unwrap();
            let Some(written) = written else {
                assert_eq!(twin.disk.writes.load(Ordering::Relaxed), before);
                let refusing = [Layout::STREAM.shared(), Layout::Keystream];
                assert!(refusing.contains(&layout), "{layout:?}");
                continue;
            };
            assert_eq!(written, data.len());
            assert_eq!(twin.disk.writes.load(Ordering::Relaxed) - before, 3);
            support::put(&mut twin.plain, offset, &data);
            twin.check();
        }
        let page = Data::Seed(1).bytes(PAGE);
        assert_eq!(twin.write_gathered(&page, 1), Ok(None));
        twin.apply(&Op::Write {
            offset: 400 * PAGE,
            len: 100,
            shift: 0,
            data: Data::Seed(2),
        });
        assert_eq!(twin.write_gathered(&page, 401 * PAGE), Ok(None));
        twin.check();
    }
}

/// Whole pages after a page that is cut at any place: what the cut page gains reads as zeros.
#[test]
fn pages_behind_a_cut_page() {
    for layout in layouts() {
        for size in [1, 100, PAGE / 2, 6000, PAGE - 2, PAGE - 1, PAGE] {
            let mut twin = Twin::new(Kind::new(layout, LENGTHS[2]));
            for (offset, len) in [(0, size), (PAGE, 2 * PAGE)] {
                let data = Data::Seed(len as u64);
                twin.apply(&Op::Write {
                    offset,
                    len,
                    shift: 0,
                    data,
                });
            }
            twin.check();
            twin.apply(&Op::SetSize(PAGE + size));
            let data = Data::Seed(1);
            twin.apply(&Op::Write {
                offset: 2 * PAGE,
                len: PAGE,
                shift: 0,
                data,
            });
            twin.check();
        }
    }
}

/// Every step of growth and cutting around a tail: r to r' for all lengths up to 40.
#[test]
fn tails_grow_and_shrink_to_any_length() {
    for layout in layouts() {
        let kind = Kind::new(layout, LENGTHS[2]);
        for from in 0..=40 {
            for to in 0..=40 {
                let start = Op::Write {
                    offset: 0,
                    len: from,
                    shift: 0,
                    data: Data::Seed(1),
                };
                let len = to.max(from) - from;
                let append = Op::Write {
                    offset: from,
                    len,
                    shift: 0,
                    data: Data::Seed(2),
                };
                let gap = Op::Write {
                    offset: to,
                    len: 3,
                    shift: 0,
                    data: Data::Seed(3),
                };
                let steps = [
                    append,
                    gap,
                    Op::SetSize(to),
                    Op::Allocate {
                        offset: 0,
                        len: to + 1,
                    },
                ];
                for step in steps {
                    let mut twin = Twin::built(kind.clone(), std::slice::from_ref(&start));
                    twin.apply(&step);
                    twin.check();
                }
            }
        }
    }
}

/// Two open files of one file, used in turn. Cuts inside a page by the other are left out: the
/// remembered size may then be wrong (see `known_size`).
#[test]
fn two_open_files_agree() {
    for layout in layouts() {
        let mut twin = Twin::new(Kind::new(layout, LENGTHS[2]));
        let other = twin.kind.open();
        let mut scratch = support::scratch();
        for (i, offset) in [0, 100, 3 * PAGE, 5000, 2 * PAGE, 9 * PAGE, 7]
            .into_iter()
            .enumerate()
        {
            let data = Data::Seed(i as u64).bytes(PAGE);
            twin.apply(&Op::Write {
                offset,
                len: 100,
                shift: 0,
                data: Data::Seed(9),
            });
            let to = (offset + 1000) as u64;
            assert_eq!(
                other.write_at(&mut Transfer::new(&twin.disk, &mut scratch), &data, to),
                Ok(PAGE)
            );
            support::put(&mut twin.plain, offset + 1000, &data);
            twin.apply(&Op::SetSize(4 * PAGE));
            twin.check();
        }
    }
}
