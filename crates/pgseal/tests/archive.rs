//! `wal-get` and `wal-put` on files: the bytes that they leave, and the exit codes that PostgreSQL
//! acts on. What servers make of them is in tests/archive.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use common::data::{control, wal, Data, WAL, WAL_SIZE};
use common::{header, pgseal, until, Transcript};
use pgseal_crypto::MasterKey;
use pgseal_format::{Header, KeyFile, Payload, SlotKind};

const NAME: &str = "000000010000000000000001";
const RESTORED: &str = "pg_wal/RECOVERYXLOG";

fn other_key() -> MasterKey {
    MasterKey::from_bytes(&mut [9; 32])
}

/// A sealed cluster, an archive beside it, and the key file of another cluster.
struct Place {
    data: Data,
    archive: PathBuf,
    other: PathBuf,
}

impl Place {
    fn new() -> Self {
        let data = Data::new();
        let (archive, other) = (data.0.beside("archive"), data.0.beside("other.key"));
        fs::create_dir(&archive).expect("a directory");
        let key = other_key();
        let header = Header {
            key_id: key.key_id(),
            ..header()
        };
        let payload = Payload::encode(&key, &header);
        let mut file = KeyFile::new(header);
        file.add(SlotKind::Plain { payload }).expect("room");
        fs::write(&other, file.write(&key)).expect("a file");
        Self {
            data,
            archive,
            other,
        }
    }

    /// A segment of this cluster, in clear.
    fn clear(&self) -> Vec<u8> {
        whole(wal(&control(0)[..8]))
    }

    /// Returns a segment of this cluster, sealed with the cluster's key.
    fn own(&self) -> Vec<u8> {
        self.data.seal_as("own", WAL, &self.clear());
        self.data.stored("own")
    }

    /// Returns a segment of this cluster, sealed with the other key.
    fn others(&self) -> Vec<u8> {
        let key = other_key();
        self.data.seal_with(&key, "others", WAL, &self.clear());
        self.data.stored("others")
    }

    fn archived(&self, name: &str) -> PathBuf {
        self.archive.join(name)
    }

    fn archive(&self, name: &str, bytes: &[u8]) {
        fs::write(self.archived(name), bytes).expect("a file");
    }

    fn get(&self, from: &Path, options: &[&str], name: &str) -> Transcript {
        let mut command = pgseal(&["wal-get", "--from"]);
        command.arg(from).args(options).args([name, RESTORED]);
        Transcript::of(command.current_dir(self.data.0.data()))
    }

    fn put(&self, options: &[&str], name: &str) -> Transcript {
        Transcript::of(&mut self.putting(options, name))
    }

    fn putting(&self, options: &[&str], name: &str) -> Command {
        let mut command = pgseal(&["wal-put", "--to"]);
        command.arg(&self.archive).args(options);
        command.args([&format!("pg_wal/{name}"), name]);
        command.current_dir(self.data.0.data());
        command
    }

    /// A `wal-put` that waits for what it archives, and the program that has it wait.
    fn waiting(&self, name: &str) -> (Child, File) {
        let fifo = self.data.path(&format!("pg_wal/{name}"));
        let made = Command::new("mkfifo").arg(&fifo).status();
        assert!(made.expect("mkfifo runs").success());
        let child = self.putting(&[], name).spawn().expect("it starts");
        let held = fs::OpenOptions::new().write(true).open(&fifo);
        let mut held = held.expect("a reader");
        held.write_all(b"1\t0/10").expect("it reads");
        let written = |path: PathBuf| fs::metadata(path).is_ok_and(|file| file.len() > 0);
        let aside = || fs::read_dir(self.archived(".pgseal")).ok()?.next()?.ok();
        until(|| aside().filter(|entry| written(entry.path())));
        (child, held)
    }

    fn other_option(&self) -> String {
        format!("--key-file-name={}", self.other.display())
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.archive).expect("a directory");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = names
            .map(|entry| name(entry).to_string_lossy().into())
            .collect();
        names.sort();
        names
    }
}

fn whole(mut pages: Vec<u8>) -> Vec<u8> {
    pages.resize(usize::try_from(WAL_SIZE).expect("64 bits"), 0);
    pages
}

