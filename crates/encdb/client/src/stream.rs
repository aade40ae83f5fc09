//! Streams of bytes to a server, for programs that speak the protocol themselves.
//!
//! Parameters of the connection string mean what libpq makes of them: several hosts, `hostaddr`,
//! `connect_timeout`, `keepalives` and its companions, `tcp_user_timeout`. For
//! `target_session_attrs` a session of pgseal's own asks each host what it is, because the driver's
//! login is not for hosts that are not taken. `load_balance_hosts` is refused.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustls::ClientConnection;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_postgres::config::{Config, Host, LoadBalanceHosts, SslMode};
use tokio_postgres::{Client, NoTls};

use crate::attributes::{Attributes, State};
use crate::connect::Target;
use crate::ClientError;

/// A stream of bytes to a server.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A socket to a server, and the state of TLS over it.
pub struct Parts {
    /// The socket, which does not block
    pub socket: OwnedFd,
    /// None where nothing is encrypted on the way
    pub tls: Option<Box<ClientConnection>>,
}

/// The shape in which a connection is returned.
#[derive(Clone, Copy)]
enum Shape {
    Stream,
    Parts,
}

enum Link {
    Stream(Box<dyn Stream>),
    Parts(Parts),
}

impl Link {
    fn parts(
        socket: io::Result<impl Into<OwnedFd>>,
        tls: Option<ClientConnection>,
    ) -> Result<Self, ClientError> {
        let socket = socket.map_err(unanswered)?.into();
        let tls = tls.map(Box::new);
        Ok(Self::Parts(Parts { socket, tls }))
    }
}

impl Target {
    /// Connects to the first host that answers, and says nothing but what TLS needs.
    ///
    /// A request to cancel must reach the server of its statement, so the order of hosts is always
    /// that of the connection string.
    pub async fn stream(&self) -> Result<Box<dyn Stream>, ClientError> {
        match self.link(Shape::Stream).await? {
            Link::Stream(stream) => Ok(stream),
            Link::Parts(_) => unreachable!("a stream was asked for"),
        }
    }

    /// Connects as [`Target::stream`] does, and returns the socket and the state of TLS apart, for
    /// a program that moves the bytes itself.
    pub async fn parts(&self) -> Result<Parts, ClientError> {
        match self.link(Shape::Parts).await? {
            Link::Parts(parts) => Ok(parts),
            Link::Stream(_) => unreachable!("parts were asked for"),
        }
    }

    async fn link(&self, shape: Shape) -> Result<Link, ClientError> {
        let config = &self.config;
        if config.get_load_balance_hosts() != LoadBalanceHosts::Disable {
            return Err(unbalanced());
        }
        let mut failed = ClientError::Connection("the server has no host".to_owned());
        for wanted in self.attributes.rounds() {
            for (at, host) in config.get_hosts().iter().enumerate() {
                let connecting = async {
                    if *wanted != Attributes::Any {
                        self.session_at(at, host, *wanted).await?;
                    }
                    self.link_at(at, host, shape).await
                };
                match self.within_time(connecting).await {
                    Ok(link) => return Ok(link),
                    Err(error) => failed = error,
                }
            }
        }
        Err(failed)
    }

    /// Logs in to the first host that is as `target_session_attrs` demands. The connection is
    /// served by a task of the runtime that this is called in.
    pub(crate) async fn wanted(&self) -> Result<Client, ClientError> {
        let mut failed = ClientError::Connection("the server has no host".to_owned());
        for wanted in self.attributes.rounds() {
            for (at, host) in self.config.get_hosts().iter().enumerate() {
                match self.within_time(self.session_at(at, host, *wanted)).await {
                    Ok(client) => return Ok(client),
                    Err(error) => failed = error,
                }
            }
        }
        Err(failed)
    }

    /// Logs in to a host, and asks what it is. Fails if another one is wanted.
    async fn session_at(
        &self,
        at: usize,
        host: &Host,
        wanted: Attributes,
    ) -> Result<Client, ClientError> {
        let Link::Stream(stream) = self.link_at(at, host, Shape::Stream).await? else {
            unreachable!("a stream was asked for")
        };
        // TLS is below the stream already.
        let (client, connection) = self
            .config
            .connect_raw(stream, NoTls)
            .await
            .map_err(login)?;
        // Its errors are those of the calls that wait for it.
        tokio::spawn(async move { connection.await.unwrap_or_default() });
        match wanted.takes(State::of(&client).await?) {
            true => Ok(client),
            false => Err(self.attributes.unmet()),
        }
    }

