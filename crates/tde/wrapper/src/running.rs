//! A server that runs already: reported before a passphrase is asked for.
//!
//! postgres opens `pg_control` before it looks for another server, and `pg_ctl` of 18 opens it when
//! the server that it started has ended; so their wrappers speak for them, by PostgreSQL's own rule
//! and nearly in its words.

use std::env;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use pgseal_keys::exit::{Code, Exit};
use pgseal_keys::server::{named, Named, PidFileError, PID_FILE};

/// `pg_ctl` informs the server who started `pg_ctl`.
const GRANDPARENT: &str = "PG_GRANDPARENT_PID";

/// Why no second server starts.
#[derive(Debug, thiserror::Error)]
pub enum RunningError {
    /// A live server of the directory, reported as PostgreSQL reports it.
    #[error("lock file {PID_FILE:?} already exists: is another {} (PID {}) running in data directory {:?}?", .1.program(), .1.pid, .0)]
    Another(PathBuf, Named),
    #[error(transparent)]
    PidFile(#[from] PidFileError),
}

impl Exit for RunningError {
    fn code(&self) -> Code {
        match self {
            Self::PidFile(error) => error.code(),
            Self::Another(..) => Code::AsPostgres,
        }
    }
}

/// Refuses a second server.
pub fn refuse_second(data: &Path) -> Result<(), RunningError> {
    match another(data)? {
        Some(other) => Err(RunningError::Another(data.to_owned(), other)),
        None => Ok(()),
    }
}

/// Returns the live process that the pid file names, by PostgreSQL's own rule. It is not this
/// process, nor one that started it: their numbers may be those of a server before the machine was
/// restarted. It is no process of another user either, which cannot have made the file.
fn another(data: &Path) -> Result<Option<Named>, PidFileError> {
    let grandparent = env::var(GRANDPARENT).ok().and_then(|pid| pid.parse().ok());
    let own = [Some(process::id()), Some(parent_id()), grandparent];
    let other = named(&data.join(PID_FILE))?.filter(|named| !own.contains(&Some(named.pid)));
    Ok(other.filter(|named| {
        let pid = i32::try_from(named.pid).map(Pid::from_raw);
        pid.is_ok_and(|pid| !matches!(kill(pid, None), Err(Errno::ESRCH | Errno::EPERM)))
    }))
}
