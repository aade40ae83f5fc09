//! HTTP for who watches a proxy: `/metrics`, and `/healthz`, which says whether the server can be
//! reached.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use pgseal_serving::http::{self, Page, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};

use crate::listener::{Listener, Socket};
use crate::metrics::Metrics;
use crate::service::Current;

/// The time for a request to come.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time for the server to take a connection.
const HEALTHY: Duration = Duration::from_secs(5);
/// The pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// A proxy, as HTTP shows it.
#[derive(Clone)]
pub struct Monitor {
    /// Its numbers
    pub metrics: Arc<Metrics>,
    /// Its server
    pub current: Current,
}

impl Monitor {
    /// Answers requests for ever.
    pub async fn serve(self, listener: Listener) -> Infallible {
        loop {
            let monitor = self.clone();
            match listener.accept().await {
                Ok(Socket::Unix(stream)) => drop(tokio::spawn(monitor.answer(stream))),
                Ok(Socket::Tcp(stream)) => drop(tokio::spawn(monitor.answer(stream))),
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    async fn answer(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        http::answer(stream, PATIENCE, |path| self.page(path)).await;
    }

    async fn page(&self, path: String) -> Page {
        match &*path {
            "/metrics" => (StatusCode::OK, self.metrics.text()),
            "/healthz" => self.health().await,
            _ => {
                let text = "there is /metrics and /healthz\n";
                (StatusCode::NOT_FOUND, text.to_owned())
            }
        }
    }

    /// Returns whether the server takes a connection.
    async fn health(&self) -> Page {
        let why = match timeout(HEALTHY, self.current.get().target.stream()).await {
            Ok(Ok(_)) => return (StatusCode::OK, "the server can be reached\n".to_owned()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the server does not answer within five seconds".to_owned(),
        };
        (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
    }
}