    async fn link_at(&self, at: usize, host: &Host, shape: Shape) -> Result<Link, ClientError> {
        let ports = self.config.get_ports();
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        let address = self.config.get_hostaddrs().get(at).copied();
        self.link_to(host, address, port, shape).await
    }

    /// Connects to a host, TLS and login included, within `connect_timeout`.
    async fn within_time<T>(
        &self,
        connecting: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        match self.config.get_connect_timeout() {
            None => connecting.await,
            Some(limit) => {
                let late = |_| unanswered(io::ErrorKind::TimedOut.into());
                timeout(*limit, connecting).await.map_err(late)?
            }
        }
    }

    async fn link_to(
        &self,
        host: &Host,
        address: Option<IpAddr>,
        port: u16,
        shape: Shape,
    ) -> Result<Link, ClientError> {
        let (name, stream) = match (host, address) {
            (Host::Tcp(host), None) => (
                host.clone(),
                TcpStream::connect((host.as_str(), port)).await,
            ),
            (Host::Tcp(host), Some(address)) => {
                (host.clone(), TcpStream::connect((address, port)).await)
            }
            (Host::Unix(_), Some(address)) => (
                address.to_string(),
                TcpStream::connect((address, port)).await,
            ),
            (Host::Unix(directory), None) => return at_socket(directory, port, shape).await,
        };
        let stream = stream.map_err(unanswered)?;
        set_options(&stream, &self.config).map_err(unanswered)?;
        let tls = self.tls.as_ref();
        match (tls.filter(|tls| tls.mode() != SslMode::Disable), shape) {
            (Some(tls), Shape::Stream) => Ok(Link::Stream(tls.over(stream, &name).await?)),
            (Some(tls), Shape::Parts) => {
                let mut stream = stream;
                let tls = tls.handshake(&mut stream, &name).await?;
                Link::parts(stream.into_std(), tls)
            }
            (None, Shape::Stream) => Ok(Link::Stream(Box::new(stream))),
            (None, Shape::Parts) => Link::parts(stream.into_std(), None),
        }
    }
}

async fn at_socket(directory: &Path, port: u16, shape: Shape) -> Result<Link, ClientError> {
    let path = directory.join(format!(".s.PGSQL.{port}"));
    let stream = UnixStream::connect(path).await.map_err(unanswered)?;
    match shape {
        Shape::Stream => Ok(Link::Stream(Box::new(stream))),
        Shape::Parts => Link::parts(stream.into_std(), None),
    }
}

/// Sets what the connection string says of TCP. With keepalives, which are the default, a peer that
/// vanished without a word is noticed.
fn set_options(stream: &TcpStream, config: &Config) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(config.get_tcp_user_timeout().copied())?;
    if !config.get_keepalives() {
        return Ok(());
    }
    let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
    if let Some(interval) = config.get_keepalives_interval() {
        keepalive = keepalive.with_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        keepalive = keepalive.with_retries(retries);
    }
    socket.set_tcp_keepalive(&keepalive)
}

fn unanswered(error: io::Error) -> ClientError {
    ClientError::Connection(format!("the server does not answer: {error}"))
}

fn unbalanced() -> ClientError {
    let text =
        "load_balance_hosts cannot be used here, because a request to cancel must reach the \
        server of its statement: leave it out, and name the server that you want";
    ClientError::Connection(text.to_owned())
}

