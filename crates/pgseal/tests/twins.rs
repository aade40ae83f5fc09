//! The twins: which program is started how, with which keys, and when it is refused. PostgreSQL's
//! programs are played by scripts that tell what they were given; the suites run the real ones.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use common::{command, payload, pgseal, plain, script, Cluster, Transcript, CAT, KEY_ID};

/// Tells its name, arguments, keys and environment.
const TELLING: &str = r#"#!/bin/sh
echo "argv0=$0"
for arg; do echo "arg=$arg"; done
[ -n "$PGSEAL_KEYS_FD" ] && echo "record=$(head -c 8 /proc/self/fd/$PGSEAL_KEYS_FD)"
case $LD_PRELOAD in
/*libpgseal.so:*|/*libpgseal.so|/*/libc.so.6*) echo preloaded ;;
*) echo "LD_PRELOAD=$LD_PRELOAD" ;;
esac
echo "unwrap=$PGDATAKEYUNWRAPCMD"
exit 42
"#;

/// Makes a control file that could be sealed, and tells what it was given.
const INITDB: &str = r#"#!/bin/sh
for arg; do case $arg in
--help) echo "initdb initializes"; exit ;;
--version) echo "initdb (PostgreSQL) 15.1"; exit ;;
esac; done
echo "args=$*"
echo "record=$(head -c 8 /proc/self/fd/$PGSEAL_KEYS_FD)"
mkdir -p data/global && echo 15 > data/PG_VERSION
head -c 8192 ${CONTROL:-/dev/urandom} > data/global/pg_control
exit ${STATUS:-0}
"#;

/// A directory with PostgreSQL's "programs" and a place for data.
struct Place {
    tmp: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            tmp: tempfile::tempdir().expect("a directory"),
        };
        fs::create_dir(place.path("pg")).expect("a directory");
        for name in ["postgres", "psql", "pg_ctl", "pg_waldump", "pg_rewind"] {
            script(&place.path("pg").join(name), TELLING);
        }
        script(&place.path("pg/initdb"), INITDB);
        let config = format!("#!/bin/sh\necho {}\n", place.path("pg").display());
        script(&place.path("pg/pg_config"), &config);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.tmp
            .path()
            .canonicalize()
            .expect("it exists")
            .join(name)
    }

    fn twin(&self, name: &str, args: &[&str]) -> Command {
        let mut twin = with_library(pgseal(&["twin", "--pg"]));
        twin.arg(self.path("pg"))
            .args(["--argv0", "/twins/it", "--", name])
            .args(args);
        twin.current_dir(self.tmp.path());
        twin
    }

    fn initdb(&self, args: &[&str]) -> Transcript {
        Transcript::of(&mut self.twin("initdb", args))
    }
}

/// Any shared library will do where the programs are scripts.
fn with_library(mut command: Command) -> Command {
    let maps = fs::read_to_string("/proc/self/maps").expect("/proc");
    let libc = maps
        .lines()
        .find_map(|line| Some(&line[line.find("/")?..]).filter(|path| path.ends_with("libc.so.6")));
    command.env("PGSEAL_LIBRARY", libc.expect("this test uses glibc"));
    command
}

fn told(transcript: &Transcript) -> Vec<&str> {
    assert_eq!(transcript.stderr, "");
    transcript.stdout.lines().collect()
}

#[test]
fn the_server_gets_its_key_and_loses_its_commands() {
    let place = Place::new();
    let cluster = Cluster::new([command("exit 1", &payload())]);
    let data = cluster.data();
    let mut twin = place.twin(
        "postgres",
        &["-D", data.to_str().expect("UTF-8"), "-c", "a=b"],
    );
    let transcript = Transcript::of(twin.env("PGDATAKEYUNWRAPCMD", CAT));
    assert_eq!(transcript.code, Some(42));
    let data = format!("arg={}", data.display());
    let program = format!("argv0={}", place.path("pg/postgres").display());
    let expected = [
        &program,
        "arg=-D",
        &data,
        "arg=-c",
        "arg=a=b",
        "record=PGSEALHO",
        "preloaded",
        "unwrap=",
    ];
    assert_eq!(told(&transcript), expected);
}

