//! `pgseal status`: what a data directory is. Reads only.
//!
//! Exit codes: 0 sealed, and the key opens if that was tried; 1 the key does not open; 4 not
//! sealed; 9 it is being converted. What the key file says about itself is claimed, not proved,
//! until the key has opened.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pgseal_crypto::Suite;
use pgseal_format::{Header, KeyImage};
use serde::Serialize;

use crate::cli::StatusArgs;
use crate::cluster::{ClusterError, Root};
use crate::convert::refuse_converting;
use crate::describe::{self, SlotView};
use crate::exit::Failure;
use crate::keybin::KeyDir;
use crate::output;
use crate::postgres;
use crate::twin::start;
use crate::unlock::{unlock, Unlocked};

/// What PostgreSQL's server is started by.
const SERVERS: [&str; 2] = ["postgres", "postmaster"];

#[derive(Serialize)]
struct Status {
    #[serde(serialize_with = "output::lossy")]
    data_directory: PathBuf,
    sealed: bool,
    /// Why the cluster cannot be sealed, or run sealed, by its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsupported: Option<String>,
    #[serde(flatten)]
    key_file: Option<KeyFileStatus>,
    server: Server,
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
    key_check: KeyCheck,
    /// What is wrong with `pgseal.toml`.
    pgseal_toml: Option<String>,
}

#[derive(Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
enum KeyCheck {
    Opens { slot: Option<u8> },
    Fails { error: String },
    NotTried,
}

#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
/// Whether a server runs, and with the library or without.
pub enum Server {
    Stopped,
    RunningSealed {
        pid: u32,
    },
    RunningUnsealed {
        pid: u32,
    },
    /// Another user's process, whose libraries cannot be seen.
    RunningUnknown {
        pid: u32,
    },
}

impl Server {
    /// The process, if there is one.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Stopped => None,
            Self::RunningSealed { pid }
            | Self::RunningUnsealed { pid }
            | Self::RunningUnknown { pid } => Some(*pid),
        }
    }
}

pub fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let given = &args.cluster.pgdata;
    let status = match Root::around(given)? {
        Some(root) => sealed(root, args)?,
        None if given.is_dir() => Status {
            data_directory: Root::pending(given)?.path,
            sealed: false,
            unsupported: unsupported(given),
            key_file: None,
            server: server(given),
        },
        None => return Err(ClusterError::NotSealed(given.clone()).into()),
    };
    output::report(&status, args.json)?;
    Ok(ExitCode::from(
        match status.key_file.map(|file| file.key_check) {
            None => 4,
            Some(KeyCheck::Fails { .. }) => 1,
            Some(KeyCheck::Opens { .. } | KeyCheck::NotTried) => 0,
        },
    ))
}

fn sealed(root: Root, args: &StatusArgs) -> Result<Status, Failure> {
    refuse_converting(&root.path)?;
    let (data, dir) = (root.path.clone(), KeyDir::of(&root.path));
    let ways = args.cluster.unlock.ways();
    let image = dir.read()?;
    let mut slots = describe::slots(&image, &dir, &data, &ways)?;
    if !args.show {
        slots.iter_mut().for_each(|slot| slot.command = None);
    }
    let (header, generation) = match &image {
        KeyImage::File(file) => (file.header().clone(), Some(file.generation())),
        KeyImage::Raw(_) => (dir.header()?, None),
    };
    let copy = dir.check_copy(&header).err();
    let key_check = if args.no_check || args.show {
        KeyCheck::NotTried
    } else {
        match unlock(root, &ways).map_err(Failure::from).and_then(checked) {
            Ok(opened) => KeyCheck::Opens {
                slot: opened.file.map(|(slot, _)| slot),
            },
            Err(error) => KeyCheck::Fails {
                error: error.to_string(),
            },
        }
    };
    Ok(Status {
        server: server(&data),
        unsupported: unsupported(&data),
        data_directory: data,
        sealed: true,
        key_file: Some(KeyFileStatus {
            pgseal_toml: copy.map(|error| error.to_string()),
            ..key_file(&header, generation, slots, key_check)
        }),
    })
}

fn unsupported(data: &Path) -> Option<String> {
    let checked = postgres::check_cluster(data);
    checked.err().map(|error| error.to_string())
}

/// The key, which must be this cluster's too.
fn checked(opened: Unlocked) -> Result<Unlocked, Failure> {
    start::check_key(&opened.root.path, &opened.master, opened.header.length)?;
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
        key_check,
        pgseal_toml: None,
    }
}

/// The server that runs on a data directory, by its pid file. A single-user server writes its
/// number with a minus.
pub fn server(data: &Path) -> Server {
    server_of(&data.join("postmaster.pid"), data)
}

/// The server of this pid file, which may have got another name.
pub fn server_of(pid_file: &Path, data: &Path) -> Server {
    // It names the data directory, in whatever bytes.
    let pid_file = fs::read(pid_file).unwrap_or_default();
    let pid_file = String::from_utf8_lossy(&pid_file);
    let first = pid_file.lines().next().unwrap_or_default();
    let Ok(pid) = first.trim().trim_start_matches('-').parse() else {
        return Server::Stopped;
    };
    if !is_server(pid, data) {
        return Server::Stopped;
    }
    match fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(maps) if maps.contains("libpgseal.so") => Server::RunningSealed { pid },
        Ok(_) => Server::RunningUnsealed { pid },
        Err(_) => Server::RunningUnknown { pid },
    }
}

/// Is the process a server, by the name that it was started by or by its program's; or, whatever
/// it is called, does it work in the data directory, as servers do? A conversion, whose number may
/// stand in the pid file too, is none.
fn is_server(pid: u32, data: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let Ok(name) = fs::read_to_string(process.join("comm")) else {
        return false;
    };
    let program = fs::read_link(process.join("exe")).unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    // As the kernel shows a program that was replaced since, by an upgrade.
    let program = program.trim_end_matches(" (deleted)");
    let place = |path: &Path| fs::metadata(path).map(|place| (place.dev(), place.ino()));
    let at_home = || place(&process.join("cwd")).is_ok_and(|cwd| Some(cwd) == place(data).ok());
    match name.trim_end() {
        "pgseal" => false,
        name => SERVERS.contains(&name) || SERVERS.contains(&program) || at_home(),
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
            for slot in &file.slots {
                row("opened by", &slot.line())?;
            }
            row("key check", &words(&file.key_check))?;
            if let Some(wrong) = &file.pgseal_toml {
                row("pgseal.toml", wrong)?;
            }
        }
        row("server", &self.server.to_string())
    }
}

impl Display for Server {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("not running"),
            Self::RunningSealed { pid } => write!(f, "running sealed (process {pid})"),
            Self::RunningUnsealed { pid } => write!(f, "running unsealed (process {pid})"),
            Self::RunningUnknown { pid } => write!(
                f,
                "running (process {pid}); ask as its user or root whether sealed"
            ),
        }
    }
}

fn words(check: &KeyCheck) -> String {
    match check {
        KeyCheck::Opens { slot: Some(slot) } => format!("opens through slot {slot}"),
        KeyCheck::Opens { slot: None } => "opens".into(),
        KeyCheck::Fails { error } => format!("fails: {error}"),
        KeyCheck::NotTried => "not tried".into(),
    }
}
