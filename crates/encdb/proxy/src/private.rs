//! A server at a socket that only its user can reach.

use std::convert::Infallible;
use std::io;
use std::path::Path;

use pgseal_keys::exit::{Code, Exit};
use tokio::net::UnixListener;

use crate::directory::PrivateDirectory;
use crate::listener::{Address, ListenError, Listener};
use crate::serve::Server;
use crate::service::Service;

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
    directory: PrivateDirectory,
}

impl PrivateServer {
    /// Listens in a new directory of mode 0700. The process's umask is left alone, which other
    /// threads may make files with.
    pub async fn listen(service: Service) -> Result<Self, PrivateError> {
        let directory = PrivateDirectory::new().map_err(PrivateError::Directory)?;
        let path = directory.socket();
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
