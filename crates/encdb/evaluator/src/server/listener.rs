//! The socket: where backends connect, and who may.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, thread};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::sys::stat::{umask, Mode};
use nix::unistd::Uid;

/// The time for which no connection is accepted after the kernel refused one.
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
    /// Listens at `path` for these users. It replaces a socket that was left there by a process
    /// that is gone, and nothing else. Only root and `owner` may put anything in its place, for
    /// anyone who can do that answers backends, and leads a process that is still root astray.
    pub fn bind(path: &Path, allowed: Vec<Uid>, owner: Uid) -> io::Result<Self> {
        let path = &own_place(path, owner)?;
        if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
            match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path)?;
                }
                _ => return Err(io::ErrorKind::AddrInUse.into()),
            }
        }
        // Who may connect is asked of the kernel, below. The process has one thread yet.
        let before = umask(Mode::from_bits_truncate(0o111));
        let socket = UnixListener::bind(path);
        umask(before);
        let socket = socket?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            allowed,
            manager: manager(),
        })
    }

    /// Returns the next connection, if its user may connect. If the kernel has no descriptor for
    /// it, the connection waits. It is asked for again soon, not at once and without an end.
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

    /// Notifies the service manager that connections are taken, if it asked to be told.
    pub fn ready(&self) {
        if let Some(manager) = &self.manager {
            // Who asked and does not listen is not waited for.
            let _ = manager.send(b"READY=1");
        }
    }
}

/// Returns the path without links, if only root and `owner` may write its directory, and, where
/// this is root, no other user may move what is above that.
fn own_place(path: &Path, owner: Uid) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let given = path.parent().filter(|parent| *parent != Path::new(""));
    let directory = fs::canonicalize(given.unwrap_or(Path::new(".")))?;
    let all = if Uid::effective().is_root() {
        usize::MAX
    } else {
        1
    };
    for (above, place) in directory.ancestors().enumerate().take(all) {
        let found = fs::metadata(place)?;
        let is_ours = [Uid::from_raw(0), owner].contains(&Uid::from_raw(found.uid()));
        // Below a directory with the sticky bit nobody moves what is another's.
        let is_kept = found.mode() & 0o022 == 0 || above > 0 && found.mode() & 0o1000 != 0;
        if !is_ours || !is_kept {
            return Err(io::Error::other(format!(
                "others than root and the evaluator's user may write the directory {}: take another",
                place.display()
            )));
        }
    }
    Ok(directory.join(name))
}

/// systemd's socket, of a unit with `Type=notify`.
fn manager() -> Option<UnixDatagram> {
    let path = env::var_os("NOTIFY_SOCKET")?;
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect(path).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::{symlink, PermissionsExt};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn bind(path: &Path) -> io::Result<Listener> {
        Listener::bind(path, Vec::new(), Uid::effective())
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// An attacker who may write the directory swaps the new socket for a link to a file of ours.
    #[test]
    fn a_file_that_takes_the_sockets_place_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let (path, file) = (
            directory.path().join("socket"),
            directory.path().join("file"),
        );
        let link = directory.path().join("link");
        fs::write(&file, b"").unwrap();
        set_mode(&file, 0o600);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _ = symlink(&file, &link);
                    if path.exists() {
                        let _ = fs::rename(&link, &path);
                    }
                }
            });
            for _ in 0..2000 {
                let bound = bind(&path);
                let found = fs::symlink_metadata(&path);
                if let Some(found) = found.ok().filter(|found| found.file_type().is_socket()) {
                    // Anybody may ask, and is refused later.
                    assert_eq!((bound.is_ok(), found.mode() & 0o777), (true, 0o666));
                }
                let _ = fs::remove_file(&path);
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let below = top.path().join("below");
        fs::create_dir(&below).unwrap();
        let path = below.join("socket");
        for (mode, above, is_taken) in [
            (0o755, 0o755, true),
            (0o700, 0o1777, true),
            (0o775, 0o755, false),
            (0o777, 0o755, false),
            (0o1777, 0o755, false),
            (0o755, 0o777, false),
            (0o755, 0o775, false),
        ] {
            set_mode(top.path(), above);
            set_mode(&below, mode);
            let is_taken = is_taken || mode == 0o755 && !Uid::effective().is_root();
            assert_eq!(bind(&path).is_ok(), is_taken, "{mode:o} below {above:o}");
            let _ = fs::remove_file(&path);
        }
        // A directory of somebody who is neither root nor the user that the process becomes.
        set_mode(top.path(), 0o755);
        let other = Uid::from_raw(Uid::effective().as_raw() + 1);
        let refused = Listener::bind(&path, Vec::new(), other);
        assert_eq!(refused.is_ok(), Uid::effective().is_root());
    }
}
