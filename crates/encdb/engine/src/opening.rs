//! The opening of an owner's session on the connection between a driver and its server.
//!
//! [`Session::open`] speaks with the server through a stream in memory. Its future is polled by
//! hand with each piece of bytes, so no runtime and no clock is needed. The connection is already
//! authenticated: the session's own start is answered here.

use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::future::try_join;
use pgseal_client::tokio_postgres::{Client, Config, NoTls};
use pgseal_client::{ClientError, Identity, OwnersList, Policy, Resolver, Session, SessionOptions};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use crate::catalog::Catalog;
use crate::shown::catalog;
use crate::wire::{message, Frames, Reader, Writer};

/// The bytes that the stream holds in each direction.
const STREAM: usize = 1 << 20;

/// The prefix of the names of the session's own statements.
const PREFIX: &[u8] = b"pgseal_";
/// The tag of a server's `CloseComplete`.
const CLOSED: u8 = b'3';

/// An owner's choices about a server, where others ask it or take care.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerTrust {
    /// The server says which columns are encrypted, where there is no list
    pub types: bool,
    /// A pool before the server gives each connection one of the server's up to its end
    pub session_pool: bool,
}

/// An owner, as one connection opens a session.
#[derive(Clone)]
pub struct Owner {
    /// The keys
    pub identity: Arc<Identity>,
    /// The evaluators that are trusted
    pub policy: Arc<Policy>,
    /// The list that the identity keeps of the database
    pub list: OwnersList,
    /// The owner's choices about the server
    pub trust: ServerTrust,
    /// The key that seals where the list names none
    pub keyname: String,
}

/// An open session, and what is encrypted in its database.
pub struct Opened {
    /// The session, which ends with the server's connection
    pub session: Session,
    /// The columns, functions and types that are encrypted
    pub catalog: Catalog,
    /// The process of the server that has the session
    pub backend: i32,
}

/// The process of the server that a connection reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The server's word at the login, for requests to cancel; none if it has said nothing. Behind
    /// a pool, it is the pool's.
    Told(Option<i32>),
    /// The one that had the session before
    Known(i32),
}

impl Backend {
    /// Refuses another process, before it gets keys: a pool by transaction would hand the session
    /// to other clients.
    fn check(self, is: i32, trust: ServerTrust) -> Result<(), ClientError> {
        match self {
            Self::Told(told) if told == Some(is) || trust.session_pool => Ok(()),
            Self::Told(_) => Err(ClientError::Pooled),
            Self::Known(known) if known == is => Ok(()),
            Self::Known(_) => Err(ClientError::Switched),
        }
    }
}

type Task = Pin<Box<dyn Future<Output = Result<Opened, ClientError>> + Send>>;

/// A session that is being opened.
pub struct Opening {
    task: Task,
    stream: DuplexStream,
    /// Bytes for the session that the stream had no room for
    waiting: Vec<u8>,
    /// The session's own start has not been answered yet.
    starts: bool,
    cycles: Cycles,
    ended: Option<Result<Opened, ClientError>>,
}

/// The outcome of bytes that the server sent.
#[derive(Default)]
pub struct Turn {
    /// The bytes that it is to be sent
    pub to_server: Vec<u8>,
    /// Notifications for the driver
    pub notifications: Vec<u8>,
    /// The session, or why it cannot be opened, when the server expects nothing more of it
    pub ended: Option<Result<Opened, ClientError>>,
}

/// The cycles that the server has still to end with `ReadyForQuery`: a session that cannot be
/// opened ends before them.
#[derive(Default)]
struct Cycles {
    sent: Frames,
    received: Frames,
    open: usize,
}

impl Cycles {
    /// Takes bytes of the session. Returns them with names of statements that no driver has, and
    /// closes each statement where its cycle ends: a driver's statements stay, the unnamed one too.
    fn sent(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.sent.add(bytes);
        let mut out = Vec::with_capacity(bytes.len());
        while let Ok(Some(message)) = self.sent.message() {
            self.open += usize::from(matches!(message[0], b'S' | b'Q'));
            // A cycle that failed before its end has left its statement.
            if matches!(message[0], b'P' | b'S') {
                out.extend(closing());
            }
            let renamed = renamed(message);
            out.extend_from_slice(renamed.as_deref().unwrap_or(message));
        }
        out
    }