#[test]
fn every_form_is_brought_as_the_cluster_stores_it() {
    let place = Place::new();
    let own = place.own();
    for bytes in [own.clone(), place.others()] {
        place.archive(NAME, &bytes);
        place
            .get(&place.archive, &[&place.other_option()], NAME)
            .prints("");
        assert!(place.data.stored(RESTORED) == own);
    }
    place.archive(NAME, &place.clear());
    let accepted = place.get(&place.archive, &["--accept-clear"], NAME);
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
    assert!(place.data.stored(RESTORED) == own);
    let refused = place.get(&place.archive, &[], NAME);
    assert_eq!(refused.code, Some(207), "{}", refused.stderr);
}

#[test]
fn a_file_may_be_the_archive_and_be_restored_in_place() {
    let place = Place::new();
    place.data.clear(RESTORED, &place.others());
    let from = place.data.path(RESTORED);
    place.get(&from, &[&place.other_option()], NAME).prints("");
    assert!(place.data.stored(RESTORED) == place.own());
}

#[test]
fn history_is_brought_as_it_is() {
    let place = Place::new();
    place.archive(
        "00000002.history",
        b"1\t0/1000000\tno recovery target specified\n",
    );
    place
        .get(&place.archive, &[], "00000002.history")
        .prints("");
    assert!(place.data.stored(RESTORED).starts_with(b"1\t0/1000000"));
}

#[test]
fn a_file_of_another_size_is_left_to_postgresql() {
    let place = Place::new();
    let cut = &place.others()[..8 << 20];
    place.archive(NAME, cut);
    place.get(&place.archive, &[], NAME).prints("");
    assert!(place.data.stored(RESTORED) == cut);
}

#[test]
fn only_what_is_not_there_is_1() {
    let place = Place::new();
    let missing = place.get(&place.archive, &[], NAME);
    let silent = Transcript {
        code: Some(1),
        stdout: String::new(),
        stderr: String::new(),
    };
    assert_eq!(missing, silent);
    assert!(!place.data.path(RESTORED).exists());
}

#[test]
fn failures_stop_recovery() {
    let place = Place::new();
    let nowhere = place.archived("not mounted");
    place.get(&nowhere, &[], NAME).refuses(
        203,
        &format!("{} cannot be read (No such file or directory): check that the archive is mounted, and its owner and mode", nowhere.display()),
    );
    place.get(&place.archive, &[], "postgresql.conf").refuses(
        202,
        "postgresql.conf is not the name of a WAL, history or backup file: give %f here",
    );
    let wrong = place.get(&place.archive, &["--nonsense"], NAME);
    assert_eq!(wrong.code, Some(202));
    place.archive(NAME, &place.others());
    fs::write(&place.other, b"PGSEALK1").expect("a file");
    let damaged = place.get(&place.archive, &[&place.other_option()], NAME);
    assert_eq!(damaged.code, Some(205));
    assert!(!place.data.path(RESTORED).exists());
}

#[test]
fn a_segment_that_no_key_reads_stops_recovery() {
    let place = Place::new();
    let path = place.archived(NAME);
    let sentence = format!(
        "{} is neither unencrypted nor encrypted with the key of this cluster \
        or of --key-file-name: give the key file of the cluster that archived it with \
        --key-file-name",
        path.display()
    );
    place.archive(NAME, &place.others());
    place.get(&place.archive, &[], NAME).refuses(207, &sentence);
    // Right, but in another place: it is sealed for its own.
    let next = "000000010000000000000002";
    place.archive(next, &place.own());
    let sentence = sentence.replace(NAME, next);
    place
        .get(&place.archive, &[&place.other_option()], next)
        .refuses(207, &sentence);
}

#[test]
fn a_segment_of_another_cluster_stops_recovery() {
    let place = Place::new();
    place.archive(NAME, &whole(wal(&77u64.to_le_bytes())));
    let own = u64::from_le_bytes(std::array::from_fn(|i| control(0)[i]));
    let path = place.archived(NAME);
    place.get(&place.archive, &[], NAME).refuses(
        207,
        &format!(
            "{} belongs to cluster 77, and this is cluster {own}: use this cluster's archive",
            path.display()
        ),
    );
}

