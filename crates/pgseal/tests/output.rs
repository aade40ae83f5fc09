//! Tests results that cannot be told as they are: standard output has no reader or is full, or a
//! path is no UTF-8.

mod common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::data::{sample, Data};
use common::programs::with_library;
use common::{pgseal, Transcript};
use serde_json::Value;

const FULL: &str = "standard output cannot be written (No space left on device): \
                    make room or send it elsewhere, and run this again";
const LOST: &str = "the command is done, but its report is lost, because standard output cannot \
    be written (No space left on device): do not run it again";

fn full() -> Stdio {
    let file = File::options().write(true).open("/dev/full");
    file.expect("a device of Linux").into()
}

/// A pipe whose reader has gone.
fn closed() -> Stdio {
    let mut reader = Command::new("true");
    let mut reader: Child = reader.stdin(Stdio::piped()).spawn().expect("it starts");
    let pipe = reader.stdin.take().expect("a pipe");
    reader.wait().expect("it ends");
    pipe.into()
}

/// Returns the transcript of `pgseal ARGUMENTS… DIRECTORY` with this standard output.
fn to(stdout: Stdio, args: &[&str], directory: &Path) -> Transcript {
    let mut command = with_library(pgseal(args));
    let child = command
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn();
    let output = child.and_then(Child::wait_with_output).expect("it runs");
    Transcript {
        code: output.status.code(),
        stdout: String::new(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn ends(code: i32, stderr: &str) -> Transcript {
    Transcript {
        code: Some(code),
        stdout: String::new(),
        stderr: stderr.to_owned(),
    }
}

/// A cluster that a conversion gets through.
fn convertible() -> Data {
    let data = Data::new();
    data.seal("pg_multixact/offsets/0000", &sample(10));
    data
}

const REPORTS: [&[&str]; 12] = [
    &["verify", "-D"],
    &["verify", "--json", "-D"],
    &["audit"],
    &["audit", "--json"],
    &["status", "-D"],
    &["status", "--json", "-D"],
    &["receiver", "grant", "--role", "r", "--until", "1h", "-D"],
    &["rekey", "--no-key-wrap", "--check", "-D"],
    &["key", "check", "-D"],
    &["key", "check", "--all", "-D"],
    &["key", "check", "--show", "-D"],
    &["key", "unwrap", "-D"],
];

#[test]
fn reports_end_as_a_filter_does_if_nobody_reads_them() {
    let data = Data::new();
    for args in REPORTS {
        let said = to(closed(), args, &data.0.data());
        assert_eq!(said, ends(141, ""), "{args:?}");
    }
}

#[test]
fn reports_to_a_full_disk_are_errors() {
    let data = Data::new();
    for args in REPORTS {
        let said = to(full(), args, &data.0.data());
        assert_eq!(said, ends(3, &format!("pgseal: {FULL}\n")), "{args:?}");
    }
}

#[test]
fn a_conversion_that_cannot_tell_says_that_it_is_through() {
    for options in [&["--no-key-wrap"][..], &["--no-key-wrap", "--json"]] {
        let data = convertible();
        let args = [&["rekey"], options, &["-D"]].concat();
        let before = data.0.key_bin();
        let said = to(full(), &args, &data.0.data());
        assert_eq!(said, ends(3, &format!("pgseal: {LOST}\n")));
        assert_ne!(data.0.key_bin(), before);
        assert!(!data.path("pg_encryption/conversion").exists());
        let said = to(closed(), &["unseal", "-D"], &data.0.data());
        let lost = LOST.replace("No space left on device", "Broken pipe");
        assert_eq!(said, ends(3, &format!("pgseal: {lost}\n")));
        assert!(!data.path("pg_encryption").exists());
    }
}

#[test]
fn a_slot_that_was_changed_is_not_taken_for_unchanged() {
    let data = Data::new();
    let before = data.0.key_bin();
    let args = ["key", "wrap", "--new-plain", "-D"];
    let said = to(full(), &args, &data.0.data());
    assert_eq!(said, ends(3, &format!("pgseal: {LOST}\n")));
    assert_ne!(data.0.key_bin(), before);
}

#[test]
fn a_sentence_that_nobody_reads_is_an_exit_code() {
    for stderr in [full(), closed()] {
        let mut command = pgseal(&["status", "-D", "/nonexistent"]);
        let status = command.stderr(stderr).status().expect("it starts");
        assert_eq!(status.code(), Some(3));
    }
}

/// The cluster under a name that is no UTF-8.
fn odd(data: &Data) -> PathBuf {
    let odd = data.0.data().with_file_name(OsStr::from_bytes(b"d\xff"));
    fs::rename(data.0.data(), &odd).expect("a rename");
    odd
}

#[test]
fn paths_that_are_no_text() {
    let data = convertible();
    let odd = odd(&data);
    let shown = odd.to_string_lossy();
    for (args, place) in [
        (&["status", "--json", "-D"][..], "/data_directory"),
        (&["verify", "--json", "-D"], "/data_directory"),
        (&["audit", "--json"], "/directories/0"),
        (
            &["rekey", "--check", "--json", "--no-key-wrap", "-D"],
            "/data_directory",
        ),
        (
            &["rekey", "--json", "--no-key-wrap", "-D"],
            "/data_directory",
        ),
    ] {
        let said = Transcript::of(pgseal(args).arg(&odd));
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{args:?}");
        let report: Value = serde_json::from_str(&said.stdout).expect("JSON");
        let told = report.pointer(place).and_then(Value::as_str);
        assert_eq!(told, Some(&*shown), "{args:?}");
    }
}
