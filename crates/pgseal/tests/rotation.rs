//! Adding and replacing slots: by every way, against a killed process, and against a second one.

mod common;

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use common::{command, payload, pgseal, plain, Cluster, Transcript, CAT, KEY_ID};
use pgseal_format::KeyImage;

fn opens(slot: u8) -> String {
    format!("key {KEY_ID} opens through slot {slot}\n")
}

fn generation(cluster: &Cluster) -> u64 {
    match KeyImage::decode(&cluster.key_bin()).expect("a key file") {
        KeyImage::File(file) => file.generation(),
        KeyImage::Raw(_) => panic!("a key file has a magic"),
    }
}

#[test]
fn a_slot_of_every_kind_is_added() {
    let cluster = Cluster::new([plain()]);
    let pass = cluster.write_beside("pass", "a long secret\n");
    let pass = pass.to_str().expect("UTF-8");
    let key_file = cluster.beside("pg.key");
    let wrap = |args: &[&str]| Transcript::of(&mut cluster.key("wrap", args));
    wrap(&[
        "--new-wrap-command",
        "cat > %p",
        "--new-unwrap-command",
        CAT,
    ])
    .prints("slot 2 opens the key as well\n");
    wrap(&["--new-passphrase-file", pass]).prints("slot 3 opens the key as well\n");
    wrap(&["--new-key-command", "echo 000102030405060708090a0b0c0d0e0f"])
        .prints("slot 4 opens the key as well\n");
    wrap(&["--new-key-file", key_file.to_str().expect("UTF-8")])
        .prints("slot 5 opens the key as well\n");
    assert_eq!(generation(&cluster), 5);
    let all = Transcript::of(&mut cluster.key("check", &["--all", "--passphrase-file", pass]));
    all.prints(&format!("{}slot 1 (plain): opens\nslot 2 (command): opens\nslot 3 (passphrase): opens\nslot 4 (command key): opens\nslot 5 (file): opens\n", opens(1)));
}

#[test]
fn rotation_replaces_what_opened() {
    let cluster = Cluster::new([command(CAT, &payload()), command("exit 1", b"recovery")]);
    let rotate = |args: &[&str]| Transcript::of(&mut cluster.key("rotate", args));
    rotate(&[
        "--new-wrap-command",
        "rev > %p",
        "--new-unwrap-command",
        "rev %p",
    ])
    .prints("slot 3 opens the key now, slot 1 is gone\n");
    cluster.check().prints(&opens(3));
    assert_eq!(generation(&cluster), 3);
    rotate(&["--slot", "2", "--new-plain"]).prints("slot 1 opens the key now, slot 2 is gone\n");
    Transcript::of(&mut cluster.key("check", &["--show"]))
        .prints("slot 3 (command), from key.bin: rev %p\nslot 1 (plain)\n");
}

#[test]
fn the_same_commands_wrap_anew() {
    let cluster = Cluster::new([command(CAT, &payload())]);
    let again = Transcript::of(
        cluster
            .key("rotate", &[])
            .env("PGDATAKEYWRAPCMD", "cat > %p"),
    );
    again.prints("slot 2 opens the key now, slot 1 is gone\n");
    Transcript::of(&mut cluster.key("check", &["--show"]))
        .prints(&format!("slot 2 (command), from key.bin: {CAT}\n"));
}

