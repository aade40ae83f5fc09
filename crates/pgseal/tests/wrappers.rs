//! The wrappers: which program is started how, with which keys, and when it is refused. Scripts
//! play PostgreSQL's programs; the suites run the real ones.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use common::programs::{assert_runs, runner, told, with_library, Place};
use common::{
    alone, command, payload, pgseal, plain, program, script, Cluster, Transcript, CAT, KEY_ID,
};

#[test]
fn the_server_gets_its_key_and_loses_its_commands() {
    let place = Place::new();
    let cluster = Cluster::new([command("exit 1", &payload())]);
    let data = cluster.data();
    let mut wrapper = place.wrapper(
        "postgres",
        &["-D", data.to_str().expect("UTF-8"), "-c", "a=b"],
    );
    let transcript = Transcript::of(wrapper.env("PGDATAKEYUNWRAPCMD", CAT));
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
        let transcript = Transcript::of(&mut place.wrapper("pg_rewind", &args));
        assert!(told(&transcript).contains(&"record=PGSEALHO"), "{args:?}");
    }
    let by_variable = Transcript::of(place.wrapper("postgres", &[]).env("PGDATA", &data));
    assert!(told(&by_variable).contains(&"record=PGSEALHO"));
    let inside = Transcript::of(place.wrapper("postgres", &["-D", "."]).current_dir(&data));
    assert!(told(&inside).contains(&"record=PGSEALHO"));
}

#[test]
fn clients_and_questions_need_no_key() {
    let place = Place::new();
    let copied = fs::copy(place.path("pg/psql"), place.path("pg/pg_archivecleanup"));
    copied.expect("a program that prints how it was started");
    let cluster = Cluster::new([command("exit 1", b"x")]);
    let data = cluster.data().to_str().expect("UTF-8").to_owned();
    for (name, args) in [
        ("psql", vec!["-d", &data]),
        ("pg_archivecleanup", vec![&data, "000000010000000000000001"]),
        ("pg_ctl", vec!["-D", &data, "stop"]),
        ("postgres", vec!["--version"]),
        ("postgres", vec!["-D", &data, "-C", "port"]),
    ] {
        let transcript = Transcript::of(place.wrapper(name, &args).env("PGDATA", &data));
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
        Transcript::of(&mut place.wrapper(name, &args)).refuses(6, &sentence);
    }
}

/// PostgreSQL's own programs, as /bin/true here is one of the machine's, refuse root before they
/// open anything. A script may become another user.
#[test]
fn what_refuses_root_is_given_no_key() {
    let place = Place::new();
    let cluster = Cluster::new([command("touch %D/asked; exit 1", b"x")]);
    let data = cluster.data().to_str().expect("UTF-8").to_owned();
    for (name, args) in [
        ("postgres", vec!["-D", &data]),
        ("postmaster", vec!["-D", &data]),
        ("pg_ctl", vec!["-D", &data, "start"]),
        ("pg_ctl", vec!["-D", &data, "restart"]),
        ("pg_resetwal", vec!["-D", &data]),
        ("pg_rewind", vec!["-D", &data]),
        ("pg_upgrade", vec!["-d", &data]),
        ("pg_createsubscriber", vec!["-D", &data]),
    ] {
        let path = place.path("pg").join(name);
        program(Path::new("/bin/true"), &path);
        let code = Transcript::of(&mut place.wrapper(name, &args)).code;
        let asked = fs::remove_file(cluster.data().join("asked")).is_ok();
        match nix::unistd::geteuid().is_root() {
            true => assert_eq!((code, asked), (Some(0), false), "{name}"),
            false => assert_eq!((code, asked), (Some(6), true), "{name}"),
        }
        script(&path, "#!/bin/sh\n");
        let code = Transcript::of(&mut place.wrapper(name, &args)).code;
        let asked = fs::remove_file(cluster.data().join("asked")).is_ok();
        assert_eq!((code, asked), (Some(6), true), "{name}");
    }
}

