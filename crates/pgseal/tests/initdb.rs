//! The wrapper of initdb: how a key is made, protected and committed, and what is refused. A script
//! plays initdb; the suites run the real one.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use common::programs::{told, Place};
use common::{command, payload, pgseal, plain, Cluster, Transcript, CAT};

#[test]
fn initdb_commits_a_key_file() {
    let place = Place::new();
    let transcript = place.initdb(&[
        "-D",
        "data",
        "--data-encryption=192",
        "--no-key-wrap",
        "-U",
        "-y",
    ]);
    assert_eq!(
        told(&transcript),
        ["args=-k -D data -U -y", "record=PGSEALHO"]
    );
    assert_eq!(transcript.code, Some(0));
    let dir = place.path("data/pg_encryption");
    let mode = |path: &std::path::Path| {
        fs::metadata(path).expect("it exists").permissions().mode() & 0o777
    };
    assert_eq!((mode(&dir), mode(&dir.join("key.bin"))), (0o700, 0o600));
    let mut names: Vec<_> = fs::read_dir(&dir)
        .expect("it exists")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["key.bin", "pgseal.toml"]);
    let status = Transcript::of(pgseal(&["status", "--check", "-D"]).arg(place.path("data")));
    for line in [
        "sealed:         yes",
        "key length:     192 bits",
        "key slot:       slot 1 (plain)",
        "unlock test:    ok, slot 1",
        "server:         not running",
    ] {
        assert!(
            status.stdout.lines().any(|shown| shown == line),
            "{line}: {}",
            status.stdout
        );
    }
}

#[test]
fn initdb_by_every_way() {
    let wrap = [
        "--key-wrap-command",
        "cat > %p",
        "--key-unwrap-command",
        CAT,
    ];
    for (args, kind) in [
        (&wrap[..], "slot 1 (command), from key.bin: cat \"%p\""),
        (
            &["--key-wrap-command=-", "--key-unwrap-command=-"],
            "slot 1 (plain)",
        ),
        (&["--key-passphrase-file=pass"], "slot 1 (passphrase)"),
        (
            &["-K", "echo 000102030405060708090a0b0c0d0e0f"],
            "slot 1 (command key), from key.bin: echo 000102030405060708090a0b0c0d0e0f",
        ),
    ] {
        let place = Place::new();
        fs::write(place.path("pass"), "long secret\n").expect("a file");
        let args: Vec<&str> = ["-D", "data", "-y"].iter().chain(args).copied().collect();
        assert_eq!(place.initdb(&args).code, Some(0), "{args:?}");
        let shown =
            Transcript::of(pgseal(&["key", "check", "--show", "-D"]).arg(place.path("data")));
        shown.prints(&format!("{kind}\n"));
        let check = Transcript::of(
            pgseal(&["key", "check", "-D"])
                .arg(place.path("data"))
                .env("PGSEAL_PASSPHRASE_FILE", place.path("pass")),
        );
        assert_eq!(check.code, Some(0), "{args:?} {check:?}");
    }
}

#[test]
fn a_key_command_decides_the_length() {
    let place = Place::new();
    let key = "echo 000102030405060708090a0b0c0d0e0f";
    let sentence = "--data-encryption=256, but the key is of 128 bits: leave the length out, or use a key of that length";
    place
        .initdb(&["-D", "data", "-y256", "-K", key])
        .refuses(2, sentence);
    assert_eq!(place.initdb(&["-D", "data", "-K", key]).code, Some(0));
    let status = Transcript::of(pgseal(&["status", "-D"]).arg(place.path("data")));
    assert!(
        status.stdout.contains("key length:     128 bits\n"),
        "{}",
        status.stdout
    );
}

#[test]
fn initdb_copies_a_key() {
    let place = Place::new();
    let source = Cluster::new([command("exit 1", &payload())]);
    let from = format!("--copy-key-from={}", source.key_bin_path().display());
    let sentence = "--copy-key-from copies the key with its protection: change that afterwards with `pgseal key rotate`";
    place
        .initdb(&["-D", "data", "-y", &from, "--no-key-wrap"])
        .refuses(2, sentence);
    let sentence = "--data-encryption=128, but the key is of 256 bits: leave the length out, or use a key of that length";
    place
        .initdb(&["-D", "data", "-y128", &from, "--key-unwrap-command", CAT])
        .refuses(2, sentence);
    let transcript = place.initdb(&["-D", "data", "-y", &from, "--key-unwrap-command", CAT]);
    assert_eq!(transcript.code, Some(0), "{transcript:?}");
    assert_eq!(
        fs::read(place.path("data/pg_encryption/key.bin")).expect("a key file"),
        source.key_bin()
    );
}

