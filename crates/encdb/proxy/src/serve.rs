//! Listeners and the connections that come of them.

use std::convert::Infallible;
use std::future::{poll_fn, Future};
use std::io::{self, Write};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use nix::sys::signal::Signal;
use pgseal_keys::exit::{Code, Exit};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::connection::{self, ConnectionError};
use crate::listener::{Address, ListenError, Listener, Socket};
use crate::service::Service;
use crate::signals::Signals;

/// The pause after a driver that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// The time for connections to end by themselves after the server is told to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened at.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The runtime fails.
    #[error("the runtime cannot be started: {0}")]
    Io(#[from] io::Error),
}

impl Exit for ServeError {
    fn code(&self) -> Code {
        match self {
            Self::Listen(ListenError::Clear(_)) => Code::Usage,
            Self::Listen(ListenError::Io(..)) | Self::Io(_) => Code::Io,
        }
    }
}

/// Serves drivers while it is polled. Connections end with it.
pub struct Server {
    listeners: Vec<Listener>,
    service: Arc<Service>,
    connections: JoinSet<Result<(), ConnectionError>>,
}

impl Server {
    /// Listens at all addresses. Nobody is served before [`Server::run`].
    pub async fn listen(addresses: &[Address], service: Service) -> Result<Self, ServeError> {
        let mut listeners = Vec::new();
        for address in addresses {
            listeners.push(Listener::bind(address, service.tls.is_some()).await?);
        }
        Ok(Self::of(listeners, service))
    }

    /// Serves sockets that listen.
    pub(crate) fn of(listeners: Vec<Listener>, service: Service) -> Self {
        Self {
            listeners,
            service: Arc::new(service),
            connections: JoinSet::new(),
        }
    }

    /// Serves for ever. It may be dropped and called again.
    pub async fn run(&mut self) -> Infallible {
        loop {
            tokio::select! {
                driver = any(&self.listeners) => match driver {
                    Ok(driver) => {
                        let service = Arc::clone(&self.service);
                        self.connections
                            .spawn(async move { connection::serve(driver, &service).await });
                    }
                    // Too many descriptors, perhaps: others may end.
                    Err(error) => {
                        report(Err(error.into()));
                        sleep(PAUSE).await;
                    }
                },
                Some(ended) = self.connections.join_next() => {
                    report(ended.unwrap_or_else(|error| Err(io::Error::other(error).into())));
                }
            }
        }
    }

    /// Accepts no driver any more, and gives those that are connected ten seconds.
    pub async fn stop(self) {
        drop(self.listeners);
        let _ = timeout(PATIENCE, self.connections.join_all()).await;
    }
}

/// Serves until SIGTERM or SIGINT.
pub async fn serve(addresses: &[Address], service: Service) -> Result<(), ServeError> {
    let mut signals = Signals::of(&[Signal::SIGTERM, Signal::SIGINT])?;
    let mut server = Server::listen(addresses, service).await?;
    tokio::select! {
        never = server.run() => match never {},
        _ = signals.next() => {}
    }
    server.stop().await;
    Ok(())
}

/// Waits for a driver at any of the listeners.
async fn any(listeners: &[Listener]) -> io::Result<Socket> {
    let mut accepting: Vec<_> = listeners.iter().map(|it| Box::pin(it.accept())).collect();
    poll_fn(|context| {
        let mut polled = accepting.iter_mut().map(|it| it.as_mut().poll(context));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Writes on standard error why a connection ended before its driver ended it.
fn report(ended: Result<(), ConnectionError>) {
    if let Err(error) = ended {
        let _ = writeln!(io::stderr(), "pgseal: a connection has ended: {error}");
    }
}