/// PostgreSQL's rule: a process of this user has the number, and it is neither the server's own nor
/// its parents'.
#[test]
fn a_second_server_is_refused_before_a_key_is_asked_for() {
    let place = Place::new();
    let cluster = Cluster::new([command("exit 1", b"x")]);
    let data = cluster.data().to_str().expect("UTF-8").to_owned();
    let pid_file = cluster.data().join("postmaster.pid");
    let locked = format!(
        "{}: the unwrap command failed with exit status 1: run it by hand to see why",
        cluster.key_bin_path().display()
    );
    let mut process = Command::new("sleep").arg("60").spawn().expect("it starts");
    let pid = process.id();
    let start = || Transcript::of(&mut place.wrapper("postgres", &["-D", &data]));
    let start_by = |args: &[&str]| Transcript::of(&mut place.wrapper("pg_ctl", args));
    for (number, program) in [
        (format!("{pid}"), "postmaster"),
        (format!("-{pid}"), "postgres"),
    ] {
        fs::write(&pid_file, format!("{number}\n{data}\n")).expect("a file");
        let sentence = format!("lock file \"postmaster.pid\" already exists: is another {program} (PID {pid}) running in data directory \"{data}\"?");
        start().refuses(1, &sentence);
        Transcript::of(place.wrapper("postgres", &[]).env("PGDATA", &data)).refuses(1, &sentence);
        start_by(&["-D", &data, "start"]).refuses(1, &sentence);
        start_by(&["-D", &data, "restart"]).refuses(6, &locked);
    }
    // A file of another cluster does not make a server that cluster's.
    let elsewhere = format!("--hba_file={data}/pg_hba.conf");
    let ran = Transcript::of(&mut place.wrapper("postgres", &["-D", "other", &elsewhere]));
    assert_eq!(ran.code, Some(42), "{ran:?}");
    let grandparent = pid.to_string();
    let by_pg_ctl = Transcript::of(
        place
            .wrapper("postgres", &["-D", &data])
            .env("PG_GRANDPARENT_PID", grandparent),
    );
    by_pg_ctl.refuses(6, &locked);
    process.kill().expect("it runs");
    process.wait().expect("it ends");
    start().refuses(6, &locked);
    fs::write(&pid_file, format!("{}\n", std::process::id())).expect("a file");
    start().refuses(6, &locked);
}

/// Any pid file is enough for it.
#[test]
fn pg_resetwal_beside_a_pid_file_is_given_no_key() {
    let place = Place::new();
    script(
        &place.path("pg/pg_resetwal"),
        &common::programs::answering("exit 42"),
    );
    let cluster = Cluster::new([command("exit 1", b"x")]);
    let data = cluster.data().to_str().expect("UTF-8").to_owned();
    let reset = || Transcript::of(&mut place.wrapper("pg_resetwal", &["-D", &data])).code;
    assert_eq!(reset(), Some(6));
    fs::write(cluster.data().join("postmaster.pid"), "99999999\n").expect("a file");
    assert_eq!(reset(), Some(42));
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
    let transcript = Transcript::of(&mut place.wrapper("pg_waldump", &args));
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
    let start = |data: &Path, pin: &str| {
        let args = ["-D", data.to_str().expect("UTF-8")];
        Transcript::of(
            place
                .wrapper("postgres", &args)
                .env("PGSEAL_EXPECT_KEY", pin),
        )
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
        Transcript::of(
            place
                .wrapper("initdb", args)
                .env("PGSEAL_EXPECT_KEY", KEY_ID),
        )
        .refuses(7, sentence);
        assert!(!place.path("data").exists());
    }
}

#[test]
fn programs_that_drop_the_library_are_not_started() {
    let place = Place::new();
    let program = place.path("pg/psql");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("a mode");
    let sentence = format!(
        "{} is set-uid or set-gid, so the library is not loaded: use a copy without these bits",
        program.display()
    );
    Transcript::of(&mut place.wrapper("psql", &[])).refuses(8, &sentence);
    fs::remove_file(&program).expect("it was there");
    let sentence = format!(
        "{} cannot be started (No such file or directory): check that it is there and executable",
        program.display()
    );
    Transcript::of(&mut place.wrapper("psql", &[])).refuses(3, &sentence);
}

/// A copy of the command with nothing, or with rubbish, where its library should be.
#[test]
fn a_library_that_is_missing_or_none() {
    let place = Place::new();
    fs::create_dir_all(place.path("dist/bin")).expect("a directory");
    fs::create_dir_all(place.path("dist/lib")).expect("a directory");
    let copy = place.path("dist/bin/pgseal");
    program(Path::new(env!("CARGO_BIN_EXE_pgseal")), &copy);
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
    make("it's").prints(&format!("6 wrappers in {}\n", place.path("it's").display()));
    assert_runs(&place.path("it's/psql"), &place.path("pg/psql"));
    let own = format!(
        "{} is not a wrapper, and would be overwritten: choose another directory with --into",
        place.path("pg/initdb").display()
    );
    make("pg").refuses(2, &own);
    let of_wrappers = Transcript::of(
        with_library(pgseal(&["bindir", "--pg"]))
            .arg(place.path("it's"))
            .arg("--into")
            .arg(place.path("more")),
    );
    let sentence = format!(
        "{} contains wrappers already: give the directory of PostgreSQL's own programs with --pg",
        place.path("it's").display()
    );
    of_wrappers.refuses(2, &sentence);
    assert!(!place.path("more").exists());
    let refuses = |variable: &str, value: &str, code: i32, sentence: &str| {
        let mut make = with_library(pgseal(&["bindir", "--pg"]));
        let make = make.arg(place.path("pg")).arg("--into");
        Transcript::of(make.arg(place.path("other")).env(variable, value)).refuses(code, sentence);
        assert!(!place.path("other").exists());
    };
    let sentence = format!("from {} PostgreSQL looks for its files in /nowhere/share, and they are in /usr: choose a directory whose last names differ from {}", place.path("other").display(), place.path("pg").display());
    refuses("SHARE", "/nowhere/share", 8, &sentence);
    let sentence = sentence.replace("/nowhere/share", "/bin");
    refuses("SHARE", "/bin", 8, &sentence);
    let sentence = "this is PostgreSQL 20devel, and pgseal encrypts clusters of 15, 16, 17, 18 and 19 only: use one of these, and move data there by pg_upgrade or pg_dump (of a sealed cluster after pgseal unseal)";
    refuses("VERSION", "20devel", 8, sentence);
    let sentence = format!("{} runs without libpgseal.so, so it would write in clear (ERROR: ld.so: failed to map segment: ignored.): see that this machine lets programs load the library", place.path("pg/postgres").display());
    refuses("UNLOADED", "failed to map segment", 8, &sentence);
}

