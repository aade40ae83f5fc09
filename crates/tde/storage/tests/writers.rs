//! Many processes write neighbouring ranges of one file at once, as `pg_stat_statements` does:
//! each reserves a range, then writes it; readers read what is written.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // as in the support module

mod support;

use pgseal_storage::layout::Layout;
use pgseal_storage::Transfer;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Duration;
use support::{scratch, Data, Kind, MemDisk, Op, Rng, Twin, LENGTHS, PAGE};

const WRITERS: u64 = 8;
const RECORDS: usize = 200;

#[derive(Default)]
struct File {
    disk: MemDisk,
    end: AtomicU64,
    /// Finished records: offset and bytes.
    done: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl File {
    /// Appends records as one process does, with an open file of its own.
    fn write(&self, kind: &Kind, seed: u64) {
        let (file, mut scratch, mut rng) = (kind.open(), scratch(), Rng(seed));
        for _ in 0..RECORDS {
            let len = 1 + rng.below(300);
            let record = rng.bytes(len);
            let at = self.end.fetch_add(len as u64, Ordering::Relaxed);
            let written = file.write_at(&mut Transfer::new(&self.disk, &mut scratch), &record, at);
            assert_eq!(written, Ok(len));
            self.done.lock().unwrap().push((at, record));
        }
    }

    /// Reads finished records until the writers are through.
    fn read(&self, kind: &Kind, seed: u64) {
        let (file, mut scratch, mut rng) = (kind.open(), scratch(), Rng(seed));
        loop {
            let done = self.done.lock().unwrap();
            if done.len() == WRITERS as usize * RECORDS {
                return;
            }
            let Some((at, record)) = done.get(rng.below(done.len())).cloned() else {
                continue;
            };
            drop(done);
            std::thread::sleep(Duration::from_micros(100)); // writers have to get the lock, too
            let mut buf = vec![0; record.len()];
            let got = file.read_at(&mut Transfer::new(&self.disk, &mut scratch), &mut buf, at);
            assert_eq!(got, Ok(record.len()));
            assert!(buf == record, "record at {at}");
        }
    }
}

#[test]
fn neighbouring_appends_lose_nothing() {
    let kind = Kind::named(Layout::STREAM.shared(), "pg_stat_tmp/pgss_query_texts.stat");
    let file = File::default();
    std::thread::scope(|scope| {
        for seed in 0..WRITERS {
            let (file, kind) = (&file, &kind);
            scope.spawn(move || file.write(kind, seed));
        }
        for seed in 0..2 {
            let (file, kind) = (&file, &kind);
            scope.spawn(move || file.read(kind, 100 + seed));
        }
    });
    let mut twin = Vec::new();
    for (at, record) in file.done.into_inner().unwrap() {
        support::put(&mut twin, at as usize, &record);
    }
    assert!(kind.content(&file.disk) == twin);
}

/// Every change of a shared file takes the lock, and every read that may meet a block in the middle
/// of its change; whole pages are read without. Files of one writer never lock.
#[test]
fn what_takes_the_lock() {
    let locks = |layout, work: &dyn Fn(&mut Twin)| {
        let all = Op::Write {
            offset: 0,
            len: 3 * PAGE + 32,
            shift: 0,
            data: Data::Seed(1),
        };
        let mut twin = Twin::built(Kind::new(layout, LENGTHS[2]), &[all]);
        let before = twin.disk.locked.load(Ordering::Relaxed);
        work(&mut twin);
        twin.disk.locked.load(Ordering::Relaxed) - before
    };
    let read = |offset, len| Op::Read {
        offset,
        len,
        shift: 0,
    };
    let write = |offset, len| Op::Write {
        offset,
        len,
        shift: 0,
        data: Data::Zeros,
    };
    for (op, shared) in [
        (write(PAGE, PAGE), 1),
        (write(PAGE + 1, 1), 1),
        (Op::SetSize(5), 1),
        (
            Op::Allocate {
                offset: 0,
                len: 4 * PAGE,
            },
            1,
        ),
        (read(5, 5), 1),
        (read(PAGE, 2 * PAGE), 0),
        (read(2 * PAGE, 2 * PAGE), 1),
    ] {
        let apply = |twin: &mut Twin| twin.apply(&op);
        assert_eq!(locks(Layout::STREAM.shared(), &apply), shared, "{op:?}");
        assert_eq!(locks(Layout::STREAM, &apply), 0, "{op:?}");
        assert_eq!(locks(Layout::PAGES, &apply), 0, "{op:?}");
    }
}