#[test]
fn what_cannot_be_done() {
    let cluster = Cluster::new([plain()]);
    let before = cluster.key_bin();
    let wrap = |args: &[&str]| Transcript::of(&mut cluster.key("wrap", args));
    wrap(&[]).refuses(2, "say how the key shall be protected: --new-wrap-command and --new-unwrap-command, --new-provider, --new-passphrase, --new-key-command, --new-key-file, or --new-plain for tests");
    wrap(&["--new-wrap-command", "cat > %p"]).refuses(
        2,
        "the new wrap command needs its unwrap command: give --new-unwrap-command",
    );
    wrap(&["--replace", "2", "--new-plain"]).refuses(
        2,
        "key.bin has no slot 2: `pgseal key check --show` lists its slots",
    );
    assert_eq!(wrap(&["--new-plain", "--new-passphrase"]).code, Some(2));
    let inside = cluster.data().join("pg.key");
    let sentence = format!(
        "{} is in the data directory that it shall protect: give a path outside",
        inside.display()
    );
    wrap(&["--new-key-file", inside.to_str().expect("UTF-8")]).refuses(2, &sentence);
    let existing = cluster.write_beside("existing", "precious");
    let sentence = format!("the key file {} cannot be written (File exists): give the path of a new file outside the data directory", existing.display());
    wrap(&["--new-key-file", existing.to_str().expect("UTF-8")]).refuses(3, &sentence);
    assert_eq!(
        fs::read_to_string(existing).expect("it is there"),
        "precious"
    );
    let empty = cluster.write_beside("empty", "");
    wrap(&["--new-passphrase-file", empty.to_str().expect("UTF-8")])
        .refuses(6, "the passphrase is empty: give one");
    assert_eq!(cluster.key_bin(), before);
}

/// The wrap command of a typo writes the key in clear.
#[test]
fn what_is_refused_leaves_no_wrapping_behind() {
    let cluster = Cluster::new([plain()]);
    let before = cluster.key_bin();
    let foreign = Cluster::new([plain()]);
    let other = foreign.write_beside("other", &"pgsealk1".repeat(13));
    let other = format!("cat {}", other.display());
    for (unwrap, code) in [("rev %p", 7), ("exit 3", 6), (other.as_str(), 7)] {
        for verb in ["wrap", "rotate"] {
            let args = [
                "--new-wrap-command",
                "cat > %p",
                "--new-unwrap-command",
                unwrap,
            ];
            let refused = Transcript::of(&mut cluster.key(verb, &args));
            assert_eq!(refused.code, Some(code), "{refused:?}");
            assert_eq!(
                cluster.key_directory(),
                ["key.bin", "pgseal.toml"],
                "{verb}: {unwrap}"
            );
            assert_eq!(cluster.key_bin(), before);
        }
    }
}

#[test]
fn what_a_killed_change_left_is_told_and_goes_with_the_next() {
    let cluster = Cluster::new([plain()]);
    let left = cluster.key_bin_path().with_extension("bin.new");
    fs::write(&left, payload().as_slice()).expect("a file");
    let warning = format!("warning: {} is left over from a change of the key that was interrupted, and may hold the key: remove it\n", left.display());
    cluster.check().prints(&format!("{warning}{}", opens(1)));
    Transcript::of(&mut cluster.key("wrap", &["--replace", "2", "--new-plain"])).refuses(
        2,
        "key.bin has no slot 2: `pgseal key check --show` lists its slots",
    );
    assert_eq!(
        cluster.key_directory(),
        ["key.bin", "pgseal.toml", "slots.bin"]
    );
    cluster.check().prints(&opens(1));
}

#[test]
fn sixteen_slots_are_the_most() {
    let cluster = Cluster::new((0..16).map(|_| plain()));
    let added = Transcript::of(&mut cluster.key("wrap", &["--new-plain"]));
    added.refuses(2, "key.bin has 16 slots already: replace one");
}