#[test]
fn every_spelling_of_a_data_directory_is_found() {
    let place = Place::new();
    let cluster = Cluster::new([plain()]);
    let data = cluster.data().to_str().expect("UTF-8").to_owned();
    for args in [
        vec!["-D".to_owned(), data.clone()],
        vec![format!("-D{data}")],
        vec![format!("--pgdata={data}")],
        vec![format!("{data}/pg_wal/000000010000000000000001")],
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let transcript = Transcript::of(&mut place.twin("pg_rewind", &args));
        assert!(told(&transcript).contains(&"record=PGSEALHO"), "{args:?}");
    }
    let by_variable = Transcript::of(place.twin("postgres", &[]).env("PGDATA", &data));
    assert!(told(&by_variable).contains(&"record=PGSEALHO"));
    let inside = Transcript::of(place.twin("postgres", &["-D", "."]).current_dir(&data));
    assert!(told(&inside).contains(&"record=PGSEALHO"));
}

#[test]
fn clients_and_questions_need_no_key() {
    let place = Place::new();
    let cluster = Cluster::new([command("exit 1", b"x")]);
    let data = cluster.data().to_str().expect("UTF-8").to_owned();
    for (name, args) in [
        ("psql", vec!["-d", &data]),
        ("pg_ctl", vec!["-D", &data, "stop"]),
        ("postgres", vec!["--version"]),
        ("postgres", vec!["-D", &data, "-C", "port"]),
    ] {
        let transcript = Transcript::of(place.twin(name, &args).env("PGDATA", &data));
        let told = told(&transcript);
        assert!(
            told.contains(&"preloaded") && !told.contains(&"record=PGSEALHO"),
            "{name} {told:?}"
        );
    }
}

#[test]
fn a_cluster_that_stays_locked_starts_nothing() {
    let place = Place::new();
    let cluster = Cluster::new([command("exit 1", b"x")]);
    let data = cluster.data().to_str().expect("UTF-8").to_owned();
    let sentence = format!(
        "{}: the unwrap command failed with exit status 1: run it by hand to see why",
        cluster.key_bin_path().display()
    );
    for (name, args) in [
        ("postgres", vec!["-D", &data]),
        ("pg_ctl", vec!["-D", &data, "start"]),
        ("pg_waldump", vec!["-p", &data]),
    ] {
        Transcript::of(&mut place.twin(name, &args)).refuses(6, &sentence);
    }
}

#[test]
fn options_of_other_products() {
    let place = Place::new();
    let cluster = Cluster::new([command("exit 1", &payload())]);
    let data = cluster.data().to_str().expect("UTF-8").to_owned();
    let key_bin = cluster.key_bin_path().to_str().expect("UTF-8").to_owned();
    let args = [
        "-p",
        &data,
        "--data-encryption",
        "--key-file-name",
        &key_bin,
        "--key-unwrap-command",
        CAT,
        "-n",
        "1",
    ];
    let transcript = Transcript::of(&mut place.twin("pg_waldump", &args));
    let program = format!("argv0={}", place.path("pg/pg_waldump").display());
    let data = format!("arg={data}");
    let expected = [
        &program,
        "arg=-p",
        &data,
        "arg=-n",
        "arg=1",
        "record=PGSEALHO",
        "preloaded",
        "unwrap=",
    ];
    assert_eq!(told(&transcript), expected);
}