/// Other users than the one who made the wrappers start them. That user's umask does not count, and
/// directories that were there keep their modes.
#[test]
fn everybody_may_run_wrappers() {
    let place = Place::new();
    let strict = place.path("strict");
    fs::create_dir(&strict).expect("a directory");
    fs::set_permissions(&strict, fs::Permissions::from_mode(0o700)).expect("a mode");
    let mut make = with_library(alone(Path::new("sh")));
    make.args([
        "-c",
        "umask 077; exec \"$0\" bindir --pg \"$1\" --into \"$2\"",
    ])
    .args([env!("CARGO_BIN_EXE_pgseal")])
    .args([place.path("pg"), strict.join("new/15")]);
    let into = strict.join("new/15");
    Transcript::of(&mut make).prints(&format!("6 wrappers in {}\n", into.display()));
    let mode = |path: &Path| fs::metadata(path).expect("it exists").mode() & 0o7777;
    for made in [strict.join("new"), into.clone(), into.join("psql")] {
        assert_eq!(mode(&made), 0o755, "{}", made.display());
    }
    assert_eq!(mode(&strict), 0o700);
}

/// A file that is no wrapper is left alone, and so is everything else then.
#[test]
fn wrappers_overwrite_nothing_but_wrappers() {
    let place = Place::new();
    let into = place.path("other/bin");
    fs::create_dir_all(&into).expect("a directory");
    fs::write(into.join("psql"), "my own").expect("a file");
    let bindir = |pg: &Path| {
        let mut make = with_library(pgseal(&["bindir", "--pg"]));
        Transcript::of(make.arg(pg).arg("--into").arg(&into))
    };
    let sentence = format!(
        "{} is not a wrapper, and would be overwritten: choose another directory with --into",
        into.join("psql").display()
    );
    bindir(&place.path("pg")).refuses(2, &sentence);
    assert_eq!(names(&into), ["psql"]);
    let text = fs::read_to_string(into.join("psql")).expect("it is there");
    assert_eq!(text, "my own");
}

/// Twins of another version, which this one's would be mixed with, go; other files stay.
#[test]
fn wrappers_of_another_version_are_replaced() {
    let place = Place::new();
    let (newer, into) = (place.path("newer"), place.path("into"));
    let mut copy = Command::new("cp");
    let copied = copy.arg("-r").arg(place.path("pg")).arg(&newer).status();
    assert!(copied.expect("cp runs").success());
    program(&newer.join("psql"), &newer.join("pg_combinebackup"));
    let bindir = |pg: &Path| {
        let mut make = with_library(pgseal(&["bindir", "--pg"]));
        Transcript::of(make.arg(pg).arg("--into").arg(&into))
    };
    bindir(&newer).prints(&format!("7 wrappers in {}\n", into.display()));
    fs::write(into.join("notes"), "mine").expect("a file");
    symlink("postgres", into.join("link")).expect("a link");
    bindir(&place.path("pg")).prints(&format!("6 wrappers in {}\n", into.display()));
    let mut expected = names(&place.path("pg"));
    expected.extend(["link".to_owned(), "notes".to_owned()]);
    expected.sort();
    assert_eq!(names(&into), expected);
    assert_runs(&into.join("psql"), &place.path("pg/psql"));
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<_> = entries.flatten().map(name).collect();
    names.sort();
    names
}

