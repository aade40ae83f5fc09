//! The check of a server's certificate. Signatures of the handshake are checked in every mode.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_cert::der::Decode;
use x509_cert::Certificate;

/// Whether the certificate must be the one of the server that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Checked,
    Ignored,
}

/// The certificates that are trusted.
#[derive(Debug)]
enum Trust {
    Anybody,
    Roots {
        authorities: RootCertStore,
        /// The certificates of the root file, byte for byte: a server may have signed its own.
        servers: Vec<CertificateDer<'static>>,
        names: Names,
    },
}

/// libpq's rules for rustls.
#[derive(Debug)]
pub struct Verifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub fn of_anybody(provider: &CryptoProvider) -> Self {
        Self::new(provider, Trust::Anybody)
    }

    pub fn of_system(provider: &CryptoProvider, names: Names, authorities: RootCertStore) -> Self {
        let servers = Vec::new();
        Self::new(
            provider,
            Trust::Roots {
                authorities,
                servers,
                names,
            },
        )
    }

    /// Makes a verifier; none if no certificate of the file has a form that is understood.
    pub fn of_file(
        provider: &CryptoProvider,
        names: Names,
        servers: Vec<CertificateDer<'static>>,
    ) -> Option<Self> {
        let mut authorities = RootCertStore::empty();
        let (good, _) = authorities.add_parsable_certificates(servers.iter().cloned());
        let trust = Trust::Roots {
            authorities,
            servers,
            names,
        };
        (good > 0).then(|| Self::new(provider, trust))
    }

    fn new(provider: &CryptoProvider, trust: Trust) -> Self {
        Self {
            trust,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Trust::Roots {
            authorities,
            servers,
            names,
        } = &self.trust
        else {
            return Ok(ServerCertVerified::assertion());
        };
        let parsed = ParsedCertificate::try_from(certificate)?;
        if servers.contains(certificate) {
            check_dates(certificate, now)?;
        } else {
            verify_server_cert_signed_by_trust_anchor(
                &parsed,
                authorities,
                intermediates,
                now,
                self.algorithms.all,
            )?;
        }
        if *names == Names::Checked {
            verify_server_name(&parsed, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Checks the dates of a certificate, as the chain's check does for certificates that have a
/// chain.
fn check_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let parsed = Certificate::from_der(certificate)
        .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let validity = parsed.tbs_certificate().validity();
    let now = now.as_secs();
    if now < validity.not_before.to_unix_duration().as_secs() {
        return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
    }
    if now > validity.not_after.to_unix_duration().as_secs() {
        return Err(Error::InvalidCertificate(CertificateError::Expired));
    }
    Ok(())
}
