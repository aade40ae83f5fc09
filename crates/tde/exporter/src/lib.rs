//! The exporter: metrics of all clusters of a machine for Prometheus, over HTTP or HTTPS.
//!
//! Invariants: it opens no key, runs no command of a key file, and writes nothing. One look at the
//! clusters is made at a time, however many ask. A part that could not be looked at has a metric
//! that says so, and its reason is on standard error.
//!
//! Reading order: [`collect`] (the metrics of the clusters that there are), [`log`]
//! (audit logs, as they grow), [`serve`] (HTTP).

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod collect;
mod evaluators;
mod log;
mod serve;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;

use pgseal_keys::exit::{Code, Exit};
use pgseal_serving::tls::TlsError;

pub use collect::{Collector, Sources};
pub use pgseal_serving::tls::TlsFiles;

/// The options of an exporter.
pub struct Settings {
    /// The address to listen at.
    pub listen: SocketAddr,
    /// The files of TLS; without them it speaks HTTP.
    pub tls: Option<TlsFiles>,
    /// Whether other machines may come without TLS.
    pub plain_http: bool,
    /// The things that are measured.
    pub sources: Sources,
}

/// Why an exporter does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// Paths and key ids would cross a network in clear.
    #[error("{0} is no loopback address, and metrics that cross a network need TLS: give --tls-cert and --tls-key, listen at 127.0.0.1, or accept it by --plain-http")]
    Clear(SocketAddr),
    /// The system refuses the address.
    #[error("{0} cannot be listened at ({1}): give another address with --listen")]
    Listen(SocketAddr, #[source] io::Error),
    /// The system gives no runtime.
    #[error("the exporter cannot start ({0}): look at the limits of its service")]
    Start(#[source] io::Error),
    /// A file of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Exit for ExporterError {
    fn code(&self) -> Code {
        match self {
            Self::Clear(_) => Code::Usage,
            Self::Listen(..) | Self::Start(_) => Code::Io,
            Self::Tls(error) => error.code(),
        }
    }
}

/// Serves metrics until a signal ends the process.
pub fn run(settings: Settings) -> Result<Infallible, ExporterError> {
    let is_local = settings.listen.ip().is_loopback();
    if settings.tls.is_none() && !is_local && !settings.plain_http {
        return Err(ExporterError::Clear(settings.listen));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ExporterError::Start)?;
    runtime.block_on(serve::serve(settings))
}
