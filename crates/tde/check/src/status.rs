//! The report of `status`: whether a data directory is sealed, under which key, whether that opens,
//! and whether a server runs. What the key file says about itself is claimed, not proved, until the
//! key has opened.

mod monitor;
mod times;

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub use monitor::{of_failure, without_answer, Level};
use pgseal_crypto::Suite;
use pgseal_format::{Header, KeyImage};
use pgseal_keys::check;
use pgseal_keys::cluster::{ClusterError, Root};
use pgseal_keys::conversion::refuse_converting;
use pgseal_keys::exit::{self, Failure};
use pgseal_keys::keybin::KeyDir;
use pgseal_keys::postgres;
use pgseal_keys::server::{self, Server};
use pgseal_keys::unlock::{unlock, Unlocked, Ways};
use serde::Serialize;

use crate::describe::{self, SlotView};
use crate::report::lossy;
use crate::versions::{Library, Loaded, Versions, NOT_KNOWN};
use times::Times;

/// A question about a data directory.
pub struct Question<'a> {
    /// The version of the command.
    pub command: &'static str,
    pub data: &'a Path,
    pub ways: Ways,
    /// Whether the report shows the commands of slots; then no command runs.
    pub shows_commands: bool,
    /// Whether the key is to be opened.
    pub opens_key: bool,
    /// The library that wrappers load.
    pub library: &'a Result<Library, Failure>,
}

/// The answer: all that is known of a data directory.
#[derive(Serialize)]
pub struct Status {
    #[serde(serialize_with = "lossy")]
    data_directory: PathBuf,
    sealed: bool,
    /// Why the cluster cannot be sealed, or run sealed, by its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsupported: Option<String>,
    #[serde(flatten)]
    key_file: Option<KeyFileStatus>,
    #[serde(with = "ServerView")]
    server: Server,
    /// When the server was started, in seconds since 1970.
    server_since: Option<u64>,
    versions: Versions,
}

/// A server as JSON has it.
#[derive(Serialize)]
#[serde(remote = "Server", tag = "state", rename_all = "snake_case")]
enum ServerView {
    Stopped,
    RunningSealed { pid: u32 },
    RunningUnsealed { pid: u32 },
    RunningPlain { pid: u32 },
    RunningUnknown { pid: u32 },
}

#[derive(Serialize)]
struct KeyFileStatus {
    format_version: u16,
    suite: &'static str,
    key_length: u16,
    cluster_id: String,
    key_id: String,
    created: u64,
    generation: Option<u64>,
    slots: Vec<SlotView>,
    /// `key list` shows them as JSON.
    #[serde(skip)]
    times: Times,
    key_check: KeyCheck,
    /// The error in `pgseal.toml`, if there is one.
    pgseal_toml: Option<String>,
}

#[derive(Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
enum KeyCheck {
    Opens { slot: Option<u8> },
    Fails { error: String },
    NotTried,
}

impl Status {
    /// Returns what the data directory is.
    pub fn of(question: &Question) -> Result<Self, Failure> {
        let given = question.data;
        match Root::required(given) {
            Ok(root) => sealed(root, question),
            Err(ClusterError::NotSealed(_)) => {
                let server = server::of(given)?.of_plain_cluster();
                Ok(Self {
                    data_directory: Root::pending(given)?.path,
                    sealed: false,
                    unsupported: unsupported(given),
                    key_file: None,
                    versions: versions(question, &server),
                    server_since: since(&server, given),
                    server,
                })
            }
            Err(unknown) => Err(unknown.into()),
        }
    }

    /// Whether the cluster is sealed.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Whether the key was tried and does not open.
    pub fn is_locked(&self) -> bool {
        let key_check = self.key_file.as_ref().map(|file| &file.key_check);
        matches!(key_check, Some(KeyCheck::Fails { .. }))
    }
}

