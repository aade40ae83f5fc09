//! HTTP for who watches a proxy: `/metrics`, and `/healthz`, which tells whether the server can be
//! reached.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
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
/// The type of Prometheus' text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

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
                Ok(Socket::Unix(stream)) => {
                    drop(tokio::spawn(monitor.answer(TokioIo::new(stream))))
                }
                Ok(Socket::Tcp(stream)) => drop(tokio::spawn(monitor.answer(TokioIo::new(stream)))),
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    async fn answer(self, stream: impl Read + Write + Unpin) {
        let answer = service_fn(|request: Request<Incoming>| self.response(request));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        // Who asks has gone, or speaks no HTTP.
        let _ = http.serve_connection(stream, answer).await;
    }

    async fn response(&self, request: Request<Incoming>) -> Result<Response<String>, Infallible> {
        let (status, text) = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, self.metrics.text()),
            (&Method::GET | &Method::HEAD, "/healthz") => self.health().await,
            (_, "/metrics" | "/healthz") => {
                let text = "only GET and HEAD are answered\n";
                (StatusCode::METHOD_NOT_ALLOWED, text.to_owned())
            }
            _ => {
                let text = "there is /metrics and /healthz\n";
                (StatusCode::NOT_FOUND, text.to_owned())
            }
        };
        let mut response = Response::new(text);
        *response.status_mut() = status;
        let kind = PROMETHEUS.parse().expect("it is a header's value");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(response)
    }

    /// Tells whether the server takes a connection.
    async fn health(&self) -> (StatusCode, String) {
        let why = match timeout(HEALTHY, self.current.get().target.stream()).await {
            Ok(Ok(_)) => return (StatusCode::OK, "the server can be reached\n".to_owned()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the server does not answer within five seconds".to_owned(),
        };
        (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
    }
}
