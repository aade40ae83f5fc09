//! A server at a socket that only its user can reach.

use std::convert::Infallible;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, io};

use pgseal_keys::exit::{Code, Exit};
use tempfile::TempDir;
use tokio::net::UnixListener;

use crate::listener::{Address, ListenError, Listener};
use crate::serve::Server;
use crate::service::Service;

/// The port in the name of the socket.
pub const PORT: u16 = 5432;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum PrivateError {
    /// The directory of the socket cannot be made.
    #[error("the directory of the socket cannot be made: {0}; set XDG_RUNTIME_DIR or TMPDIR to a directory of yours")]
    Directory(#[source] io::Error),
    /// The socket cannot be made.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

impl Exit for PrivateError {
    fn code(&self) -> Code {
        Code::Io
    }
}

/// A server in a directory of its own, which goes with it.
pub struct PrivateServer {
    server: Server,
    directory: TempDir,
}

impl PrivateServer {
    /// Listens in a new directory of mode 0700. The process's umask is left alone, which other
    /// threads may make files with.
    pub async fn listen(service: Service) -> Result<Self, PrivateError> {
        let directory = private_directory().map_err(PrivateError::Directory)?;
        let path = socket(directory.path());
        let listener = UnixListener::bind(&path);
        let failed = |error| ListenError::Io(Address::Unix(path.clone()), error);
        let listener = Listener::Unix(listener.map_err(failed)?, Some(path.clone()));
        Ok(Self {
            server: Server::of(vec![listener], service),
            directory,
        })
    }

    /// Returns the directory of the socket.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Serves for ever. It may be dropped and called again.
    pub async fn run(&mut self) -> Infallible {
        self.server.run().await
    }
}

/// Returns the socket in a directory, as libpq finds it there.
fn socket(directory: &Path) -> PathBuf {
    directory.join(format!(".s.PGSQL.{PORT}"))
}

/// Makes a directory of mode 0700, where the user's session has its sockets if it has such a place.
pub(crate) fn private_directory() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("pgseal-");
    builder.permissions(Permissions::from_mode(0o700));
    let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|it| !it.is_empty());
    let made = runtime.and_then(|runtime| builder.tempdir_in(runtime).ok());
    made.map_or_else(|| builder.tempdir(), Ok)
}