/// Returns the error of a login that is to find the host that is wanted.
fn login(error: tokio_postgres::Error) -> ClientError {
    let error = ClientError::from(error);
    ClientError::Connection(format!(
        "{error}: target_session_attrs makes pgseal log in to choose a host, so name user, \
         password and dbname in the connection string"
    ))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::ConnectOptions;

    /// Returns the target of a connection string, and the result of connecting there.
    async fn connected(text: &str) -> Result<(), String> {
        let options = ConnectOptions {
            dbname: Some(text.to_owned()),
            ..ConnectOptions::default()
        };
        let target = options.target().expect("it is a connection string");
        let stream = target.stream().await;
        stream.map(drop).map_err(|error| error.to_string())
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("it is a runtime");
        runtime.block_on(future)
    }

    #[test]
    fn the_next_host_is_tried_and_an_address_is_preferred() {
        let answers = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let (port, closed) = (answers.local_addr().expect("it listens").port(), 1);
        let hosts = format!("host=127.0.0.1,127.0.0.1 port={closed},{port} sslmode=disable");
        assert_eq!(run(connected(&hosts)), Ok(()));
        let address = format!("host=db.invalid hostaddr=127.0.0.1 port={port} sslmode=disable");
        assert_eq!(run(connected(&address)), Ok(()));
        let refused = run(connected("host=127.0.0.1 port=1 sslmode=disable"));
        assert!(refused.is_err_and(|text| text.contains("does not answer")));
    }

    /// What goes to an address crosses a network, whatever else names the server.
    #[test]
    fn an_address_is_never_without_tls() {
        for text in [
            "hostaddr=127.0.0.1",
            "host=/run/postgresql hostaddr=127.0.0.1",
        ] {
            let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let port = silent.local_addr().expect("it listens").port();
            let text = format!("{text} port={port} sslmode=require");
            let answers = std::thread::spawn(move || {
                let (mut driver, _) = silent.accept().expect("it is connected");
                let mut request = [0; 8];
                driver.read_exact(&mut request).expect("something is asked");
                driver.write_all(b"N").expect("it waits");
                request
            });
            let refused = run(connected(&text));
            assert!(refused.is_err_and(|text| text.contains("no TLS")));
            let asked = answers.join().expect("it ends");
            assert_eq!(asked, [0, 0, 0, 8, 4, 210, 22, 47]);
        }
    }

    #[test]
    fn each_host_has_its_address() {
        let options = ConnectOptions {
            dbname: Some("host=a,b hostaddr=127.0.0.1".to_owned()),
            ..ConnectOptions::default()
        };
        let refused = options
            .target()
            .map(drop)
            .map_err(|error| error.to_string());
        assert!(refused.is_err_and(|text| text.contains("one address for each host")));
    }

    /// The listener takes the connection, and never answers the request for TLS.
    #[test]
    fn a_server_that_says_nothing_is_given_up() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = silent.local_addr().expect("it listens").port();
        let text = format!("host=127.0.0.1 port={port} sslmode=require connect_timeout=1");
        let late = run(connected(&text));
        assert!(late.is_err_and(|text| text.contains("timed out")));
    }

    #[test]
    fn a_choice_of_hosts_by_chance_is_refused() {
        let refused = run(connected("host=127.0.0.1 load_balance_hosts=random"));
        assert!(refused.is_err_and(|text| text.contains("leave it out")));
    }

    /// The servers know no PostgreSQL: a login is begun at each of them.
    #[test]
    fn a_host_is_chosen_by_a_login() {
        let silent = || std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let (one, other) = (silent(), silent());
        let port = |of: &std::net::TcpListener| of.local_addr().expect("it listens").port();
        let text = format!(
            "host=127.0.0.1,127.0.0.1 port={},{} user=ada sslmode=disable \
             target_session_attrs=primary",
            port(&one),
            port(&other)
        );
        let answers = std::thread::spawn(move || {
            for server in [one, other] {
                let (mut driver, _) = server.accept().expect("it is connected");
                let mut start = [0; 8];
                driver.read_exact(&mut start).expect("it logs in");
                assert_eq!(start[4..], 196_608_u32.to_be_bytes());
            }
        });
        let refused = run(connected(&text));
        assert!(refused.is_err_and(|text| text.contains("name user, password and dbname")));
        answers.join().expect("both were asked");
    }

    #[test]
    fn a_connection_is_kept_alive() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        for (text, kept) in [("", true), ("keepalives=0", false)] {
            let config: Config = text.parse().expect("it is a connection string");
            let stream = run(async {
                let stream = TcpStream::connect(address).await.expect("it listens");
                set_options(&stream, &config).expect("it is TCP");
                stream.into_std().expect("it is open")
            });
            let keepalive = SockRef::from(&stream).keepalive();
            assert_eq!(keepalive.expect("it is open"), kept);
        }
    }
}