/// A new key is made only where there is no sealed cluster whose key is asked for.
#[test]
fn initdb_takes_the_key_of_another_cluster_if_there_is_one() {
    let source = Cluster::new([command(CAT, &payload())]);
    let same = format!("--same-key-as={}", source.data().display());
    let args = ["-D", "data", "-y128", "--no-key-wrap", &same];
    let theirs = source.key_bin();
    let made = |place: &Place| fs::read(place.path("data/pg_encryption/key.bin"));
    let place = Place::new();
    let transcript = place.initdb(&args);
    assert_eq!(
        told(&transcript),
        ["args=-k -D data", "record=PGSEALHO"],
        "{transcript:?}"
    );
    assert_eq!(made(&place).expect("a key file"), theirs);
    fs::remove_file(source.key_bin_path()).expect("removed");
    let place = Place::new();
    let transcript = place.initdb(&args);
    assert_eq!(transcript.code, Some(5), "{transcript:?}");
    assert!(made(&place).is_err());
    fs::remove_dir_all(source.data().join("pg_encryption")).expect("removed");
    let place = Place::new();
    let transcript = place.initdb(&args);
    assert_eq!(transcript.code, Some(0), "{transcript:?}");
    assert_ne!(made(&place).expect("a key file"), theirs);
}

/// As root, or for an option that it cannot use.
#[test]
fn what_initdb_refuses_is_said_before_a_key_is_made() {
    let place = Place::new();
    let wrap = format!("touch {}; cat > %p", place.path("asked").display());
    let args = [
        "-D",
        "data",
        "-y",
        "--key-wrap-command",
        &wrap,
        "--key-unwrap-command",
        CAT,
    ];
    let mut wrapper = place.wrapper("initdb", &args);
    let refused = Transcript::of(wrapper.env("REFUSAL", "cannot be run as root"));
    let said = "initdb: error: cannot be run as root\n";
    assert_eq!((refused.code, &*refused.stderr), (Some(1), said));
    assert!(!place.path("asked").exists() && !place.path("data").exists());
    assert_eq!(place.initdb(&args).code, Some(0));
    assert!(place.path("asked").exists());
}

#[test]
fn initdb_refuses_what_it_cannot_do() {
    let place = Place::new();
    let length = "is not a key length: use 128, 192 or 256";
    for (text, sentence) in [
        ("100", format!("100 {length}")),
        ("0", format!("0 {length}")),
        ("512", format!("512 {length}")),
        ("aes", format!("\"aes\" {length}")),
    ] {
        let option = format!("--data-encryption={text}");
        place
            .initdb(&["-D", "data", &option, "--no-key-wrap"])
            .refuses(2, &sentence);
    }
    let no_way = "choose how to protect the key: give --key-wrap-command and \
        --key-unwrap-command (or PGDATAKEYWRAPCMD and PGDATAKEYUNWRAPCMD), --key-provider, \
        --key-passphrase, -K, --key-file, or --no-key-wrap for tests";
    place.initdb(&["-D", "data", "-y"]).refuses(2, no_way);
    let half = "wrap and unwrap command go together: give both, or - for both to leave the key unprotected";
    place
        .initdb(&["-D", "data", "-y", "--key-wrap-command=cat > %p"])
        .refuses(2, half);
    place
        .initdb(&[
            "-D",
            "data",
            "-y",
            "--key-wrap-command=-",
            "--key-unwrap-command=cat %p",
        ])
        .refuses(2, half);
    let more = "--no-key-wrap leaves the key unprotected, so no other protection can be given";
    place
        .initdb(&[
            "-D",
            "data",
            "-y",
            "--no-key-wrap",
            "--key-passphrase-file=x",
        ])
        .refuses(2, more);
    let again = "the key cannot be unwrapped again: what was unwrapped is not a pgseal key: check the passphrase or command, or restore key.bin from a copy";
    place
        .initdb(&[
            "-D",
            "data",
            "-y",
            "--key-wrap-command=cat > %p",
            "--key-unwrap-command=rev %p",
        ])
        .refuses(7, again);
    place
        .initdb(&["-y", "data", "--key-wrap-command"])
        .refuses(2, "option --key-wrap-command needs a value");
    assert!(!place.path("data").exists());
}

/// Before anything is written, in clear or not.
#[test]
fn initdb_is_asked_first() {
    for (variable, value, sentence) in [
        ("VERSION", "14.23", "this is PostgreSQL 14.23, and pgseal encrypts clusters of 15, 16, 17, 18 and 19 only: use one of these, and move data there by pg_upgrade or pg_dump (of a sealed cluster after pgseal unseal)"),
        ("UNLOADED", "cannot be preloaded", "{} runs without libpgseal.so, so it would write in clear (ERROR: ld.so: cannot be preloaded: ignored.): see that this machine lets programs load the library"),
    ] {
        let place = Place::new();
        let args = ["-D", "data", "--data-encryption=256", "--no-key-wrap"];
        let mut wrapper = place.wrapper("initdb", &args);
        let sentence = sentence.replace("{}", &place.path("pg/initdb").display().to_string());
        Transcript::of(wrapper.env(variable, value)).refuses(8, &sentence);
        assert!(!place.path("data").exists());
    }
}

