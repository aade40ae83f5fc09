//! The key of a running server whose key file is lost: the server gives it to root.
//!
//! Root makes a socket in the data directory, which belongs to the server's user: no name in it is
//! followed or trusted. Each process that the server starts looks for it as
//! long as the key file is missing, so one connection to the server is enough to be answered.
//! Nothing is taken from a process that the server did not start.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::poll::PollTimeout;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::sys::stat::{umask, Mode};
use nix::unistd::geteuid;
use pgseal_contract::file::{RESCUE_REQUEST, RESCUE_SOCKET};
use pgseal_crypto::MasterKey;
use pgseal_format::Header;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::interrupt::PutOff;
use pgseal_keys::key_set::{ClusterKey, KeySet};
use pgseal_keys::keybin::KeyDir;
use pgseal_keys::server::{self, Server, PID_FILE};
use zeroize::Zeroizing;

/// The time within which the server answers: the start of one process.
const TIME: Duration = Duration::from_secs(20);
const ONE_READ: Duration = Duration::from_secs(5);
const MAX_RECORD: u64 = 64 * 1024;

/// Why there is no key of a running server.
#[derive(Debug, thiserror::Error)]
pub enum RescueError {
    #[error("a running server gives its key to root only: run this as root")]
    NotRoot,
    #[error("no encrypted server runs in {0}: restore key.bin from a copy, a sheet or shares")]
    NotRunning(PathBuf),
    #[error("{0} is there and is no socket: remove it")]
    NotASocket(PathBuf),
    #[error("{0} cannot be made ({1}): check the data directory")]
    Socket(PathBuf, io::Error),
    #[error("the server (process {0}) did not give its key within {limit} seconds: key.bin must be missing, and the server's library must know this request", limit = TIME.as_secs())]
    Silent(u32),
}

impl Exit for RescueError {
    fn code(&self) -> Code {
        match self {
            Self::NotRoot | Self::NotASocket(_) => Code::Usage,
            Self::NotRunning(_) => Code::NotSealed,
            Self::Socket(..) => Code::Io,
            Self::Silent(_) => Code::Refused,
        }
    }
}

/// Takes the key of the server that runs in `data`, and makes the header of its key file anew.
pub fn take(data: &Path) -> Result<(Header, MasterKey), Failure> {
    if !geteuid().is_root() {
        return Err(RescueError::NotRoot.into());
    }
    let Server::RunningSealed { pid } = server::of(data)? else {
        return Err(RescueError::NotRunning(data.to_owned()).into());
    };
    let place = Place::make(data)?;
    let _connection = connect(data);
    let key = place.wait(pid)?.ok_or(RescueError::Silent(pid))?;
    let mut master = Zeroizing::new(*key.master.expose());
    Ok((header(data, &key), MasterKey::from_bytes(&mut master)))
}

/// Returns the header: the copy in pgseal.toml if that is of this key, or else one that was created
/// now.
fn header(data: &Path, key: &ClusterKey) -> Header {
    let copy = KeyDir::of(data).header().ok();
    let copy = copy.filter(|copy| copy.key_id == key.key_id && copy.cluster == key.cluster);
    copy.unwrap_or_else(|| Header {
        suite: key.suite,
        length: key.length,
        cluster: key.cluster,
        key_id: key.key_id,
        created: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
    })
}

/// A connection to the server, of either kind.
enum Connection {
    Unix { _stream: UnixStream },
    Tcp { _stream: TcpStream },
}

/// Has the server start a process: it does so for every connection, before it asks who it is. The
/// process lasts as long as the connection. Without one, a worker of autovacuum comes within a
/// minute.
fn connect(data: &Path) -> Option<Connection> {
    let text = fs::read_to_string(data.join(PID_FILE)).ok()?;
    let mut lines = text.lines().skip(3);
    let (port, directory, address) = (lines.next()?, lines.next()?, lines.next()?);
    // The file is the server's user's, and this is root.
    let port: u16 = port.trim().parse().ok()?;
    if !directory.is_empty() {
        let socket = Path::new(directory).join(format!(".s.PGSQL.{port}"));
        if let Ok(stream) = UnixStream::connect(socket) {
            return Some(Connection::Unix { _stream: stream });
        }
    }
    let host = match address {
        "" | "*" => "localhost",
        host => host,
    };
    let stream = TcpStream::connect(format!("{host}:{port}")).ok()?;
    Some(Connection::Tcp { _stream: stream })
}

/// The socket, which goes with this.
struct Place {
    listener: UnixListener,
    path: PathBuf,
    owner: u32,
}

impl Place {
    fn make(data: &Path) -> Result<Self, RescueError> {
        let path = data.join(RESCUE_SOCKET.as_str());
        let failed = |error| RescueError::Socket(path.clone(), error);
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(RescueError::NotASocket(path));
            }
            Ok(_) => fs::remove_file(&path).map_err(failed)?,
            Err(_) => {}
        }
        // The whole path may be too long for an address.
        let directory = File::open(data).map_err(failed)?;
        let short = format!(
            "/proc/self/fd/{}/{}",
            directory.as_raw_fd(),
            RESCUE_SOCKET.as_str()
        );
        // Any process that reaches the data directory may connect: the kernel says which user it
        // is. The mode is not set by name, because the directory's owner could put a link there.
        let before = umask(Mode::from_bits_truncate(0o111));
        let listener = UnixListener::bind(short);
        umask(before);
        Ok(Self {
            listener: listener.map_err(failed)?,
            owner: directory.metadata().map_err(failed)?.uid(),
            path: path.clone(),
        })
    }

    /// Waits for a process of the server, and reads its key.
    fn wait(&self, server: u32) -> Result<Option<ClusterKey>, RescueError> {
        let failed = |error| RescueError::Socket(self.path.clone(), error);
        let (signals, end) = (PutOff::new().map_err(failed)?, Instant::now() + TIME);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let time = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            if left.is_zero() {
                return Ok(None);
            }
            if signals
                .readable(self.listener.as_fd(), time)
                .map_err(failed)?
            {
                let (stream, _) = self.listener.accept().map_err(failed)?;
                if let Some(key) = self.key(stream, server) {
                    return Ok(Some(key));
                }
            }
        }
    }

    /// Reads a key, if it comes from a child of the server.
    fn key(&self, stream: UnixStream, server: u32) -> Option<ClusterKey> {
        let peer = getsockopt(&stream, PeerCredentials).ok()?;
        if peer.uid() != self.owner || parent(peer.pid()) != Some(server) {
            return None;
        }
        stream.set_read_timeout(Some(ONE_READ)).ok()?;
        (&stream).write_all(RESCUE_REQUEST).ok()?;
        let mut record = Zeroizing::new(Vec::with_capacity(64 * 1024));
        stream.take(MAX_RECORD).read_to_end(&mut record).ok()?;
        KeySet::decode(&record).ok()?.into_first()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A server that finds it later finds nobody there.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the process that started this one.
fn parent(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line?.trim().parse().ok()
}
