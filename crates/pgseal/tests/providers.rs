//! Providers that fail: commands, passphrases, key commands, files. Each is refused with its code
//! and one sentence, soon enough, and leaves nothing running.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{
    command, header, master, payload, pgseal, plain, running_in_group, Cluster, Transcript, CAT,
    KEY_ID,
};
use nix::pty::{openpty, OpenptyResult};
use nix::sys::termios::{tcgetattr, LocalFlags};
use pgseal_crypto::passphrase::Argon2Params;
use pgseal_format::{Cost, SecretSource, SlotKind};
use pgseal_keys::seal_derived;

fn opens(slot: u8) -> String {
    format!("key {KEY_ID} opens through slot {slot}\n")
}

fn derived(source: SecretSource, secret: &[u8]) -> SlotKind {
    // As cheap as can be read; what is written is dearer.
    let params = Argon2Params::for_reading(64, 1, 1).expect("within the limits");
    let cost = Cost::Argon2id(params);
    seal_derived(&header(), &master(), source, cost, secret).expect("a slot")
}

#[track_caller]
fn slot_refuses(kind: SlotKind, code: i32, sentence: &str) {
    let cluster = Cluster::new([kind]);
    let path = cluster.key_bin_path();
    cluster
        .check()
        .refuses(code, &format!("{}: {sentence}", path.display()));
}

#[track_caller]
fn command_refuses(unwrap: &str, code: i32, sentence: &str) {
    slot_refuses(command(unwrap, b"wrapped"), code, sentence);
}

#[test]
fn a_command_opens() {
    Cluster::new([command(CAT, &payload())])
        .check()
        .prints(&opens(1));
}

#[test]
fn a_command_sees_its_placeholders_and_directory() {
    let line = r#"test "$PWD" = "%D" && test "%%" = "$(printf '\045')" && cat "%p""#;
    Cluster::new([command(line, &payload())])
        .check()
        .prints(&opens(1));
}

#[test]
fn a_command_that_is_missing() {
    let cluster = Cluster::new([command("no-such-unwrapper %p", b"wrapped")]);
    let sentence = format!(
        "{}: the unwrap command was not found: check its spelling and PATH",
        cluster.key_bin_path().display()
    );
    let said = "sh: 1: no-such-unwrapper: not found\n";
    cluster.check().refuses_after(said, 6, &sentence);
}

#[test]
fn a_command_that_fails() {
    command_refuses(
        "exit 3",
        6,
        "the unwrap command failed with exit status 3: run it by hand to see why",
    );
    command_refuses(
        "kill -TERM $$",
        6,
        "the unwrap command was ended by signal 15: run it by hand to see why",
    );
    let cluster = Cluster::new([command("cat %p; exit 1", &payload())]);
    let sentence = format!(
        "{}: the unwrap command failed with exit status 1: run it by hand to see why",
        cluster.key_bin_path().display()
    );
    cluster.check().refuses(6, &sentence);
}

#[test]
fn what_a_command_says_is_passed_on() {
    let cluster = Cluster::new([command("echo no credentials >&2; exit 1", b"wrapped")]);
    let sentence = format!(
        "{}: the unwrap command failed with exit status 1: run it by hand to see why",
        cluster.key_bin_path().display()
    );
    cluster
        .check()
        .refuses_after("no credentials\n", 6, &sentence);
}

#[test]
fn a_command_that_prints_nothing() {
    command_refuses(
        "true",
        6,
        "the unwrap command printed nothing: run it by hand to see why",
    );
}

#[test]
fn a_command_that_prints_too_much() {
    let sentence = "the unwrap command printed more than a key (over 1024 bytes): check that it prints nothing else";
    command_refuses("yes", 6, sentence);
    command_refuses("cat /dev/zero", 6, sentence);
}

#[test]
fn a_command_that_prints_something_else() {
    let sentence = "what was unwrapped is not a pgseal key: check the passphrase or command, or restore key.bin from a copy";
    command_refuses("echo Enter passphrase:", 7, sentence);
    command_refuses("cat %p %p", 7, sentence);
    command_refuses("echo; cat %p", 7, sentence);
}

