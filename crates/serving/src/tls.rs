//! TLS of a server: its certificate, and the authority of its clients' if there is one.
//!
//! The rules are PostgreSQL's: TLS 1.2 or later, the protocol's name (ALPN) if there is one and the
//! client sends one, and a key that no other user can read.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::Uid;
use pgseal_keys::exit::{Code, Exit};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// The files of TLS, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities by which clients must have certificates; none: they need none.
    pub client_ca: Option<PathBuf>,
}

/// A file of TLS that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// It cannot be read.
    #[error("{0} cannot be read ({1}): check its path, owner and mode")]
    Read(PathBuf, #[source] io::Error),
    /// It has nothing that TLS could use.
    #[error("{0} cannot be used for TLS ({1}): give PEM files of a certificate and its key")]
    Content(PathBuf, String),
    /// The key is open to others.
    #[error("the key {0} may be read by others: chmod 600 it, or 640 if root owns it")]
    Mode(PathBuf),
    /// The key is another user's.
    #[error("the key {0} belongs to neither this user nor root: chown it")]
    Owner(PathBuf),
}

impl Exit for TlsError {
    fn code(&self) -> Code {
        match self {
            Self::Read(..) => Code::Io,
            Self::Content(..) | Self::Mode(_) | Self::Owner(_) => Code::Usage,
        }
    }
}

/// Reads the files. `protocol` is the name of the protocol that is spoken.
pub fn acceptor(files: &TlsFiles, protocol: Option<&[u8]>) -> Result<TlsAcceptor, TlsError> {
    let unfit = |error: rustls::Error| content(&files.certificate, error);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unfit)?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(verifier(path, provider)?),
    };
    let chain = certificates(&files.certificate)?;
    let mut config = builder
        .with_single_cert(chain, private_key(&files.key)?)
        .map_err(unfit)?;
    config.alpn_protocols = protocol.map(<[u8]>::to_vec).into_iter().collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn verifier(
    path: &Path,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        let added = roots.add(certificate);
        added.map_err(|error| content(path, error))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    verifier.build().map_err(|error| content(path, error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(content(path, "it has no certificate in PEM")),
        Ok(found) => Ok(found),
        Err(error) => Err(content(path, error)),
    }
}

/// Reads a private key. As PostgreSQL has it, it is this user's alone, or root's and its group's.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let metadata = fs::metadata(path).map_err(|error| TlsError::Read(path.into(), error))?;
    let (owner, own) = (metadata.uid(), Uid::effective().as_raw());
    if owner != own && owner != 0 {
        return Err(TlsError::Owner(path.into()));
    }
    let others = if owner == own { 0o077 } else { 0o037 };
    if metadata.mode() & others != 0 {
        return Err(TlsError::Mode(path.into()));
    }
    PrivateKeyDer::from_pem_file(path).map_err(|error| content(path, error))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError::Read(path.into(), error))
}

fn content(path: &Path, error: impl ToString) -> TlsError {
    TlsError::Content(path.into(), error.to_string())
}
