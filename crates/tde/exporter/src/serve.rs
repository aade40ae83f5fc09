//! HTTP of the exporter: `/metrics`, and `/`, which says that it runs.
//!
//! Each connection has one request and a limited time, and there is a limited number of them.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use pgseal_serving::http::{self, Page, StatusCode};
use pgseal_serving::tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::{Collector, ExporterError, Settings};

/// The connections at a time; others wait for one of them to end.
const CONNECTIONS: usize = 16;
/// The time for a handshake of TLS, and for a request to come.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time for a look at all clusters. Prometheus gives up after ten seconds.
const LOOK: Duration = Duration::from_secs(9);
/// The time for a whole connection.
const CONNECTION: Duration = Duration::from_secs(30);
/// The pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

type Shared = Arc<Mutex<Collector>>;

/// Answers requests until the process ends.
pub async fn serve(settings: Settings) -> Result<Infallible, ExporterError> {
    let acceptor = settings.tls.as_ref();
    let acceptor = acceptor.map(|files| tls::acceptor(files, None));
    let acceptor = acceptor.transpose()?;
    let listen = |error| ExporterError::Listen(settings.listen, error);
    let listener = TcpListener::bind(settings.listen).await.map_err(listen)?;
    let place = listener.local_addr().map_err(listen)?;
    let scheme = if acceptor.is_some() { "https" } else { "http" };
    // Who starts it with port 0 reads the port here.
    let _ = writeln!(
        io::stderr(),
        "pgseal: metrics are at {scheme}://{place}/metrics"
    );
    let collector = Arc::new(Mutex::new(Collector::new(settings.sources)));
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let permit = Arc::clone(&connections).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let work = connection(stream, acceptor.clone(), Arc::clone(&collector));
                tokio::spawn(limited(work, permit));
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn limited(work: impl Future<Output = ()>, _permit: OwnedSemaphorePermit) {
    // A client that takes longer finds its connection closed.
    let _ = timeout(CONNECTION, work).await;
}

async fn connection(stream: TcpStream, acceptor: Option<TlsAcceptor>, collector: Shared) {
    match acceptor {
        None => http(stream, collector).await,
        Some(acceptor) => {
            if let Ok(Ok(stream)) = timeout(PATIENCE, acceptor.accept(stream)).await {
                http(stream, collector).await;
            }
        }
    }
}

async fn http(stream: impl AsyncRead + AsyncWrite + Unpin, collector: Shared) {
    http::answer(stream, PATIENCE, |path| page(path, Arc::clone(&collector))).await;
}

async fn page(path: String, collector: Shared) -> Page {
    match &*path {
        "/metrics" => metrics(collector).await,
        "/" => (StatusCode::OK, "the metrics are at /metrics\n".to_owned()),
        _ => {
            let text = "there is / and /metrics\n";
            (StatusCode::NOT_FOUND, text.to_owned())
        }
    }
}

/// Looks at all clusters, after those who asked before. A look that a dead file system holds up
/// keeps its thread, and no further one begins.
async fn metrics(collector: Shared) -> Page {
    let look = async {
        let mut collector = collector.lock_owned().await;
        spawn_blocking(move || collector.text()).await
    };
    match timeout(LOOK, look).await {
        Ok(Ok(text)) => (StatusCode::OK, text),
        Ok(Err(_)) | Err(_) => {
            let text = "the clusters cannot be looked at within nine seconds\n";
            (StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
        }
    }
}
