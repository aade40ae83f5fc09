//! TLS to the server, by libpq's settings: `sslmode`, `sslrootcert`, `sslcert`, `sslkey`.
//!
//! `prefer` (the default) and `require` take any certificate, unless there is a root file;
//! `verify-ca` and `verify-full` check it, the second with the server's name. Two things differ
//! from libpq: what `prefer` begins it does not give up for clear text, and a name is looked up in
//! the certificate's subjectAltName alone.

mod settings;
mod verifier;

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

pub use settings::take_settings;
use verifier::{Names, Verifier};

use crate::stream::Stream;
use crate::ClientError;

/// The protocol name (ALPN) that PostgreSQL 17 and later expect; older versions ignore it.
const PROTOCOL: &[u8] = b"postgresql";

/// The proof that the server must show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    Disable,
    #[default]
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// The certificates by which a server's certificate is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Roots {
    Nobody,
    System,
    File(PathBuf),
}

/// The settings of TLS with one server.
#[derive(Clone, Debug)]
pub struct Tls {
    mode: Mode,
    roots: Roots,
    /// A certificate and its key.
    own: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// Reads what `setting` knows by libpq's names, and the files of ~/.postgresql.
    pub fn new(
        setting: &dyn Fn(&str) -> Option<String>,
        home: Option<String>,
    ) -> Result<Self, ClientError> {
        let beside = |name: &str| {
            let path = home.as_ref().map(PathBuf::from)?;
            Some(path.join(".postgresql").join(name)).filter(|path| path.exists())
        };
        let roots = match setting("sslrootcert").as_deref() {
            Some("system") => Roots::System,
            Some(path) => Roots::File(path.into()),
            None => beside("root.crt").map_or(Roots::Nobody, Roots::File),
        };
        let mode = setting("sslmode");
        let mode = mode.map(|name| mode_of(&name)).transpose()?;
        let certificate = setting("sslcert").map(PathBuf::from);
        let key = setting("sslkey").map(PathBuf::from);
        let certificate = certificate.or_else(|| beside("postgresql.crt"));
        Ok(Self {
            mode: checked_mode(mode, &roots)?,
            roots,
            own: certificate.zip(key.or_else(|| beside("postgresql.key"))),
        })
    }

    /// Returns the mode that the driver is told.
    pub fn mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// Returns the settings by libpq's names; a file of ~/.postgresql is named as well.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let mode = match self.mode {
            Mode::Disable => "disable",
            Mode::Prefer => "prefer",
            Mode::Require => "require",
            Mode::VerifyCa => "verify-ca",
            Mode::VerifyFull => "verify-full",
        };
        let text = |path: &PathBuf| path.display().to_string();
        let mut all = vec![("sslmode", mode.to_owned())];
        match &self.roots {
            Roots::Nobody => {}
            Roots::System => all.push(("sslrootcert", "system".to_owned())),
            Roots::File(path) => all.push(("sslrootcert", text(path))),
        }
        if let Some((certificate, key)) = &self.own {
            all.extend([("sslcert", text(certificate)), ("sslkey", text(key))]);
        }
        all
    }

    /// Reads the files, and returns the connector for the driver.
    pub fn connector(&self) -> Result<MakeRustlsConnect, ClientError> {
        Ok(MakeRustlsConnect::new(self.config()?))
    }

    fn config(&self) -> Result<ClientConfig, ClientError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let names = match self.mode {
            Mode::VerifyFull => Names::Checked,
            _ => Names::Ignored,
        };
        let verifier = match &self.roots {
            Roots::Nobody => Verifier::of_anybody(&provider),
            Roots::System => Verifier::of_system(&provider, names, system_roots()?),
            Roots::File(path) => Verifier::of_file(&provider, names, certificates(path)?)
                .ok_or_else(|| not_used(path, "no certificate of it can be trusted"))?,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| ClientError::Tls(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(|error| not_used(certificate, error))?,
        };
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(config)
    }
}

/// The bytes that are read at once in a handshake.
const BLOCK: usize = 16 << 10;
/// `SSLRequest`
const REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

impl Tls {
    /// Asks a server for TLS and begins it. With `prefer`, a server that has none is spoken with
    /// in clear.
    pub async fn over(
        &self,
        mut stream: TcpStream,
        host: &str,
    ) -> Result<Box<dyn Stream>, ClientError> {
        if !self.is_offered(&mut stream).await? {
            return Ok(Box::new(stream));
        }
        let mut connector = self.connector()?;
        let refused = |text: String| ClientError::Tls(text);
        let connect = MakeTlsConnect::<TcpStream>::make_tls_connect(&mut connector, host);
        let connect = connect.map_err(|error| refused(error.to_string()))?;
        let stream = connect.connect(stream).await;
        Ok(Box::new(
            stream.map_err(|error| refused(error.to_string()))?,
        ))
    }
}

