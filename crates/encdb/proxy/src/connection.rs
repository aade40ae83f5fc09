//! One driver, from its first byte to its last.
//!
//! States: the requests that come before a start packet, then the cancelling of another
//! connection's statement, or the engine.

use std::io;

use pgseal_client::{ClientError, Stream};
use pgseal_engine::{error_response, Engine, EngineError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::pump::{self, Sides};
use crate::service::Service;

/// `SSLRequest` and `GSSENCRequest`, which a driver may send before its start packet.
const ENCRYPTION: [[u8; 8]; 2] = [[0, 0, 0, 8, 4, 210, 22, 47], [0, 0, 0, 8, 4, 210, 22, 48]];
/// The code of `CancelRequest`, which is all that its connection has.
const CANCEL: [u8; 4] = [4, 210, 22, 46];
/// The longest `CancelRequest`, in bytes: a key has 256 at most.
const MAX_CANCEL: u32 = 12 + 256;

/// Why a connection ends before its driver ends it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
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

/// Serves a driver to its end.
pub async fn serve(mut driver: Box<dyn Stream>, service: &Service) -> Result<(), ConnectionError> {
    let mut first = [0; 8];
    if driver.read_exact(&mut first).await.is_err() {
        return Ok(()); // It only looked whether somebody listens.
    }
    while ENCRYPTION.contains(&first) {
        driver.write_all(b"N").await?;
        driver.read_exact(&mut first).await?;
    }
    let mut server = match service.target.stream().await {
        Ok(server) => server,
        Err(error) => {
            let told = error_response("08001", &format!("pgseal has no connection: {error}"));
            // The error is reported in any case.
            let _ = driver.write_all(&told).await;
            return Err(error.into());
        }
    };
    if first[4..] == CANCEL {
        return cancel(first, &mut driver, &mut server).await;
    }
    let mut engine = Engine::new(service.owners.clone());
    let sides = Sides { driver, server };
    pump::relay(&mut engine, &first, sides).await
}

/// Passes a request to cancel. The server closes the connection when it has done it, and so does
/// the proxy: the driver waits for that.
async fn cancel(
    first: [u8; 8],
    driver: &mut Box<dyn Stream>,
    server: &mut Box<dyn Stream>,
) -> Result<(), ConnectionError> {
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
