//! PostgreSQL's "programs": scripts that tell what they were given.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{alone, script, Transcript};

/// Wrappers run this: the program of another package, beside the command. `cargo test` of both
/// packages builds it.
pub fn runner() -> &'static str {
    let command = env!("CARGO_BIN_EXE_pgseal");
    static RUNNER: OnceLock<String> = OnceLock::new();
    RUNNER.get_or_init(|| {
        let runner = format!("{command}-twin");
        let there = Path::new(&runner).exists();
        assert!(there, "test pgseal and pgseal-wrapper in one call of cargo");
        runner
    })
}

/// A program that answers as the library does in it, and to `--version`: `SHARE` and `VERSION` are
/// other answers, in the directory `other` too. With `UNLOADED` the library is not there.
const ANSWERING: &str = r#"#!/bin/sh
if [ -n "$PGSEAL_ANSWER_FD" ]; then
    case $PGSEAL_STARTED_AS in
    */other/postgres) share=${SHARE:-/usr} ;;
    *) share=/usr ;;
    esac
    [ -n "$UNLOADED" ] || printf '%s\0/usr\0' "$share" >/proc/self/fd/$PGSEAL_ANSWER_FD
    [ -z "$UNLOADED" ] || echo "ERROR: ld.so: $UNLOADED: ignored." >&2
    echo "it (PostgreSQL) ${VERSION:-15.1}"
    exit
fi
"#;

/// Prints its name, arguments, keys and environment.
const TELLING: &str = r#"
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

/// Makes a control file that could be sealed, and prints what it was given.
const INITDB: &str = r#"
for arg; do case $arg in
--help) echo "initdb initializes"; exit ;;
--version) echo "initdb (PostgreSQL) 15.1"; exit ;;
--show) [ -z "$REFUSAL" ] || echo "initdb: error: $REFUSAL" >&2; [ -z "$REFUSAL" ]; exit ;;
esac; done
echo "args=$*"
echo "record=$(head -c 8 /proc/self/fd/$PGSEAL_KEYS_FD)"
mkdir -p data/global && echo 15 > data/PG_VERSION
head -c 8192 ${CONTROL:-/dev/urandom} > data/global/pg_control
exit ${STATUS:-0}
"#;

/// A directory with PostgreSQL's "programs" and a place for data.
pub struct Place {
    pub tmp: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let place = Self {
            tmp: tempfile::tempdir().expect("a directory"),
        };
        fs::create_dir(place.path("pg")).expect("a directory");
        for name in ["postgres", "psql", "pg_ctl", "pg_waldump", "pg_rewind"] {
            script(&place.path("pg").join(name), &answering(TELLING));
        }
        script(&place.path("pg/initdb"), &answering(INITDB));
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.tmp
            .path()
            .canonicalize()
            .expect("it exists")
            .join(name)
    }

    pub fn wrapper(&self, name: &str, args: &[&str]) -> Command {
        let mut wrapper = with_library(alone(Path::new(runner())));
        wrapper
            .arg(self.path("pg").join(name))
            .arg("/wrappers/it")
            .args(args);
        wrapper.current_dir(self.tmp.path());
        wrapper
    }

    pub fn initdb(&self, args: &[&str]) -> Transcript {
        Transcript::of(&mut self.wrapper("initdb", args))
    }
}

/// A script that is asked what it is before it does anything.
pub fn answering(text: &str) -> String {
    format!("{ANSWERING}{text}")
}

/// Any shared library will do where the programs are scripts.
pub fn with_library(mut command: Command) -> Command {
    let maps = fs::read_to_string("/proc/self/maps").expect("/proc");
    let libc = maps
        .lines()
        .find_map(|line| Some(&line[line.find("/")?..]).filter(|path| path.ends_with("libc.so.6")));
    command.env("PGSEAL_LIBRARY", libc.expect("this test uses glibc"));
    command
}

pub fn told(transcript: &Transcript) -> Vec<&str> {
    assert_eq!(transcript.stderr, "");
    transcript.stdout.lines().collect()
}

/// Asserts that a wrapper becomes a program, which is called by the program's own path.
#[track_caller]
pub fn assert_runs(wrapper: &Path, program: &Path) {
    let transcript = Transcript::of(with_library(Command::new(wrapper)).args(["-c", "select 1"]));
    assert_eq!(transcript.code, Some(42), "{transcript:?}");
    let program = format!("argv0={}", program.display());
    assert_eq!(
        told(&transcript)[..3],
        [program.as_str(), "arg=-c", "arg=select 1"]
    );
}
