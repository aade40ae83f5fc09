//! Bytes between a driver, its engine and the server.
//!
//! Both directions move at once, for a driver may send much before it reads. A side whose bytes
//! wait in the other direction is not read meanwhile, so a slow one slows the other down, and
//! little is held. When one side ends, the other still gets what was sent to it before.
//!
//! TLS may take bytes that its socket has no room for. They leave with the next write, or by a
//! flush; as the last bytes of an answer have no next write, every write is followed by a flush.

use std::io;
use std::time::Duration;

use pgseal_client::Stream;
use pgseal_engine::{Engine, Outgoing};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::timeout;

use crate::connection::ConnectionError;
use crate::metrics::Metrics;

/// The bytes that are read at once, and so what a connection holds in each direction.
const BLOCK: usize = 64 << 10;
/// The time for the last bytes of a connection to be taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// The two sides of a connection.
pub struct Sides {
    /// The application's side
    pub driver: Box<dyn Stream>,
    /// The database's side
    pub server: Box<dyn Stream>,
}

/// One side of a connection.
struct Side {
    input: ReadHalf<Box<dyn Stream>>,
    block: Vec<u8>,
    output: Output,
}

/// The output to one side, with the bytes that wait for it.
struct Output {
    stream: WriteHalf<Box<dyn Stream>>,
    queue: Outgoing,
    /// Whether TLS may hold bytes that were written
    unflushed: bool,
}

impl Side {
    fn new(stream: Box<dyn Stream>) -> Self {
        let (input, stream) = tokio::io::split(stream);
        let output = Output {
            stream,
            queue: Outgoing::default(),
            unflushed: false,
        };
        Self {
            input,
            block: vec![0; BLOCK],
            output,
        }
    }
}

impl Output {
    fn is_free(&self) -> bool {
        self.queue.waiting().len() < BLOCK
    }

    fn is_used(&self) -> bool {
        self.unflushed || !self.queue.waiting().is_empty()
    }

    /// Sends some of the bytes that wait. The future may be dropped at any point.
    async fn send(&mut self) -> io::Result<()> {
        if self.queue.waiting().is_empty() {
            self.stream.flush().await?;
            self.unflushed = false;
        } else {
            self.unflushed = true;
            let length = self.stream.write(self.queue.waiting()).await?;
            self.queue.sent(length);
        }
        Ok(())
    }

    /// Sends what waits, and that nothing follows. A side that takes nothing is given up.
    async fn end(mut self) {
        let last = async {
            self.stream.write_all(self.queue.waiting()).await?;
            self.stream.shutdown().await
        };
        // It may be gone already.
        let _ = timeout(PATIENCE, last).await;
    }
}

/// Moves bytes until either side ends.
pub async fn relay(
    engine: &mut Engine,
    first: &[u8],
    sides: Sides,
    metrics: &Metrics,
) -> Result<(), ConnectionError> {
    let (mut driver, mut server) = (Side::new(sides.driver), Side::new(sides.server));
    let outcome = match engine.from_driver(first) {
        Ok(()) => step_by_step(engine, &mut driver, &mut server, metrics).await,
        Err(error) => Err(error.into()),
    };
    engine.move_for_driver(driver.output.queue.buffer());
    engine.move_for_server(server.output.queue.buffer());
    tokio::join!(driver.output.end(), server.output.end());
    outcome
}

async fn step_by_step(
    engine: &mut Engine,
    driver: &mut Side,
    server: &mut Side,
    metrics: &Metrics,
) -> Result<(), ConnectionError> {
    loop {
        engine.move_for_driver(driver.output.queue.buffer());
        engine.move_for_server(server.output.queue.buffer());
        let (takes_driver, takes_server) = (
            engine.takes_driver() && server.output.is_free(),
            driver.output.is_free(),
        );
        tokio::select! {
            sent = driver.output.send(), if driver.output.is_used() => sent?,
            sent = server.output.send(), if server.output.is_used() => sent?,
            read = driver.input.read(&mut driver.block), if takes_driver => match length(read)? {
                0 => return Ok(()),
                length => {
                    metrics.driver_sent(length);
                    engine.from_driver(&driver.block[..length])?;
                }
            },
            read = server.input.read(&mut server.block), if takes_server => match length(read)? {
                0 => return Ok(()),
                length => {
                    metrics.server_sent(length);
                    engine.from_server(&server.block[..length])?;
                }
            },
        }
    }
}

/// Returns how much was read. A side that ends without the last word of TLS has ended, too: the
/// protocol between the sides has its own.
fn length(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}
