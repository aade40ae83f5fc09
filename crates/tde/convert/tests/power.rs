//! The end of a run at every call, by a kill or a power loss, once and again: the cluster that
//! comes out is the one that went in, and meanwhile no server starts on a half of it.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // a test may panic

mod support;

use pgseal_convert::copy::Work;
use pgseal_convert::plan::{control_task, Geometry, Plan, Task, CONTROL};
use pgseal_convert::steps::{self, Ends, Failed, Key};
use pgseal_convert::{Journal, Kind, Phase};
use pgseal_crypto::{FileCipher, KeyLength, MasterKey};
use pgseal_storage::control::Control;
use pgseal_storage::restore::Stored;
use pgseal_storage::scratch::Scratch;
use pgseal_storage::{Errno, SealedFile, Transfer};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use support::storage::{cases, MemDisk, Rng};
use support::{Site, CUT};

type Clear = BTreeMap<String, Vec<u8>>;

static OLD: LazyLock<MasterKey> = LazyLock::new(|| MasterKey::from_bytes(&mut [1; 32]));
static NEW: LazyLock<MasterKey> = LazyLock::new(|| MasterKey::from_bytes(&mut [2; 32]));

const KINDS: [Kind; 3] = [Kind::Seal, Kind::Unseal, Kind::Rekey];

fn ends(kind: Kind) -> Ends<'static> {
    let old = Key {
        master: &OLD,
        length: KeyLength::Bits256,
    };
    let new = Key {
        master: &NEW,
        length: KeyLength::Bits128,
    };
    Ends {
        from: (kind != Kind::Seal).then_some(old),
        to: (kind != Kind::Unseal).then_some(new),
    }
}

/// A `pg_control` of PostgreSQL 15, of a cluster that was shut down, and with a number in it.
fn control(number: u8) -> Vec<u8> {
    let mut page = vec![0; 8192];
    page[0] = 7;
    page[8..12].copy_from_slice(&1300u32.to_le_bytes());
    page[12..16].copy_from_slice(&202_209_061u32.to_le_bytes());
    page[16] = 1;
    page[100] = number;
    page[228..232].copy_from_slice(&(16u32 << 20).to_le_bytes());
    page[252] = 1;
    let crc = crc32c::crc32c(&page[..288]);
    page[288..292].copy_from_slice(&crc.to_le_bytes());
    page
}

/// Files that no conversion changes.
const UNTOUCHED: [&str; 2] = ["postgresql.conf", "base/5/PG_VERSION"];
const DELETED: [&str; 2] = ["base/pgsql_tmp/pgsql_tmp1.0", "pg_wal/xlogtemp.5"];

fn clear_files() -> Clear {
    let mut rng = Rng(42);
    let mut file = |name: &str, len| (name.to_owned(), rng.bytes(len));
    let mut files: Clear = [
        file(UNTOUCHED[0], 100),
        file(UNTOUCHED[1], 3),
        file(DELETED[0], 8192),
        file(DELETED[1], 9000),
        file("base/5/1259", 4 * 8192),
        file("base/5/16384_vm", 8192),
        file("base/5/odd", 1000),
        file("global/1260", 8192 + 100),
        file("pg_tblspc/9/PG_15_202209061/5/16400.1", 8192),
        file("pg_xact/0000", 2 * 8192),
        file("pg_wal/000000010000000000000001", 20_000),
        file("pg_stat/pgstat.stat", 8195),
        file("pg_logical/mappings/map-5-4ff-0_1-2-3", 72),
        file("pg_twophase/000002E1", 15),
    ]
    .into();
    files.get_mut("base/5/1259").unwrap()[8192..3 * 8192].fill(0);
    files.insert("base/5/16390".into(), vec![0; 2 * 8192]);
    files.insert("pg_multixact/members/0000".into(), vec![0; 8192]);
    files.insert("global/pg_control".into(), control(0));
    files
}

fn geometry() -> Geometry {
    Geometry::from(&Control::parse(&control(0)).unwrap())
}

fn task(name: &str, len: usize) -> Option<Task> {
    if name.as_bytes() == CONTROL {
        return Some(control_task());
    }
    let files = [(name.as_bytes(), len as u64)];
    Plan::new(&files, &[], &geometry()).store.pop()
}

