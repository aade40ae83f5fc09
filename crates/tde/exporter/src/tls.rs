//! TLS of the exporter: its certificate, and the authority of its clients' if there is one. The
//! rules for the key's file are PostgreSQL's.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::Uid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::ExporterError;

/// The files of TLS, all in PEM.
pub struct TlsFiles {
    /// The certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities by which clients must have certificates; none: they need none.
    pub client_ca: Option<PathBuf>,
}

/// Reads the files.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ExporterError> {
    let unfit = |error: rustls::Error| unfit(&files.certificate, error);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unfit)?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(verifier(path, provider)?),
    };
    let chain = certificates(&files.certificate)?;
    let config = builder.with_single_cert(chain, private_key(&files.key)?);
    Ok(TlsAcceptor::from(Arc::new(config.map_err(unfit)?)))
}

fn verifier(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, ExporterError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        let added = roots.add(certificate);
        added.map_err(|error| unfit(path, error))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    verifier.build().map_err(|error| unfit(path, error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ExporterError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(unfit(path, "it has no certificate in PEM")),
        Ok(found) => Ok(found),
        Err(error) => Err(unfit(path, error)),
    }
}

/// Reads a private key. As PostgreSQL has it, it is this user's alone, or root's and its group's.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ExporterError> {
    let text = read(path)?;
    let metadata = fs::metadata(path);
    let metadata = metadata.map_err(|error| ExporterError::ReadTls(path.into(), error))?;
    let is_own = metadata.uid() == Uid::effective().as_raw();
    let others = if is_own { 0o077 } else { 0o037 };
    if metadata.mode() & others != 0 || (!is_own && metadata.uid() != 0) {
        return Err(ExporterError::KeyMode(path.into()));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| unfit(path, error))
}

fn read(path: &Path) -> Result<Vec<u8>, ExporterError> {
    fs::read(path).map_err(|error| ExporterError::ReadTls(path.into(), error))
}

fn unfit(path: &Path, error: impl ToString) -> ExporterError {
    ExporterError::Tls(path.into(), error.to_string())
}
