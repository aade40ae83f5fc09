//! HTTP/1.1 of pages that a monitor reads: GET and HEAD, one request in each connection.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HeaderValue, ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
pub use hyper::StatusCode;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

/// The most bytes of a request's head.
const HEAD: usize = 8192;
/// The type of Prometheus' text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const METHODS: &str = "GET, HEAD";

/// The answer to a request: its status and a text.
pub type Page = (StatusCode, String);

/// Answers the request of a connection, which must come within `patience`, by the page of its path.
/// `page` knows all paths, and says of others which there are.
pub async fn answer<S, P, F>(stream: S, patience: Duration, page: P)
where
    S: AsyncRead + AsyncWrite + Unpin,
    P: Fn(String) -> F,
    F: Future<Output = Page>,
{
    let page = &page;
    let answer = service_fn(|request: Request<Incoming>| async move {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let answer = match is_read {
            true => response(page(request.uri().path().to_owned()).await),
            false => not_allowed(),
        };
        Ok::<_, Infallible>(answer)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(HEAD)
        .keep_alive(false);
    // Nothing is owed to a client that has gone, or that speaks no HTTP.
    let _ = http.serve_connection(TokioIo::new(stream), answer).await;
}

fn response((status, text): Page) -> Response<String> {
    let mut response = Response::new(text);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(PROMETHEUS);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn not_allowed() -> Response<String> {
    let text = "only GET and HEAD are answered\n".to_owned();
    let mut response = response((StatusCode::METHOD_NOT_ALLOWED, text));
    let methods = HeaderValue::from_static(METHODS);
    response.headers_mut().insert(ALLOW, methods);
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Returns what is answered to these bytes.
    async fn asked(request: &[u8]) -> String {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        client.write_all(request).await.expect("there is room");
        let page = |path: String| async move { (StatusCode::OK, format!("this is {path}\n")) };
        answer(server, Duration::from_millis(50), page).await;
        let mut said = String::new();
        let read = client.read_to_string(&mut said).await;
        read.expect("it is text");
        said
    }

    #[tokio::test]
    async fn one_request_has_one_answer() {
        let request = b"GET /a?b HTTP/1.1\r\nHost: h\r\n\r\nGET /c HTTP/1.1\r\nHost: h\r\n\r\n";
        let said = asked(request).await;
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
        assert!(said.contains("version=0.0.4"), "{said}");
        assert!(said.ends_with("\r\n\r\nthis is /a\n"), "{said}");
    }

    #[tokio::test]
    async fn a_head_has_no_body() {
        let said = asked(b"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert!(said.contains("content-length: 11\r\n"), "{said}");
        assert!(said.ends_with("\r\n\r\n"), "{said}");
    }

    #[tokio::test]
    async fn other_requests_are_refused() {
        for (request, status) in [
            (
                &b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"[..],
                "405",
            ),
            (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", "400"),
        ] {
            let said = asked(request).await;
            assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
        }
        let long = format!("GET /a HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(2 * HEAD));
        let said = asked(long.as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
    }

    #[tokio::test]
    async fn a_request_that_does_not_end_is_not_awaited() {
        let said = asked(b"GET /a HTTP/1.1\r\nHost:").await;
        assert!(!said.contains("200"), "{said}");
    }
}