/// The stored form of a file under a key, or the clear form of a stored one.
fn file<'k>(key: Option<Key<'k>>, task: &Task) -> Option<SealedFile<'k>> {
    let cipher = |key: Key<'k>| FileCipher::new(key.master, key.length, &task.spec.id);
    key.map(|key| SealedFile::new(cipher(key), task.spec.layout))
}

fn seal(key: Option<Key<'_>>, name: &str, clear: &[u8]) -> Vec<u8> {
    let Some(file) = task(name, clear.len()).and_then(|task| file(key, &task)) else {
        return clear.to_vec();
    };
    let (disk, mut scratch) = (MemDisk::default(), Scratch::new());
    let stored = Stored::Sealed(&file);
    stored
        .write(&mut Transfer::new(&disk, &mut scratch), clear, 0)
        .unwrap();
    disk.stored()
}

fn open(key: Option<Key<'_>>, name: &str, stored: &[u8]) -> Vec<u8> {
    let Some(file) = task(name, stored.len()).and_then(|task| file(key, &task)) else {
        return stored.to_vec();
    };
    let (disk, mut scratch) = (MemDisk::of(stored.to_vec()), Scratch::new());
    let mut clear = vec![0; stored.len()];
    let stored = Stored::Sealed(&file);
    let have = stored
        .read(&mut Transfer::new(&disk, &mut scratch), &mut clear, 0)
        .unwrap();
    assert_eq!(have, clear.len());
    clear
}

/// A cluster before its conversion.
fn site(kind: Kind, files: &Clear) -> Site {
    let site = Site::default();
    for (name, clear) in files {
        site.put(name, seal(ends(kind).from, name, clear));
    }
    site
}

/// Converts as the command does, from whatever state the cluster is in.
fn convert(site: &Site, kind: Kind) -> Result<(), Failed> {
    let ends = ends(kind);
    let journal = site.keys().journal;
    if journal.is_none() && site.keys().published {
        return Ok(()); // it has ended
    }
    let mut journal = journal.unwrap_or_else(|| {
        let control = steps::read_control(&site, ends.from, &mut Scratch::new()).unwrap();
        let id = |key: Option<Key>| key.map(|key| key.master.key_id());
        Journal::new(&control, id(ends.from), id(ends.to)).unwrap()
    });
    if journal.phase == Phase::Storing {
        let plan = plan(site, &journal);
        assert_eq!(plan.refused, []);
        let mut work = Box::new(Work::new());
        let store_all = |batches: Vec<Vec<Task>>| {
            let mut batches = batches.iter();
            batches.try_for_each(|batch| steps::store(&site, &ends, batch, &mut work, &|_| ()))
        };
        steps::storing(&site, &site, (&plan, &mut journal), &ends, store_all)?;
    }
    steps::placing(&site, &site, &plan(site, &journal), &journal)
}

fn plan(site: &Site, journal: &Journal) -> Plan {
    let files = site.list();
    let named: Vec<_> = files.iter().map(|(name, len)| (&name[..], *len)).collect();
    Plan::new(&named, &site.directories(), &Geometry::from(journal))
}

/// Asserts that the conversion has ended and every file is as it must be.
fn check_ended(site: &Site, kind: Kind, files: &Clear) {
    let keys = site.keys();
    assert!(keys.journal.is_none() && keys.published);
    let key = ends(kind).to;
    let stored = site.stored();
    let clear: Clear = stored
        .iter()
        .map(|(name, stored)| (name.clone(), open(key, name, stored)))
        .collect();
    let mut expected = files.clone();
    expected.retain(|name, _| !DELETED.contains(&name.as_str()));
    assert_eq!(clear, expected);
    for (name, stored) in &stored {
        let same = *stored == files[name];
        let stays = key.is_none() || task(name, 1).is_none() || name == "base/5/16390";
        assert_eq!(same, stays, "{name} is in clear: {same}");
    }
}

