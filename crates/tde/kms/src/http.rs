//! Requests over HTTPS: bounded in time, tried again where that can help, and never redirected,
//! because a redirect would carry the credential to an address that nobody named.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::tls::{parse_pem, Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig};
use ureq::{Agent, RequestBuilder};

use crate::again::{self, ONE_TRY, WITHIN};
use crate::error::KmsError;

const CONNECT: Duration = Duration::from_secs(5);
const MAX_ANSWER: u64 = 1024 * 1024;

/// The certificates that server and client show each other.
#[derive(Default)]
pub struct Tls {
    /// A file of the authorities that are trusted, in place of the system's.
    pub authorities: Option<PathBuf>,
    /// Files of the client's certificate chain and private key.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// A service at one address.
pub struct Service {
    agent: Agent,
    /// The service and its address, for messages.
    name: String,
    base: String,
    within: Duration,
}

/// The body of a request. A request that has one is a POST.
#[derive(Clone, Copy)]
pub enum Body<'a> {
    None,
    Json(&'a Value),
    /// Names and values of a form, as tokens are asked for.
    Form(&'a [(&'a str, &'a str)]),
}

/// An answer with JSON, or none.
pub struct Answer {
    pub status: StatusCode,
    pub body: Value,
}

impl Service {
    /// Makes a client of the service at `base`, without a request.
    pub fn new(name: &str, base: String, tls: &Tls) -> Result<Self, KmsError> {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .tls_config(configuration(tls)?)
            .timeout_connect(Some(CONNECT))
            .timeout_per_call(Some(ONE_TRY))
            .user_agent("pgseal-kms")
            .build()
            .new_agent();
        let address = base
            .split_once("://")
            .map_or(base.as_str(), |(_, rest)| rest);
        let name = format!("{name} at {address}");
        Ok(Self {
            agent,
            name,
            base,
            within: WITHIN,
        })
    }

    /// Asks once and no more: for a service that is there at once or not at all, such as a
    /// machine's own metadata.
    pub fn once_only(mut self) -> Self {
        self.within = Duration::ZERO;
        self
    }

    /// Returns the service and its address.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// Sends a request to `path`.
    pub fn call(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Result<Answer, KmsError> {
        again::ask(
            self.within,
            || self.once(path, headers, body),
            |answer| is_temporary(answer.status),
        )
    }

    fn once(&self, path: &str, headers: &[(&str, &str)], body: Body) -> Result<Answer, KmsError> {
        let url = format!("{}/{path}", self.base);
        let sent = match body {
            Body::None => with_headers(self.agent.get(&url), headers).call(),
            Body::Json(body) => with_headers(self.agent.post(&url), headers).send_json(body),
            Body::Form(pairs) => {
                with_headers(self.agent.post(&url), headers).send_form(pairs.iter().copied())
            }
        };
        self.answer(sent.map_err(|error| self.failed(&error))?)
    }

    fn answer(&self, mut response: Response<ureq::Body>) -> Result<Answer, KmsError> {
        let status = response.status();
        if status.is_redirection() {
            return Err(KmsError::Redirect(self.name()));
        }
        let limited = response.body_mut().with_config().limit(MAX_ANSWER);
        let text = limited.read_to_vec().map_err(|error| self.failed(&error))?;
        // The status says whether there must be JSON.
        let body = serde_json::from_slice(&text).unwrap_or(Value::Null);
        Ok(Answer { status, body })
    }

    fn failed(&self, error: &ureq::Error) -> KmsError {
        let (service, why) = (self.name(), error.to_string());
        match why.contains("certificate") {
            true => KmsError::Untrusted { service, why },
            false => KmsError::Unreachable { service, why },
        }
    }
}

fn with_headers<B>(mut request: RequestBuilder<B>, headers: &[(&str, &str)]) -> RequestBuilder<B> {
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request
}

/// Returns whether nobody on the way can read what is sent to an address: it begins with https://,
/// or it is on this machine.
pub fn is_confidential(address: &str) -> bool {
    let local = |rest: &str| {
        let authority = rest.split('/').next().unwrap_or_default();
        let host = authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host);
        matches!(host, "localhost" | "127.0.0.1" | "[::1]")
    };
    address.starts_with("https://") || address.strip_prefix("http://").is_some_and(local)
}

/// Returns whether the service may answer otherwise in a moment.
fn is_temporary(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 500 | 502 | 503 | 504)
}

fn configuration(tls: &Tls) -> Result<TlsConfig, KmsError> {
    let client = match &tls.client {
        Some((chain, key)) => Some(ClientCert::new_with_certs(
            &certificates(chain)?,
            private(key)?,
        )),
        None => None,
    };
    let roots = match &tls.authorities {
        Some(path) => certificates(path)?,
        None => of_the_system(),
    };
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .client_cert(client)
        .unversioned_rustls_crypto_provider(crypto)
        .build())
}

/// Returns the authorities that the system trusts. One that cannot be read is left out, so less is
/// trusted.
fn of_the_system() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs().certs;
    let owned = found
        .iter()
        .map(|der| Certificate::from_der(der).to_owned());
    owned.collect()
}

fn pem(path: &Path) -> Result<Vec<PemItem<'static>>, KmsError> {
    let failed = |error| KmsError::File(path.to_owned(), error);
    let text = std::fs::read(path).map_err(failed)?;
    let items = parse_pem(&text).collect::<Result<Vec<_>, _>>();
    items.map_err(|_| KmsError::Content(path.to_owned(), "PEM that can be read"))
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, KmsError> {
    let found = pem(path)?.into_iter().filter_map(|item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    let found: Vec<_> = found.collect();
    match found.is_empty() {
        true => Err(KmsError::Content(path.to_owned(), "certificate")),
        false => Ok(found),
    }
}

fn private(path: &Path) -> Result<PrivateKey<'static>, KmsError> {
    // Refuses a file that others can read.
    crate::credential::file(path)?;
    let mut found = pem(path)?.into_iter().filter_map(|item| match item {
        PemItem::PrivateKey(key) => Some(key),
        _ => None,
    });
    let key = found.next();
    key.ok_or_else(|| KmsError::Content(path.to_owned(), "private key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_nobody_listens_to() {
        for (address, is) in [
            ("https://kms.example", true),
            ("http://localhost:1/x", true),
            ("http://127.0.0.1", true),
            ("http://localhost.example:1", false),
            ("http://kms.example", false),
            ("ftp://localhost", false),
        ] {
            assert_eq!(is_confidential(address), is, "{address}");
        }
    }
}
