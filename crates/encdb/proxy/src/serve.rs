//! Listeners and the connections that come of them.

use std::convert::Infallible;
use std::fmt::Arguments;
use std::future::{poll_fn, Future};
use std::io::{self, Write};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use nix::sys::signal::Signal;
use pgseal_keys::exit::{sentence, Code, Exit, Failure};
use sd_notify::NotifyState;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::connection::{self, ConnectionError};
use crate::listener::{Address, ListenError, Listener, Socket};
use crate::metrics::Metrics;
use crate::monitor::Monitor;
use crate::service::{Current, Service};
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
    /// There is no address.
    #[error("there is no address to listen at: give --listen, or the sockets of a systemd unit")]
    Nowhere,
    /// The runtime fails.
    #[error("the runtime cannot be started: {0}")]
    Io(#[from] io::Error),
}

impl Exit for ServeError {
    fn code(&self) -> Code {
        match self {
            Self::Listen(ListenError::Clear(_)) | Self::Nowhere => Code::Usage,
            Self::Listen(_) | Self::Io(_) => Code::Io,
        }
    }
}

/// Serves drivers while it is polled. Connections end with it.
pub struct Server {
    listeners: Vec<Listener>,
    current: Current,
    metrics: Arc<Metrics>,
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
            current: Current::new(service),
            metrics: Arc::default(),
            connections: JoinSet::new(),
        }
    }

    /// Serves for ever. It may be dropped and called again.
    pub async fn run(&mut self) -> Infallible {
        loop {
            tokio::select! {
                driver = any(&self.listeners) => match driver {
                    Ok(driver) => {
                        let (service, metrics) = (self.current.get(), Arc::clone(&self.metrics));
                        let serving = async move {
                            connection::serve(driver, &service, metrics).await
                        };
                        self.connections.spawn(serving);
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

    fn monitor(&self) -> Monitor {
        Monitor {
            metrics: Arc::clone(&self.metrics),
            current: self.current.clone(),
        }
    }

    /// Serves connections that begin later by another service, unless that cannot be had.
    fn replace(
        &mut self,
        setup: Result<Setup, Failure>,
        listen: &[Address],
        metrics: Option<&Address>,
    ) {
        let setup = match setup {
            Ok(setup) => setup,
            Err(error) => return say(format_args!("nothing is changed: {error}")),
        };
        let is_network = |it: &Listener| !matches!(it.network(), Ok(None));
        if setup.service.tls.is_none() && self.listeners.iter().any(is_network) {
            return say(format_args!(
                "nothing is changed: an address of a network is listened at, which needs TLS"
            ));
        }
        if setup.listen != listen || setup.metrics.as_ref() != metrics {
            say(format_args!("other addresses to listen at need a restart"));
        }
        self.current.set(setup.service);
        say(format_args!(
            "new connections are served by the files as they are now"
        ));
    }

    /// Accepts no driver any more, and gives those that are connected ten seconds.
    pub async fn stop(self) {
        drop(self.listeners);
        let _ = timeout(PATIENCE, self.connections.join_all()).await;
    }
}

/// The task of a proxy.
pub struct Setup {
    /// Addresses for drivers, beside the sockets that systemd gives
    pub listen: Vec<Address>,
    /// An address for those who watch the proxy
    pub metrics: Option<Address>,
    /// The service of connections
    pub service: Service,
}

/// Serves until SIGTERM or SIGINT. At SIGHUP `reload` makes the setup anew, from files that have
/// changed: connections that begin later have its service. Addresses stay as they are.
pub async fn serve(
    setup: Setup,
    reload: impl Fn() -> Result<Setup, Failure>,
) -> Result<(), ServeError> {
    let mut signals = Signals::of(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])?;
    let Setup {
        listen,
        metrics,
        service,
    } = setup;
    let given = Listener::of_systemd(service.tls.is_some())?;
    let mut server = Server::listen(&listen, service).await?;
    server.listeners.extend(given);
    if server.listeners.is_empty() {
        return Err(ServeError::Nowhere);
    }
    if let Some(address) = &metrics {
        // It is not for a network: its numbers have no access control.
        let listener = Listener::bind(address, false).await?;
        tokio::spawn(server.monitor().serve(listener));
    }
    told(&[NotifyState::Ready]);
    loop {
        let signal = tokio::select! {
            never = server.run() => match never {},
            signal = signals.next() => signal,
        };
        if signal != Signal::SIGHUP {
            break;
        }
        let mut state = vec![NotifyState::Reloading];
        state.extend(NotifyState::monotonic_usec_now());
        told(&state);
        server.replace(reload(), &listen, metrics.as_ref());
        told(&[NotifyState::Ready]);
    }
    told(&[NotifyState::Stopping]);
    server.stop().await;
    Ok(())
}

/// Notifies systemd, if it started this.
fn told(state: &[NotifyState<'_>]) {
    // Nothing here depends on what systemd knows.
    let _ = sd_notify::notify(state);
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
        say(format_args!("a connection has ended: {error}"));
    }
}

fn say(text: Arguments<'_>) {
    // Nobody is left to be told if that fails.
    let _ = writeln!(io::stderr(), "pgseal: {}", sentence(&text));
}
