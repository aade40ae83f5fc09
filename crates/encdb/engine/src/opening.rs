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
use pgseal_client::{
    encrypted_columns, encrypted_names, encrypted_types, ClientError, ColumnName, Identity,
    OwnersList, Policy, Resolver, Session, SessionOptions,
};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use crate::catalog::{Catalog, Cells};
use crate::wire::{message, Frame, Frames, Reader, Writer};

/// The bytes that the stream holds in each direction.
const STREAM: usize = 1 << 20;

/// The prefix of the names of the session's own statements.
const PREFIX: &[u8] = b"pgseal_";

/// An owner, as one connection opens a session.
#[derive(Clone)]
pub struct Owner {
    /// The keys
    pub identity: Arc<Identity>,
    /// The evaluators that are trusted
    pub policy: Arc<Policy>,
    /// The list that the identity keeps of the database
    pub list: OwnersList,
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

/// The moment at which a session is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the driver's first statement
    AtStart,
    /// After another one was lost. The driver's statements stay.
    Again,
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
    /// Takes bytes of the session. Returns them with names of statements that no driver has.
    fn sent(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.sent.add(bytes);
        let mut out = Vec::with_capacity(bytes.len());
        while let Ok(Some(Frame::Message(message))) = self.sent.next(|_| true) {
            self.open += usize::from(matches!(message[0], b'S' | b'Q'));
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
                _ => all.extend(message),
            }
        }
        (all, notifications)
    }
}

/// Returns a message with another name of its statement; none if it has no name.
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
    let name = reader.string().ok().filter(|name| !name.is_empty())?;
    writer.bytes(PREFIX).string(name).bytes(reader.rest());
    writer.end().ok()
}