#[test]
fn a_link_that_leads_nowhere_is_no_end_of_the_archive() {
    let place = Place::new();
    let link = place.archived(NAME);
    symlink("/nonexistent/segment", &link).expect("a link");
    place.get(&place.archive, &[], NAME).refuses(
        203,
        &format!(
            "{} cannot be read (No such file or directory): check that the archive is \
             mounted, and its owner and mode",
            link.display()
        ),
    );
}

#[test]
fn only_a_sealed_cluster_restores() {
    let place = Place::new();
    place.archive(NAME, &place.own());
    fs::remove_dir_all(place.data.path("pg_encryption")).expect("a directory");
    place.get(&place.archive, &[], NAME).refuses(
        204,
        "pg_wal/RECOVERYXLOG is not in a sealed cluster: give %p here, and use cp for a plain \
        cluster",
    );
}

#[test]
fn an_archived_file_is_never_overwritten() {
    let place = Place::new();
    place.put(&[], NAME).prints("");
    assert!(fs::read(place.archived(NAME)).expect("a file") == place.data.stored(WAL));
    let mode = fs::metadata(place.archived(NAME)).expect("a file");
    assert_eq!(mode.permissions().mode() & 0o7, 0);
    place.put(&[], NAME).prints("");
    place.data.flip(WAL, 1_000_000);
    let path = place.archived(NAME);
    place.put(&[], NAME).refuses(
        3,
        &format!(
            "{} is there already and holds something else: give each cluster its own archive",
            path.display()
        ),
    );
    assert_eq!(place.names(), [NAME]);
}

#[test]
fn segments_are_stored_with_the_key_of_the_archive() {
    let place = Place::new();
    let (own, others) = (place.own(), place.others());
    for bytes in [own, place.clear()] {
        place.data.clear(WAL, &bytes);
        place.put(&[&place.other_option()], NAME).prints("");
        assert!(fs::read(place.archived(NAME)).expect("a file") == others);
    }
    let partial = format!("{NAME}.partial");
    fs::copy(
        place.data.path(WAL),
        place.data.path(&format!("{WAL}.partial")),
    )
    .expect("a file");
    place.put(&[&place.other_option()], &partial).prints("");
    assert!(fs::read(place.archived(&partial)).expect("a file") == others);
}

#[test]
fn clear_segments_are_not_archived() {
    let place = Place::new();
    place.data.clear(WAL, &place.clear());
    place.put(&[], NAME).refuses(
        4,
        &format!(
            "pg_wal/{NAME} is not encrypted, and would not be in the archive: give its key \
            file with --key-file-name"
        ),
    );
    assert!(place.names().is_empty());
    let wrong = place.put(&["--nonsense"], NAME);
    assert_eq!(wrong.code, Some(2));
}

#[test]
fn what_a_killed_one_left_goes_with_the_next_one() {
    const HISTORY: &str = "00000002.history";
    let place = Place::new();
    let (mut killed, held) = place.waiting(HISTORY);
    killed.kill().expect("it runs");
    killed.wait().expect("it was killed");
    drop(held);
    assert_eq!(place.names(), [".pgseal"]);
    place.put(&[], NAME).prints("");
    assert_eq!(place.names(), [NAME]);
    fs::remove_file(place.data.path("pg_wal").join(HISTORY)).expect("the pipe");
    place
        .data
        .clear(&format!("pg_wal/{HISTORY}"), b"1\t0/1000000\t\n");
    place.put(&[], HISTORY).prints("");
    assert_eq!(place.names(), [NAME, HISTORY]);
}

#[test]
fn what_is_being_written_is_no_leftover() {
    const HISTORY: &str = "00000002.history";
    let place = Place::new();
    let (mut slow, mut held) = place.waiting(HISTORY);
    place.put(&[], NAME).prints("");
    assert_eq!(place.names(), [".pgseal", NAME]);
    held.write_all(b"00000\t\n").expect("it reads");
    drop(held);
    assert!(slow.wait().expect("it ends").success());
    assert_eq!(place.names(), [NAME, HISTORY]);
    let archived = fs::read(place.archived(HISTORY)).expect("a file");
    assert_eq!(archived, b"1\t0/1000000\t\n");
}