/// The command ignores signals, has children, and holds our pipe: all of it must be gone.
#[test]
fn a_command_that_hangs() {
    let cluster = Cluster::new([command(
        "trap '' TERM INT HUP; echo $$ > %D/pid; sleep 977 & sleep 977; sleep 977",
        b"wrapped",
    )]);
    let start = Instant::now();
    let transcript = Transcript::of(cluster.key("check", &[]).env("PGSEAL_COMMAND_TIMEOUT", "5"));
    let sentence = format!(
        "{}: the unwrap command did not finish within 5 seconds and was \
        killed: fix it, or raise PGSEAL_COMMAND_TIMEOUT",
        cluster.key_bin_path().display()
    );
    transcript.refuses(6, &sentence);
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
    let group = fs::read_to_string(cluster.data().join("pid")).expect("the shell wrote it");
    // Killed by a signal that nothing can ignore; each dies when it next gets a processor.
    while !running_in_group(group.trim()).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "some live on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_time_limit_that_is_none() {
    let cluster = Cluster::new([command(CAT, &payload())]);
    for value in ["0", "-1", "abc", "", "86401"] {
        let transcript = Transcript::of(
            cluster
                .key("check", &[])
                .env("PGSEAL_COMMAND_TIMEOUT", value),
        );
        let sentence = format!(
            "{}: PGSEAL_COMMAND_TIMEOUT must be a number of seconds from 1 to 86400",
            cluster.key_bin_path().display()
        );
        transcript.refuses(2, &sentence);
    }
}

#[test]
fn the_order_of_commands() {
    let cluster = Cluster::new([command("exit 3", &payload())]);
    let given = Transcript::of(
        cluster
            .key("check", &["--key-unwrap-command", CAT])
            .env("PGDATAKEYUNWRAPCMD", "exit 4"),
    );
    given.prints(&opens(1));
    Transcript::of(cluster.key("check", &[]).env("PGDATAKEYUNWRAPCMD", CAT)).prints(&opens(1));
    for none in ["", "-"] {
        let stored = Transcript::of(cluster.key("check", &[]).env("PGDATAKEYUNWRAPCMD", none));
        assert_eq!(stored.code, Some(6), "{stored:?}");
    }
}

#[test]
fn a_command_is_shown_and_not_run() {
    let cluster = Cluster::new([
        command("touch %D/ran; printf '\u{1b}[2J'", b"wrapped"),
        plain(),
    ]);
    let shown = Transcript::of(&mut cluster.key("check", &["--show"]));
    shown.prints(
        "slot 1 (command), from key.bin: touch %D/ran; printf '\\u{1b}[2J'\nslot 2 (plain)\n",
    );
    let data = cluster.data();
    let status = Transcript::of(pgseal(&["status", "--show", "-D"]).arg(&data));
    assert_eq!(status.code, Some(0), "{status:?}");
    assert!(status
        .stdout
        .contains("key slot:       slot 1 (command), from key.bin: touch"));
    assert!(!data.join("ran").exists());
}

