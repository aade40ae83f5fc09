//! One driver, from its first byte to its last.
//!
//! States: the requests that come before a start packet, then the cancelling of another
//! connection's statement, or the engine.

use std::io;
use std::sync::Arc;

use pgseal_client::{ClientError, Stream};
use pgseal_engine::{error_response, Engine, EngineError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::greeting::{greet, Greeted};
use crate::listener::Socket;
use crate::metrics::Metrics;
use crate::pump::{self, Sides};
use crate::service::Service;

/// The longest `CancelRequest`, in bytes: a key has 256 at most.
const MAX_CANCEL: u32 = 12 + 256;

/// Why a connection ends before its driver ends it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The driver wants no TLS; it was told.
    #[error("the driver asks for no TLS; it was told")]
    Clear,
    /// The driver begins with TLS of something else.
    #[error("the driver begins with TLS, and not with PostgreSQL's protocol in it")]
    NoProtocol,
    /// The server cannot be reached; the driver was told.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The engine ended it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A socket fails.
    #[error("a socket fails: {0}")]
    Io(#[from] io::Error),
}

impl ConnectionError {
    /// Returns the SQLSTATE that the driver was told; none if it was told nothing.
    pub fn sqlstate(&self) -> Option<&'static str> {
        match self {
            Self::Clear => Some("28000"),
            Self::Client(_) => Some("08001"),
            Self::Engine(error) => error.sqlstate(),
            Self::NoProtocol | Self::Io(_) => None,
        }
    }
}

/// Serves a driver to its end.
pub async fn serve(
    socket: Socket,
    service: &Service,
    metrics: Arc<Metrics>,
) -> Result<(), ConnectionError> {
    let _open = metrics.connection();
    let ended = serve_counted(socket, service, &metrics).await;
    let sqlstate = ended.as_ref().err().and_then(ConnectionError::sqlstate);
    if let Some(sqlstate) = sqlstate {
        metrics.refused(sqlstate);
    }
    ended
}

async fn serve_counted(
    socket: Socket,
    service: &Service,
    metrics: &Arc<Metrics>,
) -> Result<(), ConnectionError> {
    let Some(mut greeted) = greet(socket, service.tls.as_ref()).await? else {
        return Ok(());
    };
    let server = match service.target.stream().await {
        Ok(server) => server,
        Err(error) => {
            let told = error_response("08001", &format!("pgseal has no connection: {error}"));
            // The error is reported in any case.
            let _ = greeted.driver.write_all(&told).await;
            let _ = greeted.driver.shutdown().await;
            return Err(error.into());
        }
    };
    if greeted.cancels() {
        return cancel(greeted, server).await;
    }
    let mut engine = Engine::new(service.owners.clone()).observed(metrics.clone());
    let Greeted { driver, first } = greeted;
    let sides = Sides { driver, server };
    pump::relay(&mut engine, &first, sides, metrics).await
}

/// Passes a request to cancel. The server closes the connection when it has done it, and so does
/// the proxy: the driver waits for that.
async fn cancel(mut greeted: Greeted, mut server: Box<dyn Stream>) -> Result<(), ConnectionError> {
    let [a, b, c, d, ..] = greeted.first;
    let length = u32::from_be_bytes([a, b, c, d]);
    if !(8..=MAX_CANCEL).contains(&length) {
        return Ok(());
    }
    let mut rest = vec![0; usize::try_from(length).unwrap_or(8) - 8];
    greeted.driver.read_exact(&mut rest).await?;
    server.write_all(&greeted.first).await?;
    server.write_all(&rest).await?;
    server.flush().await?;
    server.read_to_end(&mut Vec::new()).await?;
    Ok(())
}
