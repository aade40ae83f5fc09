//! The exporter: metrics of all clusters of a machine for Prometheus, over HTTP or HTTPS.
//!
//! Invariants: it opens no key, runs no command of a key file, and writes nothing. One look at the
//! clusters is made at a time, however many ask. A part that could not be looked at has a metric
//! that says so, and its reason is on standard error.
//!
//! Reading order: [`collect`] (the metrics of the clusters that there are), [`log`]
//! (audit logs, as they grow), [`serve`] (HTTP), [`tls`].

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod collect;
mod evaluators;
mod log;
mod serve;
mod tls;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use pgseal_keys::exit::{Code, Exit};

pub use collect::{Collector, Sources};
pub use tls::TlsFiles;

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
    /// A file of TLS cannot be read.
    #[error("{0} cannot be read ({1}): check its path, owner and mode")]
    ReadTls(PathBuf, #[source] io::Error),
    /// A file of TLS is of no use.
    #[error("{0} cannot be used for TLS ({1}): give PEM files of a certificate and its key")]
    Tls(PathBuf, String),
    /// The private key is open to others.
    #[error("the key {0} may be read by others: chmod 600 it, or 640 if root owns it")]
    KeyMode(PathBuf),
}

impl Exit for ExporterError {
    fn code(&self) -> Code {
        match self {
            Self::Clear(_) | Self::Tls(..) | Self::KeyMode(_) => Code::Usage,
            Self::Listen(..) | Self::Start(_) | Self::ReadTls(..) => Code::Io,
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
