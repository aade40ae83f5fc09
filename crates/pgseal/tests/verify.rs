//! `pgseal verify` on small data directories: what it finds, how it says it, how it ends.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use common::data::{self, control, heap, sample, Data, RELATION, WAL, WAL_SIZE};
use common::{header, plain, Cluster, Transcript};
use pgseal_crypto::{KeyLength, MasterKey};
use pgseal_format::{Payload, SlotKind};
use serde_json::{json, Value};

const PAGE: usize = 8192;
const SEGMENT: usize = 16 << 20;
const DAMAGED_WAL: &str = "has no WAL page header: damaged, moved, or encrypted with another key";
const NO_CHECKSUMS: &str =
    "note: data checksums are off, or pg_control is damaged: only page headers could be checked";
const NOISE: &str = "decrypts to random bytes: overwritten, moved, or encrypted with another key";
const CLEAR: &str = "is stored unencrypted and should be encrypted";

fn verify(data: &Data, options: &[&str]) -> Transcript {
    let mut command = common::pgseal(&["verify", "-D"]);
    Transcript::of(command.arg(data.0.data()).args(options))
}

/// It ended with `code` and these lines before the table.
#[track_caller]
fn says(data: &Data, options: &[&str], code: i32, lines: &[&str]) {
    let Transcript {
        code: ended,
        stdout,
        stderr,
    } = verify(data, options);
    let table = stdout.find("              files").expect("a table");
    let before: Vec<&str> = stdout[..table].lines().collect();
    assert_eq!(
        (ended, before, stderr.as_str()),
        (Some(code), lines.to_vec(), "")
    );
}

#[track_caller]
fn finds(data: &Data, lines: &[&str]) {
    says(data, &[], 1, lines);
}

#[test]
fn a_good_cluster() {
    let data = Data::new();
    says(&data, &[], 0, &[]);
    let Transcript { code, stdout, .. } = verify(&data, &["--json", "--jobs", "3"]);
    let mut report: Value = serde_json::from_str(&stdout).expect("JSON");
    let seconds = report["seconds"].take();
    let rate = report["gigabytes_per_second"].take();
    assert!(seconds.as_f64() > Some(0.0) && rate.as_f64() > Some(0.0));
    let sum = |files: u64, pages: u64| {
        let bytes = pages * PAGE as u64;
        json!({"files": files, "pages": pages, "zero_pages": 0, "bad": 0, "bytes": bytes})
    };
    let expected = json!({
        "data_directory": data.0.data(),
        "shut_down": true,
        "data_checksums": true,
        "relations": sum(2, 7),
        "slrus": sum(1, 1),
        "wal": sum(1, 2048),
        "others": sum(1, 1),
        "total": sum(5, 2057),
        "bad": [],
        "holes": [],
        "unknown": [],
        "odd": [],
        "shared": [],
        "clear_files": 3,
        "skipped_files": 0,
        "threads": 3,
        "seconds": null,
        "gigabytes_per_second": null,
    });
    assert_eq!((code, report), (Some(0), expected));
}

#[test]
fn the_last_line_says_it_in_a_sentence() {
    let data = Data::new();
    let last = |text: &str| text.lines().last().map(str::to_owned);
    let good = verify(&data, &[]).stdout;
    assert_eq!(last(&good).as_deref(), Some("nothing bad found"));
    data.flip(RELATION, 4000);
    let bad = verify(&data, &[]).stdout;
    let sentence = "1 finding: restore this file from a backup or a standby";
    assert_eq!(last(&bad).as_deref(), Some(sentence));
}

#[test]
fn a_flipped_bit() {
    let data = Data::new();
    data.flip(RELATION, 5 * PAGE + 4000);
    let Transcript { code, stdout, .. } = verify(&data, &[]);
    let line = stdout.lines().next().expect("a line");
    let start = "base/5/16384: block 5: page checksum is a45b and should be ";
    assert!(
        line.starts_with(start) && line.ends_with(": damaged"),
        "{line}"
    );
    assert_eq!(code, Some(1));
}

#[test]
fn a_flipped_bit_in_a_header() {
    let data = Data::new();
    data.flip(RELATION, 5 * PAGE + 8);
    finds(&data, &["base/5/16384: block 5: page header is damaged"]);
}

