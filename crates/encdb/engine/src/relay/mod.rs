//! The protocol between a driver and its server, with cells in between that only the server sees.
//!
//! Bytes of either side go in, and bytes for either side come out. Each message of the driver that
//! the server answers is kept in the order of the answers ([`Expected`]), with what the engine adds
//! and hides. Statements are rewritten before they are sent, so nothing ever waits for an answer:
//! a pipeline stays one. What is refused is sent as a statement that fails, so that the transaction
//! fails as it would under any error, and the engine's error is in place of the server's.

mod copying;
mod driver;
mod replay;
mod server;
mod settings;
mod statements;
mod twice;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::catalog::{Catalog, Cells};
use crate::times::Times;
use crate::values::Keys;
use crate::wire::{FrameError, Frames, MessageError};
use copying::Copies;
use replay::Replay;
pub(crate) use settings::Settings;
use statements::{Named, Statement, Statements};

/// The bytes of a driver's rows that wait.
const MAX_WAITING: usize = 64 << 10;

/// Why a connection ends: a side does not speak the protocol.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// A length that no message has
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Fields that its type does not have
    #[error(transparent)]
    Message(#[from] MessageError),
    /// An answer that nothing asked for
    #[error("the server sent a message of type {:?} that nothing asked for", char::from(*.0))]
    Unasked(u8),
}

type Columns = Vec<Option<Cells>>;

/// A portal, or the result of a simple query: its columns and their formats, of which a list may
/// have none, one for all, or one for each.
#[derive(Debug, Default)]
struct Portal {
    statement: Arc<Statement>,
    /// The formats of the columns as the server sends them
    formats: Vec<u16>,
    /// The formats in which the driver gets them
    given: Vec<u16>,
}

impl Portal {
    /// Returns the columns if one of them is encrypted.
    fn encrypted(&self) -> Option<&Columns> {
        let columns = self.statement.columns.get()?;
        columns.iter().any(Option::is_some).then_some(columns)
    }
}

/// A text of statements that the driver sent as a simple query, or a function call.
#[derive(Debug, Default)]
struct Query {
    statement: Arc<Statement>,
    /// The result that comes now, once it is described
    result: Option<Portal>,
    /// The number of COPYs that have begun
    copies: usize,
}

/// The next answer of the server.
#[derive(Debug)]
enum Expected {
    /// `ParseComplete` of a statement
    Parsed(Named),
    /// `BindComplete`, or `CloseComplete` of a portal: one message of this type
    One(u8),
    /// `CloseComplete` of a statement's name, with the statement
    Closed(Vec<u8>, Option<Arc<Statement>>),
    /// The description of a statement, whose answer is hidden if the driver did not ask for it
    Statement { of: Arc<Statement>, is_hidden: bool },
    /// The description of a portal
    Portal(Arc<Portal>),
    /// Rows, and what ends them
    Rows(Arc<Portal>),
    /// Everything up to `ReadyForQuery`, of a simple query or a function call
    Query(Query),
    /// `ReadyForQuery`
    Ready,
    /// An error, in whose place the driver gets this one
    Refused(Vec<u8>),
}

/// One connection.
pub struct Relay {
    catalog: Arc<Catalog>,
    keys: Arc<dyn Keys + Send + Sync>,
    driver: Frames,
    server: Frames,
    to_driver: Vec<u8>,
    to_server: Vec<u8>,
    expected: VecDeque<Expected>,
    statements: Statements,
    portals: HashMap<Vec<u8>, Arc<Portal>>,
    settings: Settings,
    /// The time zone and the style of intervals that the server reported last
    times: Times,
    copies: Copies,
    replay: Replay,
    /// Messages of the driver are dropped up to its `Sync`, as the server drops them.
    drops_driver: bool,
    /// Answers are dropped up to `ReadyForQuery`: the driver got an error in their place.
    drops_server: bool,
}

impl Relay {
    /// Makes the relay of a connection that is ready for queries.
    pub fn new(catalog: Arc<Catalog>, keys: Arc<dyn Keys + Send + Sync>) -> Self {
        Self {
            catalog,
            keys,
            driver: Frames::default(),
            server: Frames::default(),
            to_driver: Vec::new(),
            to_server: Vec::new(),
            expected: VecDeque::new(),
            statements: Statements::default(),
            portals: HashMap::new(),
            settings: Settings::default(),
            times: Times::default(),
            copies: Copies::default(),
            replay: Replay::default(),
            drops_driver: false,
            drops_server: false,
        }
    }

    /// Sets the time zone and the style of intervals that the server has reported up to now.
    pub(crate) fn with_times(mut self, times: Times) -> Self {
        self.keys.set_times(times.clone());
        self.times = times;
        self
    }

    /// Sets what the server has reported up to now.
    pub(crate) fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Whether bytes of the driver can be taken now. Rows wait until the server takes them, and
    /// all wait while a session is opened.
    pub(crate) fn takes_driver(&self) -> bool {
        !self.waits() || self.driver.len() < MAX_WAITING
    }

    fn waits(&self) -> bool {
        self.rows_wait() || self.replay.is_restoring()
    }

    /// Takes what is to be sent to the driver.
    pub fn take_for_driver(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.to_driver)
    }

    /// Takes what is to be sent to the server.
    pub fn take_for_server(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.to_server)
    }

    /// Appends what is to be sent to the driver.
    pub(crate) fn move_for_driver(&mut self, out: &mut Vec<u8>) {
        move_to(&mut self.to_driver, out);
    }

    /// Appends what is to be sent to the server.
    pub(crate) fn move_for_server(&mut self, out: &mut Vec<u8>) {
        move_to(&mut self.to_server, out);
    }
}

/// Appends bytes, whose memory is used again, unless it is much.
fn move_to(bytes: &mut Vec<u8>, out: &mut Vec<u8>) {
    match out.is_empty() {
        true => std::mem::swap(bytes, out),
        false => out.append(bytes),
    }
    bytes.clear();
    bytes.shrink_to(MAX_WAITING);
}

#[cfg(test)]
mod tests;
