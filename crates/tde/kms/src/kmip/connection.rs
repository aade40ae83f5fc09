//! One request over TLS, bounded in time: the server's certificate and host name are verified, and
//! ours is shown.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, Stream, WantsVerifier};
use zeroize::Zeroizing;

use super::ttlv::{self, Tag};
use crate::again::{self, ONE_TRY, WITHIN};
use crate::credential;
use crate::error::KmsError;

const CONNECT: Duration = Duration::from_secs(5);
/// The longest answer that is read.
const MAX_ANSWER: usize = 256 * 1024;

/// A message, wiped when it is dropped.
pub type Message = Zeroizing<Vec<u8>>;

/// A server: its address, and the certificates that both sides show each other.
pub struct Server {
    host: String,
    port: u16,
    tls: Arc<ClientConfig>,
}

/// The files that TLS needs.
pub struct Files {
    /// The authorities that are trusted, in place of the system's.
    pub authorities: Option<PathBuf>,
    pub chain: PathBuf,
    pub key: PathBuf,
}

/// Begins a configuration of TLS 1.2 and 1.3, on the crypto library of all of pgseal.
fn versions() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites of both versions of TLS")
}

impl Server {
    /// Reads the files; nothing is sent.
    pub fn new(host: String, port: u16, files: &Files) -> Result<Self, KmsError> {
        let roots = authorities(files.authorities.as_deref())?;
        let builder = versions().with_root_certificates(roots);
        let (chain, key) = (certificates(&files.chain)?, private(&files.key)?);
        let unfit = |_| KmsError::Content(files.key.clone(), "private key of the certificate");
        let tls = builder.with_client_auth_cert(chain, key).map_err(unfit)?;
        Ok(Self {
            host,
            port,
            tls: Arc::new(tls),
        })
    }

    /// The server and its address, for messages.
    pub fn name(&self) -> String {
        format!("the KMIP server at {}:{}", self.host, self.port)
    }

    /// Sends a request and returns the fields of the answer, whose tag is `tag`. It is sent again
    /// where the connection fails, for neither encryption nor decryption changes the server.
    pub fn call(&self, request: &[u8], tag: Tag) -> Result<Message, KmsError> {
        again::ask(WITHIN, || self.once(request, tag), |_| false)
    }

    fn once(&self, request: &[u8], tag: Tag) -> Result<Message, KmsError> {
        let deadline = Instant::now() + ONE_TRY;
        let host = self.host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(|_| self.unreachable("no such host name"))?;
        let mut tls = ClientConnection::new(Arc::clone(&self.tls), name)
            .map_err(|error| self.unreachable(error))?;
        let socket = self.connect().map_err(|error| self.failed(&error))?;
        let mut socket = Timed { socket, deadline };
        let mut stream = Stream::new(&mut tls, &mut socket);
        let sent = stream.write_all(request).and_then(|()| stream.flush());
        sent.map_err(|error| self.failed(&error))?;
        self.answer(&mut stream, tag)
    }

    fn answer(&self, from: &mut impl Read, tag: Tag) -> Result<Message, KmsError> {
        let mut header = [0; ttlv::HEADER];
        from.read_exact(&mut header)
            .map_err(|error| self.failed(&error))?;
        let length = ttlv::message_length(tag, header).filter(|length| *length <= MAX_ANSWER);
        let length = length.ok_or_else(|| KmsError::Answer(self.name()))?;
        let mut message = Zeroizing::new(vec![0; length]);
        from.read_exact(&mut message)
            .map_err(|error| self.failed(&error))?;
        Ok(message)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let deadline = Instant::now() + CONNECT;
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for address in self.addresses()? {
            match TcpStream::connect_timeout(&address, left(deadline)?) {
                Ok(socket) => return Ok(socket),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Looks the host up in a thread, because the system's resolver knows no limit of time.
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let address = format!("{}:{}", self.host, self.port);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            // Nobody waits any more if this fails.
            let _ = sender.send(address.to_socket_addrs().map(Iterator::collect));
        });
        receiver
            .recv_timeout(CONNECT)
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    fn failed(&self, error: &io::Error) -> KmsError {
        let inner = error.get_ref();
        match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(_)) => KmsError::Untrusted {
                service: self.name(),
                why: error.to_string(),
            },
            Some(rustls::Error::AlertReceived(alert)) => KmsError::Refused {
                service: self.name(),
                what: "talk to this client",
                status: format!("TLS alert {alert:?}"),
                why: "check client-cert and that the server trusts its authority".to_owned(),
            },
            _ if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            ) =>
            {
                self.unreachable("timeout")
            }
            _ => self.unreachable(error),
        }
    }

    fn unreachable(&self, why: impl ToString) -> KmsError {
        KmsError::Unreachable {
            service: self.name(),
            why: why.to_string(),
        }
    }
}

/// A socket each of whose calls ends before the deadline.
struct Timed {
    socket: TcpStream,
    deadline: Instant,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(left(self.deadline)?))?;
        self.socket.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(left(self.deadline)?))?;
        self.socket.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Returns the time until the deadline, which is not zero: zero would stand for no limit.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

/// Returns the authorities in a file, or those that the system trusts. One of the system's that
/// cannot be read is left out, so less is trusted.
fn authorities(path: Option<&Path>) -> Result<RootCertStore, KmsError> {
    let mut store = RootCertStore::empty();
    let Some(path) = path else {
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(store);
    };
    for certificate in certificates(path)? {
        let added = store.add(certificate);
        added.map_err(|_| KmsError::Content(path.to_owned(), "certificate of an authority"))?;
    }
    Ok(store)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, KmsError> {
    let text = std::fs::read(path).map_err(|error| KmsError::File(path.to_owned(), error))?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, PemError>>();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(KmsError::Content(path.to_owned(), "certificate")),
    }
}

fn private(path: &Path) -> Result<PrivateKeyDer<'static>, KmsError> {
    let text = credential::file(path)?;
    let found = PrivateKeyDer::from_pem_slice(text.as_bytes());
    found.map_err(|_| KmsError::Content(path.to_owned(), "private key"))
}
