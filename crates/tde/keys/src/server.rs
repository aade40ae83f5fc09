//! The server that runs on a data directory, if there is one, by its pid file; and whether the
//! library is in it. `status`, `doctor`, `verify`, the conversions and the wrappers read it.
//!
//! Invariant: "stopped" is reported only if the pid file is missing, or names a process that is no
//! server.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::exit::{Code, Exit};

/// The pid file of a data directory.
pub const PID_FILE: &str = "postmaster.pid";

/// The names that PostgreSQL's server is started by.
const SERVERS: [&str; 2] = ["postgres", "postmaster"];

/// The number of looks at a pid file, with a pause in between: a server writes into its file at
/// once after it has made it.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// It is not known whether a server runs.
#[derive(Debug, thiserror::Error)]
pub enum PidFileError {
    #[error("{} cannot be read ({}), which says whether a server runs: run this as the server's user or root", .0.display(), .1)]
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
    /// Returns PostgreSQL's name for the process.
    pub fn program(self) -> &'static str {
        match self.is_postmaster {
            true => "postmaster",
            false => "postgres",
        }
    }

    /// Reads the first line, which must be whole: without its end it may be half a number.
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

/// Returns the process that a pid file names; none if there is no such file. An empty file is
/// looked at again for a while.
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
pub enum Server {
    Stopped,
    RunningSealed {
        pid: u32,
    },
    RunningUnsealed {
        pid: u32,
    },
    /// A server of a cluster that is not sealed, with the library or without: a wrapper puts it
    /// into every server.
    RunningPlain {
        pid: u32,
    },
    /// A server of another user, whose libraries cannot be seen.
    RunningUnknown {
        pid: u32,
    },
}

impl Server {
    /// Returns the process, if there is one.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Stopped => None,
            Self::RunningSealed { pid }
            | Self::RunningUnsealed { pid }
            | Self::RunningPlain { pid }
            | Self::RunningUnknown { pid } => Some(*pid),
        }
    }

    /// Returns the same server as one of a cluster that is not sealed.
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

/// Returns the server that runs on a data directory.
pub fn of(data: &Path) -> Result<Server, PidFileError> {
    of_pid_file(&data.join(PID_FILE), data)
}

/// Returns the server of this pid file, which may have got another name.
pub fn of_pid_file(pid_file: &Path, data: &Path) -> Result<Server, PidFileError> {
    let running = named(pid_file)?.filter(|named| is_server(named.pid, data));
    let Some(Named { pid, .. }) = running else {
        return Ok(Server::Stopped);
    };
    Ok(by_maps(
        pid,
        fs::read_to_string(format!("/proc/{pid}/maps")),
    ))
}

/// Returns the server by the files that are mapped into its memory.
fn by_maps(pid: u32, maps: io::Result<String>) -> Server {
    match maps {
        Ok(maps) if maps.contains("libpgseal.so") => Server::RunningSealed { pid },
        Ok(_) => Server::RunningUnsealed { pid },
        Err(_) => Server::RunningUnknown { pid },
    }
}

/// Is the process a server? The name that it was started by shows it, or its program's name, or
/// that it works in the data directory, as servers do. A conversion, whose number may stand in the
/// pid file too, is none.
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
    fn a_server_is_sealed_if_the_library_is_in_it() {
        let other = "7f00-7f01 r-xp 0 08:01 5 /usr/lib/libc.so.6\n".to_owned();
        let ours = format!("{other}7f02-7f03 r-xp 0 08:01 6 /usr/lib/libpgseal.so\n");
        let denied = ErrorKind::PermissionDenied.into();
        for (maps, expected) in [
            (Ok(ours), "running sealed (process 17)"),
            (Ok(other), "running unsealed (process 17)"),
            (
                Err(denied),
                "running (process 17); ask as its user or root whether sealed",
            ),
        ] {
            assert_eq!(by_maps(17, maps).to_string(), expected);
        }
    }

    /// A server may run where the file cannot be read, so it counts as no stopped one.
    #[test]
    fn a_pid_file_that_cannot_be_read() {
        let data = tempfile::tempdir().unwrap();
        let pid_file = data.path().join(PID_FILE);
        assert_eq!(named(&pid_file).unwrap(), None);
        fs::create_dir(&pid_file).unwrap();
        assert!(matches!(named(&pid_file), Err(PidFileError::Read(..))));
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