#[test]
fn swapped_pages() {
    let data = Data::new();
    data.change(RELATION, |bytes| {
        let (first, rest) = bytes.split_at_mut(PAGE);
        first.swap_with_slice(&mut rest[4 * PAGE..]);
    });
    let line = |block| format!("base/5/16384: block {block}: {NOISE}");
    finds(&data, &[&line(0), &line(5)]);
}

#[test]
fn a_page_of_another_file() {
    let data = Data::new();
    data.seal_as("base/5/16385", RELATION, &sample(0));
    finds(&data, &[&format!("base/5/16385: block 0: {NOISE}")]);
}

#[test]
fn a_zeroed_page_is_told_and_strict_fails() {
    let data = Data::new();
    data.change(RELATION, |bytes| bytes[..PAGE].fill(0));
    let note = "note: base/5/16384: 1 zero pages from block 0 on, below written ones";
    says(&data, &[], 0, &[note]);
    let hole = "base/5/16384: block 0: is all zeros, below a page that was written (--strict)";
    says(&data, &["--strict"], 1, &[hole, note]);
}

#[test]
fn zeros_at_the_end_are_room() {
    let data = Data::new();
    data.change(RELATION, |bytes| bytes.resize(9 * PAGE, 0));
    says(&data, &["--strict"], 0, &[]);
    let report = verify(&data, &["--json"]).stdout;
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["relations"]["zero_pages"], 3);
}

#[test]
fn a_page_that_is_zeroed_in_part() {
    let data = Data::new();
    data.change(RELATION, |bytes| bytes[4096..PAGE].fill(0));
    finds(&data, &["base/5/16384: block 0: is zero in part"]);
}

#[test]
fn pages_in_clear() {
    let data = Data::new();
    data.change(RELATION, |bytes| bytes[..PAGE].copy_from_slice(&sample(0)));
    data.clear("base/5/16385", &sample(8));
    data.clear("pg_xact/0000", &sample(10));
    let clear = |page| format!("{page}: {CLEAR}");
    finds(
        &data,
        &[
            &clear("base/5/16384: block 0"),
            &clear("base/5/16385: block 0"),
            &clear("pg_xact/0000: block 0"),
        ],
    );
}

#[test]
fn a_stream_in_clear() {
    let data = Data::new();
    data.clear("pg_stat/pg_stat_statements.stat", &[b'q'; 500]);
    finds(
        &data,
        &[&format!(
            "pg_stat/pg_stat_statements.stat: block 0: {CLEAR}"
        )],
    );
}

#[test]
fn a_cut_relation() {
    let data = Data::new();
    data.change(RELATION, |bytes| bytes.truncate(6 * PAGE - 100));
    let line = "base/5/16384: size 49052 is not a multiple of the page size: truncated or damaged";
    finds(&data, &[line]);
}

#[test]
fn a_segment_after_a_gap() {
    let data = Data::new();
    data.seal("base/5/16384.2", &[]);
    says(&data, &[], 0, &[]);
    data.seal("base/5/16384.1", &[0; PAGE]);
    let line =
        "base/5/16384.1: the segment before it is missing or incomplete, so PostgreSQL does \
                not read this one";
    finds(&data, &[line]);
}

#[test]
fn blocks_are_counted_over_segments() {
    let data = Data::new();
    data.seal("base/5/16384.1", &heap());
    let stdout = verify(&data, &[]).stdout;
    // Right pages at the wrong block numbers.
    let wrong = |line: &&str| line.contains("base/5/16384.1: block") && line.contains("checksum");
    assert_eq!(stdout.lines().filter(wrong).count(), 2, "{stdout}");
}

#[test]
fn slru_pages_moved_and_zeroed_in_part() {
    let data = Data::new();
    data.seal_as("pg_xact/0001", "pg_xact/0000", &sample(10));
    data.change("pg_xact/0000", |bytes| bytes[160..176].fill(0));
    let moved = format!("pg_xact/0001: block 0: {NOISE}");
    finds(&data, &["pg_xact/0000: block 0: is zero in part", &moved]);
}

#[test]
fn wal_pages() {
    let data = Data::new();
    data.flip(WAL, PAGE + 8);
    finds(&data, &[&format!("{WAL}: block 1: {DAMAGED_WAL}")]);
    data.flip(WAL, PAGE + 8);
    data.flip(WAL, 0);
    finds(&data, &[&format!("{WAL}: block 0: {DAMAGED_WAL}")]);
}

