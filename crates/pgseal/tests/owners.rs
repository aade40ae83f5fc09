//! Tests who owns files: what root does in another user's cluster, and what strangers plant.

mod common;

use std::fs;
use std::os::unix::fs::{chown, symlink, MetadataExt};
use std::path::Path;

use common::{command, payload, plain, Cluster, Transcript, CAT};
use nix::unistd::geteuid;

const SOMEBODY: u32 = 4242;
const STRANGER: u32 = 65534;

fn give(cluster: &Cluster, data: u32, keys: u32) {
    let (root, key_bin) = (cluster.data(), cluster.key_bin_path());
    let directory = key_bin.parent().expect("it has one");
    for (path, uid) in [
        (root.as_path(), data),
        (directory, keys),
        (key_bin.as_path(), keys),
    ] {
        chown(path, Some(uid), Some(uid)).expect("root may");
    }
}

fn owner(path: &Path) -> (u32, u32) {
    let metadata = fs::metadata(path).expect("it exists");
    (metadata.uid(), metadata.gid())
}

#[test]
fn what_root_makes_is_the_owners() {
    if !geteuid().is_root() {
        return;
    }
    let cluster = Cluster::new([plain()]);
    give(&cluster, SOMEBODY, SOMEBODY);
    let key_file = cluster.beside("pg.key");
    let name = key_file.to_str().expect("UTF-8");
    Transcript::of(&mut cluster.key("rotate", &["--new-key-file", name]))
        .prints("slot 2 opens the key now, slot 1 is gone\n");
    assert_eq!(owner(&cluster.key_bin_path()), (SOMEBODY, SOMEBODY));
    assert_eq!(owner(&key_file), (SOMEBODY, SOMEBODY));
}

#[test]
fn a_planted_link_leads_nowhere() {
    let cluster = Cluster::new([plain()]);
    let victim = cluster.write_beside("victim", "whole");
    symlink(&victim, cluster.key_bin_path().with_extension("bin.new")).expect("a link");
    Transcript::of(&mut cluster.key("wrap", &["--new-plain"]))
        .prints("slot 2 opens the key as well\n");
    assert_eq!(fs::read(&victim).expect("it exists"), b"whole");
    assert_eq!(
        cluster.key_directory(),
        ["key.bin", "pgseal.toml", "slots.bin"]
    );
}

#[test]
fn a_planted_command_does_not_run() {
    if !geteuid().is_root() {
        return;
    }
    let cluster = Cluster::new([command("touch ran; cat %p", &payload())]);
    for (data, keys) in [(0, STRANGER), (SOMEBODY, STRANGER)] {
        give(&cluster, data, keys);
        let keys = cluster.key_bin_path().with_file_name("");
        cluster.check().refuses(
            6,
            &format!(
                "{}: {} is owned by uid {STRANGER}, and a command from a key file runs only if \
                the file and the directories above it are owned by uid {data} or root: read the \
                command with `pgseal key check --show`, and if you trust it give it with \
                --key-unwrap-command or -K",
                cluster.key_bin_path().display(),
                keys.display().to_string().trim_end_matches('/'),
            ),
        );
        assert!(!cluster.data().join("ran").exists());
        let trusted = ["--key-unwrap-command", CAT];
        let opened = Transcript::of(&mut cluster.key("check", &trusted));
        opened.prints(&format!("key {} opens through slot 1\n", common::KEY_ID));
    }
}

#[test]
fn a_change_that_fails_leaves_no_key_in_clear() {
    let cluster = Cluster::new(std::iter::repeat_with(plain).take(16));
    let key_file = cluster.beside("pg.key");
    let name = key_file.to_str().expect("UTF-8");
    let output = cluster.key("wrap", &["--new-key-file", name]).output();
    assert_eq!(output.expect("it runs").status.code(), Some(2));
    assert!(!key_file.exists());
    assert_eq!(cluster.key_directory(), ["key.bin", "pgseal.toml"]);
}
