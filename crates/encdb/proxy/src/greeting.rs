//! The beginning of a driver's connection, before its start packet: requests for encryption, or TLS
//! from the first byte on (`sslnegotiation=direct` of PostgreSQL 17).
//!
//! As at a server, TLS is for networks: a unix socket has none. Where there is a certificate a
//! network has nothing else, except that a statement may be cancelled in clear, which needs a key
//! that only the connection has.

use std::io;
use std::time::Duration;

use pgseal_client::Stream;
use pgseal_engine::error_response;
use pgseal_serving::tls::{self, TlsError, TlsFiles};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_rustls::TlsAcceptor;

use crate::connection::ConnectionError;
use crate::listener::Socket;

/// The protocol's name, which a driver that begins with TLS must send.
const PROTOCOL: &[u8] = b"postgresql";

/// The time for a driver to say whose connection it is: PostgreSQL's `authentication_timeout`.
const PATIENCE: Duration = Duration::from_secs(60);
/// The bytes of a request, and the first of a start packet.
pub type First = [u8; 8];
const SSL: First = [0, 0, 0, 8, 4, 210, 22, 47];
const GSS: First = [0, 0, 0, 8, 4, 210, 22, 48];
/// The code of `CancelRequest`, which is all that its connection has.
const CANCEL: [u8; 4] = [4, 210, 22, 46];
/// The first byte of a handshake, which no request begins with.
const HANDSHAKE: u8 = 0x16;

/// Reads the files of TLS.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    tls::acceptor(files, Some(PROTOCOL))
}

/// A driver with what it began with.
pub struct Greeted {
    /// The driver, behind TLS if it asked for that
    pub driver: Box<dyn Stream>,
    /// The first bytes of its start packet or its `CancelRequest`
    pub first: First,
}

impl Greeted {
    /// Whether a statement of another connection is to be cancelled.
    pub fn cancels(&self) -> bool {
        self.first[4..] == CANCEL
    }
}

/// Talks about encryption. Returns none for a driver that only looked whether somebody listens.
pub async fn greet(
    socket: Socket,
    tls: Option<&TlsAcceptor>,
) -> Result<Option<Greeted>, ConnectionError> {
    let greeted = async {
        match (socket, tls) {
            (Socket::Unix(driver), _) => in_clear(driver).await,
            (Socket::Tcp(driver), None) => in_clear(driver).await,
            (Socket::Tcp(driver), Some(tls)) => over_tls(driver, tls).await,
        }
    };
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    timeout(PATIENCE, greeted).await.map_err(late)?
}

async fn in_clear(mut driver: impl Stream + 'static) -> Result<Option<Greeted>, ConnectionError> {
    let mut asked = Vec::new();
    while let Some(first) = read(&mut driver).await? {
        if !matches!(first, SSL | GSS) || asked.contains(&first) {
            let driver = Box::new(driver);
            return Ok(Some(Greeted { driver, first }));
        }
        asked.push(first);
        driver.write_all(b"N").await?;
    }
    Ok(None)
}

async fn over_tls(
    mut driver: TcpStream,
    tls: &TlsAcceptor,
) -> Result<Option<Greeted>, ConnectionError> {
    let mut peeked = [0];
    if driver.peek(&mut peeked).await? == 1 && peeked[0] == HANDSHAKE {
        let driver = tls.accept(driver).await?;
        if driver.get_ref().1.alpn_protocol() != Some(PROTOCOL) {
            return Err(ConnectionError::NoProtocol);
        }
        return behind_tls(driver).await;
    }
    let mut first = read(&mut driver).await?;
    if first == Some(GSS) {
        driver.write_all(b"N").await?;
        first = read(&mut driver).await?;
    }
    match first {
        Some(SSL) => {
            driver.write_all(b"S").await?;
            behind_tls(tls.accept(driver).await?).await
        }
        Some(first) if first[4..] == CANCEL => {
            let driver = Box::new(driver);
            Ok(Some(Greeted { driver, first }))
        }
        Some(_) => {
            let text = "pgseal takes no connection without TLS here: set sslmode=verify-full";
            driver.write_all(&error_response("28000", text)).await?;
            driver.shutdown().await?;
            Err(ConnectionError::Clear)
        }
        None => Ok(None),
    }
}

async fn behind_tls(mut driver: TlsStream<TcpStream>) -> Result<Option<Greeted>, ConnectionError> {
    let first = read(&mut driver).await?;
    let driver = Box::new(driver);
    Ok(first.map(|first| Greeted { driver, first }))
}

/// Reads the first bytes of a packet; none if the driver has gone.
async fn read(driver: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<First>> {
    let mut first = First::default();
    match driver.read_exact(&mut first).await {
        Ok(_) => Ok(Some(first)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}