#[test]
fn the_end_of_wal_is_no_damage() {
    let data = Data::new();
    data.flip(WAL, 2 * PAGE + 8);
    says(&data, &[], 0, &[]);
}

#[test]
fn wal_of_another_cluster() {
    let data = Data::new();
    data.seal("global/pg_control", &control(3));
    finds(
        &data,
        &[&format!("{WAL}: block 0: holds WAL of another cluster")],
    );
}

#[test]
fn a_zeroed_first_page_of_wal() {
    let data = Data::new();
    data.change(WAL, |bytes| bytes[..PAGE].fill(0));
    let line = format!("{WAL}: block 0: is zeroed, and pages after it are not");
    finds(&data, &[&line]);
    says(&data, &["--strict"], 1, &[&line]);
}

#[test]
fn wal_that_is_not_in_use() {
    let data = Data::new();
    data.clear("pg_wal/000000010000000000000002", &vec![0; SEGMENT]);
    let used = "pg_wal/000000010000000000000003";
    // As `pgseal seal` leaves an empty one: zeros, encrypted.
    data.seal("pg_wal/000000010000000000000004", &vec![0; SEGMENT]);
    data.seal(used, &recycled());
    data.change(used, |bytes| bytes.resize(SEGMENT, 7));
    says(&data, &["--strict"], 0, &[]);
}

#[test]
fn a_segment_that_has_just_begun() {
    let data = Data::new();
    let fresh = "pg_wal/000000010000000000000002";
    let mut page = data::wal(&control(0)[..8])[..PAGE].to_vec();
    page[8..16].copy_from_slice(&(2 * WAL_SIZE).to_le_bytes());
    data.seal(fresh, &page);
    data.change(fresh, |bytes| bytes.resize(SEGMENT, 0));
    says(&data, &["--strict"], 0, &[]);
}

#[test]
fn the_segment_of_the_last_checkpoint() {
    let missing = format!(
        "{WAL}: is missing and belongs to the last checkpoint: the server cannot start without it"
    );
    let unused = format!(
        "{WAL}: belongs to the last checkpoint and is not in use: the server cannot start from it"
    );
    let data = Data::new();
    data.clear(WAL, &vec![0; SEGMENT]);
    finds(&data, &[&unused]);
    data.seal(WAL, &recycled());
    data.change(WAL, |bytes| bytes.resize(SEGMENT, 0));
    finds(&data, &[&unused]);
    fs::remove_file(data.path(WAL)).expect("it was there");
    finds(&data, &[&missing]);
    for elsewhere in ["backup_label", "recovery.signal", "standby.signal"] {
        data.clear(elsewhere, b"");
        says(&data, &[], 0, &[]);
        fs::remove_file(data.path(elsewhere)).expect("it was there");
    }
    // The same records, on another timeline.
    let other = "pg_wal/000000020000000000000001";
    data.seal(other, &data::wal(&control(0)[..8]));
    data.change(other, |bytes| bytes.resize(SEGMENT, 0));
    says(&data, &[], 0, &[]);
}

/// The first pages of a segment under another name.
fn recycled() -> Vec<u8> {
    let mut pages = data::wal(&control(0)[..8]);
    pages[8..16].copy_from_slice(&(5 * WAL_SIZE).to_le_bytes());
    pages
}

#[test]
fn a_cut_wal_segment() {
    let data = Data::new();
    data.change(WAL, |bytes| bytes.truncate(3 * PAGE));
    let line = format!("{WAL}: size 24576 is not that of a WAL segment of this cluster");
    finds(&data, &[&line]);
}

#[test]
fn pg_control() {
    let data = Data::new();
    data.flip("global/pg_control", 100);
    let sentence = "incorrect checksum in pg_control: it is damaged, or sealed with another key";
    finds(
        &data,
        &[&format!("global/pg_control: {sentence}"), NO_CHECKSUMS],
    );
}

#[test]
fn a_pg_control_that_was_cut() {
    let data = Data::new();
    for bytes in [0, 1, 223, 511] {
        data.change("global/pg_control", |stored| stored.truncate(bytes));
        let line = format!(
            "global/pg_control: pg_control has only {bytes} bytes: restore it from a backup"
        );
        finds(&data, &[&line, NO_CHECKSUMS]);
        data.seal("global/pg_control", &control(0));
    }
}

