//! The server that runs on a data directory, if there is one, by its pid file; and whether the
//! library is in it. Read by `status`, `doctor`, `verify` and the conversions.
//!
//! Invariant: "stopped" is said only of a pid file that is missing or was read.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// What PostgreSQL's server is started by.
const SERVERS: [&str; 2] = ["postgres", "postmaster"];

/// Nobody knows whether a server runs.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read ({}), which tells whether a server runs: run this as the server's user or root", .0.display(), .1)]
pub struct PidFileError(PathBuf, io::Error);

/// Whether a server runs, and with the library or without.
#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Server {
    Stopped,
    RunningSealed {
        pid: u32,
    },
    RunningUnsealed {
        pid: u32,
    },
    /// On a cluster that is not sealed, with the library or without: a wrapper puts it into every
    /// server.
    RunningPlain {
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
            | Self::RunningPlain { pid }
            | Self::RunningUnknown { pid } => Some(*pid),
        }
    }

    /// The same of a cluster that is not sealed.
    pub fn of_plain_cluster(self) -> Self {
        self.pid()
            .map_or(Self::Stopped, |pid| Self::RunningPlain { pid })
    }
}

impl Display for Server {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("not running"),
            Self::RunningSealed { pid } => write!(f, "running sealed (process {pid})"),
            Self::RunningUnsealed { pid } => write!(f, "running unsealed (process {pid})"),
            Self::RunningPlain { pid } => write!(f, "running (process {pid})"),
            Self::RunningUnknown { pid } => write!(
                f,
                "running (process {pid}); ask as its user or root whether sealed"
            ),
        }
    }
}

/// The server that runs on a data directory. A single-user server writes its number with a minus.
pub fn of(data: &Path) -> Result<Server, PidFileError> {
    of_pid_file(&data.join("postmaster.pid"), data)
}

/// The server of this pid file, which may have got another name.
pub fn of_pid_file(pid_file: &Path, data: &Path) -> Result<Server, PidFileError> {
    let text = match fs::read(pid_file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Server::Stopped),
        read => read.map_err(|error| PidFileError(pid_file.to_owned(), error))?,
    };
    // It names the data directory, in whatever bytes.
    let text = String::from_utf8_lossy(&text);
    let first = text.lines().next().unwrap_or_default();
    let Ok(pid) = first.trim().trim_start_matches('-').parse() else {
        return Ok(Server::Stopped);
    };
    if !is_server(pid, data) {
        return Ok(Server::Stopped);
    }
    Ok(match fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(maps) if maps.contains("libpgseal.so") => Server::RunningSealed { pid },
        Ok(_) => Server::RunningUnsealed { pid },
        Err(_) => Server::RunningUnknown { pid },
    })
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
