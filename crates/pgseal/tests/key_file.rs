//! Bad key files: each is refused with its code and one sentence, and nothing is changed.

mod common;

use std::fs;

use common::{command, plain, Cluster, Transcript, CAT, KEY_ID, SLOTS_AT};

/// `sentence` goes on from the path of the key file.
#[track_caller]
fn refused(bytes: &[u8], code: i32, sentence: &str) {
    let cluster = Cluster::with_key_bin(bytes);
    let path = cluster.key_bin_path();
    cluster
        .check()
        .refuses(code, &format!("{}{sentence}", path.display()));
    assert_eq!(cluster.key_bin(), bytes);
}

fn good() -> Vec<u8> {
    Cluster::new([plain()]).key_bin()
}

fn with(at: usize, value: u8) -> Vec<u8> {
    let mut bytes = good();
    bytes[at] = value;
    bytes
}

#[test]
fn the_good_one_opens() {
    Cluster::new([plain()])
        .check()
        .prints(&format!("key {KEY_ID} opens through slot 1\n"));
}

#[test]
fn no_data_directory() {
    let tmp = tempfile::tempdir().expect("a directory");
    let path = tmp.path().to_str().expect("UTF-8");
    let sentence = format!("{path} is not a data directory: it has no global/pg_control; give the data directory with -D");
    Transcript::of(&mut common::pgseal(&["key", "check", "-D", path])).refuses(2, &sentence);
}

#[test]
fn missing() {
    let cluster = Cluster::new([plain()]);
    fs::remove_file(cluster.key_bin_path()).expect("it was there");
    let path = cluster.key_bin_path();
    cluster.check().refuses(
        5,
        &format!("{} is missing: restore it from a copy", path.display()),
    );
}

#[test]
fn unreadable() {
    let cluster = Cluster::new([plain()]);
    fs::remove_file(cluster.key_bin_path()).expect("it was there");
    fs::create_dir(cluster.key_bin_path()).expect("a directory");
    let sentence = format!(
        "{} cannot be read (Is a directory): check its owner and mode",
        cluster.key_bin_path().display()
    );
    cluster.check().refuses(3, &sentence);
}

#[test]
fn empty() {
    refused(&[], 5, " is empty: restore it from a copy");
}

#[test]
fn truncated_anywhere() {
    let good = good();
    for len in 1..good.len() {
        refused(
            &good[..len],
            5,
            &format!(" is cut short ({len} bytes): restore it from a copy"),
        );
    }
}

#[test]
fn longer() {
    let longer = [&good()[..], &[0]].concat();
    refused(
        &longer,
        5,
        " is longer than it says: restore it from a copy",
    );
}

#[test]
fn of_a_newer_version() {
    let newer = "newer than this pgseal knows: install a newer pgseal";
    refused(&with(12, 2), 5, &format!(" is of format 2, {newer}"));
    let unknown = "which this pgseal does not know: install a newer pgseal";
    refused(
        &with(14, 2),
        5,
        &format!(" names cipher suite 2, {unknown}"),
    );
    refused(
        &with(SLOTS_AT + 1, 9),
        5,
        &format!(" has a slot of type 9, {unknown}"),
    );
}

#[test]
fn another_key_length() {
    let sentence = " is damaged (its key length is not 128, 192 or 256): restore it from a copy";
    refused(&with(16, 2), 5, sentence);
    // 128 exists, so the key shows that its header was altered.
    let altered =
        ": the key is right but the header of key.bin was altered: restore key.bin from a copy";
    let mut shorter = good();
    shorter[15..17].copy_from_slice(&[128, 0]);
    refused(&shorter, 7, altered);
}

#[test]
fn another_clusters_key_file() {
    let sentence = format!(": what was unwrapped is another cluster's key {KEY_ID}, not 06c3ae1ad793c43def72e2be8064c70a: use the key file and the secret of this cluster");
    refused(&with(37, 0x06), 7, &sentence);
}

/// The code of a key file in which the lowest bit of one byte is flipped. The slot starts at
/// `SLOTS_AT`: id, type, parameters, blob; the MAC ends the file.
fn code_of_flip(at: usize, len: usize, blob: std::ops::Range<usize>) -> Vec<i32> {
    match at {
        // not the magic: a raw wrapping, whose header is nowhere
        0..8 => vec![5],
        8..21 => vec![5],
        // cluster id, key id, time
        21..61 => vec![7],
        // generation, count, id, type
        61..72 => vec![5],
        _ if blob.contains(&at) => vec![7],
        _ if at >= len - 32 => vec![5],
        // lengths of the slot's parts, and its command: whatever runs instead, it gives no key
        _ => vec![5, 6, 7],
    }
}

#[test]
fn every_byte_of_a_plain_slot_flipped() {
    let good = good();
    let blob = SLOTS_AT + 6..SLOTS_AT + 6 + 104;
    for at in 0..good.len() {
        let cluster = Cluster::with_key_bin(&with(at, good[at] ^ 1));
        let transcript = cluster.check();
        let code = transcript.code.expect("an exit code");
        let expected = code_of_flip(at, good.len(), blob.clone());
        assert!(expected.contains(&code), "byte {at}: {transcript:?}");
        assert_eq!(transcript.stdout, "", "byte {at}");
        assert_eq!(
            transcript.stderr.lines().count(),
            1,
            "byte {at}: {transcript:?}"
        );
    }
}

#[test]
fn every_byte_of_a_command_slot_flipped() {
    let good = Cluster::new([command(CAT, &common::payload())]).key_bin();
    let blob = SLOTS_AT + 6 + CAT.len()..SLOTS_AT + 6 + CAT.len() + 104;
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let transcript = Cluster::with_key_bin(&bytes).check();
        let code = transcript.code.expect("an exit code");
        let expected = code_of_flip(at, good.len(), blob.clone());
        assert!(expected.contains(&code), "byte {at}: {transcript:?}");
        assert_eq!(transcript.stdout, "", "byte {at}");
    }
}

#[test]
fn altered_after_it_was_written() {
    let mut bytes = Cluster::new([plain(), command(CAT, b"x")]).key_bin();
    let last_of_blob = bytes.len() - 33;
    bytes[last_of_blob] ^= 1;
    refused(
        &bytes,
        5,
        ": the key is right but the file was altered after it was written: restore it from a copy",
    );
}

#[test]
fn a_raw_wrapping_without_its_header() {
    let cluster = Cluster::with_key_bin(b"Salted__ and so on");
    let sentence = format!("{} holds a raw wrapped key, and pgseal.toml beside it does not say the cluster's header: restore both from a copy", cluster.key_bin_path().display());
    cluster.check().refuses(5, &sentence);
}