#[test]
fn a_crashed_server_is_told() {
    let data = Data::new();
    data.seal("global/pg_control", &control(2));
    data.seal(WAL, &data::wal(&control(2)[..8]));
    data.change(WAL, |bytes| bytes.resize(SEGMENT, 0));
    let crashed = "warning: the server was not shut down: pages may be torn until it has \
                   recovered; start it, stop it, and verify again";
    says(&data, &[], 0, &[crashed]);
}

#[test]
fn two_phase_state_has_a_checksum() {
    let data = Data::new();
    let mut state = vec![7; 80];
    state[..4].copy_from_slice(&0x57F9_4534_u32.to_le_bytes());
    state[4..8].copy_from_slice(&84_u32.to_le_bytes());
    state.extend(crc32c::crc32c(&state).to_le_bytes());
    data.seal("pg_twophase/000002EA", &state);
    says(&data, &[], 0, &[]);
    data.flip("pg_twophase/000002EA", 83);
    finds(
        &data,
        &["pg_twophase/000002EA: incorrect checksum in two-phase state: damaged"],
    );
    data.flip("pg_twophase/000002EA", 0);
    let line = "pg_twophase/000002EA: is no two-phase state: damaged, moved, or sealed with \
                another key";
    finds(&data, &[line]);
}

#[test]
fn what_needs_no_key_is_skipped_and_what_is_unknown_is_told() {
    let data = Data::new();
    data.clear("base/pgsql_tmp/pgsql_tmp1.0", b"clear");
    data.clear("notes.txt", b"clear");
    data.seal("base/5/notes.txt", b"sealed");
    symlink("/", data.path("base/5/link")).expect("a link");
    symlink("/nonexistent", data.path("pg_wal_old")).expect("a link");
    let warnings = [
        "pg_wal_old: is a dangling link: mount its target",
        "warning: notes.txt: no rule names this file; it is stored unencrypted",
        "warning: base/5/notes.txt: no rule names this file; it is stored encrypted",
        "warning: base/5/link: not a file, or a link where PostgreSQL has none: not read",
    ];
    let Transcript { code, stdout, .. } = verify(&data, &[]);
    let mut before: Vec<&str> = stdout.lines().take(4).collect();
    before.sort_unstable();
    let mut expected = warnings.to_vec();
    expected.sort_unstable();
    assert_eq!((code, before), (Some(1), expected));
    let rest = "not read: 4 unencrypted files, 1 that this key does not open";
    assert!(stdout.contains(rest), "{stdout}");
}

#[test]
fn a_tablespace_is_verified_for_this_version_only() {
    let data = Data::new();
    let space = data.0.beside("space");
    fs::create_dir_all(data.path("pg_tblspc")).expect("a directory");
    fs::create_dir_all(&space).expect("a directory");
    symlink(space, data.path("pg_tblspc/16390")).expect("a link");
    data.clear("pg_tblspc/16390/PG_17_202406281/5/16391", &sample(0));
    let unmounted = "contains no directory of this cluster: mount the right file system";
    finds(&data, &[&format!("pg_tblspc/16390: {unmounted}")]);
    fs::create_dir(data.path("pg_tblspc/16390/PG_15_202209061")).expect("a directory");
    says(&data, &[], 0, &[]);
    let ours = "pg_tblspc/16390/PG_15_202209061/5/16391";
    data.clear(ours, &sample(0));
    finds(&data, &[&format!("{ours}: block 0: {CLEAR}")]);
}

#[test]
fn the_wrong_key() {
    let other = MasterKey::from_bytes(&mut [9; 32]);
    let payload = Payload::encode(&other, &header());
    let cluster = Cluster::new([SlotKind::Plain { payload }]);
    let sentence = format!(
        "{}: what was unwrapped is another cluster's key {}, not {}: use the key file and the \
         secret of this cluster",
        cluster.key_bin_path().display(),
        other.key_id(),
        common::KEY_ID
    );
    verify(&Data(cluster), &[]).refuses(7, &sentence);
}