#[test]
fn a_failed_initdb_leaves_nothing_that_starts() {
    let place = Place::new();
    let args = ["-D", "data", "-y", "--no-key-wrap"];
    let in_clear = Transcript::of(place.wrapper("initdb", &args).env("CONTROL", "/dev/zero"));
    assert_eq!(in_clear.code, Some(8));
    let sentence = format!("pgseal: initdb left {} in clear, so the library was not at work, and the new directory was emptied: check that libpgseal.so can be loaded\n", place.path("data/global/pg_control").display());
    assert_eq!(in_clear.stderr, sentence);
    assert!(!place.path("data").exists());
    let failed = Transcript::of(place.wrapper("initdb", &args).env("STATUS", "7"));
    assert_eq!(failed.code, Some(7));
    assert!(!place.path("data/pg_encryption").exists());
}

/// The library hides `pg_encryption/`, so the real initdb would take such a directory for empty.
#[test]
fn initdb_never_overwrites_a_key() {
    let place = Place::new();
    let cluster = Cluster::new([plain()]);
    let before = cluster.key_bin();
    let data = cluster.data();
    let args = ["-D", data.to_str().expect("UTF-8"), "-y", "--no-key-wrap"];
    let sentence = format!(
        "{} exists, and initdb never overwrites a key: choose an empty directory",
        data.join("pg_encryption").display()
    );
    place.initdb(&args).refuses(2, &sentence);
    assert_eq!(cluster.key_bin(), before);
}

#[test]
fn a_key_file_goes_with_the_cluster_that_was_not_made() {
    let place = Place::new();
    let key_file = place.path("pg.key");
    let option = format!("--key-file={}", key_file.display());
    let args = ["-D", "data", "-y", &option];
    let failed = Transcript::of(place.wrapper("initdb", &args).env("STATUS", "7"));
    assert_eq!(failed.code, Some(7));
    assert!(!key_file.exists());
    fs::remove_dir_all(place.path("data")).expect("what the failed initdb left");
    assert_eq!(place.initdb(&args).code, Some(0));
    let check = Transcript::of(pgseal(&["key", "check", "-D"]).arg(place.path("data")));
    assert_eq!(check.code, Some(0), "{check:?}");
    assert!(key_file.exists());
}

#[test]
fn initdb_options_of_the_environment() {
    let place = Place::new();
    let sealed = Transcript::of(place.wrapper("initdb", &["-D", "data"]).env(
        "PGSEAL_INITDB_OPTIONS",
        "--data-encryption=128 --no-key-wrap --auth='trust'",
    ));
    assert_eq!(
        told(&sealed),
        ["args=-k --auth=trust -D data", "record=PGSEALHO"]
    );
    let open = Transcript::of(
        place
            .wrapper("initdb", &["-D", "data"])
            .env("PGSEAL_INITDB_OPTIONS", "--auth='trust"),
    );
    open.refuses(2, "PGSEAL_INITDB_OPTIONS has an open quote: close it");
}

#[test]
fn initdb_leaves_an_unsealed_cluster_alone() {
    let place = Place::new();
    let transcript = place.initdb(&["-D", "data"]);
    assert_eq!(transcript.stdout, "args=-D data\nrecord=\n");
    assert!(!place.path("data/pg_encryption").exists());
}

#[test]
fn initdb_tells_about_itself_and_us() {
    let place = Place::new();
    let help = place.initdb(&["--help"]);
    assert!(help.stdout.starts_with("initdb initializes\n\nOptions of pgseal for a sealed cluster:\n  -y, --data-encryption[=128|192|256]\n"), "{}", help.stdout);
    assert!(help.stdout.lines().all(|line| line.len() <= 80));
    place.initdb(&["--version"]).prints(&format!(
        "initdb (PostgreSQL) 15.1\npgseal {}\n",
        env!("CARGO_PKG_VERSION")
    ));
}

/// As PostgreSQL's own, which says then that it was given no directory.
#[test]
fn an_empty_pgdata_names_no_directory() {
    let place = Place::new();
    let mut wrapper = place.wrapper("initdb", &["-y", "--no-key-wrap"]);
    let transcript = Transcript::of(wrapper.env("PGDATA", ""));
    assert_eq!(transcript.stdout, "args=\nrecord=\n", "{transcript:?}");
    assert!(!transcript.stderr.contains("pgseal:"), "{transcript:?}");
}