fn sealed(root: Root, question: &Question) -> Result<Status, Failure> {
    refuse_converting(&root.path)?;
    let (data, dir) = (root.path.clone(), KeyDir::of(&root.path));
    let image = dir.read()?;
    let mut slots = describe::slots(&image, &dir, &data, &question.ways)?;
    if !question.shows_commands {
        slots.iter_mut().for_each(|slot| slot.command = None);
    }
    let (header, generation) = match &image {
        KeyImage::File(file) => (file.header().clone(), Some(file.generation())),
        KeyImage::Raw(_) => (dir.header()?, None),
    };
    let copy = dir.check_copy(&header).err();
    let times = Times::of(&data, &image);
    let key_check = if question.shows_commands || !question.opens_key {
        KeyCheck::NotTried
    } else {
        match unlock(root, &question.ways)
            .map_err(Failure::from)
            .and_then(checked)
        {
            Ok(opened) => KeyCheck::Opens {
                slot: opened.file.map(|(slot, _)| slot),
            },
            Err(error) => KeyCheck::Fails {
                error: exit::sentence(&error),
            },
        }
    };
    let server = server::of(&data)?;
    Ok(Status {
        versions: versions(question, &server),
        server_since: since(&server, &data),
        server,
        unsupported: unsupported(&data),
        data_directory: data,
        sealed: true,
        key_file: Some(KeyFileStatus {
            pgseal_toml: copy.map(|error| error.to_string()),
            times,
            ..key_file(&header, generation, slots, key_check)
        }),
    })
}

fn versions(question: &Question, server: &Server) -> Versions {
    let loaded = Loaded::of(server);
    Versions::of(question.command, question.library, loaded.as_ref())
}

/// Returns when a running server was started, by the third line of its pid file.
fn since(server: &Server, data: &Path) -> Option<u64> {
    server.pid()?;
    let pid_file = fs::read_to_string(data.join(server::PID_FILE)).ok()?;
    pid_file.lines().nth(2)?.trim().parse().ok()
}

/// Returns a time for people, in UTC.
fn date(seconds: u64) -> String {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    // The key file may claim any time; years after 9999 have no usual form.
    at.filter(|_| seconds < 253_402_300_800).map_or_else(
        || format!("{seconds} s"),
        |at| humantime::format_rfc3339_seconds(at).to_string(),
    )
}

fn unsupported(data: &Path) -> Option<String> {
    let checked = postgres::check_cluster(data);
    checked.err().map(|error| error.to_string())
}

/// The key, which must be this cluster's too.
fn checked(opened: Unlocked) -> Result<Unlocked, Failure> {
    check::check_key(&opened.root.path, &opened.master, opened.header.length)?;
    Ok(opened)
}

fn key_file(
    header: &Header,
    generation: Option<u64>,
    slots: Vec<SlotView>,
    key_check: KeyCheck,
) -> KeyFileStatus {
    KeyFileStatus {
        format_version: Header::FORMAT,
        suite: match header.suite {
            Suite::AesXts => "AES-XTS",
        },
        key_length: header.length.bits(),
        cluster_id: header.cluster.to_string(),
        key_id: header.key_id.to_string(),
        created: header.created,
        generation,
        slots,
        times: Times::default(),
        key_check,
        pgseal_toml: None,
    }
}

impl Display for Status {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: &str| writeln!(f, "{:<16}{value}", format!("{name}:"));
        row("data directory", &self.data_directory.to_string_lossy())?;
        row("sealed", if self.sealed { "yes" } else { "no" })?;
        if let Some(unsupported) = &self.unsupported {
            row("version", unsupported)?;
        }
        if let Some(file) = &self.key_file {
            row("format version", &file.format_version.to_string())?;
            row("suite", file.suite)?;
            row("key length", &format!("{} bits", file.key_length))?;
            row("cluster id", &file.cluster_id)?;
            row("key id", &file.key_id)?;
            row("key created", &date(file.created))?;
            for slot in &file.slots {
                row("key slot", &slot.line())?;
            }
            row("unlock test", &words(&file.key_check))?;
            if let Some(wrong) = &file.pgseal_toml {
                row("pgseal.toml", wrong)?;
            }
        }
        row("server", &self.server.to_string())?;
        if let Some(since) = self.server_since {
            row("server since", &date(since))?;
        }
        let library = |version: &Option<String>| version.clone().unwrap_or(NOT_KNOWN.to_owned());
        if self.server.pid().is_some() {
            row("server library", &library(&self.versions.server_library))?;
        }
        row("library", &library(&self.versions.library))?;
        row("pgseal", self.versions.command)
    }
}

fn words(check: &KeyCheck) -> String {
    match check {
        KeyCheck::Opens { slot: Some(slot) } => format!("ok, slot {slot}"),
        KeyCheck::Opens { slot: None } => "ok".into(),
        KeyCheck::Fails { error } => format!("failed: {error}"),
        KeyCheck::NotTried => "not run (--check)".into(),
    }
}