/// Not thousands of findings, for which an operator would throw a good cluster away.
#[test]
fn a_key_of_another_cluster() {
    let data = Data::new();
    let header = pgseal_format::Header {
        length: KeyLength::Bits128,
        ..header()
    };
    let mut file = pgseal_format::KeyFile::new(header.clone());
    let payload = Payload::encode(&common::master(), &header);
    file.add(SlotKind::Plain { payload }).expect("room");
    data.0.write_key_bin(&file.write(&common::master()));
    let (control, keys) = (data.path("global/pg_control"), data.path("pg_encryption"));
    let sentence = format!(
        "{} is damaged, or the key in {} is another cluster's: restore this cluster's own pg_encryption",
        control.display(),
        keys.display()
    );
    verify(&data, &[]).refuses(7, &sentence);
    let status = Transcript::of(common::pgseal(&["status", "--check", "-D"]).arg(data.0.data()));
    let check = format!("unlock test:    failed: {sentence}");
    assert!(
        status.stdout.lines().any(|line| line == check),
        "{status:?}"
    );
    assert_eq!(status.code, Some(1));
    // One page that the key opens: then it is pg_control that is damaged.
    data.0.write_key_bin(&plain_key_file());
    data.flip("global/pg_control", 40);
    data.flip(RELATION, 8);
    finds(
        &data,
        &[
            &format!("{RELATION}: block 0: page header is damaged"),
            "global/pg_control: incorrect checksum in pg_control: it is damaged, or sealed with another key",
            NO_CHECKSUMS,
        ],
    );
}

fn plain_key_file() -> Vec<u8> {
    let mut file = pgseal_format::KeyFile::new(header());
    file.add(plain()).expect("room");
    file.write(&common::master()).to_vec()
}

#[test]
fn no_data_directory() {
    let tmp = tempfile::tempdir().expect("a directory");
    let mut command = common::pgseal(&["verify", "-D"]);
    let sentence = format!(
        "{} is not a data directory: it has no global/pg_control; give the data directory with -D",
        tmp.path().display()
    );
    Transcript::of(command.arg(tmp.path())).refuses(2, &sentence);
}

#[test]
fn a_cluster_without_pg_control() {
    let data = Data(Cluster::new([plain()]));
    let sentence = format!(
        "{} cannot be read (No such file or directory): give a data directory with \
         -D, and run pgseal as the server's user",
        data.path("global/pg_control").display()
    );
    verify(&data, &[]).refuses(3, &sentence);
}

/// A program called `name`, started by the name `called` in `directory`, whose number is in the pid
/// file meanwhile: what `verify` says then, and what it says to a server's number.
fn beside_process(data: &Data, name: &str, called: &str, directory: &Path) -> (Transcript, String) {
    let program = data.0.beside(name);
    common::program(Path::new("/bin/sleep"), &program);
    if called != name {
        symlink(&program, data.0.beside(called)).expect("a link");
    }
    let mut command = Command::new(data.0.beside(called));
    let mut process = command
        .arg("60")
        .current_dir(directory)
        .spawn()
        .expect("it starts");
    // exec lets the parent go on a moment before the kernel has set the name.
    let comm = format!("/proc/{}/comm", process.id());
    while fs::read_to_string(&comm).expect("it runs").trim_end() != called {
        std::thread::yield_now();
    }
    data.clear("postmaster.pid", format!("{}\n", process.id()).as_bytes());
    let said = verify(data, &[]);
    process.kill().expect("it runs");
    process.wait().expect("it ends");
    let sentence = format!(
        "a server is running on {} (process {}): stop it, for its files change while they are read",
        data.0.data().display(),
        process.id()
    );
    (said, sentence)
}

#[test]
fn a_running_server() {
    let elsewhere = Path::new("/");
    for (name, called) in [
        ("postgres", "postgres"),
        ("postmaster", "postmaster"),
        ("postgres", "x"),
    ] {
        let data = Data::new();
        let (said, sentence) = beside_process(&data, name, called, elsewhere);
        said.refuses(9, &sentence);
        says(&data, &[], 0, &[]);
    }
    let data = Data::new();
    let (said, sentence) = beside_process(&data, "edb", "edb", &data.0.data());
    said.refuses(9, &sentence);
}

#[test]
fn a_number_that_another_process_has_now() {
    let data = Data::new();
    let (said, _) = beside_process(&data, "other", "other", Path::new("/"));
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
}