/// Where `pg_control` is, the cluster is whole: all as before, or all as it shall be.
fn check_gate(site: &Site, kind: Kind, files: &Clear) {
    let stored = site.stored();
    if !stored.contains_key("global/pg_control") {
        return;
    }
    let placed = site
        .keys()
        .journal
        .is_none_or(|journal| journal.phase == Phase::Placing);
    let started = site.keys().journal.is_some() || site.keys().published;
    let key = if placed && started {
        assert!(site.keys().published);
        ends(kind).to
    } else {
        ends(kind).from
    };
    for (name, clear) in files {
        let there = stored.get(name);
        match there {
            None => assert!(
                placed && started && DELETED.contains(&name.as_str()),
                "{name}"
            ),
            Some(stored) => assert_eq!(open(key, name, stored), *clear, "{name}"),
        }
    }
}

fn calls_of(kind: Kind) -> usize {
    let files = clear_files();
    let site = site(kind, &files);
    convert(&site, kind).unwrap();
    check_ended(&site, kind, &files);
    site.calls()
}

#[test]
fn without_a_cut() {
    for kind in KINDS {
        let calls = calls_of(kind);
        assert!(calls > 100, "{calls}");
    }
}

#[test]
fn a_kill_at_every_call() {
    let files = clear_files();
    for kind in KINDS {
        for cut in 0..calls_of(kind) {
            let site = site(kind, &files);
            site.cut_after(cut);
            assert_eq!(
                convert(&site, kind).map_err(|failed| failed.errno),
                Err(CUT)
            );
            site.kill();
            check_gate(&site, kind, &files);
            convert(&site, kind).unwrap();
            check_ended(&site, kind, &files);
        }
    }
}

#[test]
fn an_error_at_every_call() {
    const ENOSPC: Errno = Errno(28);
    let files = clear_files();
    for kind in KINDS {
        for at in 0..calls_of(kind) {
            let site = site(kind, &files);
            site.fail_once_after(at, ENOSPC);
            match convert(&site, kind) {
                // In the middle of a file's run of pages: what the disk then took counted.
                Ok(()) => {}
                Err(failed) => assert_eq!(failed.errno, ENOSPC),
            }
            check_gate(&site, kind, &files);
            let left = |name: &&String| name.ends_with(".part");
            assert_eq!(site.stored().keys().find(left), None, "space is given back");
            convert(&site, kind).unwrap();
            check_ended(&site, kind, &files);
        }
    }
}

proptest! {
    #![proptest_config(cases(500))]

    /// Ends of all kinds at any calls, one after the other.
    #[test]
    fn kills_and_power_losses(
        kind in prop::sample::select(&KINDS[..]),
        cuts in prop::collection::vec((0usize..260, any::<bool>(), any::<u64>()), 1..6),
    ) {
        let files = clear_files();
        let site = site(kind, &files);
        for (cut, power, seed) in cuts {
            site.cut_after(cut);
            if convert(&site, kind).is_ok() {
                break;
            }
            if power { site.power_loss(seed) } else { site.kill() }
            check_gate(&site, kind, &files);
        }
        site.kill();
        convert(&site, kind).unwrap();
        check_ended(&site, kind, &files);
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    /// A kill, and a power loss soon after the next run has begun: what the first one did and did
    /// not sync must not be built upon.
    #[test]
    fn a_power_loss_soon_after_a_kill(
        kind in prop::sample::select(&KINDS[..]), first in 0usize..200, second in 0usize..16,
        seed: u64,
    ) {
        let files = clear_files();
        let site = site(kind, &files);
        site.cut_after(first);
        let _ = convert(&site, kind);
        site.kill();
        site.cut_after(second);
        let _ = convert(&site, kind);
        site.power_loss(seed);
        check_gate(&site, kind, &files);
        convert(&site, kind).unwrap();
        check_ended(&site, kind, &files);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    /// Seal, ended before the gate was shut: a stock server may run, and its work is not lost.
    #[test]
    fn a_server_that_ran_before_the_gate_was_shut(cut in 0usize..40, power: bool, seed: u64) {
        let mut files = clear_files();
        let site = site(Kind::Seal, &files);
        site.cut_after(cut);
        prop_assert!(convert(&site, Kind::Seal).is_err());
        if power { site.power_loss(seed) } else { site.kill() }
        if site.stored().contains_key("global/pg_control") {
            for (name, bytes) in [("global/pg_control", control(1)), ("base/5/1259", vec![9; 8192])] {
                site.put(name, bytes.clone());
                files.insert(name.into(), bytes);
            }
        }
        convert(&site, Kind::Seal).unwrap();
        check_ended(&site, Kind::Seal, &files);
    }
}
