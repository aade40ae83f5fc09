//! `pgseal status`: what a data directory is. Reads only.
//!
//! Exit codes: 0 sealed, and the key opens if that was tried; 1 the key does not open; 2 not a data
//! directory; 3 it cannot be told, because something is missing or may not be read; 4 not sealed; 5
//! sealed, but its key file is missing or damaged; 9 it is being converted. What the key file says
//! about itself is claimed, not proved, until the key has opened.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pgseal_crypto::Suite;
use pgseal_format::{Header, KeyImage};
use pgseal_keys::check;
use pgseal_keys::cluster::{ClusterError, Root};
use pgseal_keys::exit::{self, Failure};
use pgseal_keys::keybin::KeyDir;
use pgseal_keys::postgres;
use pgseal_keys::server::{self, Server};
use pgseal_keys::unlock::{unlock, Unlocked};
use serde::Serialize;

use crate::cli::StatusArgs;
use crate::describe::{self, SlotView};
use crate::output;
use crate::versions::{Library, Loaded, Versions, NOT_KNOWN};
use pgseal_keys::conversion::refuse_converting;

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
    #[serde(with = "ServerView")]
    server: Server,
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

pub fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let given = &args.cluster.pgdata;
    let status = match Root::required(given) {
        Ok(root) => sealed(root, args)?,
        Err(ClusterError::NotSealed(_)) => {
            let server = server::of(given)?.of_plain_cluster();
            Status {
                data_directory: Root::pending(given)?.path,
                sealed: false,
                unsupported: unsupported(given),
                key_file: None,
                versions: versions(&server),
                server,
            }
        }
        Err(unknown) => return Err(unknown.into()),
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
                error: exit::sentence(&error),
            },
        }
    };
    let server = server::of(&data)?;
    Ok(Status {
        versions: versions(&server),
        server,
        unsupported: unsupported(&data),
        data_directory: data,
        sealed: true,
        key_file: Some(KeyFileStatus {
            pgseal_toml: copy.map(|error| error.to_string()),
            ..key_file(&header, generation, slots, key_check)
        }),
    })
}

fn versions(server: &Server) -> Versions {
    Versions::of(&Library::installed(), Loaded::of(server).as_ref())
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
            for slot in &file.slots {
                row("key slot", &slot.line())?;
            }
            row("unlock test", &words(&file.key_check))?;
            if let Some(wrong) = &file.pgseal_toml {
                row("pgseal.toml", wrong)?;
            }
        }
        row("server", &self.server.to_string())?;
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
        KeyCheck::NotTried => "not run".into(),
    }
}