#[test]
fn the_pin() {
    let place = Place::new();
    let sealed = Cluster::new([plain()]);
    let start = |data: &std::path::Path, pin: &str| {
        let args = ["-D", data.to_str().expect("UTF-8")];
        Transcript::of(place.twin("postgres", &args).env("PGSEAL_EXPECT_KEY", pin))
    };
    assert_eq!(start(&sealed.data(), KEY_ID).code, Some(42));
    let other = "00000000000000000000000000000000";
    let sentence = format!("{} has key {KEY_ID}, not {other} as PGSEAL_EXPECT_KEY demands: somebody may have replaced the directory", sealed.data().display());
    start(&sealed.data(), other).refuses(7, &sentence);
    let unsealed = place.path("unsealed");
    fs::create_dir(&unsealed).expect("a directory");
    fs::write(unsealed.join("PG_VERSION"), "15\n").expect("a file");
    let sentence = format!("{} is not sealed, but PGSEAL_EXPECT_KEY demands a sealed cluster: somebody may have replaced the directory", unsealed.display());
    start(&unsealed, KEY_ID).refuses(7, &sentence);
    let sentence = "PGSEAL_EXPECT_KEY must be a key id of 32 hexadecimal digits, as `pgseal status` shows it, not \"xyz\"";
    start(&unsealed, "xyz").refuses(2, sentence);
    let sentence = "initdb would make a new key, but PGSEAL_EXPECT_KEY demands another: unset it, or copy the key with --copy-key-from";
    for args in [&["-D", "data", "-y", "--no-key-wrap"][..], &["-D", "data"]] {
        Transcript::of(place.twin("initdb", args).env("PGSEAL_EXPECT_KEY", KEY_ID))
            .refuses(7, sentence);
        assert!(!place.path("data").exists());
    }
}

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
    let status = Transcript::of(pgseal(&["status", "-D"]).arg(place.path("data")));
    for line in [
        "sealed:         yes",
        "key length:     192 bits",
        "opened by:      slot 1 (plain)",
        "key check:      opens through slot 1",
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
        fs::write(place.path("pass"), "secret\n").expect("a file");
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
    let status = Transcript::of(pgseal(&["status", "--no-check", "-D"]).arg(place.path("data")));
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
    let no_way = "a sealed cluster needs a way to protect its key: give --key-wrap-command and --key-unwrap-command (or PGDATAKEYWRAPCMD and PGDATAKEYUNWRAPCMD), --key-passphrase, -K, --key-file, or --no-key-wrap for tests";
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
    let more =
        "--no-key-wrap leaves the key unprotected, so no other way of protecting it can be given";
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

#[test]
fn a_failed_initdb_leaves_nothing_that_starts() {
    let place = Place::new();
    let args = ["-D", "data", "-y", "--no-key-wrap"];
    let in_clear = Transcript::of(place.twin("initdb", &args).env("CONTROL", "/dev/zero"));
    assert_eq!(in_clear.code, Some(8));
    let sentence = format!("pgseal: initdb left {} in clear, so the library was not at work, and the new directory was emptied: check that libpgseal.so can be loaded\n", place.path("data/global/pg_control").display());
    assert_eq!(in_clear.stderr, sentence);
    assert!(!place.path("data").exists());
    let failed = Transcript::of(place.twin("initdb", &args).env("STATUS", "7"));
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
    let failed = Transcript::of(place.twin("initdb", &args).env("STATUS", "7"));
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
    let sealed = Transcript::of(place.twin("initdb", &["-D", "data"]).env(
        "PGSEAL_INITDB_OPTIONS",
        "--data-encryption=128 --no-key-wrap --auth='trust'",
    ));
    assert_eq!(
        told(&sealed),
        ["args=-k --auth=trust -D data", "record=PGSEALHO"]
    );
    let open = Transcript::of(
        place
            .twin("initdb", &["-D", "data"])
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

#[test]
fn checksums_can_be_declined() {
    let place = Place::new();
    let transcript = place.initdb(&["-D", "data", "-y", "--no-key-wrap", "--no-data-checksums"]);
    assert_eq!(told(&transcript), ["args=-D data", "record=PGSEALHO"]);
}

#[test]
fn programs_that_drop_the_library_are_not_started() {
    let place = Place::new();
    let program = place.path("pg/psql");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("a mode");
    let sentence = format!(
        "{} is set-uid or set-gid, which drops the library: use a copy without",
        program.display()
    );
    Transcript::of(&mut place.twin("psql", &[])).refuses(8, &sentence);
    fs::remove_file(&program).expect("it was there");
    let sentence = format!("{} cannot be started (No such file or directory (os error 2)): check that it is there and executable", program.display());
    Transcript::of(&mut place.twin("psql", &[])).refuses(3, &sentence);
}

/// A copy of the command with nothing, or with rubbish, where its library should be.
#[test]
fn a_library_that_is_missing_or_none() {
    let place = Place::new();
    fs::create_dir_all(place.path("dist/bin")).expect("a directory");
    fs::create_dir_all(place.path("dist/lib")).expect("a directory");
    let copy = place.path("dist/bin/pgseal");
    fs::copy(env!("CARGO_BIN_EXE_pgseal"), &copy).expect("a copy");
    let run = || {
        Transcript::of(
            Command::new(&copy)
                .args(["exec", "--", "true"])
                .env_remove("PGSEAL_LIBRARY"),
        )
    };
    let sentence = format!(
        "libpgseal.so is not beside pgseal ({}): install it in ../lib, or set PGSEAL_LIBRARY",
        place.path("dist/bin").display()
    );
    run().refuses(8, &sentence);
    let library = place.path("dist/lib/libpgseal.so");
    for text in ["", "not a library at all, but more than twenty bytes"] {
        fs::write(&library, text).expect("a file");
        let sentence = format!(
            "{} is not a shared library of this machine: install pgseal again",
            library.display()
        );
        run().refuses(8, &sentence);
    }
}

#[test]
fn bindir() {
    let place = Place::new();
    let make = |into: &str| {
        let mut make = with_library(pgseal(&["bindir", "--pg"]));
        Transcript::of(
            make.arg(place.path("pg"))
                .arg("--into")
                .arg(place.path(into)),
        )
    };
    make("it's").prints(&format!("7 twins in {}\n", place.path("it's").display()));
    let twin = place.path("it's/psql");
    let transcript = Transcript::of(with_library(Command::new(&twin)).args(["-c", "select 1"]));
    assert_eq!(transcript.code, Some(42), "{transcript:?}");
    let program = format!("argv0={}", place.path("pg/psql").display());
    assert_eq!(
        told(&transcript)[..3],
        [program.as_str(), "arg=-c", "arg=select 1"]
    );
    let own = format!(
        "{} holds PostgreSQL's own programs: choose another directory with --into",
        place.path("pg").display()
    );
    make("pg").refuses(2, &own);
    script(
        &place.path("pg/pg_config"),
        "#!/bin/sh\necho /nowhere/share\n",
    );
    let sentence = format!("from {} PostgreSQL looks for its files in /nowhere/share, which does not exist: choose a directory whose last names differ from {}", place.path("other").display(), place.path("pg").display());
    make("other").refuses(8, &sentence);
}

/// As the library calls it; the unwrap command does not get the descriptor for the key.
#[test]
fn the_library_is_handed_a_key() {
    let unwrap = "ls -l /proc/self/fd > %D/open; cat \"%p\"";
    let cluster = Cluster::new([command(unwrap, &payload())]);
    let record = cluster.write_beside("record", "");
    let mut asking = Command::new("sh");
    asking.args(["-c", r#"exec "$1" unlock --fd 9 --root "$2" 9>"$3""#, "sh"]);
    asking
        .arg(env!("CARGO_BIN_EXE_pgseal"))
        .arg(cluster.data())
        .arg(&record);
    Transcript::of(&mut asking).prints("");
    let record = fs::read(record).expect("it was made");
    let entries: Vec<_> = pgseal_format::handover::decode(&record)
        .expect("a record")
        .collect();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        entries[0].root,
        cluster.data().to_str().expect("UTF-8").as_bytes()
    );
    assert_eq!(entries[0].master, common::master().expose());
    let open = fs::read_to_string(cluster.data().join("open")).expect("the command wrote it");
    assert!(
        open.contains("memfd:pgseal") && !open.contains("/record"),
        "{open}"
    );
}

#[test]
fn exec_runs_one_program_sealed() {
    let place = Place::new();
    let cluster = Cluster::new([plain()]);
    let mut exec = with_library(pgseal(&["exec", "-D"]));
    exec.arg(cluster.data())
        .arg("--")
        .arg(place.path("pg/psql"))
        .arg("--flag");
    let transcript = Transcript::of(&mut exec);
    assert_eq!(transcript.code, Some(42));
    let program = format!("argv0={}", place.path("pg/psql").display());
    assert_eq!(
        told(&transcript),
        [
            &program,
            "arg=--flag",
            "record=PGSEALHO",
            "preloaded",
            "unwrap="
        ]
    );
    let missing = Transcript::of(&mut with_library(pgseal(&[
        "exec",
        "--",
        "no-such-program",
    ])));
    missing.refuses(3, "no-such-program cannot be started (entity not found): check that it is there and executable");
}
