//! Engines between sockets: one for each connection of a driver.

use std::future::{poll_fn, Future};
use std::io::{self, Write};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pgseal_client::{ClientError, IdentityFileError, Stream, Target};
use pgseal_engine::{Engine, EngineError, Owners};
use pgseal_keys::exit::{Code, Exit};
use pgseal_options::exit::{of_identity, of_session};
use pgseal_options::EvidenceError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::signal::unix::{signal, SignalKind};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::listener::{Address, Listener};

/// The bytes that are read at once, and so what a connection holds in each direction.
const BLOCK: usize = 64 << 10;
/// The pause after a driver that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// The time for connections to end by themselves after the proxy is told to.
const PATIENCE: Duration = Duration::from_secs(10);
/// `SSLRequest` and `GSSENCRequest`, which a driver may send before its start packet.
const ENCRYPTION: [[u8; 8]; 2] = [[0, 0, 0, 8, 4, 210, 22, 47], [0, 0, 0, 8, 4, 210, 22, 48]];
/// The code of `CancelRequest`, which is all that its connection has.
const CANCEL: [u8; 4] = [4, 210, 22, 46];
/// The longest `CancelRequest`, in bytes: a key has 256 at most.
const MAX_CANCEL: u32 = 12 + 256;

/// Why the proxy ends, or one connection.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The server cannot be reached, or its address is none.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The identity cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityFileError),
    /// The options name no policy.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The engine ended the connection.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An address cannot be listened at.
    #[error("{0:?} cannot be listened at: {1}")]
    Listen(Address, #[source] io::Error),
    /// A socket fails, or the runtime.
    #[error("a connection fails: {0}")]
    Io(#[from] io::Error),
}

impl Exit for ProxyError {
    fn code(&self) -> Code {
        match self {
            Self::Client(error) => of_session(error),
            Self::Identity(error) => of_identity(error),
            Self::Evidence(error) => error.code(),
            Self::Engine(_) | Self::Listen(..) | Self::Io(_) => Code::Io,
        }
    }
}

type Owner = Arc<dyn Owners + Send + Sync>;

/// Serves until SIGTERM or SIGINT. Then no driver is accepted any more, and those that are
/// connected have ten seconds.
pub async fn serve(addresses: &[Address], target: Target, owner: Owner) -> Result<(), ProxyError> {
    let mut listeners = Vec::new();
    for address in addresses {
        let listener = Listener::bind(address).await;
        listeners.push(listener.map_err(|error| ProxyError::Listen(address.clone(), error))?);
    }
    let (mut end, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let target = Arc::new(target);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            driver = any(&listeners) => {
                let (target, owner) = (Arc::clone(&target), Arc::clone(&owner));
                match driver {
                    Ok(driver) => {
                        connections.spawn(async move { connection(driver, &target, owner).await });
                    }
                    // Too many descriptors, perhaps: others may end.
                    Err(error) => {
                        report(Err(error.into()));
                        sleep(PAUSE).await;
                    }
                }
            }
            Some(ended) = connections.join_next() => {
                report(ended.unwrap_or_else(|error| Err(io::Error::other(error).into())));
            }
            _ = end.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    drop(listeners);
    let _ = timeout(PATIENCE, connections.join_all()).await;
    Ok(())
}

/// Waits for a driver at any of the listeners.
async fn any(listeners: &[Listener]) -> io::Result<Box<dyn Stream>> {
    let mut accepting: Vec<_> = listeners.iter().map(|it| Box::pin(it.accept())).collect();
    poll_fn(|context| {
        let mut polled = accepting.iter_mut().map(|it| it.as_mut().poll(context));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Writes on standard error why a connection ended before its driver ended it.
fn report(ended: Result<(), ProxyError>) {
    if let Err(error) = ended {
        let _ = writeln!(io::stderr(), "pgseal: a connection has ended: {error}");
    }
}

async fn connection(
    mut driver: Box<dyn Stream>,
    target: &Target,
    owner: Owner,
) -> Result<(), ProxyError> {
    let mut first = [0; 8];
    if driver.read_exact(&mut first).await.is_err() {
        return Ok(()); // It only looked whether somebody listens.
    }
    while ENCRYPTION.contains(&first) {
        driver.write_all(b"N").await?;
        driver.read_exact(&mut first).await?;
    }
    let mut server = target.stream().await?;
    if first[4..] == CANCEL {
        return cancel(first, &mut driver, &mut server).await;
    }
    let mut engine = Engine::new(owner);
    let outcome = relay(&mut engine, &first, &mut driver, &mut server).await;
    // The engine may have told the driver why.
    let _ = driver.write_all(&engine.take_for_driver()).await;
    outcome
}

/// Passes a request to cancel. The server closes the connection when it has done it, and so does
/// the proxy: the driver waits for that.
async fn cancel(
    first: [u8; 8],
    driver: &mut Box<dyn Stream>,
    server: &mut Box<dyn Stream>,
) -> Result<(), ProxyError> {
    let [a, b, c, d, ..] = first;
    let length = u32::from_be_bytes([a, b, c, d]);
    if !(8..=MAX_CANCEL).contains(&length) {
        return Ok(());
    }
    let mut rest = vec![0; usize::try_from(length).unwrap_or(8) - 8];
    driver.read_exact(&mut rest).await?;
    server.write_all(&first).await?;
    server.write_all(&rest).await?;
    server.read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// Moves bytes until either side ends. Both directions move at once, for a driver may send much
/// before it reads. A side whose bytes wait in the other direction is not read meanwhile, so a slow
/// one slows the other down, and little is held.
async fn relay(
    engine: &mut Engine,
    first: &[u8],
    driver: &mut Box<dyn Stream>,
    server: &mut Box<dyn Stream>,
) -> Result<(), ProxyError> {
    engine.from_driver(first)?;
    let (mut driver_in, mut driver_out) = tokio::io::split(driver);
    let (mut server_in, mut server_out) = tokio::io::split(server);
    let (mut from_driver, mut from_server) = (vec![0; BLOCK], vec![0; BLOCK]);
    let (mut to_driver, mut to_server) = (Vec::new(), Vec::new());
    loop {
        to_driver.extend(engine.take_for_driver());
        to_server.extend(engine.take_for_server());
        tokio::select! {
            written = driver_out.write(&to_driver), if !to_driver.is_empty() => {
                to_driver.drain(..written?);
            }
            written = server_out.write(&to_server), if !to_server.is_empty() => {
                to_server.drain(..written?);
            }
            read = driver_in.read(&mut from_driver),
                if engine.takes_driver() && to_server.len() < BLOCK => match read? {
                0 => return Ok(()),
                length => engine.from_driver(&from_driver[..length])?,
            },
            read = server_in.read(&mut from_server), if to_driver.len() < BLOCK => match read? {
                0 => return Ok(()),
                length => engine.from_server(&from_server[..length])?,
            },
        }
    }
}
