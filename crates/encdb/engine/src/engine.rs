//! One connection of a driver, from its first byte to its last.
//!
//! States: the start, in which everything passes (passwords too, which are between driver and
//! server), the opening of the owner's session, and the relay of statements, in which a session
//! that is lost is opened again.

use std::sync::{Arc, Mutex, PoisonError};

use pgseal_client::{ClientError, Session, Type};
use pgseal_value::Value;

use crate::catalog::Catalog;
use crate::observer::{Event, Nobody, Observer};
use crate::opening::{Backend, Opened, Opening, Owner};
use crate::refusal::Refusal;
use crate::relay::{Relay, RelayError, Settings};
use crate::scram;
use crate::times::Times;
use crate::values::Keys;
use crate::wire::{self, Frames, MessageError, Reader};
use crate::Seal;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A side does not speak the protocol.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// The owner's session cannot be opened; the driver was told.
    #[error("the owner's session cannot be opened: {0}")]
    Opening(#[source] ClientError),
    /// The driver wants to replicate.
    #[error("a replication connection is not followed; the driver was told")]
    Replication,
    /// The driver demands to bind its password to a certificate that it does not see.
    #[error("the driver sets no channel_binding=disable; it was told")]
    ChannelBinding,
    /// No owner is known for the database.
    #[error("there is no identity for database {0}; the driver was told")]
    Owner(String),
}

impl EngineError {
    /// Returns the SQLSTATE that the driver was told; none if it was told nothing.
    pub fn sqlstate(&self) -> Option<&'static str> {
        match self {
            Self::Relay(_) => None,
            Self::Opening(_) => Some("PE009"),
            Self::Replication => Some("0A000"),
            Self::ChannelBinding | Self::Owner(_) => Some("28000"),
        }
    }
}

/// Finds the owner of a connection by the role and the database of its start.
pub trait Owners {
    /// Returns the owner, whose session is opened; none refuses the connection.
    fn owner(&self, user: &str, database: &str) -> Option<Owner>;
}

/// One connection.
pub struct Engine {
    owners: Arc<dyn Owners + Send + Sync>,
    observer: Arc<dyn Observer>,
    /// The owner, once the driver's start has told whose connection it is
    owner: Option<Owner>,
    /// The server's process, once it has a session
    backend: Option<i32>,
    state: State,
    to_driver: Vec<u8>,
    to_server: Vec<u8>,
}

/// The longest start packet that PostgreSQL takes, in bytes.
const MAX_START: usize = 10_000;
/// The bytes of a driver that wait while it is not let in yet.
const MAX_WAITING: usize = 64 << 10;

enum State {
    /// The driver has sent a part of its start packet.
    Start(Vec<u8>),
    /// The server has not been ready yet.
    Login(Box<Login>),
    /// The owner's session is being opened.
    Opening(Box<Login>, Box<Opening>),
    /// Statements are relayed.
    Open(Box<Relay>),
    /// The session was lost, and another one is being opened.
    Reopening(Box<Relay>, Box<Opening>),
}

/// A connection that is not ready for queries yet.
struct Login {
    owner: Owner,
    driver: Frames,
    server: Frames,
    settings: Settings,
    /// The session's time zone and style of intervals
    times: Times,
    /// The server offers to bind passwords to its certificate, which the driver was not told
    binds: bool,
    /// The server's process, by what it says for requests to cancel
    backend: Option<i32>,
    /// The server's first `ReadyForQuery`
    ready: Vec<u8>,
}

impl Engine {
    /// Makes the engine of a new connection.
    pub fn new(owners: Arc<dyn Owners + Send + Sync>) -> Self {
        Self {
            owners,
            observer: Arc::new(Nobody),
            owner: None,
            backend: None,
            state: State::Start(Vec::new()),
            to_driver: Vec::new(),
            to_server: Vec::new(),
        }
    }

    /// Notifies this program of the connection's events.
    #[must_use]
    pub fn observed(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Whether bytes of the driver can be taken now. They wait while the session is opened.
    pub fn takes_driver(&self) -> bool {
        match &self.state {
            State::Opening(..) => false,
            State::Login(login) => login.driver.len() < MAX_WAITING,
            State::Open(relay) | State::Reopening(relay, _) => relay.takes_driver(),
            State::Start(_) => true,
        }
    }

    /// Takes bytes that the driver sent.
    pub fn from_driver(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        match &mut self.state {
            State::Start(packet) => {
                packet.extend_from_slice(bytes);
                self.start()
            }
            State::Login(login) => {
                login.driver.add(bytes);
                self.passwords()
            }
            State::Opening(login, _) => {
                login.driver.add(bytes);
                Ok(())
            }
            State::Open(relay) | State::Reopening(relay, _) => Ok(relay.from_driver(bytes)?),
        }
    }

    /// Takes bytes that the server sent.
    pub fn from_server(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        match &mut self.state {
            State::Start(_) => Ok(()),
            State::Login(login) => {
                login.server.add(bytes);
                self.login()
            }
            State::Opening(..) => self.advance(bytes),
            State::Reopening(..) => self.reopen(bytes),
            State::Open(relay) => {
                relay.from_server(bytes)?;
                match relay.wants_session() {
                    true => self.lost(),
                    false => Ok(()),
                }
            }
        }
    }

    /// Appends what is to be sent to the driver to `out`.
    pub fn move_for_driver(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.to_driver);
        if let State::Open(relay) | State::Reopening(relay, _) = &mut self.state {
            relay.move_for_driver(out);
        }
    }

