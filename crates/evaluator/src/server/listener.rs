//! The socket: where backends connect, and who may.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;
use std::{env, fs, thread};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Uid;

/// How long nobody is accepted after the kernel refused.
const PAUSE: Duration = Duration::from_millis(10);

/// A socket that listens.
pub struct Listener {
    socket: UnixListener,
    allowed: Vec<Uid>,
    /// Whom to tell that it listens.
    manager: Option<UnixDatagram>,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Listener {
    /// Listens at `path` for these users. A socket that was left there by a process that is gone is
    /// replaced; anything else is not.
    pub fn bind(path: &Path, allowed: Vec<Uid>) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
            match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path)?;
                }
                _ => return Err(io::ErrorKind::AddrInUse.into()),
            }
        }
        let socket = UnixListener::bind(path)?;
        socket.set_nonblocking(true)?;
        // Who may connect is asked of the kernel, below.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
        Ok(Self {
            socket,
            allowed,
            manager: manager(),
        })
    }

    /// The next connection, if it is from somebody who may. Where the kernel has no descriptor for
    /// it, it waits, and is asked for again soon, not at once and without an end.
    pub fn accept(&self) -> Option<UnixStream> {
        let (socket, _) = match self.socket.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    thread::sleep(PAUSE);
                }
                return None;
            }
        };
        let peer = getsockopt(&socket, PeerCredentials).ok()?;
        let allowed = self.allowed.contains(&Uid::from_raw(peer.uid()));
        allowed.then_some(socket)
    }

    /// Tells the service manager that connections are taken, if it asked to be told.
    pub fn ready(&self) {
        if let Some(manager) = &self.manager {
            // Who asked and does not listen is not waited for.
            let _ = manager.send(b"READY=1");
        }
    }
}

/// systemd's socket, of a unit with `Type=notify`.
fn manager() -> Option<UnixDatagram> {
    let path = env::var_os("NOTIFY_SOCKET")?;
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect(path).ok()?;
    Some(socket)
}