#[test]
fn what_would_make_the_file_too_long_to_read() {
    let long = || command("head -c 104 %p", &[&payload()[..], &[0; 59_000]].concat());
    let cluster = Cluster::new([long(), long(), long(), long()]);
    let before = cluster.key_bin();
    let args = [
        "--new-wrap-command",
        "(cat; head -c 59000 /dev/zero) > %p",
        "--new-unwrap-command",
        "head -c 104 %p",
    ];
    Transcript::of(&mut cluster.key("wrap", &args)).refuses(2, "key.bin has at most 262144 bytes, too few for this slot beside the others: first replace the slot with the longest wrapped key by a shorter one");
    assert_eq!(cluster.key_bin(), before);
    assert_eq!(cluster.key_directory(), ["key.bin", "pgseal.toml"]);
    Transcript::of(&mut cluster.key("rotate", &["--new-plain"]))
        .prints("slot 5 opens the key now, slot 1 is gone\n");
    Transcript::of(&mut cluster.key("wrap", &args)).prints("slot 1 opens the key as well\n");
}

/// The new unwrap command runs once in each generation, after the new file is durable and before it
/// is published: there it kills its parent, us.
#[test]
fn killed_while_the_new_slot_is_tried() {
    for (nth, slots) in [(1, 1), (2, 2)] {
        let cluster = Cluster::new([command(CAT, &payload())]);
        let unwrap = format!("echo x >> %D/runs; if [ $(wc -l < %D/runs) = {nth} ]; then kill -9 $PPID; fi; cat \"%p\"");
        let args = [
            "--new-wrap-command",
            "cat > %p",
            "--new-unwrap-command",
            &unwrap,
        ];
        let killed = Transcript::of(&mut cluster.key("rotate", &args));
        assert_eq!(
            (killed.code, killed.stdout.as_str()),
            (None, ""),
            "{killed:?}"
        );
        assert_eq!(every_slot_opens(&cluster), slots);
        // What was left aside is in nobody's way.
        let again = [
            "--new-wrap-command",
            "cat > %p",
            "--new-unwrap-command",
            CAT,
        ];
        assert_eq!(
            Transcript::of(&mut cluster.key("rotate", &again)).code,
            Some(0)
        );
    }
}

#[test]
fn killed_at_any_moment() {
    let cluster = Cluster::new([command(CAT, &payload())]);
    let args = [
        "--new-wrap-command",
        "cat > %p",
        "--new-unwrap-command",
        CAT,
    ];
    let (mut killed, mut finished) = (0, 0);
    for round in 0..60 {
        let mut rotate = cluster.key("rotate", &args);
        let mut child = rotate
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        sleep(Duration::from_micros(round * 400));
        let _ = child.kill();
        match child.wait().expect("our child").code() {
            None => killed += 1,
            Some(0) => finished += 1,
            Some(code) => panic!("exit code {code} in round {round}"),
        }
        assert!(
            (1..=16).contains(&every_slot_opens(&cluster)),
            "round {round}"
        );
        trim(&cluster);
    }
    assert!(
        killed > 5,
        "killed {killed} times, finished {finished} times: too fast to kill"
    );
}

/// How many slots there are, after each was seen to open.
fn every_slot_opens(cluster: &Cluster) -> usize {
    let all = Transcript::of(&mut cluster.key("check", &["--all"]));
    assert_eq!(all.code, Some(0), "{all:?}");
    all.stdout
        .lines()
        .filter(|line| line.ends_with(": opens"))
        .count()
}

/// Rotations that were cut in half leave two slots: start the next one with one.
fn trim(cluster: &Cluster) {
    cluster.write_key_bin(&Cluster::new([command(CAT, &payload())]).key_bin());
}

#[test]
fn two_at_once() {
    let unwrap = "touch %D/locked; while [ -e %D/locked ]; do sleep 0.1; done; cat \"%p\"";
    let cluster = Cluster::new([command(unwrap, &payload())]);
    let locked = cluster.data().join("locked");
    let mut slow = cluster.key("wrap", &["--new-plain"]);
    let mut slow = slow.stdout(Stdio::null()).spawn().expect("it starts");
    while !locked.exists() {
        sleep(Duration::from_millis(10));
    }
    let second = Transcript::of(&mut cluster.key("wrap", &["--new-plain"]));
    let sentence = format!(
        "another pgseal is changing {}: wait until it has finished",
        cluster.key_bin_path().display()
    );
    second.refuses(9, &sentence);
    fs::remove_file(&locked).expect("the command made it");
    assert!(slow.wait().expect("our child").success());
    Transcript::of(&mut cluster.key("check", &["--show"])).prints(&format!(
        "slot 1 (command), from key.bin: {unwrap}\nslot 2 (plain)\n"
    ));
}