    /// Appends what is to be sent to the server to `out`.
    pub fn move_for_server(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.to_server);
        if let State::Open(relay) | State::Reopening(relay, _) = &mut self.state {
            relay.move_for_server(out);
        }
    }

    /// Looks into the start packet: whose connection this is. Nothing behind it is sent yet.
    fn start(&mut self) -> Result<(), EngineError> {
        let State::Start(packet) = &self.state else {
            return Ok(());
        };
        let Some(length) = packet.first_chunk().map(|it| u32::from_be_bytes(*it)) else {
            return Ok(());
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if !(8..=MAX_START).contains(&length) {
            return Err(RelayError::from(MessageError(0)).into());
        }
        let Some((packet, rest)) = packet.split_at_checked(length) else {
            return Ok(());
        };
        let start = wire::start(packet)?;
        if start.replicates {
            let text = "a replication connection is not followed: connect to the server itself";
            self.to_driver.extend(wire::error("0A000", text));
            return Err(EngineError::Replication);
        }
        let Some(owner) = self.owners.owner(&start.user, &start.database) else {
            let text = "pgseal has no identity for this database: see its configuration";
            self.to_driver.extend(wire::error("28000", text));
            return Err(EngineError::Owner(start.database));
        };
        self.to_server.extend_from_slice(packet);
        let mut driver = Frames::default();
        driver.add(rest);
        let mut settings = Settings::default();
        for (name, value) in &start.settings {
            settings.start(name, value);
        }
        self.state = State::Login(Box::new(Login {
            owner,
            driver,
            server: Frames::default(),
            settings,
            times: Times::default(),
            binds: false,
            backend: None,
            ready: Vec::new(),
        }));
        self.passwords()
    }

    /// Passes passwords, which are between driver and server. Whatever else the driver has sent
    /// waits.
    fn passwords(&mut self) -> Result<(), EngineError> {
        let State::Login(login) = &mut self.state else {
            return Ok(());
        };
        while login.driver.peek() == Some(b'p') {
            match login.driver.message().map_err(RelayError::from)? {
                Some(message) => {
                    if std::mem::take(&mut login.binds) && scram::could_bind(message) {
                        let text = "pgseal ends TLS, and the server's certificate with it: set \
                            channel_binding=disable in the driver";
                        self.to_driver.extend(wire::error("28000", text));
                        return Err(EngineError::ChannelBinding);
                    }
                    self.to_server.extend_from_slice(message);
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Passes what the server says up to its first `ReadyForQuery`, and begins the opening.
    fn login(&mut self) -> Result<(), EngineError> {
        let State::Login(login) = &mut self.state else {
            return Ok(());
        };
        while let Some(message) = login.server.message().map_err(RelayError::from)? {
            match message[0] {
                b'Z' => {
                    login.ready = message.to_vec();
                    return self.begin();
                }
                b'S' => {
                    let mut reader = Reader::new(message);
                    let (name, value) = (reader.string()?, reader.string()?);
                    login.settings.set(name, value);
                    login.times.set(name, value);
                    self.to_driver.extend_from_slice(message);
                }
                b'R' => {
                    let changed = scram::without_binding(message)?;
                    login.binds |= changed.is_some();
                    let passes = changed.as_deref().unwrap_or(message);
                    self.to_driver.extend_from_slice(passes);
                }
                b'K' => {
                    let process = Reader::new(message).int32()?;
                    login.backend = Some(i32::from_be_bytes(process.to_be_bytes()));
                    self.to_driver.extend_from_slice(message);
                }
                _ => self.to_driver.extend_from_slice(message),
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), EngineError> {
        let state = std::mem::replace(&mut self.state, State::Start(Vec::new()));
        let State::Login(mut login) = state else {
            return Ok(());
        };
        let opening = Opening::new(login.owner.clone(), Backend::Told(login.backend));
        self.owner = Some(login.owner.clone());
        let rest = login.server.take_rest();
        self.state = State::Opening(login, Box::new(opening));
        self.advance(&rest)
    }

    fn advance(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        let State::Opening(login, opening) = &mut self.state else {
            return Ok(());
        };
        let turn = opening.advance(bytes);
        self.to_server.extend(turn.to_server);
        self.to_driver.extend(turn.notifications);
        let Some(ended) = turn.ended else {
            return Ok(());
        };
        let has_none = login.owner.list.columns().next().is_none();
        let (catalog, keys): (Catalog, Arc<dyn Keys + Send + Sync>) = match ended {
            Ok(opened) => {
                self.backend = Some(opened.backend);
                let keys = SessionKeys::of(opened.session, &self.observer);
                (opened.catalog, keys)
            }
            Err(ClientError::NotInstalled) if has_none => {
                let observer = Arc::clone(&self.observer);
                (Catalog::new(""), Arc::new(NoKeys { observer }))
            }
            Err(error) => {
                self.observer.note(Event::NoSession);
                self.to_driver
                    .extend(wire::error("PE009", &error.to_string()));
                return Err(EngineError::Opening(error));
            }
        };
        self.to_driver.extend_from_slice(&login.ready);
        let relay = Relay::new(Arc::new(catalog), keys);
        let relay = relay.with_settings(login.settings);
        let mut relay = Box::new(relay.with_times(login.times.clone()));
        relay.from_driver(&login.driver.take_rest())?;
        self.state = State::Open(relay);
        Ok(())
    }

    /// Begins to open another session, on a connection that is idle.
    fn lost(&mut self) -> Result<(), EngineError> {
        let state = std::mem::replace(&mut self.state, State::Start(Vec::new()));
        let (State::Open(mut relay), Some(owner)) = (state, &self.owner) else {
            return Ok(());
        };
        let rest = relay.take_server_rest();
        self.to_driver.extend(relay.take_for_driver());
        self.to_server.extend(relay.take_for_server());
        let backend = self.backend.map_or(Backend::Told(None), Backend::Known);
        let opening = Opening::new(owner.clone(), backend);
        self.state = State::Reopening(relay, Box::new(opening));
        self.reopen(&rest)
    }

    /// Goes on with the opening of another session. Then the relay does.
    fn reopen(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        let State::Reopening(relay, opening) = &mut self.state else {
            return Ok(());
        };
        let turn = opening.advance(bytes);
        self.to_server.extend(turn.to_server);
        self.to_driver.extend(turn.notifications);
        let Some(ended) = turn.ended else {
            return Ok(());
        };
        match ended {
            Ok(Opened {
                session, catalog, ..
            }) => {
                let keys = SessionKeys::of(session, &self.observer);
                relay.restored(Arc::new(catalog), keys)?;
            }
            Err(error) => {
                self.observer.note(Event::NoSession);
                relay.not_restored(&error)?;
            }
        }
        let state = std::mem::replace(&mut self.state, State::Start(Vec::new()));
        if let State::Reopening(relay, _) = state {
            self.state = State::Open(relay);
        }
        Ok(())
    }
}

/// The keys where encdb is not installed and the owner knows of nothing encrypted.
struct NoKeys {
    observer: Arc<dyn Observer>,
}

impl Seal for NoKeys {
    fn seal(&self, _: &str, _: &Value) -> Result<Vec<u8>, Refusal> {
        Err(Refusal::Client(ClientError::NotInstalled))
    }
}

impl Keys for NoKeys {
    fn open(&self, _: Option<Type>, _: &[u8]) -> Result<Value, Refusal> {
        Err(Refusal::Client(ClientError::NotInstalled))
    }

    fn note(&self, event: Event) {
        self.observer.note(event);
    }
}

/// The data keys of an open session.
struct SessionKeys {
    session: Session,
    times: Mutex<Times>,
    observer: Arc<dyn Observer>,
}

impl SessionKeys {
    /// Returns the keys of a session that was opened just now.
    fn of(session: Session, observer: &Arc<dyn Observer>) -> Arc<dyn Keys + Send + Sync> {
        observer.note(Event::Session);
        let observer = Arc::clone(observer);
        Arc::new(Self {
            session,
            times: Mutex::default(),
            observer,
        })
    }
}

impl Seal for SessionKeys {
    fn seal(&self, keyname: &str, value: &Value) -> Result<Vec<u8>, Refusal> {
        let mut cell = Vec::with_capacity(64);
        self.session.keys().seal(keyname, value, &mut cell)?;
        self.observer.note(Event::Sealed);
        Ok(cell)
    }

    fn times(&self) -> Times {
        let times = self.times.lock();
        times.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Keys for SessionKeys {
    fn open(&self, ty: Option<Type>, cell: &[u8]) -> Result<Value, Refusal> {
        let keys = self.session.keys();
        let value = match ty {
            Some(ty) => keys.open_as(ty, cell)?,
            None => keys.open(cell)?,
        };
        self.observer.note(Event::Opened);
        Ok(value)
    }

    fn set_times(&self, times: Times) {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner) = times;
    }

    fn note(&self, event: Event) {
        self.observer.note(event);
    }
}

impl From<MessageError> for EngineError {
    fn from(error: MessageError) -> Self {
        Self::Relay(error.into())
    }
}
