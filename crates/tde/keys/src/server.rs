//! The server that runs on a data directory, if there is one, by its pid file; and whether the
//! library is in it. Read by `status`, `doctor`, `verify`, the conversions and the wrappers.
//!
//! Invariant: "stopped" is said only of a pid file that is missing, or that names a process.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::exit::{Code, Exit};

/// The pid file of a data directory.
pub const PID_FILE: &str = "postmaster.pid";

/// What PostgreSQL's server is started by.
const SERVERS: [&str; 2] = ["postgres", "postmaster"];

/// A server writes into its file at once after it has made it: so often we look, and so long we
/// wait in between.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// Nobody knows whether a server runs.
#[derive(Debug, thiserror::Error)]
pub enum PidFileError {
    #[error("{} cannot be read ({}), which tells whether a server runs: run this as the server's user or root", .0.display(), .1)]
    Read(PathBuf, io::Error),
    #[error("{} names no process, so a server may be starting, or a crash has left the file: if no server runs, remove it", .0.display())]
    NoProcess(PathBuf),
}

impl Exit for PidFileError {
    fn code(&self) -> Code {
        Code::Io
    }
}

/// The process that a pid file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    pub pid: u32,
    /// A single-user server, and a conversion, write their number with a minus.
    pub is_postmaster: bool,
}

impl Named {
    /// What PostgreSQL calls it.
    pub fn program(self) -> &'static str {
        match self.is_postmaster {
            true => "postmaster",
            false => "postgres",
        }
    }

    /// The first line, whole: what has no end yet may be half a number.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().position(|&byte| byte == b'\n')?;
        let number: i32 = std::str::from_utf8(&bytes[..end])
            .ok()?
            .trim()
            .parse()
            .ok()?;
        (number != 0).then_some(Self {
            pid: number.unsigned_abs(),
            is_postmaster: number > 0,
        })
    }
}

/// The process that a pid file names; none if there is no such file. An empty one is looked at
/// again for a while.
pub fn named(pid_file: &Path) -> Result<Option<Named>, PidFileError> {
    for _ in 0..LOOKS {
        match fs::read(pid_file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(PidFileError::Read(pid_file.to_owned(), error)),
            Ok(bytes) => match Named::parse(&bytes) {
                Some(named) => return Ok(Some(named)),
                None => thread::sleep(PAUSE),
            },
        }
    }
    Err(PidFileError::NoProcess(pid_file.to_owned()))
}

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

/// The server that runs on a data directory.
pub fn of(data: &Path) -> Result<Server, PidFileError> {
    of_pid_file(&data.join(PID_FILE), data)
}

/// The server of this pid file, which may have got another name.
pub fn of_pid_file(pid_file: &Path, data: &Path) -> Result<Server, PidFileError> {
    let running = named(pid_file)?.filter(|named| is_server(named.pid, data));
    let Some(Named { pid, .. }) = running else {
        return Ok(Server::Stopped);
    };
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn who_is_named() {
        let named =
            |bytes: &[u8]| Named::parse(bytes).map(|named| (named.pid, named.is_postmaster));
        assert_eq!(named(b"17\n/data\xff\n"), Some((17, true)));
        assert_eq!(named(b"-17\n"), Some((17, false)));
        for nobody in [
            &b""[..],
            b"1",
            b"17",
            b"\n17\n",
            b"0\n",
            b"x\n",
            b"99999999999\n",
        ] {
            assert_eq!(named(nobody), None);
        }
    }

    #[test]
    fn a_file_that_is_written_meanwhile() {
        let data = tempfile::tempdir().unwrap();
        let pid_file = data.path().join(PID_FILE);
        fs::write(&pid_file, "").unwrap();
        let path = pid_file.clone();
        let server = thread::spawn(move || {
            thread::sleep(5 * PAUSE);
            fs::write(path, "17\n").unwrap();
        });
        assert_eq!(named(&pid_file).unwrap().map(|named| named.pid), Some(17));
        server.join().unwrap();
    }
}
