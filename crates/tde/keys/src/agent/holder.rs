//! The agent's side: it holds keys and answers.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::PollTimeout;
use pgseal_crypto::KeyId;
use pgseal_format::ClusterId;

use super::locked::Locked;
use super::{asked, trusted, REQUEST};
use crate::exit::{Code, Exit};
use crate::interrupt::PutOff;
use crate::key_set::{KeySet, KeySetError};

/// Why an agent does not serve.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("an agent already answers at {0}: use it, or name another socket with --socket")]
    Answers(PathBuf),
    #[error("{0} is there and is no socket: name another one with --socket")]
    NotASocket(PathBuf),
    #[error("the agent cannot listen at {0} ({1}): check the directory, or name another socket with --socket")]
    Listen(PathBuf, io::Error),
    #[error("there is no memory to hold the keys in ({0})")]
    Memory(io::Error),
    #[error("the agent cannot wait for requests ({0})")]
    Wait(io::Error),
    #[error(transparent)]
    Keys(#[from] KeySetError),
}

impl Exit for AgentError {
    fn code(&self) -> Code {
        match self {
            Self::Answers(_) => Code::Busy,
            Self::NotASocket(_) => Code::Usage,
            Self::Listen(..) | Self::Memory(_) | Self::Wait(_) => Code::Io,
            Self::Keys(error) => error.code(),
        }
    }
}

/// The keys that an agent holds, and the socket that it listens at. The socket goes with it.
pub struct Holder {
    keys: Vec<Held>,
    listener: UnixListener,
    socket: PathBuf,
}

/// One key: the record that a client gets.
struct Held {
    cluster: ClusterId,
    key: KeyId,
    record: Locked,
}

impl Holder {
    /// Listens at `socket`, for this user alone, with these keys.
    pub fn new(socket: PathBuf, keys: KeySet) -> Result<Self, AgentError> {
        let keys = keys.by_cluster();
        let keys = keys.iter().flat_map(Held::of).collect::<Result<_, _>>()?;
        let listener = listen(&socket)?;
        Ok(Self {
            keys,
            listener,
            socket,
        })
    }

    /// Whether no key can be swapped to disk, which the limit of locked memory must allow.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.keys.iter().all(|held| held.record.is_locked())
    }

    /// Answers until the time is over, if there is one, or a signal ends it.
    pub fn serve(&self, time: Option<Duration>, signals: &PutOff) -> Result<(), AgentError> {
        let end = time.map(|time| Instant::now() + time);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            // A longer wait than poll takes is waited for in parts.
            let left = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
            match signals.readable(self.listener.as_fd(), left) {
                Ok(true) => self.accept(),
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
                Err(error) => return Err(AgentError::Wait(error)),
            }
        }
    }

    /// Answers one client. A client that sends nothing, or goes, is none of the agent's concern.
    fn accept(&self) {
        if let Ok((stream, _)) = self.listener.accept() {
            let _ = self.answer(stream);
        }
    }

    fn answer(&self, mut stream: UnixStream) -> io::Result<()> {
        trusted(&stream)?;
        let mut request = [0; REQUEST];
        stream.read_exact(&mut request)?;
        let wanted = asked(&request);
        let mut held = self.keys.iter();
        match held.find(|held| wanted == Some((held.cluster, held.key))) {
            Some(held) => stream.write_all(&held.record),
            None => Ok(()),
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Another agent finds out that nobody listens there.
        let _ = fs::remove_file(&self.socket);
    }
}

impl Held {
    /// Encodes the keys of one cluster, which are the same under each spelling of its path.
    fn of(cluster: &KeySet) -> Option<Result<Self, AgentError>> {
        let key = cluster.keys().first()?;
        let record = cluster.encode().map_err(AgentError::from);
        let locked = record.and_then(|record| Locked::copy(&record).map_err(AgentError::Memory));
        Some(locked.map(|record| Self {
            cluster: key.cluster,
            key: key.key_id,
            record,
        }))
    }
}

/// Makes the socket. One that nobody listens at is of an agent that was killed.
fn listen(socket: &Path) -> Result<UnixListener, AgentError> {
    let failed = |error| AgentError::Listen(socket.to_owned(), error);
    match fs::symlink_metadata(socket) {
        // Nothing is there, or `bind` fails for the same reason.
        Err(_) => {}
        Ok(found) if !is_socket(&found) => return Err(AgentError::NotASocket(socket.to_owned())),
        Ok(_) if UnixStream::connect(socket).is_ok() => {
            return Err(AgentError::Answers(socket.to_owned()));
        }
        Ok(_) => fs::remove_file(socket).map_err(failed)?,
    }
    let listener = UnixListener::bind(socket).map_err(failed)?;
    // Until then the user of each client is looked at all the same.
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

fn is_socket(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type())
}

#[cfg(test)]
mod tests {
    use super::super::{answer, request};
    use super::*;
    use crate::key_set::tests::record;

    #[test]
    fn a_request_gets_its_key_or_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("agent");
        let keys = KeySet::decode(&record(2)).expect("a record");
        let (cluster, key) = (keys.keys()[0].cluster, keys.keys()[0].key_id);
        let holder = Holder::new(socket.clone(), keys).expect("a socket");
        let asked = |cluster, key| {
            std::thread::scope(|scope| {
                scope.spawn(|| holder.accept());
                answer(&socket, &request(cluster, key)).expect("an answer")
            })
        };
        assert_eq!(asked(cluster, key), record(2));
        assert!(asked(ClusterId([3; 16]), key).is_empty());
        assert!(asked(cluster, KeyId([3; 16])).is_empty());
        drop(holder);
        assert!(!socket.exists(), "it goes with the agent");
    }

    /// Only a socket that nobody listens at is replaced.
    #[test]
    fn what_is_there_already_is_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let (socket, file) = (dir.path().join("agent"), dir.path().join("file"));
        fs::write(&file, "precious").expect("a file");
        assert!(matches!(listen(&file), Err(AgentError::NotASocket(_))));
        for place in [dir.path().join("none/agent"), file.join("agent")] {
            assert!(matches!(listen(&place), Err(AgentError::Listen(..))));
        }
        let listener = listen(&socket).expect("room");
        assert!(matches!(listen(&socket), Err(AgentError::Answers(_))));
        drop(listener);
        assert!(socket.exists() && listen(&socket).is_ok());
    }

    #[test]
    fn an_agent_serves_for_its_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let keys = KeySet::decode(&record(2)).expect("a record");
        let holder = Holder::new(dir.path().join("agent"), keys).expect("a socket");
        let signals = PutOff::new().expect("handlers");
        for time in [Duration::from_micros(500), Duration::from_millis(30)] {
            let start = Instant::now();
            assert!(holder.serve(Some(time), &signals).is_ok());
            assert!(start.elapsed() >= time);
        }
    }
}