    /// Takes bytes of the server. Returns those for the session, and notifications.
    fn received(&mut self, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
        self.received.add(bytes);
        let (mut all, mut notifications) = (Vec::new(), Vec::new());
        while let Ok(Some(message)) = self.received.message() {
            self.open = self.open.saturating_sub(usize::from(message[0] == b'Z'));
            match message[0] {
                b'A' => notifications.extend(message),
                CLOSED => {}
                _ => all.extend(message),
            }
        }
        (all, notifications)
    }
}

/// Returns a message that closes the session's unnamed statement, as the server knows it.
fn closing() -> Vec<u8> {
    let mut writer = Writer::new(b'C');
    writer.bytes(b"S").bytes(PREFIX).bytes(&[0]);
    writer.end().unwrap_or_default()
}

/// Returns a message with another name of its statement; none if it names no statement.
fn renamed(message: &[u8]) -> Option<Vec<u8>> {
    let tag = message[0];
    let mut reader = Reader::new(message);
    let mut writer = Writer::new(tag);
    match tag {
        b'P' => {}
        b'B' => _ = writer.string(reader.string().ok()?),
        b'D' | b'C' => {
            let kind = reader.byte().ok().filter(|kind| *kind == b'S')?;
            writer.bytes(&[kind]);
        }
        _ => return None,
    }
    let name = reader.string().ok()?;
    writer.bytes(PREFIX).string(name).bytes(reader.rest());
    writer.end().ok()
}

impl Opening {
    /// Begins to open a session. Nothing is sent before [`Opening::advance`].
    pub fn new(owner: Owner, backend: Backend) -> Self {
        let (stream, theirs) = tokio::io::duplex(STREAM);
        Self {
            task: Box::pin(open(owner, backend, theirs)),
            stream,
            waiting: Vec::new(),
            starts: true,
            cycles: Cycles::default(),
            ended: None,
        }
    }

    /// Takes bytes that the server sent.
    pub fn advance(&mut self, bytes: &[u8]) -> Turn {
        let (received, notifications) = self.cycles.received(bytes);
        self.waiting.extend(received);
        let mut out = Vec::new();
        if self.ended.is_none() {
            self.turn(&mut out);
        }
        let to_server = self.cycles.sent(&out);
        let ended = match self.cycles.open {
            0 => self.ended.take(),
            _ => None,
        };
        Turn {
            to_server,
            notifications,
            ended,
        }
    }

    /// Moves bytes and polls the session until neither changes anything. Bytes of the server wait
    /// until the session's own start is answered.
    fn turn(&mut self, out: &mut Vec<u8>) {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let given = match self.starts {
                true => 0,
                false => self.give(&mut context),
            };
            if let Poll::Ready(ended) = self.task.as_mut().poll(&mut context) {
                self.ended = Some(ended);
            }
            let taken = self.take(&mut context, out);
            if self.ended.is_some() {
                return;
            } else if self.starts && !out.is_empty() {
                out.clear();
                self.starts = false;
                self.waiting.splice(..0, started());
            } else if given + taken == 0 {
                return;
            }
        }
    }

    /// Writes what waits to the session. Returns the number of bytes.
    fn give(&mut self, context: &mut Context<'_>) -> usize {
        let stream = Pin::new(&mut self.stream);
        match stream.poll_write(context, &self.waiting) {
            Poll::Ready(Ok(written)) => {
                self.waiting.drain(..written);
                written
            }
            _ => 0,
        }
    }

    /// Reads what the session has written. Returns the number of bytes.
    fn take(&mut self, context: &mut Context<'_>, out: &mut Vec<u8>) -> usize {
        let mut space = [0; 8192];
        let mut buffer = ReadBuf::new(&mut space);
        let before = out.len();
        while let Poll::Ready(Ok(())) = Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
            if buffer.filled().is_empty() {
                break;
            }
            out.extend_from_slice(buffer.filled());
            buffer.clear();
        }
        out.len() - before
    }
}