#[test]
fn passphrases() {
    let cluster = Cluster::new([derived(SecretSource::Passphrase, b"right")]);
    let right = cluster.write_beside("right", "right\n");
    let check = |args: &[&str]| Transcript::of(&mut cluster.key("check", args));
    check(&["--passphrase-file", right.to_str().expect("UTF-8")]).prints(&opens(1));
    let set = Transcript::of(
        cluster
            .key("check", &[])
            .env("PGSEAL_PASSPHRASE_FILE", &right),
    );
    set.prints(&opens(1));
    let piped = fs::File::open(&right).expect("a file");
    Transcript::of(cluster.key("check", &["--passphrase-fd", "0"]).stdin(piped)).prints(&opens(1));
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    (&ours).write_all(b"right\n").expect("it takes some");
    drop(ours);
    let mut through_a_socket = cluster.key("check", &["--passphrase-fd", "0"]);
    Transcript::of(through_a_socket.stdin(OwnedFd::from(theirs))).prints(&opens(1));

    let path = cluster.key_bin_path();
    let path = path.display();
    let wrong = cluster.write_beside("wrong", "wrong\n");
    let sentence = format!("{path}: wrong passphrase, or the key file was altered: try again, or restore the key file from a copy");
    check(&["--passphrase-file", wrong.to_str().expect("UTF-8")]).refuses(7, &sentence);
    let empty = cluster.write_beside("empty", "\n");
    check(&["--passphrase-file", empty.to_str().expect("UTF-8")])
        .refuses(6, &format!("{path}: the passphrase is empty: give one"));
    let long = cluster.write_beside("long", &"x".repeat(4097));
    check(&["--passphrase-file", long.to_str().expect("UTF-8")]).refuses(
        6,
        &format!("{path}: the passphrase is longer than 4096 bytes: give a shorter one"),
    );
    let sentence = format!("{path}: the passphrase file /nowhere cannot be read (No such file or directory): check its path, owner and mode");
    check(&["--passphrase-file", "/nowhere"]).refuses(6, &sentence);
}

#[test]
fn no_terminal_to_ask_for_the_passphrase() {
    let cluster = Cluster::new([derived(SecretSource::Passphrase, b"right")]);
    let check = cluster.key("check", &[]);
    let mut detached = Command::new("setsid");
    detached
        .arg("--wait")
        .arg(check.get_program())
        .args(check.get_args())
        .env_clear()
        .stdin(Stdio::null());
    let sentence = format!(
        "{}: no passphrase is set, and there is no terminal to prompt on: set \
        PGSEAL_PASSPHRASE_FILE, or name a file with --passphrase-file",
        cluster.key_bin_path().display()
    );
    Transcript::of(&mut detached).refuses(6, &sentence);
}

/// A pipe can be read once: its content serves every slot, also in the second look that `--all`
/// takes.
#[test]
fn a_passphrase_from_a_pipe_is_tried_at_every_slot() {
    let passphrase = |secret| derived(SecretSource::Passphrase, secret);
    let check = |slots, more: &[&str]| {
        let cluster = Cluster::new(slots);
        let (input, mut output) = std::io::pipe().expect("a pipe");
        output.write_all(b"right\n").expect("it takes some");
        drop(output);
        let options = [&["--passphrase-fd", "0"], more].concat();
        Transcript::of(cluster.key("check", &options).stdin(input))
    };
    check([passphrase(b"other"), passphrase(b"right")], &[]).prints(&opens(2));
    let all = "slot 1 (passphrase): opens\nslot 2 (passphrase): opens\n";
    check([passphrase(b"right"), passphrase(b"right")], &["--all"]).prints(&(opens(1) + all));
}

/// The terminal does not show what is typed at the prompt; whatever ends the prompt, it shows
/// again what is typed after it.
#[test]
fn the_terminal_is_asked() {
    let cluster = Cluster::new([derived(SecretSource::Passphrase, b"right")]);
    let at = cluster.key_bin_path();
    let typing = |typed: &[u8]| at_a_terminal(&cluster.key("check", &[]), typed);
    let prompt = format!("Passphrase for {} (slot 1): ", cluster.data().display());
    let ends = |code: i32, said: &str| (Some(code), None, format!("{prompt}{said}"));
    let good = format!("\r\n{}\r\n", opens(1).trim_end());
    assert_eq!(typing(b"right\n"), ends(0, &good));
    let sentence = "no passphrase was typed: try again";
    let nothing = format!("pgseal: {}: {sentence}\r\n", at.display());
    assert_eq!(typing(b"\x04"), ends(6, &nothing));
    assert_eq!(typing(b"\x03"), (None, Some(2), prompt));
}

