//! `pgseal audit` on small data directories: what it finds, how it says it, how it ends.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use common::data::{sample, Data, RELATION, WAL, WAL_SIZE};
use common::Transcript;
use serde_json::{json, Value};

const PAGE: usize = 8192;
const CANARY: &str = "canary-7f3e-\u{00e4}";

fn audit(dir: &Path, options: &[&str]) -> Transcript {
    let mut command = common::pgseal(&["audit"]);
    Transcript::of(command.arg(dir).args(options))
}

/// It ended with `code` and these hits, without their directory.
#[track_caller]
fn hits(data: &Data, options: &[&str], code: i32, expected: &[&str]) {
    let root = format!("{}/", data.0.data().display());
    let Transcript {
        code: ended,
        stdout,
        stderr,
    } = audit(&data.0.data(), options);
    let mut lines: Vec<String> = stdout
        .lines()
        .map(|line| line.replacen(&root, "", 1))
        .collect();
    let last = lines.pop().expect("a line at the end");
    assert_eq!(
        (ended, lines, stderr.as_str()),
        (
            Some(code),
            expected.iter().map(ToString::to_string).collect(),
            ""
        )
    );
    assert!(
        last.starts_with(&format!("{} hits in ", expected.len())),
        "{last}"
    );
}

#[test]
fn a_sealed_cluster_shows_nothing() {
    let data = Data::new();
    data.seal("base/5/16385", &sample(8));
    data.seal("pg_twophase/000002EA", CANARY.as_bytes());
    data.seal("pg_stat/pg_stat_statements.stat", &vec![b'q'; 20_001]);
    hits(&data, &["--canary", CANARY], 0, &[]);
}

#[test]
fn a_wrapping_that_was_left_over_is_found() {
    let data = Data::new();
    data.clear("pg_encryption/key.bin.new", CANARY.as_bytes());
    hits(&data, &["--canary", CANARY], 1, &[
        "pg_encryption/key.bin.new: offset 0: left over from an interrupted change of the key, and may hold the key: remove it (not sealed by design: the wrapped key)",
        &format!("pg_encryption/key.bin.new: offset 0: canary {CANARY:?} (not sealed by design: the wrapped key)"),
    ]);
}

#[test]
fn canaries_are_found_in_every_spelling() {
    let data = Data::new();
    data.clear("base/5/16385", &[&[0; 5000], CANARY.as_bytes()].concat());
    data.clear(
        "log/postgresql.log",
        b"user said 'canary-2' and canary-three",
    );
    let list = data.0.write_beside("list", "canary-2\n\ncanary-three\n");
    let options = [
        "--canary",
        CANARY,
        "--canary-hex",
        "37663365",
        "--canary-hex",
        "2d376633652dc3A4",
        "--canary-file",
        list.to_str().expect("UTF-8"),
    ];
    let short = "\"37663365\" is too short, ciphertext holds it by chance: give at least 6 bytes";
    audit(&data.0.data(), &options).refuses(2, short);
    let options = [&options[..2], &options[4..]].concat();
    hits(
        &data,
        &options,
        1,
        &[
            "base/5/16385: offset 0: a page that does not look encrypted",
            &format!("base/5/16385: offset 5000: canary {CANARY:?}"),
            "base/5/16385: offset 5006: canary \"2d376633652dc3A4\"",
            "log/postgresql.log: offset 11: canary \"canary-2\" (not sealed by design: server log)",
            "log/postgresql.log: offset 25: canary \"canary-three\" (not sealed by design: server log)",
        ],
    );
}

#[test]
fn a_canary_over_the_edge_of_what_is_read_at_once() {
    const RUN: usize = 128 * PAGE;
    let data = Data::new();
    let text = CANARY.as_bytes();
    for first in [RUN - text.len(), RUN - text.len() + 1, RUN - 1, RUN] {
        let mut bytes = vec![b'.'; 2 * RUN + 10];
        bytes[first..first + text.len()].copy_from_slice(text);
        bytes[2 * RUN - 2..][..text.len() - 2].copy_from_slice(&text[..text.len() - 2]);
        data.clear("notes", &bytes);
        let hit = format!(
            "notes: offset {first}: canary {CANARY:?} (not sealed by design: unknown file)"
        );
        hits(
            &data,
            &["--canary", CANARY, "--canary", "no such text"],
            1,
            &[&hit],
        );
    }
}

