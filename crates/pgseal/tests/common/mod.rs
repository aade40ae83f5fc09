//! The common part of the command's tests: clusters that consist of a key file, and transcripts.
#![allow(dead_code)] // each test binary uses its own part

pub mod data;
pub mod programs;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pgseal_crypto::{KeyLength, MasterKey, Suite};
use pgseal_format::{ClusterId, Header, KeyFile, Payload, SlotKind};
use zeroize::Zeroizing;

/// The key id of [`master`].
pub const KEY_ID: &str = "07c3ae1ad793c43def72e2be8064c70a";

/// An unwrap command for a wrapping that is no wrapping.
pub const CAT: &str = r#"cat "%p""#;

/// Bytes before the first slot of a key file.
pub const SLOTS_AT: usize = 12 + 49 + 8 + 1;

pub fn master() -> MasterKey {
    let mut bytes = [0; 32];
    for (byte, value) in bytes.iter_mut().zip(0..) {
        *byte = value;
    }
    MasterKey::from_bytes(&mut bytes)
}

pub fn header() -> Header {
    Header {
        suite: Suite::AesXts,
        length: KeyLength::Bits256,
        cluster: ClusterId([0xc1; 16]),
        key_id: master().key_id(),
        created: 1_800_000_000,
    }
}

pub fn payload() -> Zeroizing<Vec<u8>> {
    Payload::encode(&master(), &header())
}

pub fn plain() -> SlotKind {
    SlotKind::Plain { payload: payload() }
}

pub fn command(unwrap: &str, wrapped: &[u8]) -> SlotKind {
    SlotKind::Command {
        unwrap: unwrap.into(),
        wrapped: wrapped.to_vec(),
    }
}

/// A data directory that has a key file and nothing else.
pub struct Cluster {
    tmp: tempfile::TempDir,
}

impl Cluster {
    pub fn new(slots: impl IntoIterator<Item = SlotKind>) -> Self {
        let mut file = KeyFile::new(header());
        for slot in slots {
            file.add(slot).expect("room for the slot");
        }
        let cluster = Self::with_key_bin(&file.write(&master()));
        let bound = header().bound();
        let bound: String = bound.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!("header = \"{bound}\"\n");
        fs::write(cluster.settings_path(), text).expect("a file");
        cluster
    }

    /// The copy of the header beside the key file.
    pub fn settings_path(&self) -> PathBuf {
        self.data().join("pg_encryption/pgseal.toml")
    }

    /// A key file of these bytes, and nothing beside it.
    pub fn with_key_bin(bytes: &[u8]) -> Self {
        let cluster = Self {
            tmp: tempfile::tempdir().expect("a directory"),
        };
        fs::create_dir_all(cluster.data().join("pg_encryption")).expect("a directory");
        cluster.write_key_bin(bytes);
        cluster
    }

    pub fn data(&self) -> PathBuf {
        self.tmp
            .path()
            .canonicalize()
            .expect("it exists")
            .join("data")
    }

    /// A path beside the data directory.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.data().with_file_name(name)
    }

    /// A file beside the data directory.
    pub fn write_beside(&self, name: &str, text: &str) -> PathBuf {
        let path = self.beside(name);
        fs::write(&path, text).expect("a file");
        path
    }

    pub fn key_bin_path(&self) -> PathBuf {
        self.data().join("pg_encryption/key.bin")
    }

    pub fn key_bin(&self) -> Vec<u8> {
        fs::read(self.key_bin_path()).expect("a key file")
    }

    /// The names in the key directory, in order.
    pub fn key_directory(&self) -> Vec<String> {
        let entries = fs::read_dir(self.data().join("pg_encryption")).expect("a directory");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).to_string_lossy().into())
            .collect();
        names.sort();
        names
    }

    pub fn write_key_bin(&self, bytes: &[u8]) {
        fs::write(self.key_bin_path(), bytes).expect("a key file");
    }

    /// `pgseal key VERB -D DATA ARGS`
    pub fn key(&self, verb: &str, args: &[&str]) -> Command {
        let mut command = pgseal(&["key", verb, "-D"]);
        command.arg(self.data()).args(args);
        command
    }

    /// Returns the transcript of `pgseal key check`.
    pub fn check(&self) -> Transcript {
        Transcript::of(&mut self.key("check", &[]))
    }
}

/// The command with nothing of ours in its environment and nothing on its standard input.
pub fn pgseal(args: &[&str]) -> Command {
    let mut command = alone(Path::new(env!("CARGO_BIN_EXE_pgseal")));
    command.args(args);
    command
}

/// A program, likewise.
pub fn alone(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("PG") || text == "LD_PRELOAD" {
            command.env_remove(&name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// The output of a program, and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Transcript {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Transcript {
    pub fn of(command: &mut Command) -> Self {
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().expect("it starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: status.code(),
            stdout: text(stdout),
            stderr: text(stderr),
        }
    }

    /// It succeeded and printed this.
    #[track_caller]
    pub fn prints(&self, stdout: &str) {
        let expected = Self {
            code: Some(0),
            stdout: stdout.into(),
            stderr: String::new(),
        };
        assert_eq!(*self, expected);
    }

    /// It failed with this code and this one sentence.
    #[track_caller]
    pub fn refuses(&self, code: i32, sentence: &str) {
        let stderr = format!("pgseal: {sentence}\n");
        assert_eq!(
            *self,
            Self {
                code: Some(code),
                stdout: String::new(),
                stderr
            }
        );
    }

    /// As `refuses`, after what a command said itself.
    #[track_caller]
    pub fn refuses_after(&self, said: &str, code: i32, sentence: &str) {
        let stderr = format!("{said}pgseal: {sentence}\n");
        assert_eq!(
            *self,
            Self {
                code: Some(code),
                stdout: String::new(),
                stderr
            }
        );
    }
}

/// An executable script.
pub fn script(path: &Path, text: &str) {
    let source = path.with_extension("text");
    fs::write(&source, text).expect("a file");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o755)).expect("a mode");
    program(&source, path);
    fs::remove_file(source).expect("it was there");
}

/// A copy of a program, by a process of its own: had this one the copy open for writing while
/// another thread forks, the copy could not be run until that child has called exec (ETXTBSY).
pub fn program(source: &Path, copy: &Path) {
    let mut copying = Command::new("cp");
    let status = copying.arg("-p").arg(source).arg(copy).status();
    assert!(status.expect("cp runs").success());
}

/// Waits up to a minute for a value, and returns it.
pub fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it never is");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The processes of a group that are not dead, by /proc.
pub fn running_in_group(group: &str) -> Vec<String> {
    let stats = fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let rest = stat.rsplit_once(')')?.1.to_owned();
            let fields: Vec<&str> = rest.split_whitespace().collect();
            (fields[2] == group && fields[0] != "Z").then_some(stat)
        });
    stats.collect()
}