/// The code or signal that a command ends with when this is typed at its first prompt, and what it
/// said. It has a terminal of its own, which shows what is typed before and after, and no signal is
/// ignored, as all that a shell or nohup keeps from this test would be.
fn at_a_terminal(command: &Command, typed: &[u8]) -> (Option<i32>, Option<i32>, String) {
    let OpenptyResult { master, slave } = openpty(None, None).expect("a terminal");
    let echoes = || {
        let flags = tcgetattr(&master).expect("a terminal").local_flags;
        flags.contains(LocalFlags::ECHO)
    };
    let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
    let mut child = Command::new("setsid")
        .args(["--ctty", "env", "--default-signal"])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .expect("it starts");
    let mut terminal = fs::File::from(master.try_clone().expect("a descriptor"));
    let mut said = Vec::new();
    while !said.ends_with(b": ") {
        said.push(0);
        let last = said.len() - 1;
        terminal.read_exact(&mut said[last..]).expect("a prompt");
    }
    assert!(!echoes());
    terminal.write_all(typed).expect("it waits");
    let status = child.wait().expect("it ends");
    assert!(echoes());
    drop(slave);
    // With nobody at the other end, the terminal's end is an error.
    let _ = terminal.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said).into_owned();
    (status.code(), status.signal(), said)
}

#[test]
fn key_commands() {
    let key = [0xab; 16];
    let source = |line: &str| SecretSource::Command(line.into());
    let printing = "printf ABABababABABababABABababABABabab";
    Cluster::new([derived(source(printing), &key)])
        .check()
        .prints(&opens(1));
    let wrong = "wrong passphrase, or the key file was altered: try again, or restore the key file from a copy";
    slot_refuses(derived(source(printing), &[0xac; 16]), 7, wrong);
    let sentence = "the key command must print a key of 128, 192 or 256 bits as 32, 48 or 64 hexadecimal digits and nothing else";
    slot_refuses(derived(source("echo abc"), &key), 6, sentence);
    slot_refuses(derived(source("echo secret"), &key), 6, sentence);
    slot_refuses(
        derived(source("true"), &key),
        6,
        "the key command printed nothing: run it by hand to see why",
    );
}

#[test]
fn key_files() {
    let cluster = Cluster::new([plain()]);
    let path = cluster.beside("pg.key");
    fs::write(&path, &*payload()).expect("a file");
    let slot = || SlotKind::File {
        path: path.to_str().expect("UTF-8").as_bytes().to_vec(),
    };
    Cluster::new([slot()]).check().prints(&opens(1));
    fs::write(&path, b"something else").expect("a file");
    slot_refuses(slot(), 7, "what was unwrapped is not a pgseal key: check the passphrase or command, or restore key.bin from a copy");
    fs::remove_file(&path).expect("it was there");
    let sentence = format!("the file {} that holds the key cannot be read (No such file or directory): mount or restore it", path.display());
    slot_refuses(slot(), 6, &sentence);
}

#[test]
fn any_slot_opens_and_each_says_why_it_does_not() {
    let bad = || command("exit 3", b"wrapped");
    let cluster = Cluster::new([bad(), command(CAT, &payload())]);
    cluster.check().prints(&opens(2));
    let all = Transcript::of(&mut cluster.key("check", &["--all"]));
    assert_eq!(all.code, Some(1));
    assert_eq!(all.stdout, format!("{}slot 1 (command): the unwrap command failed with exit status 3: run it by hand to see why\nslot 2 (command): opens\n", opens(2)));
    assert_eq!(
        all.stderr,
        "pgseal: the key opens, but not through slot 1: the line of each says why\n"
    );
    slot_list_refuses([bad(), command("true", b"x")]);
}

fn slot_list_refuses(slots: [SlotKind; 2]) {
    let cluster = Cluster::new(slots);
    let sentence = format!("{}: no slot opens: slot 1: the unwrap command failed with exit status 3: run it by hand to see why; slot 2: the unwrap command printed nothing: run it by hand to see why", cluster.key_bin_path().display());
    cluster.check().refuses(6, &sentence);
}
