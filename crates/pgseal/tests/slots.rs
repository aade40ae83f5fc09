//! Slots as an auditor asks for them: listed, labelled, added, removed, and what is noted of them.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{command, payload, plain, Cluster, Transcript, CAT};

fn notes(cluster: &Cluster) -> PathBuf {
    cluster.data().join("pg_encryption/slots.bin")
}

fn run(cluster: &Cluster, verb: &str, args: &[&str]) -> Transcript {
    Transcript::of(&mut cluster.key(verb, args))
}

/// The lines of a listing, with users and times put aside.
fn listed(cluster: &Cluster, args: &[&str]) -> Vec<String> {
    let list = run(cluster, "list", args);
    assert_eq!(list.code, Some(0), "{list:?}");
    let line = |line: &str| match line.split_once(" UTC by ") {
        Some((start, _)) => format!("{}<when and who>", &start[..15]),
        None => line.to_owned(),
    };
    list.stdout.lines().map(line).collect()
}

#[test]
fn a_list_needs_no_secret_and_says_what_it_is_worth() {
    let cluster = Cluster::new([command("exit 1", b"anything")]);
    let list = listed(&cluster, &[]);
    assert_eq!(list[1], "slot 1: command");
    assert!(list[2].ends_with(" with the cluster"), "{list:?}");
    assert_eq!(list[3], "  last proved  never");
    assert!(
        list[4].starts_with("pg_encryption/slots.bin is missing"),
        "{list:?}"
    );
}

#[test]
fn what_was_done_is_noted_and_verified() {
    let cluster = Cluster::new([plain(), command(CAT, &payload())]);
    run(&cluster, "check", &[]);
    run(&cluster, "label", &["--slot", "2", "the safe's"]).prints("");
    let expected = |last: &str| {
        [
            "slot 1: plain",
            "  last proved  <when and who>",
            "slot 2: command, \"the safe's\"",
            "  last proved  never",
            last,
        ]
        .map(str::to_owned)
        .to_vec()
    };
    let without_creation = |args: &[&str]| {
        let lines = listed(&cluster, args).into_iter().skip(1);
        let lines = lines.filter(|line| !line.starts_with("  created"));
        lines.collect::<Vec<_>>()
    };
    let unverified = "labels, dates and users are not verified: --verify opens the key for it";
    assert_eq!(without_creation(&[]), expected(unverified));
    let verified = "labels, dates and users are verified";
    assert_eq!(without_creation(&["--verify"]), expected(verified));
    run(&cluster, "check", &["--all"]);
    assert_eq!(without_creation(&[])[3], "  last proved  <when and who>");
    let json = run(&cluster, "list", &["--json", "--verify"]).stdout;
    assert!(
        json.contains("\"notes_verified\": true") && json.contains("\"uid\": "),
        "{json}"
    );
}

#[test]
fn notes_that_were_altered_are_told() {
    let cluster = Cluster::new([plain()]);
    run(&cluster, "label", &["--slot", "1", "mine"]).prints("");
    let mut bytes = fs::read(notes(&cluster)).expect("notes");
    let at = bytes
        .windows(4)
        .position(|text| text == b"mine")
        .expect("the label");
    bytes[at..at + 4].copy_from_slice(b"your");
    fs::write(notes(&cluster), bytes).expect("they are ours");
    assert!(listed(&cluster, &[]).contains(&"slot 1: plain, \"your\"".to_owned()));
    let list = run(&cluster, "list", &["--verify"]);
    assert_eq!(list.code, Some(1), "{list:?}");
    assert!(
        list.stderr
            .contains("slots.bin was altered after it was written"),
        "{list:?}"
    );
    assert!(!list.stdout.contains("your"), "{list:?}");
    let again = run(&cluster, "label", &["--slot", "1", "mine"]);
    assert_eq!(again.code, Some(0));
    assert!(
        again
            .stdout
            .contains("labels and dates of the other slots are lost"),
        "{again:?}"
    );
    assert_eq!(run(&cluster, "list", &["--verify"]).code, Some(0));
}

#[test]
fn a_rotation_keeps_the_label() {
    let cluster = Cluster::new([plain()]);
    run(&cluster, "label", &["--slot", "1", "everyday"]);
    run(&cluster, "rotate", &["--new-plain"]).prints("slot 2 opens the key now, slot 1 is gone\n");
    assert!(listed(&cluster, &["--verify"]).contains(&"slot 2: plain, \"everyday\"".to_owned()));
    run(&cluster, "add", &["--new-plain", "--label", "second"])
        .prints("slot 1 opens the key as well\n");
    let list = listed(&cluster, &["--verify"]);
    assert!(
        list.contains(&"slot 1: plain, \"second\"".to_owned()),
        "{list:?}"
    );
    assert!(
        list.contains(&"slot 2: plain, \"everyday\"".to_owned()),
        "{list:?}"
    );
}

#[test]
fn a_slot_is_removed_only_if_another_opens() {
    let cluster = Cluster::new([
        plain(),
        command("exit 1", b"lost"),
        command(CAT, &payload()),
    ]);
    run(&cluster, "remove", &["--slot", "1"]).prints("slot 1 is gone, slot 3 opens the key\n");
    let before = cluster.key_bin();
    run(&cluster, "remove", &["--slot", "3"]).refuses(
        7,
        "slot 3 stays, because no other slot opens with what was given: give the secret of another one",
    );
    run(&cluster, "remove", &["--slot", "9"]).refuses(
        2,
        "key.bin has no slot 9: `pgseal key check --show` lists its slots",
    );
    assert_eq!(cluster.key_bin(), before);
    run(&cluster, "remove", &["--slot", "2"]).prints("slot 2 is gone, slot 3 opens the key\n");
    let before = cluster.key_bin();
    run(&cluster, "remove", &["--slot", "3"]).refuses(
        2,
        "slot 3 is the only one, and without it nothing opens the cluster: add another first, with `pgseal key add`",
    );
    assert_eq!(cluster.key_bin(), before);
    assert_eq!(
        cluster.key_directory(),
        ["key.bin", "pgseal.toml", "slots.bin"]
    );
}

#[test]
fn a_passphrase_that_can_be_guessed_is_refused() {
    let cluster = Cluster::new([plain()]);
    let before = cluster.key_bin();
    let file = cluster.write_beside("short", "seven77\n");
    let file = file.to_str().expect("UTF-8");
    let args = ["--new-passphrase-file", file, "--argon2-memory", "64MiB"];
    run(&cluster, "add", &args).refuses(
        6,
        "the new passphrase has fewer than 8 bytes and can be guessed: give a longer one, or --allow-weak",
    );
    assert_eq!(cluster.key_bin(), before);
    run(&cluster, "add", &[&args[..], &["--allow-weak"]].concat())
        .prints("slot 2 opens the key as well\n");
    let memory = 65536u32.to_le_bytes();
    assert!(cluster.key_bin().windows(4).any(|bytes| bytes == memory));
}

#[test]
fn a_check_that_cannot_be_noted_is_a_check() {
    let cluster = Cluster::new([plain()]);
    fs::create_dir(cluster.data().join("pg_encryption/slots.bin.new")).expect("a directory");
    let check = run(&cluster, "check", &[]);
    assert_eq!(check.code, Some(0), "{check:?}");
    assert!(check.stderr.starts_with("pgseal: warning: "), "{check:?}");
}