#[test]
fn what_is_left_over_cannot_be_removed() {
    let cluster = Cluster::new([plain()]);
    let before = cluster.key_bin();
    let left = cluster.key_bin_path().with_extension("bin.new");
    fs::create_dir(&left).expect("a directory");
    let sentence = format!("{} is left over from a change of key.bin, may hold the key, and cannot be removed (Is a directory): remove it", left.display());
    Transcript::of(&mut cluster.key("wrap", &["--new-plain"])).refuses(3, &sentence);
    assert_eq!(cluster.key_bin(), before);
}

#[test]
fn the_payload_leaves_only_by_a_pipe_or_by_request() {
    let cluster = Cluster::new([plain()]);
    let expected = format!("{}\n", String::from_utf8_lossy(&payload()));
    Transcript::of(&mut cluster.key("unwrap", &[])).prints(&expected);
    let on_terminal = |more: &str| {
        let line = format!(
            "'{}' key unwrap -D '{}' {more}",
            env!("CARGO_BIN_EXE_pgseal"),
            cluster.data().display()
        );
        let mut script = std::process::Command::new("script");
        let log = cluster.beside("typescript");
        let args = ["--quiet", "--return", "--command", &line];
        Transcript::of(script.args(args).arg(log).stdin(Stdio::null()))
    };
    let refused = on_terminal("");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stdout.contains(
        "pgseal: this prints the unencrypted key: send it to a pipe or file, or give --reveal"
    ));
    assert!(!refused.stdout.contains("pgsealk1"));
    assert!(on_terminal("--reveal").stdout.contains("pgsealk1"));
}

#[test]
fn status_for_machines() {
    let cluster = Cluster::new([command("exit 1", b"x")]);
    let status = |args: &[&str]| {
        Transcript::of(
            pgseal(&["status", "--json", "-D"])
                .arg(cluster.data())
                .args(args),
        )
    };
    let failing = status(&["--check"]);
    assert_eq!(failing.code, Some(1));
    let json: serde_json::Value = serde_json::from_str(&failing.stdout).expect("JSON");
    assert_eq!(json["sealed"], true);
    assert_eq!(json["suite"], "AES-XTS");
    assert_eq!(json["key_length"], 256);
    assert_eq!(json["format_version"], 1);
    assert_eq!(json["key_id"], KEY_ID);
    assert_eq!(json["key_check"]["result"], "fails");
    assert_eq!(json["server"]["state"], "stopped");
    assert_eq!(json["slots"][0]["command"], serde_json::Value::Null);
    let unasked = status(&[]);
    assert_eq!(unasked.code, Some(0));
    assert!(unasked.stdout.contains("\"not_tried\""));
    let shown: serde_json::Value = serde_json::from_str(&status(&["--show"]).stdout).expect("JSON");
    assert_eq!(shown["slots"][0]["command"]["line"], "exit 1");
    assert_eq!(shown["key_check"]["result"], "not_tried");
    let unsealed = tempfile::tempdir().expect("a directory");
    fs::create_dir(unsealed.path().join("global")).expect("a directory");
    fs::write(unsealed.path().join("global/pg_control"), [0; 8192]).expect("a file");
    let plain = Transcript::of(pgseal(&["status", "--json", "-D"]).arg(unsealed.path()));
    let json: serde_json::Value = serde_json::from_str(&plain.stdout).expect("JSON");
    assert_eq!(
        (plain.code, &json["sealed"]),
        (Some(4), &serde_json::Value::Bool(false))
    );
}