/// Returns what a server answers to a start that needs no password.
fn started() -> Vec<u8> {
    let message = |tag, body: &[u8]| message(tag, body).unwrap_or_default();
    [
        message(b'R', &[0; 4]),
        message(b'K', &[0; 8]),
        message(b'Z', b"I"),
    ]
    .concat()
}

async fn open(owner: Owner, backend: Backend, stream: DuplexStream) -> Result<Opened, ClientError> {
    let mut config = Config::new();
    config.user("session");
    let (client, connection) = config.connect_raw(stream, NoTls).await?;
    let mut connection = Box::pin(connection);
    let mut opened = pin!(session(owner, backend, client));
    poll_fn(|context| {
        // Its errors are those of the calls that wait for it.
        let _ = connection.as_mut().poll(context);
        opened.as_mut().poll(context)
    })
    .await
}

async fn session(owner: Owner, told: Backend, client: Client) -> Result<Opened, ClientError> {
    let trust = owner.trust;
    let backend = process(&client).await?;
    if let Err(error) = told.check(backend, trust) {
        // A server without encdb has no session that a pool could give to another client.
        return Err(match is_installed(&client).await? {
            true => error,
            false => ClientError::NotInstalled,
        });
    }
    let mut options = SessionOptions::new(Resolver::new(&owner.keyname));
    options.list = owner.list;
    options.trusts_server_types = trust.types;
    let session = Session::open(client, owner.identity, owner.policy, options).await?;
    let catalog = catalog(&session, &owner.keyname, trust.types);
    let (catalog, after) = try_join(catalog, process(session.client())).await?;
    Backend::Known(backend).check(after, trust)?;
    Ok(Opened {
        session,
        catalog,
        backend,
    })
}

async fn is_installed(client: &Client) -> Result<bool, ClientError> {
    let sql = "SELECT FROM pg_catalog.pg_extension WHERE extname = 'encdb'";
    Ok(!client.query_typed(sql, &[]).await?.is_empty())
}

/// Returns the number of the server's process.
async fn process(client: &Client) -> Result<i32, ClientError> {
    let rows = client
        .query_typed("SELECT pg_catalog.pg_backend_pid()", &[])
        .await?;
    let row = rows.first().ok_or(ClientError::Switched)?;
    Ok(row.try_get(0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening() -> Opening {
        let owner = Owner {
            identity: Arc::new(Identity::for_tests(1)),
            policy: Arc::new(Policy::software()),
            list: OwnersList::default(),
            trust: ServerTrust::default(),
            keyname: "k".to_owned(),
        };
        Opening::new(owner, Backend::Told(Some(7)))
    }

    #[test]
    fn what_the_server_says_behind_its_first_ready_is_no_answer_to_the_start() {
        let notice = message(b'N', b"SNOTICE\0C00000\0Mx\0\0").expect("it is short");
        let turn = opening().advance(&notice);
        assert!(turn.ended.is_none());
        let asks = b"pg_backend_pid";
        assert!(turn.to_server.windows(asks.len()).any(|it| it == asks));
    }

    #[test]
    fn a_server_that_speaks_another_protocol_gets_no_session() {
        let garbage = message(b'T', b"\xff").expect("it is short");
        let turn = opening().advance(&garbage);
        assert!(turn.ended.is_some_and(|ended| ended.is_err()));
    }

    #[test]
    fn a_pool_is_found_by_the_process_behind_it() {
        let pooled = ServerTrust {
            session_pool: true,
            ..ServerTrust::default()
        };
        for (backend, trust, expected) in [
            (Backend::Told(Some(7)), ServerTrust::default(), None),
            (
                Backend::Told(Some(8)),
                ServerTrust::default(),
                Some("--session-pool"),
            ),
            (
                Backend::Told(None),
                ServerTrust::default(),
                Some("--session-pool"),
            ),
            (Backend::Told(Some(8)), pooled, None),
            (Backend::Known(7), pooled, None),
            (Backend::Known(8), pooled, Some("by transaction")),
        ] {
            let refused = backend.check(7, trust).err().map(|error| error.to_string());
            match (expected, refused) {
                (Some(text), Some(refused)) => assert!(refused.contains(text), "{refused}"),
                (expected, refused) => assert_eq!(refused.as_deref(), expected),
            }
        }
    }
}
