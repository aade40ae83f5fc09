//! HTTP of the exporter: `/metrics`, and `/`, which says that it runs.
//!
//! Each connection has one request and a limited time, and there is a limited number of them.
//! Requests have no bodies, and short heads.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::{tls, Collector, ExporterError, Settings};

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
/// The most bytes of a request's head.
const HEAD: usize = 8192;
/// The type of Prometheus' text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The status of an answer that is what was asked for.
const OK: &str = "200 OK";

type Shared = Arc<Mutex<Collector>>;

/// Answers requests until the process ends.
pub async fn serve(settings: Settings) -> Result<Infallible, ExporterError> {
    let acceptor = settings.tls.as_ref().map(tls::acceptor).transpose()?;
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

async fn http(mut stream: impl AsyncRead + AsyncWrite + Unpin, collector: Shared) {
    let Ok(Ok(head)) = timeout(PATIENCE, head(&mut stream)).await else {
        return;
    };
    let answer = answer(head.as_deref(), collector).await;
    // Nothing is owed to a client that has gone.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Reads the head of a request; none if it is too long.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<String>> {
    let mut head = Vec::with_capacity(HEAD);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() >= HEAD {
            return Ok(None);
        }
        if stream.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

async fn answer(head: Option<&str>, collector: Shared) -> String {
    let line = head.map(|head| head.lines().next().unwrap_or_default());
    let words: Vec<_> = line.unwrap_or_default().split(' ').collect();
    let (status, text) = match (line, &words[..]) {
        (None, _) => (
            "431 Request Header Fields Too Large",
            "the request is too long\n".to_owned(),
        ),
        (_, ["GET" | "HEAD", path, "HTTP/1.0" | "HTTP/1.1"]) => page(path, collector).await,
        (_, [_, _, "HTTP/1.0" | "HTTP/1.1"]) => {
            let text = "only GET and HEAD are answered\n";
            (
                "405 Method Not Allowed\r\nAllow: GET, HEAD",
                text.to_owned(),
            )
        }
        _ => (
            "400 Bad Request",
            "this is no request of HTTP/1.1\n".to_owned(),
        ),
    };
    let body = if words[0] == "HEAD" { "" } else { &text };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {PROMETHEUS}\r\nContent-Length: {}\r\n\
        Connection: close\r\n\r\n{body}",
        text.len()
    )
}

async fn page(path: &str, collector: Shared) -> (&'static str, String) {
    match path.split('?').next() {
        Some("/metrics") => metrics(collector).await,
        Some("/") => (OK, "the metrics are at /metrics\n".to_owned()),
        _ => ("404 Not Found", "there is / and /metrics\n".to_owned()),
    }
}

/// Looks at all clusters, after those who asked before. A look that a dead file system holds up
/// keeps its thread, and no further one begins.
async fn metrics(collector: Shared) -> (&'static str, String) {
    let look = async {
        let mut collector = collector.lock_owned().await;
        spawn_blocking(move || collector.text()).await
    };
    match timeout(LOOK, look).await {
        Ok(Ok(text)) => (OK, text),
        Ok(Err(_)) | Err(_) => {
            let text = "the clusters cannot be looked at within nine seconds\n";
            ("503 Service Unavailable", text.to_owned())
        }
    }
}
