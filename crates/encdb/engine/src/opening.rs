//! The opening of an owner's session on the connection between a driver and its server.
//!
//! [`Session::open`] speaks with the server through a stream in memory. Its future is polled by
//! hand with each piece of bytes, so no runtime and no clock is needed. The connection is already
//! authenticated: the session's own start is answered here.

use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pgseal_client::tokio_postgres::{Client, Config, NoTls};
use pgseal_client::{ClientError, Identity, OwnersList, Policy, Resolver, Session, SessionOptions};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use crate::catalog::Catalog;
use crate::shown::catalog;
use crate::wire::{message, Frame, Frames, Reader, Writer};

/// The bytes that the stream holds in each direction.
const STREAM: usize = 1 << 20;

/// The prefix of the names of the session's own statements.
const PREFIX: &[u8] = b"pgseal_";
/// The tag of a server's `CloseComplete`.
const CLOSED: u8 = b'3';

/// An owner, as one connection opens a session.
#[derive(Clone)]
pub struct Owner {
    /// The keys
    pub identity: Arc<Identity>,
    /// The evaluators that are trusted
    pub policy: Arc<Policy>,
    /// The list that the identity keeps of the database
    pub list: OwnersList,
    /// Whether the server says which columns are encrypted, where there is no list
    pub trusts_server_types: bool,
    /// The key that seals where the list names none
    pub keyname: String,
}

/// An open session, and what is encrypted in its database.
pub struct Opened {
    /// The session, which ends with the server's connection
    pub session: Session,
    /// The columns, functions and types that are encrypted
    pub catalog: Catalog,
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
        while let Ok(Some(Frame::Message(message))) = self.sent.next(|_| true) {
            self.open += usize::from(matches!(message[0], b'S' | b'Q'));
            // A cycle that failed before its end has left its statement.
            if matches!(message[0], b'P' | b'S') {
                out.extend(closing());
            }
            out.extend(renamed(&message).unwrap_or(message));
        }
        out
    }

    /// Takes bytes of the server. Returns those for the session, and notifications.
    fn received(&mut self, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
        self.received.add(bytes);
        let (mut all, mut notifications) = (Vec::new(), Vec::new());
        while let Ok(Some(Frame::Message(message))) = self.received.next(|_| true) {
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
    pub fn new(owner: Owner) -> Self {
        let (stream, theirs) = tokio::io::duplex(STREAM);
        Self {
            task: Box::pin(open(owner, theirs)),
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

    /// Moves bytes and polls the session until neither changes anything.
    fn turn(&mut self, out: &mut Vec<u8>) {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let given = self.give(&mut context);
            if let Poll::Ready(ended) = self.task.as_mut().poll(&mut context) {
                self.ended = Some(ended);
            }
            let taken = self.take(&mut context, out);
            if self.starts && !out.is_empty() {
                out.clear();
                self.starts = false;
                self.waiting = started();
            } else if self.ended.is_some() || given + taken == 0 {
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

async fn open(owner: Owner, stream: DuplexStream) -> Result<Opened, ClientError> {
    let mut config = Config::new();
    config.user("session");
    let (client, connection) = config.connect_raw(stream, NoTls).await?;
    let mut connection = Box::pin(connection);
    let mut opened = pin!(session(owner, client));
    poll_fn(|context| {
        // Its errors are those of the calls that wait for it.
        let _ = connection.as_mut().poll(context);
        opened.as_mut().poll(context)
    })
    .await
}

async fn session(owner: Owner, client: Client) -> Result<Opened, ClientError> {
    let mut options = SessionOptions::new(Resolver::new(&owner.keyname));
    options.list = owner.list;
    options.trusts_server_types = owner.trusts_server_types;
    let session = Session::open(client, owner.identity, owner.policy, options).await?;
    let trusts = owner.trusts_server_types;
    let catalog = catalog(&session, &owner.keyname, trusts).await?;
    Ok(Opened { session, catalog })
}