/// A wrapper is one line for the kernel. Where the kernel would cut that line, or take it apart at
/// the wrong blank, a shell takes its place; both are known for what they are.
#[test]
fn the_text_of_a_twin() {
    let place = Place::new();
    let deep = "d".repeat(120);
    for (directory, by_shell) in [("pg", false), ("p g's", true), (&deep, true)] {
        let (pg, into) = (place.path(directory), place.path("into"));
        if by_shell {
            let mut copy = Command::new("cp");
            let copied = copy.arg("-r").arg(place.path("pg")).arg(&pg).status();
            assert!(copied.expect("cp runs").success());
        }
        let make = |pg: &Path, into: &Path| {
            let mut make = with_library(pgseal(&["bindir", "--pg"]));
            Transcript::of(make.arg(pg).arg("--into").arg(into))
        };
        make(&pg, &into).prints(&format!("6 wrappers in {}\n", into.display()));
        let text = fs::read_to_string(into.join("psql")).expect("a wrapper");
        let line = format!("#!{} {}\n", runner(), pg.join("psql").display());
        assert_eq!(text == line, !by_shell, "{text}");
        assert_eq!(text.starts_with("#!/bin/sh\nexec "), by_shell, "{text}");
        assert_runs(&into.join("psql"), &pg.join("psql"));
        let sentence = format!(
            "{} contains wrappers already: give the directory of PostgreSQL's own programs with \
            --pg",
            into.display()
        );
        make(&into, &place.path("more")).refuses(2, &sentence);
    }
}

/// The command alone makes no wrappers.
#[test]
fn the_program_behind_wrappers_is_missing() {
    let place = Place::new();
    fs::create_dir_all(place.path("bin")).expect("a directory");
    let copy = place.path("bin/pgseal");
    program(Path::new(env!("CARGO_BIN_EXE_pgseal")), &copy);
    let mut make = with_library(alone(&copy));
    let make = make.args(["bindir", "--into"]).arg(place.path("into"));
    let sentence = format!(
        "{}-twin does not exist: install it beside pgseal",
        copy.display()
    );
    Transcript::of(make.arg("--pg").arg(place.path("pg"))).refuses(8, &sentence);
}

/// As the library calls it; the unwrap command does not get the descriptor for the key.
#[test]
fn the_library_is_handed_a_key() {
    let unwrap = "ls -l /proc/self/fd > %D/open; cat \"%p\"";
    let cluster = Cluster::new([command(unwrap, &payload())]);
    let record = cluster.write_beside("record", "");
    let passphrase = cluster.write_beside("passphrase", "of another slot");
    let mut asking = Command::new("sh");
    asking.args(["-c", r#"exec "$1" unlock --fd 9 --root "$2" 9>"$3""#, "sh"]);
    asking
        .arg(env!("CARGO_BIN_EXE_pgseal"))
        .arg(cluster.data())
        .arg(&record)
        .current_dir(cluster.data())
        .env("PGSEAL_PASSPHRASE_FILE", "../passphrase");
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
    let files = pgseal_format::handover::files(&record).expect("a record");
    let files: Vec<_> = { files.map(OsStr::from_bytes) }
        .map(fs::canonicalize)
        .collect::<Result<_, _>>()
        .expect("absolute paths of files");
    assert_eq!(files, [fs::canonicalize(passphrase).expect("it is there")]);
    let open = fs::read_to_string(cluster.data().join("open")).expect("the command wrote it");
    assert!(
        open.contains("memfd:pgseal") && !open.contains("/record"),
        "{open}"
    );
}

/// Those that were not read this time, and those of commands, too.
#[test]
fn the_library_is_told_all_files_that_open_a_key() {
    let unwrap = r#"cat "%p" # openssl enc -d -pass file:%D/../of-a-command"#;
    let cluster = Cluster::new([command(unwrap, &payload())]);
    let files = ["given", "of-a-command", "of-the-environment"];
    let files = files.map(|name| cluster.write_beside(name, "a passphrase"));
    let record = cluster.beside("record");
    let mut exec = with_library(pgseal(&["exec", "--passphrase-file"]));
    exec.arg(&files[0]).arg("-D").arg(cluster.data());
    exec.args([
        "--",
        "sh",
        "-c",
        r#"cat "/proc/self/fd/$PGSEAL_KEYS_FD" > "$0""#,
    ]);
    exec.arg(&record).env("PGSEAL_PASSPHRASE_FILE", &files[2]);
    assert_eq!(Transcript::of(&mut exec).code, Some(0));
    let record = fs::read(record).expect("it was made");
    let told = pgseal_format::handover::files(&record).expect("a record");
    let mut told: Vec<_> = { told.map(OsStr::from_bytes) }
        .map(fs::canonicalize)
        .collect::<Result<_, _>>()
        .expect("absolute paths of files");
    told.sort();
    assert_eq!(told, files);
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