#[test]
fn checksums_can_be_declined() {
    let place = Place::new();
    let transcript = place.initdb(&["-D", "data", "-y", "--no-key-wrap", "--no-data-checksums"]);
    assert_eq!(told(&transcript), ["args=-D data", "record=PGSEALHO"]);
}

/// A way to protect a key without `-y` would make a plain cluster for who wants a sealed one.
#[test]
fn initdb_does_not_drop_the_options_of_a_sealed_cluster() {
    for option in [
        "--no-key-wrap",
        "--key-wrap-command=cat > %p",
        "--key-passphrase",
    ] {
        let place = Place::new();
        let name = option.split('=').next().expect("a name");
        place.initdb(&["-D", "data", option]).refuses(
            2,
            &format!("{name} is for a sealed cluster: add --data-encryption"),
        );
        assert!(!place.path("data").exists());
    }
}

/// Options that cannot be read are not options that are not there.
#[test]
fn default_options_that_are_not_text() {
    let place = Place::new();
    let bytes = b"--data-encryption=256 --no-key-wrap --label=\xfc";
    let mut wrapper = place.wrapper("initdb", &["-D", "data"]);
    wrapper.env("PGSEAL_INITDB_OPTIONS", OsStr::from_bytes(bytes));
    let sentence = "PGSEAL_INITDB_OPTIONS is not UTF-8: write it so, or give the options to initdb";
    Transcript::of(&mut wrapper).refuses(2, sentence);
    assert!(!place.path("data").exists());
}

#[test]
fn commands_that_are_not_text() {
    let place = Place::new();
    for variable in ["PGDATAKEYWRAPCMD", "PGDATAKEYUNWRAPCMD"] {
        let mut wrapper = place.wrapper("initdb", &["-D", "data", "--data-encryption"]);
        wrapper.envs([
            ("PGDATAKEYWRAPCMD", "cat >%p"),
            ("PGDATAKEYUNWRAPCMD", "cat %p"),
        ]);
        wrapper.env(variable, OsStr::from_bytes(b"cat %p\xfc"));
        let rest = "is not UTF-8: write it so, or give the option that it replaces";
        Transcript::of(&mut wrapper).refuses(2, &format!("{variable} {rest}"));
        assert!(!place.path("data").exists());
    }
}

/// pg_ctl starts our initdb, which would not see them.
#[test]
fn pg_ctl_initdb_does_not_drop_our_options() {
    let place = Place::new();
    for (option, name) in [
        ("-K", "encryption-key-command"),
        ("--key-unwrap-command", "key-unwrap-command"),
    ] {
        for word in ["init", "initdb"] {
            let refused =
                Transcript::of(&mut place.wrapper("pg_ctl", &[word, "-D", "data", option, "true"]));
            let sentence = format!(
                "--{name} does not reach initdb from here: give it in -o, with --data-encryption"
            );
            refused.refuses(2, &sentence);
            let mut elsewhere = place.wrapper("pg_ctl", &["-D", word, "stop", option, "true"]);
            assert_eq!(
                Transcript::of(&mut elsewhere).code,
                Some(42),
                "a name, no action"
            );
        }
    }
}

/// A mode that lets a group read a cluster lets it read the key file, whatever the operator's
/// umask.
#[test]
fn group_access_is_the_clusters() {
    let place = Place::new();
    fs::create_dir(place.path("data")).expect("a directory");
    fs::set_permissions(place.path("data"), fs::Permissions::from_mode(0o750)).expect("a mode");
    let mut under = std::process::Command::new("sh");
    let wrapper = place.wrapper(
        "initdb",
        &["-D", "data", "--data-encryption=256", "--no-key-wrap"],
    );
    under.args(["-c", "umask 077; exec \"$0\" \"$@\""]);
    under.arg(wrapper.get_program()).args(wrapper.get_args());
    under.envs(
        wrapper
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    under.current_dir(place.tmp.path());
    assert_eq!(Transcript::of(&mut under).code, Some(0));
    let mode = |name: &str| {
        let path = place.path("data/pg_encryption").join(name);
        fs::metadata(path).expect("it exists").permissions().mode() & 0o777
    };
    assert_eq!(
        (mode(""), mode("key.bin"), mode("pgseal.toml")),
        (0o750, 0o640, 0o640)
    );
    let rotate = "umask 077; exec \"$0\" key rotate -D \"$1\" --new-plain";
    let mut rotated = std::process::Command::new("sh");
    rotated
        .args(["-c", rotate])
        .arg(pgseal(&[]).get_program())
        .arg(place.path("data"));
    assert_eq!(Transcript::of(&mut rotated).code, Some(0));
    assert_eq!(mode("key.bin"), 0o640);
}
