//! Locks the data directory for this process: no server and no other conversion may touch it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use pgseal_keys::exit::{Code, Exit};
use pgseal_keys::server::{self, PidFileError, Server, PID_FILE};

/// A server that has seen an old pid file removes it within so long, or sees ours.
const SETTLED: Duration = Duration::from_millis(200);

/// Why the data directory is not ours.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{} is not a data directory: it has no PG_VERSION; give one with -D", .0.display())]
    NoCluster(PathBuf),
    #[error("{} belongs to another user: run this as its owner, who is the server's user", .0.display())]
    Owner(PathBuf),
    #[error("a server is running on {} (process {}): stop it first", .0.display(), .1)]
    Server(PathBuf, u32),
    #[error("another pgseal is converting {}: wait until it has finished", .0.display())]
    Other(PathBuf),
    #[error(transparent)]
    PidFile(#[from] PidFileError),
    #[error("{} cannot be locked ({}): check its owner and mode, and free space", .0.display(), .1)]
    Io(PathBuf, io::Error),
}

impl Exit for LockError {
    fn code(&self) -> Code {
        match self {
            Self::NoCluster(_) | Self::Owner(_) => Code::Usage,
            Self::Server(..) | Self::Other(_) => Code::Busy,
            Self::Io(..) | Self::PidFile(_) => Code::Io,
        }
    }
}

/// The right to convert a cluster, until it is dropped.
pub struct Lock {
    data: PathBuf,
    /// No other process converts.
    _directory: Flock<File>,
    /// No server starts.
    pid_file: Option<PathBuf>,
}

impl Lock {
    /// Keeps other conversions out; nothing is written.
    pub fn take(data: &Path) -> Result<Self, LockError> {
        let failed = |error| LockError::Io(data.to_owned(), error);
        if !data.join("PG_VERSION").is_file() {
            return Err(LockError::NoCluster(data.to_owned()));
        }
        if fs::metadata(data).map_err(failed)?.uid() != geteuid().as_raw() {
            return Err(LockError::Owner(data.to_owned()));
        }
        let directory = File::open(data).map_err(failed)?;
        let directory = match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
            Ok(directory) => directory,
            Err((_, Errno::EWOULDBLOCK)) => return Err(LockError::Other(data.to_owned())),
            Err((_, errno)) => return Err(failed(errno.into())),
        };
        refuse_server(data)?;
        Ok(Self {
            data: data.to_owned(),
            _directory: directory,
            pid_file: None,
        })
    }

    /// Keeps servers out: `postmaster.pid` is ours, as if we were one. That of a server that
    /// crashed is replaced: call this only when `pg_control` says that the last one was
    /// shut down, and look again after it.
    pub fn keep_servers_out(&mut self) -> Result<(), LockError> {
        let path = self.data.join(PID_FILE);
        let written = match write_pid_file(&path, &self.data) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.replace_old(&path)?,
            written => written,
        };
        if let Err(error) = written {
            // Perhaps a server was quicker.
            refuse_server(&self.data)?;
            return Err(LockError::Io(path, error));
        }
        self.pid_file = Some(path);
        Ok(())
    }

    /// Puts our pid file in the place of one whose process is gone. A server that starts just now
    /// does the same: neither may remove the other's.
    fn replace_old(&self, path: &Path) -> Result<io::Result<()>, LockError> {
        let failed = |error| LockError::Io(path.to_owned(), error);
        refuse_server(&self.data)?;
        let aside = self.data.join(format!("{PID_FILE}.{}", process::id()));
        fs::rename(path, &aside).map_err(failed)?;
        if !matches!(server::of_pid_file(&aside, &self.data), Ok(Server::Stopped)) {
            // It came between the look and the rename. A link takes no other's place.
            let _ = fs::hard_link(&aside, path);
            let _ = fs::remove_file(&aside);
            refuse_server(&self.data)?;
            return Err(failed(ErrorKind::AlreadyExists.into()));
        }
        fs::remove_file(&aside).map_err(failed)?;
        let written = write_pid_file(path, &self.data);
        if written.is_ok() {
            thread::sleep(SETTLED);
            if !is_ours(path) {
                refuse_server(&self.data)?;
                return Err(failed(ErrorKind::NotFound.into()));
            }
        }
        Ok(written)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(path) = self.pid_file.as_ref().filter(|path| is_ours(path)) {
            // If it stays, it names a process that is gone.
            let _ = fs::remove_file(path);
        }
    }
}

/// Does the file name this process?
fn is_ours(path: &Path) -> bool {
    let first = format!("-{}", process::id());
    fs::read_to_string(path).is_ok_and(|text| text.lines().next() == Some(&*first))
}

fn refuse_server(data: &Path) -> Result<(), LockError> {
    match server::of(data)?.pid() {
        Some(pid) => Err(LockError::Server(data.to_owned(), pid)),
        None => Ok(()),
    }
}

/// As a single-user server writes it, so that `pg_ctl stop` does not take us for a postmaster.
fn write_pid_file(path: &Path, data: &Path) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    let text = format!("-{}\n{}\n{now}\n0\n\n", process::id(), data.display());
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// No process has this number: it is above the kernel's limit.
    const GONE: &str = "99999999\n/nowhere\n";

    fn crashed() -> (tempfile::TempDir, PathBuf) {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("PG_VERSION"), "15\n").unwrap();
        let pid_file = data.path().join(PID_FILE);
        fs::write(&pid_file, GONE).unwrap();
        (data, pid_file)
    }

    #[test]
    fn an_old_pid_file_is_replaced_and_only_ours_is_removed() {
        let (data, pid_file) = crashed();
        for theirs in [false, true] {
            let mut lock = Lock::take(data.path()).unwrap();
            lock.keep_servers_out().unwrap();
            assert!(is_ours(&pid_file));
            if theirs {
                fs::write(&pid_file, GONE).unwrap();
            }
            drop(lock);
            assert_eq!(pid_file.exists(), theirs);
        }
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 2);
    }

    /// PostgreSQL makes its file, and then writes its number into it.
    #[test]
    fn a_pid_file_that_names_nobody_yet_is_not_taken_for_a_stopped_server() {
        let (data, pid_file) = crashed();
        let sentence = format!("{} names no process, so a server may be starting, or a crash has left the file: if no server runs, remove it", pid_file.display());
        let mut lock = Lock::take(data.path()).unwrap();
        fs::write(&pid_file, "").unwrap();
        let said = lock.keep_servers_out().unwrap_err().to_string();
        assert_eq!(said, sentence);
        drop(lock);
        let said = Lock::take(data.path()).map(drop).unwrap_err().to_string();
        assert_eq!(said, sentence);
        assert_eq!(fs::read(&pid_file).unwrap(), b"");
    }

    #[test]
    fn a_server_that_saw_the_old_file_and_removes_ours_keeps_us_out() {
        let (data, pid_file) = crashed();
        let mut lock = Lock::take(data.path()).unwrap();
        let server = thread::spawn(move || loop {
            if is_ours(&pid_file) {
                fs::remove_file(&pid_file).unwrap();
                return;
            }
        });
        assert!(matches!(lock.keep_servers_out(), Err(LockError::Io(..))));
        server.join().unwrap();
    }
}