#[test]
fn clear_pages_are_counted_in_rows() {
    let data = Data::new();
    data.change(RELATION, |bytes| {
        bytes[..PAGE].copy_from_slice(&sample(0));
        bytes[PAGE..2 * PAGE].copy_from_slice(&sample(4));
        bytes[2 * PAGE..3 * PAGE].fill(0);
        // Random bytes under a header, which the header alone gives away.
        bytes[5 * PAGE..].copy_from_slice(&sample(8));
    });
    data.clear("pg_xact/0000", &sample(10));
    data.clear("pg_twophase/000002EA", &[b'x'; 128]);
    data.change(WAL, |bytes| {
        bytes[PAGE..2 * PAGE].copy_from_slice(&sample(12))
    });
    hits(
        &data,
        &[],
        1,
        &[
            "base/5/16384: offset 0: 2 pages that do not look encrypted",
            "base/5/16384: offset 40960: a page that does not look encrypted",
            "pg_twophase/000002EA: offset 0: a page that does not look encrypted",
            &format!("{WAL}: offset 8192: a page that does not look encrypted"),
            "pg_xact/0000: offset 0: a page that does not look encrypted",
        ],
    );
}

#[test]
fn a_tablespace_by_itself() {
    let data = Data::new();
    let space = data.0.beside("space");
    data.clear("../space/PG_15_202209061/5/16391", &sample(0));
    let said = audit(&space, &[]);
    let line = format!(
        "{}/PG_15_202209061/5/16391: offset 0: a page that does not look encrypted",
        space.display()
    );
    assert_eq!(
        (said.code, said.stdout.lines().next()),
        (Some(1), Some(&*line))
    );
}

#[test]
fn what_links_keep_away_is_told() {
    let data = Data::new();
    let moved = data.0.beside("moved");
    fs::rename(data.path("base/5"), &moved).expect("a rename");
    symlink(&moved, data.path("base/5")).expect("a link");
    data.clear("base/5/16385", CANARY.as_bytes());
    fs::create_dir(data.path("pg_tblspc")).expect("a directory");
    symlink("/nonexistent", data.path("pg_tblspc/77777")).expect("a link");
    let _socket = UnixListener::bind(data.path(".s.PGSQL.5432")).expect("a socket");
    let link = "a link where PostgreSQL has none, or a device: audit what it leads to by itself";
    let dangling = "is a dangling link: mount its target";
    let said = audit(&data.0.data(), &["--canary", CANARY]);
    let lines: Vec<&str> = said.stdout.lines().collect();
    let expected = [
        format!("{}: not read: {link}", data.path("base/5").display()),
        format!(
            "{}: not read: {dangling}",
            data.path("pg_tblspc/77777").display()
        ),
    ];
    assert_eq!(
        (said.code, &lines[..2]),
        (Some(1), &expected.each_ref().map(String::as_str)[..])
    );
    assert!(lines[2].starts_with("0 hits in ") && lines[2].ends_with("; not read: 2 places"));
    let report = audit(&data.0.data(), &["--json"]);
    let json: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let expected = json!([
        {"file": data.path("base/5"), "why": link},
        {"file": data.path("pg_tblspc/77777"), "why": dangling},
    ]);
    assert_eq!((report.code, &json["not_read"]), (Some(1), &expected));
}

#[test]
fn json_has_the_same() {
    let data = Data::new();
    data.clear("base/5/16385", &sample(0));
    let Transcript { code, stdout, .. } = audit(&data.0.data(), &["--json"]);
    let mut report: Value = serde_json::from_str(&stdout).expect("JSON");
    report["seconds"].take();
    let settings = fs::metadata(data.0.settings_path()).expect("a file");
    let expected = json!({
        "directories": [data.0.data()],
        "canaries": 0,
        "files": 9,
        "bytes": settings.len() + WAL_SIZE + 10 * PAGE as u64 + 3 + data.0.key_bin().len() as u64,
        "hits": [{
            "file": data.path("base/5/16385"),
            "offset": 0,
            "what": "clear_pages",
            "pages": 1,
        }],
        "not_read": [],
        "unlisted": [],
        "seconds": null,
    });
    assert_eq!((code, report), (Some(1), expected));
}

#[test]
fn bad_options() {
    let data = Data::new();
    let dir = data.0.data();
    let odd = "\"616263646566f\" is not hexadecimal: give two digits for each byte";
    audit(&dir, &["--canary-hex", "616263646566f"]).refuses(2, odd);
    let sign = "\"61626364+566\" is not hexadecimal: give two digits for each byte";
    audit(&dir, &["--canary-hex", "61626364+566"]).refuses(2, sign);
    let missing = "/nonexistent/list cannot be read (No such file or directory): give \
                   a UTF-8 file with one canary a line";
    audit(&dir, &["--canary-file", "/nonexistent/list"]).refuses(3, missing);
    let nowhere = "/nonexistent cannot be read (No such file or directory): run pgseal \
                   as the server's user, and check that it is mounted";
    audit(Path::new("/nonexistent"), &[]).refuses(3, nowhere);
}
