//! Sockets that drivers connect to, on this machine or a network.
//!
//! A unix socket is made with mode 0600. One that a proxy left behind, which nobody answers at, is
//! replaced; one that is answered is not.

use std::convert::Infallible;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use listenfd::ListenFd;
use nix::sys::stat::{umask, Mode};
use socket2::SockRef;
use tokio::net::{lookup_host, TcpListener, TcpStream, UnixListener, UnixStream};

/// An address as an option has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The path of a socket
    Unix(PathBuf),
    /// HOST:PORT
    Tcp(String),
}

impl Address {
    /// Reads an address: text with a slash is a path.
    pub fn of(text: &str) -> Self {
        match text.contains('/') {
            true => Self::Unix(text.into()),
            false => Self::Tcp(text.to_owned()),
        }
    }
}

impl FromStr for Address {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::of(text))
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// A socket that listens. A unix socket that was made here is removed with it.
pub enum Listener {
    /// A socket for users of this machine, and its path if it was made here
    Unix(UnixListener, Option<PathBuf>),
    /// An address of a network
    Tcp(TcpListener),
}

/// A driver that was accepted.
pub enum Socket {
    /// A driver of this machine
    Unix(UnixStream),
    /// A driver of a network
    Tcp(TcpStream),
}

/// Why an address cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Passwords and values would cross a network in clear.
    #[error("{0} is no loopback address, and what crosses a network needs TLS: give --tls-cert and --tls-key, or listen at a unix socket or at 127.0.0.1")]
    Clear(Address),
    /// The system refuses.
    #[error("{0} cannot be listened at: {1}")]
    Io(Address, #[source] io::Error),
    /// A socket of systemd does not listen for streams.
    #[error("socket {0} of systemd cannot be used: {1}; give ListenStream= in its unit")]
    Given(usize, #[source] io::Error),
}

impl Listener {
    /// Listens at an address; without TLS at none of a network.
    pub async fn bind(address: &Address, has_tls: bool) -> Result<Self, ListenError> {
        let failed = |error| ListenError::Io(address.clone(), error);
        match address {
            Address::Unix(path) => {
                remove_unanswered(path).await.map_err(failed)?;
                let listener = bind_private(path).map_err(failed)?;
                Ok(Self::Unix(listener, Some(path.clone())))
            }
            Address::Tcp(text) => {
                let found: Vec<_> = lookup_host(text).await.map_err(failed)?.collect();
                if !has_tls && !found.iter().all(|it| it.ip().is_loopback()) {
                    return Err(ListenError::Clear(address.clone()));
                }
                Ok(Self::Tcp(TcpListener::bind(&*found).await.map_err(failed)?))
            }
        }
    }

    /// Takes the sockets that systemd opened before the program began (`LISTEN_FDS`), which are
    /// open to whom their unit says.
    pub fn of_systemd(has_tls: bool) -> Result<Vec<Self>, ListenError> {
        let mut given = ListenFd::from_env();
        let taken = (0..given.len()).map(|at| {
            let listener = Self::given(&mut given, at);
            let listener = listener.map_err(|error| ListenError::Given(at + 1, error))?;
            match listener.network()? {
                Some(address) if !has_tls => Err(ListenError::Clear(address)),
                _ => Ok(listener),
            }
        });
        taken.collect()
    }

    fn given(all: &mut ListenFd, at: usize) -> io::Result<Self> {
        if let Ok(Some(listener)) = all.take_unix_listener(at) {
            listener.set_nonblocking(true)?;
            return Ok(Self::Unix(UnixListener::from_std(listener)?, None));
        }
        let listener = all.take_tcp_listener(at)?;
        let listener = listener.ok_or(io::ErrorKind::NotConnected)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(TcpListener::from_std(listener)?))
    }

    /// Returns the address if it is one of a network, and not loopback.
    pub fn network(&self) -> Result<Option<Address>, ListenError> {
        let Self::Tcp(listener) = self else {
            return Ok(None);
        };
        let local = listener
            .local_addr()
            .map_err(|error| ListenError::Given(0, error))?;
        Ok((!local.ip().is_loopback()).then(|| Address::Tcp(local.to_string())))
    }

    /// Waits for a driver.
    pub async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(listener, _) => Ok(Socket::Unix(listener.accept().await?.0)),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                // As a server does: a driver that vanished without a word frees its backend.
                SockRef::from(&stream).set_keepalive(true)?;
                Ok(Socket::Tcp(stream))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, Some(path)) = self {
            // Nobody is left to hear of it; the next proxy replaces it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes the socket so that no other user can ever connect. No other thread makes files meanwhile.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}

async fn remove_unanswered(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_of_a_network_are_kept_alive() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("it is a runtime");
        let accepted = runtime.block_on(async {
            let address = Address::Tcp("127.0.0.1:0".to_owned());
            let listener = Listener::bind(&address, false).await.expect("it is free");
            let Listener::Tcp(tcp) = &listener else {
                return None;
            };
            let address = tcp.local_addr().expect("it listens");
            let _driver = TcpStream::connect(address).await.expect("it listens");
            listener.accept().await.ok()
        });
        let Some(Socket::Tcp(driver)) = accepted else {
            panic!("no driver of a network");
        };
        assert!(SockRef::from(&driver).keepalive().expect("it is open"));
    }

    #[test]
    fn what_has_a_slash_is_a_socket() {
        let of = |text: &str| {
            text.parse::<Address>()
                .unwrap_or(Address::Tcp(String::new()))
        };
        assert_eq!(of("./s"), Address::Unix("./s".into()));
        assert_eq!(
            of("127.0.0.1:6432"),
            Address::Tcp("127.0.0.1:6432".to_owned())
        );
        assert_eq!(of("[::1]:6432"), Address::Tcp("[::1]:6432".to_owned()));
    }
}