impl Opening {
    /// Begins to open a session. Nothing is sent before [`Opening::advance`].
    pub fn new(owner: Owner, when: When) -> Self {
        let (stream, theirs) = tokio::io::duplex(STREAM);
        Self {
            task: Box::pin(open(owner, when, theirs)),
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

async fn open(owner: Owner, when: When, stream: DuplexStream) -> Result<Opened, ClientError> {
    let mut config = Config::new();
    config.user("session");
    let (client, connection) = config.connect_raw(stream, NoTls).await?;
    let mut connection = Box::pin(connection);
    let mut opened = pin!(session(owner, when, client));
    poll_fn(|context| {
        // Its errors are those of the calls that wait for it.
        let _ = connection.as_mut().poll(context);
        opened.as_mut().poll(context)
    })
    .await
}

async fn session(owner: Owner, when: When, client: Client) -> Result<Opened, ClientError> {
    let mut options = SessionOptions::new(Resolver::new(&owner.keyname));
    options.list = owner.list;
    let session = Session::open(client, owner.identity, owner.policy, options).await?;
    let catalog = catalog(&session, &owner.keyname).await?;
    if when == When::AtStart {
        // The driver finds a connection without statements.
        session.client().batch_execute("DEALLOCATE ALL").await?;
    }
    Ok(Opened { session, catalog })
}

/// Asks the server what is encrypted, and adds the owner's list, which decides.
async fn catalog(session: &Session, keyname: &str) -> Result<Catalog, ClientError> {
    let mut catalog = Catalog::new(keyname);
    let default = Arc::clone(catalog.default_key());
    for shown in encrypted_columns(session.client()).await? {
        let ty = shown.ty.as_deref().unwrap_or_default();
        if let Some(cells) = Cells::by_type(ty, &default) {
            catalog.add_column(&shown.name, cells);
        }
    }
    for (name, listed) in session.list().columns() {
        if let Some(cells) = Cells::by_type(&listed.ty, &Arc::from(listed.keyname.as_str())) {
            catalog.add_listed(name, cells);
        }
    }
    for name in encrypted_names(session.client()).await? {
        catalog.add_mixed(&name);
    }
    add_types(&mut catalog, session).await?;
    add_mixed_columns(&mut catalog, session).await?;
    add_orders(&mut catalog, session).await?;
    add_children(&mut catalog, session).await?;
    add_functions(&mut catalog, session).await?;
    Ok(catalog)
}

/// Adds the types of encdb, domains over them, and arrays of either.
async fn add_types(catalog: &mut Catalog, session: &Session) -> Result<(), ClientError> {
    let sql = "WITH RECURSIVE enc(oid, name) AS ( \
            SELECT t.oid, t.typname::pg_catalog.text FROM pg_catalog.pg_type t \
            WHERE t.typname ~ '^(enc_.*|det_type|rnd_type)$' AND t.typtype = 'b' \
            UNION ALL \
            SELECT t.oid, CASE t.typtype WHEN 'd' THEN enc.name ELSE enc.name || '[]' END \
            FROM enc JOIN pg_catalog.pg_type t ON t.typtype = 'd' AND t.typbasetype = enc.oid \
                OR t.typcategory = 'A' AND t.typelem = enc.oid) \
        SELECT enc.oid, name, t.typtype <> 'd' AND coalesce(e.typtype, 'b') <> 'd' FROM enc \
        JOIN pg_catalog.pg_type t ON t.oid = enc.oid \
        LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem";
    let default = Arc::clone(catalog.default_key());
    for row in session.client().query(sql, &[]).await? {
        let (oid, name): (u32, &str) = (row.try_get(0)?, row.try_get(1)?);
        match (Cells::by_type(name, &default), row.try_get(2)?) {
            (Some(cells), true) => catalog.add_own_type(oid, cells),
            (Some(cells), false) => catalog.add_type(oid, cells),
            (None, _) => {}
        }
    }
    Ok(())
}

/// Adds columns of composites and ranges that have cells in them.
async fn add_mixed_columns(catalog: &mut Catalog, session: &Session) -> Result<(), ClientError> {
    let sql = "SELECT n.nspname::pg_catalog.text, r.relname::pg_catalog.text, \
            a.attname::pg_catalog.text \
        FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class r ON r.oid = a.attrelid \
            AND r.relkind IN ('r', 'p', 'v', 'm', 'f') \
        JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
        WHERE a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = ANY($1) \
            AND a.atttypid <> ALL ($2)";
    let encrypted = encrypted_types(session.client()).await?;
    let types: Vec<u32> = catalog.type_oids().collect();
    for row in session.client().query(sql, &[&encrypted, &types]).await? {
        let name = ColumnName {
            schema: row.try_get(0)?,
            table: row.try_get(1)?,
            column: row.try_get(2)?,
        };
        let cells = Cells::mixed(catalog.default_key());
        catalog.add_column(&name, cells);
    }
    Ok(())
}

/// Adds the order of columns of tables with cells, for the rows of `COPY ... TO`. It decides what
/// is opened, and never what is sealed.
async fn add_orders(catalog: &mut Catalog, session: &Session) -> Result<(), ClientError> {
    let sql = "SELECT n.nspname::pg_catalog.text, r.relname::pg_catalog.text, \
            pg_catalog.array_agg(a.attname::pg_catalog.text ORDER BY a.attnum) \
        FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class r ON r.oid = a.attrelid \
        JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
        WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' \
            AND r.relkind IN ('r', 'f') AND EXISTS (SELECT FROM pg_catalog.pg_attribute e \
                WHERE e.attrelid = r.oid AND e.attnum > 0 AND e.atttypid = ANY($1)) \
        GROUP BY 1, 2";
    let types: Vec<u32> = catalog.type_oids().collect();
    for row in session.client().query(sql, &[&types]).await? {
        catalog.add_order(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    }
    Ok(())
}

/// Adds which tables inherit from which, partitions too: a new column of one is theirs.
async fn add_children(catalog: &mut Catalog, session: &Session) -> Result<(), ClientError> {
    let sql = "SELECT p.relname::pg_catalog.text, n.nspname::pg_catalog.text, \
            c.relname::pg_catalog.text FROM pg_catalog.pg_inherits i \
        JOIN pg_catalog.pg_class p ON p.oid = i.inhparent \
        JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relkind IN ('r', 'p', 'f') \
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace";
    for row in session.client().query(sql, &[]).await? {
        catalog.add_child(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    }
    Ok(())
}

/// Adds functions and procedures, other than encdb's own, that take encrypted arguments.
async fn add_functions(catalog: &mut Catalog, session: &Session) -> Result<(), ClientError> {
    let sql = "SELECT p.proname::pg_catalog.text, p.proargtypes::pg_catalog.oid[] \
        FROM pg_catalog.pg_proc p WHERE p.proargtypes::pg_catalog.oid[] && $1 \
            AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d \
                JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid AND e.extname = 'encdb' \
                WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass \
                    AND d.objid = p.oid AND d.deptype = 'e')";
    let types: Vec<u32> = catalog.type_oids().collect();
    for row in session.client().query(sql, &[&types]).await? {
        let (name, types): (&str, Vec<u32>) = (row.try_get(0)?, row.try_get(1)?);
        let arguments = types.iter().map(|oid| catalog.type_of(*oid).cloned());
        let arguments = arguments.collect();
        catalog.add_function(name, arguments);
    }
    Ok(())
}
