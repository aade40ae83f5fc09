//! A directory for one socket, which only its user can enter.
//!
//! It is removed when its value is dropped. A process that is killed, or that ends by `_exit` as a
//! child of a fork, leaves its directory behind, and a file with passwords in it. Before a process
//! makes a directory, it removes those that ended processes of its user have left. A process locks
//! its directory for as long as it lives.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{env, io};

use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::{geteuid, unlinkat, UnlinkatFlags};
use tempfile::TempDir;

/// The port in the name of the socket.
pub const PORT: u16 = 5432;
/// The beginning of a directory's name.
const PREFIX: &str = "pgseal-";
/// The name of the file with passwords that libpq reads.
const PASSWORDS: &str = "passwords";
const MODE: u32 = 0o700;
/// Another process may remove a directory between its creation and its lock, but hardly twice.
const TRIES: usize = 8;

/// A new directory of mode 0700, and the lock that says that it is in use.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    directory: TempDir,
    _lock: Flock<File>,
}

impl PrivateDirectory {
    /// Makes it where the user's session has its sockets, if it has such a directory.
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|it| !it.is_empty());
        let made = runtime.and_then(|runtime| Self::new_in(Path::new(&runtime)).ok());
        made.map_or_else(|| Self::new_in(&env::temp_dir()), Ok)
    }

    fn new_in(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        let mut builder = tempfile::Builder::new();
        builder
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(MODE));
        for _ in 0..TRIES {
            let directory = builder.tempdir_in(parent)?;
            if let Some(lock) = locked(directory.path()) {
                let directory = Self {
                    directory,
                    _lock: lock,
                };
                return Ok(directory);
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the path of the socket, as libpq finds it.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path().join(socket_name())
    }

    /// Returns the path of the file with passwords.
    pub(crate) fn passwords(&self) -> PathBuf {
        self.path().join(PASSWORDS)
    }
}

pub(crate) fn socket_name() -> String {
    format!(".s.PGSQL.{PORT}")
}

/// Locks a directory of this user. Returns `None` if another process has the lock, and if it is no
/// such directory, or not any more.
fn locked(path: &Path) -> Option<Flock<File>> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
        .ok()?;
    let directory = Flock::lock(directory, FlockArg::LockExclusiveNonblock).ok()?;
    let (locked, named) = (directory.metadata().ok()?, fs::symlink_metadata(path).ok()?);
    let is_named = (locked.dev(), locked.ino()) == (named.dev(), named.ino());
    let is_ours = locked.uid() == geteuid().as_raw() && locked.mode() & 0o777 == MODE;
    (is_named && is_ours).then_some(directory)
}

/// Removes the directories whose processes have ended. One that cannot be removed, for it has more
/// in it than a socket and passwords, stays.
fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|it| it.file_name().to_string_lossy().starts_with(PREFIX));
    for path in ours.map(|entry| entry.path()) {
        if let Some(directory) = locked(&path) {
            for name in [socket_name().as_str(), PASSWORDS] {
                // What is not there need not be removed.
                let _ = unlinkat(&*directory, name, UnlinkatFlags::NoRemoveDir);
            }
            let _ = fs::remove_dir(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Returns a directory as an ended process leaves it.
    fn abandoned(parent: &Path) -> PathBuf {
        let directory = PrivateDirectory::new_in(parent).expect("the parent is writable");
        UnixListener::bind(directory.socket()).expect("the directory is empty");
        fs::write(directory.passwords(), "secret").expect("the directory is writable");
        directory.directory.keep()
    }

    #[test]
    fn directories_of_ended_processes_are_removed() {
        let parent = TempDir::new().expect("there is space");
        let left = abandoned(parent.path());
        let used = PrivateDirectory::new_in(parent.path()).expect("the parent is writable");
        assert!(!left.exists());
        UnixListener::bind(used.socket()).expect("the directory is empty");
        let other = PrivateDirectory::new_in(parent.path()).expect("the parent is writable");
        assert!(used.socket().exists() && other.path().exists());
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }

    #[test]
    fn only_known_files_are_removed_and_only_from_private_directories() {
        let parent = TempDir::new().expect("there is space");
        let kept = abandoned(parent.path());
        fs::write(kept.join("letter"), "text").expect("the directory is writable");
        let public = parent.path().join("pgseal-public");
        fs::create_dir(&public).expect("the name is free");
        fs::set_permissions(&public, Permissions::from_mode(0o755)).expect("it is ours");
        fs::write(public.join(PASSWORDS), "text").expect("the directory is writable");
        let link = parent.path().join("pgseal-link");
        std::os::unix::fs::symlink(&kept, &link).expect("the name is free");
        remove_abandoned(parent.path());
        assert!(kept.join("letter").exists() && public.join(PASSWORDS).exists());
        assert!(link.is_symlink());
    }
}