impl Tls {
    /// Asks a server for TLS and shakes hands, for a program that moves the bytes itself. None
    /// where the server is spoken with in clear.
    pub async fn handshake(
        &self,
        stream: &mut TcpStream,
        host: &str,
    ) -> Result<Option<ClientConnection>, ClientError> {
        if !self.is_offered(stream).await? {
            return Ok(None);
        }
        let failed = |error: &dyn ToString| ClientError::Tls(error.to_string());
        let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
        let config = Arc::new(self.config()?);
        let mut tls = ClientConnection::new(config, name).map_err(|error| failed(&error))?;
        let mut block = vec![0; BLOCK];
        loop {
            let mut out = Vec::new();
            while tls.wants_write() {
                tls.write_tls(&mut out).map_err(|error| failed(&error))?;
            }
            stream
                .write_all(&out)
                .await
                .map_err(|error| failed(&error))?;
            if !tls.is_handshaking() {
                return Ok(Some(tls));
            }
            let length = stream.read(&mut block).await;
            let mut read = &block[..length.map_err(|error| failed(&error))?];
            if read.is_empty() {
                return Err(failed(&"the server ends the connection"));
            }
            while !read.is_empty() {
                tls.read_tls(&mut read).map_err(|error| failed(&error))?;
                tls.process_new_packets().map_err(|error| failed(&error))?;
            }
        }
    }

    /// Asks a server for TLS. With `prefer`, a server that has none is spoken with in clear.
    async fn is_offered(&self, stream: &mut TcpStream) -> Result<bool, ClientError> {
        let failed = |error: std::io::Error| ClientError::Tls(error.to_string());
        stream.write_all(&REQUEST).await.map_err(failed)?;
        let answer = stream.read_u8().await.map_err(failed)?;
        match (answer, self.mode()) {
            (b'S', _) => Ok(true),
            (b'N', SslMode::Prefer) => Ok(false),
            _ => Err(ClientError::Tls("the server has no TLS".to_owned())),
        }
    }
}

fn mode_of(name: &str) -> Result<Mode, ClientError> {
    match name {
        "disable" => Ok(Mode::Disable),
        "allow" | "prefer" => Ok(Mode::Prefer),
        "require" => Ok(Mode::Require),
        "verify-ca" => Ok(Mode::VerifyCa),
        "verify-full" => Ok(Mode::VerifyFull),
        _ => Err(ClientError::Connection(format!(
            "{name:?} is no sslmode: give disable, prefer, require, verify-ca or verify-full"
        ))),
    }
}

/// Returns the mode that holds, as libpq decides it: a system's authorities vouch for any name.
fn checked_mode(mode: Option<Mode>, roots: &Roots) -> Result<Mode, ClientError> {
    let refused = |text: &str| Err(ClientError::Connection(text.to_owned()));
    match (mode, roots) {
        (None, Roots::System) => Ok(Mode::VerifyFull),
        (Some(mode), Roots::System) if mode != Mode::VerifyFull => {
            refused("sslrootcert=system needs sslmode=verify-full")
        }
        (Some(Mode::VerifyCa | Mode::VerifyFull), Roots::Nobody) => refused(
            "there is nothing to check the server's certificate with: give sslrootcert=FILE or \
             sslrootcert=system, or make ~/.postgresql/root.crt",
        ),
        (mode, _) => Ok(mode.unwrap_or_default()),
    }
}

fn not_used(path: &std::path::Path, why: impl std::fmt::Display) -> ClientError {
    ClientError::Tls(format!("{} cannot be used: {why}", path.display()))
}

fn certificates(path: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = read.map_err(|error| not_used(path, error))?;
    match found.is_empty() {
        true => Err(not_used(path, "it has no certificate in PEM")),
        false => Ok(found),
    }
}

/// Reads a private key. As with libpq, other users must not be able to read it, but root's file
/// may be its group's.
fn private_key(path: &std::path::Path) -> Result<PrivateKeyDer<'static>, ClientError> {
    let metadata = std::fs::metadata(path).map_err(|error| not_used(path, error))?;
    let others = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & others != 0 {
        return Err(not_used(path, "others can read it, chmod 600 it"));
    }
    PrivateKeyDer::from_pem_file(path).map_err(|error| not_used(path, error))
}

fn system_roots() -> Result<RootCertStore, ClientError> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match store.is_empty() {
        true => Err(ClientError::Tls(
            "the system has no certificates of authorities: install ca-certificates".to_owned(),
        )),
        false => Ok(store),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls(settings: &[(&str, &str)]) -> Result<Tls, ClientError> {
        let setting = |name: &str| {
            let mut found = settings.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        Tls::new(&setting, None)
    }

    #[test]
    fn modes_are_libpqs() {
        assert_eq!(tls(&[]).map(|tls| tls.mode).ok(), Some(Mode::Prefer));
        for (name, mode) in [
            ("disable", SslMode::Disable),
            ("allow", SslMode::Prefer),
            ("require", SslMode::Require),
        ] {
            let found = tls(&[("sslmode", name)]).expect("a mode");
            assert_eq!(found.mode(), mode, "{name}");
        }
        assert!(tls(&[("sslmode", "on")]).is_err());
    }

    #[test]
    fn what_cannot_be_checked_is_refused() {
        assert!(tls(&[("sslmode", "verify-full")]).is_err());
        let root = ("sslrootcert", "root.crt");
        let found = tls(&[("sslmode", "verify-ca"), root]).expect("a root");
        assert_eq!(
            (found.mode, found.mode()),
            (Mode::VerifyCa, SslMode::Require)
        );
    }

    #[test]
    fn the_systems_authorities_need_the_servers_name() {
        let system = ("sslrootcert", "system");
        assert_eq!(
            tls(&[system]).map(|tls| tls.mode).ok(),
            Some(Mode::VerifyFull)
        );
        assert!(tls(&[system, ("sslmode", "require")]).is_err());
    }
}
