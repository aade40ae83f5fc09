//! The engine: cells in, cells and booleans out, under the grants of their owners.
//!
//! [`Engine`] is what all connections of a process share; [`Connection`] is one backend's side of
//! it, and all work is done there. The engine is pure except for random bytes: time is given in
//! ([`Connection::set_time`]), what happened is taken out ([`Connection::take_events`]).
//!
//! Invariants:
//! 1. Every use of a value is preceded by asking whether the session may ([`permit`]): of every
//!    operand's key, with every operand's making (by a client, or derived here).
//! 2. Keys and values leave as cells, orders, truths and hashes, except by the two operations that
//!    have grants of their own for it: conversion to plaintext and the order prefix (inline only).
//! 3. What the engine makes of cells is derived: it has its own mode, under deterministic keys too.
//! 4. Any bytes may come in; nothing panics, and nothing that was asked wrongly changes a state.

mod aggregates;
mod answer;
mod cache;
mod cells;
mod collations;
mod conversions;
mod counts;
mod deposits;
mod descent;
mod exchange;
mod expressions;
mod handover;
mod keys;
mod operations;
mod permit;
mod rank;
mod rights;
mod roles;
mod session;
mod shares;
mod tally;
mod trees;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use pgseal_cell::grant::DatabaseId;
use pgseal_cell::{Nonces, OwnerId};
use pgseal_evaluator_proto::{AttachAs, Refusal};

use crate::audit::Event;
use crate::evidence::Evidence;
use aggregates::States;
use cache::Cache;
use cells::Spare;
use collations::Collations;
use counts::{Counts, Totals};
use deposits::Deposits;
use exchange::Exchange;
use keys::{Key, KeyIdentity, Owner};
use rights::Rights;
use roles::{Deed, Role, Roles};
use session::{Holdings, Leaders, Numbers, Session, Sessions};
use tally::{Records, Tallies, Tally};
use trees::{Page, PageId, Trees};

pub use answer::most_memory;
pub use collations::{CollationId, SharedCollation};
pub use descent::{Findings, Start};
pub use roles::Room;

/// The rules for sessions without a grant, as owners' clients check them in the evidence.
const POLICY: &[u8] =
    b"pgseal evaluator policy 1: without a grant the owner's session compares and \
hashes stored cells of its own keys, and nothing else; what is computed here is derived";

/// How an engine is set up.
pub struct Config {
    /// The evidence that it shows to clients.
    pub evidence: Box<dyn Evidence>,
    /// The order and cases of a locale of libc, by its name.
    pub collation: fn(&str) -> Option<SharedCollation>,
    /// The engine runs in the backend, which sees plaintext anyway.
    pub inline: bool,
    /// Opened cells that a connection keeps at most.
    pub cache: usize,
    /// States of aggregates that a connection keeps at most.
    pub states: usize,
    /// Pages of indexes that are kept for all connections at most.
    pub pages: usize,
    /// Connections that database roles share.
    pub connections: usize,
    /// Bytes that they share, beside what each connection has a bound for: of sessions, of states,
    /// and of large requests.
    pub memory: usize,
    /// Events are written to a log, of which each role has a share.
    pub logs: bool,
}

/// The state that all connections of a process share.
pub struct Engine(Arc<Shared>);

struct Shared {
    config: Config,
    policy: [u8; 32],
    /// Grows with every change of grants and revocations, and with every session's begin and end.
    epoch: AtomicU64,
    numbers: Numbers,
    sessions: Mutex<Sessions>,
    leaders: Mutex<Leaders>,
    deposits: Mutex<Deposits>,
    tallies: Mutex<Tallies>,
    totals: Mutex<Totals>,
    trees: RwLock<Trees>,
    roles: Arc<Roles>,
}

impl Engine {
    /// An engine without a key.
    pub fn new(config: Config) -> Self {
        Self(Arc::new(Shared {
            policy: pgseal_crypto::sha256(&[POLICY]),
            trees: RwLock::new(Trees::new(config.pages)),
            roles: Arc::new(Roles::new(config.connections, config.memory, config.logs)),
            config,
            epoch: AtomicU64::new(1),
            numbers: Numbers::default(),
            sessions: Mutex::default(),
            leaders: Mutex::default(),
            deposits: Mutex::default(),
            tallies: Mutex::default(),
            totals: Mutex::default(),
        }))
    }

    /// The hash of what sessions may do without a grant.
    pub fn policy(&self) -> [u8; 32] {
        self.0.policy
    }

    /// Returns one backend's side, not attached yet.
    pub fn connect(&self) -> Connection {
        let config = &self.0.config;
        Connection {
            cache: Cache::new(config.cache),
            states: States::new(config.states),
            shared: Arc::clone(&self.0),
            now: 0,
            role: None,
            attached: None,
            session: None,
            leads: false,
            exchange: Exchange::default(),
            serves_client: false,
            view: View::default(),
            spare: Spare::default(),
            plain: Vec::new(),
            nonces: Nonces::new(),
            counts: Counts::default(),
            outside: Arc::default(),
            collations: Collations::default(),
        }
    }
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leaders(&self) -> MutexGuard<'_, Leaders> {
        self.leaders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deposits(&self) -> MutexGuard<'_, Deposits> {
        self.deposits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tallies(&self) -> MutexGuard<'_, Tallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find_page(&self, owner: OwnerId, id: &PageId) -> Option<Arc<Page>> {
        let trees = self.trees.read().unwrap_or_else(PoisonError::into_inner);
        trees.find(owner, id)
    }

    /// Forgets the pages of those owners of a session that ended who are in no other.
    fn forget_pages(&self, ended: &Session, now: u64) {
        let open = self.sessions().all();
        for owner in &ended.read().owners {
            let has = |session: &Arc<Session>| {
                !session.is_closed() && session.read().has_now(owner.id, now)
            };
            if !open.iter().any(has) {
                // Others do not wait until all is wiped.
                let pages = self.trees_to_change().take(owner.id);
                drop(pages);
            }
        }
    }

    fn trees_to_change(&self) -> RwLockWriteGuard<'_, Trees> {
        self.trees.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets every connection look again at what it may do.
    fn advance(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

/// One backend's side of the engine.
pub struct Connection {
    shared: Arc<Shared>,
    now: u64,
    /// The role whose share this connection is of.
    role: Option<Role>,
    attached: Option<DatabaseId>,
    session: Option<Arc<Session>>,
    /// The session is this connection's own, and ends with it.
    leads: bool,
    /// It was attached for a client, which may open sessions.
    serves_client: bool,
    exchange: Exchange,
    view: View,
    cache: Cache,
    spare: Spare,
    /// The plain bytes of the cell at hand.
    plain: Vec<u8>,
    nonces: Nonces,
    states: States,
    counts: Counts,
    /// The tally of what happens without a session.
    outside: Arc<Tally>,
    collations: Collations,
}

/// The session as this connection saw it last.
#[derive(Default)]
struct View {
    /// The engine's epoch then.
    epoch: u64,
    /// The second at which rights have to be summed anew; 0: no session.
    until: u64,
    keys: Vec<Granted>,
    owners: Vec<Arc<Owner>>,
}

struct Granted {
    key: Arc<Key>,
    rights: Rights,
}

impl Connection {
    /// Sets the time, in seconds since 1970.
    #[inline]
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
    }

    /// Whether there is a session that has not ended.
    pub fn has_session(&mut self) -> bool {
        self.fresh().is_ok()
    }

    /// Takes a place of this role's share, once in a connection, before all else is done in it.
    pub fn enter(&mut self, role: Role) -> Result<(), Refusal> {
        self.enter_for(role, Deed::Revoke)
    }

    /// Takes a place as [`Self::enter`], for what is then done at least.
    fn enter_for(&mut self, role: Role, deed: Deed) -> Result<(), Refusal> {
        if self.role.is_some() {
            return Err(Refusal::MalformedRequest);
        }
        self.shared.roles.enter(role, deed, self.now)?;
        self.role = Some(role);
        self.states.count_with(self.room());
        Ok(())
    }

    /// Grows with every change of grants and revocations, and with every session's begin and end.
    pub fn epoch(&self) -> u64 {
        self.shared.epoch.load(Ordering::Acquire)
    }

    /// Room of its role's share of the memory, none yet.
    pub fn room(&self) -> Room {
        Room::new(&self.shared.roles, self.role)
    }

    /// Whether what its role does is counted in the log now, and not later.
    pub fn may_count(&self) -> bool {
        let roles = &self.shared.roles;
        self.role.is_none_or(|role| roles.may_count(role, self.now))
    }

    /// Refused if its role has no room for this in the log.
    fn check_share(&self, deed: Deed) -> Result<(), Refusal> {
        let roles = &self.shared.roles;
        let may = self.role.is_none_or(|role| roles.may(role, deed, self.now));
        may.then_some(()).ok_or(Refusal::RoleShare)
    }

    /// Says who this is. Once in a connection.
    pub fn attach(&mut self, kind: AttachAs, database: [u8; 16]) -> Result<(), Refusal> {
        if self.attached.is_some() {
            return Err(Refusal::MalformedRequest);
        }
        let leaders = self.leaders_session(kind);
        self.attach_to(leaders, kind, database)
    }

    /// The session that a parallel worker has the ticket of, which is good no more.
    fn leaders_session(&self, kind: AttachAs) -> Option<Arc<Session>> {
        match kind {
            AttachAs::ParallelWorker { ticket } => self.shared.leaders().admit(&ticket),
            _ => None,
        }
    }

    /// Attaches as [`Self::attach`], a parallel worker to the session of its leader.
    fn attach_to(
        &mut self,
        leaders: Option<Arc<Session>>,
        kind: AttachAs,
        database: [u8; 16],
    ) -> Result<(), Refusal> {
        let database = DatabaseId(database);
        match kind {
            AttachAs::Client => self.serves_client = true,
            AttachAs::ParallelWorker { .. } => {
                let session = leaders.ok_or(Refusal::UnknownTicket)?;
                self.end_session();
                session.tally.add_worker();
                self.counts.came();
                self.session = Some(session);
            }
            AttachAs::Background => self.begin_background(database)?,
        }
        self.attached = Some(database);
        Ok(())
    }

    /// A session of what owners left for background work, if they left anything.
    fn begin_background(&mut self, database: DatabaseId) -> Result<(), Refusal> {
        let holdings = Holdings::new(None, u64::MAX, Vec::new(), self.room());
        let asker = holdings.asker(database, self.now);
        if self.shared.deposits().left_for(&asker) {
            self.begin(holdings)?;
            self.join_shares(&asker);
        }
        Ok(())
    }

    /// The secret of tickets for parallel workers of the client's session that this connection
    /// leads; those before are good no more. Workers of background work come as their leader does.
    pub fn tickets(&mut self) -> Result<[u8; 32], Refusal> {
        self.fresh()?;
        match &self.session {
            Some(session) if self.leads && self.serves_client => {
                let secret = self.shared.leaders().issue(session);
                secret.map_err(|_| Refusal::NoRandom)
            }
            _ => Err(Refusal::NoSession),
        }
    }

    /// Begins a session that this connection leads; the one before it ends.
    fn begin(&mut self, holdings: Holdings) -> Result<(), Refusal> {
        self.end_session();
        let number = self.shared.numbers.next();
        let session = Session::new(number, holdings).map_err(|_| Refusal::NoRandom)?;
        let session = Arc::new(session);
        self.shared.sessions().add(&session);
        self.shared.tallies().add(&session.tally);
        self.session = Some(session);
        self.leads = true;
        Ok(())
    }

    /// Ends the session, if there is one, and forgets all that came of it.
    fn end_session(&mut self) {
        // The counts of a parallel worker wait for those of its leader.
        let is_worker = self.session.is_some() && !self.leads;
        self.flush_counts(match is_worker {
            true => Records::None,
            false => Records::All,
        });
        self.begin_counts();
        let Some(session) = self.session.take() else {
            return;
        };
        if std::mem::take(&mut self.leads) {
            session.close();
            self.shared.advance();
            self.shared.forget_pages(&session, self.now);
            self.counts.event(Event::Close {
                session: session.number,
            });
        }
        self.view = View::default();
        self.cache.clear();
        self.spare = Spare::default();
        self.states.clear();
        zeroize::Zeroize::zeroize(&mut self.plain);
    }

    /// The number of the session; 0 without one.
    fn number(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.number)
    }

    /// Sees to it that what is known of keys and rights holds now.
    #[inline]
    fn fresh(&mut self) -> Result<(), Refusal> {
        let holds = self.now < self.view.until
            && self.shared.epoch.load(Ordering::Acquire) == self.view.epoch;
        match &self.session {
            Some(session) if holds && session.loaded() == self.view.keys.len() => Ok(()),
            Some(session) if holds => self.view_more(&Arc::clone(session)),
            _ => self.refresh(),
        }
    }

    /// Takes the keys in that were loaded since, and nothing else: they come one by one.
    #[cold]
    fn view_more(&mut self, session: &Session) -> Result<(), Refusal> {
        let database = self.attached.ok_or(Refusal::NoSession)?;
        self.view.take(&session.read(), database, self.now);
        Ok(())
    }

    #[cold]
    fn refresh(&mut self) -> Result<(), Refusal> {
        self.view.until = 0;
        // Before it is asked whether the session is closed: that is said first, and told by an
        // epoch. Counts are by the place of a key and a grant, which stay what they are.
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        let session = match (&self.session, self.attached) {
            (Some(session), Some(database)) if !session.is_closed() => (session, database),
            _ => return Err(Refusal::NoSession),
        };
        let (session, database) = (Arc::clone(session.0), session.1);
        let holdings = session.read();
        if self.now >= holdings.expires {
            drop(holdings);
            self.shared.forget_pages(&session, self.now);
            return Err(Refusal::SessionExpired);
        }
        self.view = View::of(&holdings, database, self.now);
        self.view.epoch = epoch;
        Ok(())
    }
}

impl View {
    /// The place of this very key.
    fn place_of(&self, identity: &KeyIdentity) -> Option<u16> {
        let place = self
            .keys
            .iter()
            .position(|granted| granted.key.identity == *identity)?;
        u16::try_from(place).ok()
    }

    fn of(holdings: &Holdings, database: DatabaseId, now: u64) -> Self {
        let mut view = Self {
            epoch: 0,
            until: holdings.expires,
            keys: Vec::new(),
            owners: holdings.owners.clone(),
        };
        view.take(holdings, database, now);
        view
    }

    /// Takes keys in that are not here yet: behind those that are.
    fn take(&mut self, holdings: &Holdings, database: DatabaseId, now: u64) {
        let asker = holdings.asker(database, now);
        for key in &holdings.keys[self.keys.len()..] {
            let (owner, own) = (&holdings.owners[key.owner], key.owner < holdings.own);
            let (rights, end) = Rights::sum(key, owner.public, own, &holdings.grants, &asker);
            self.until = self.until.min(end);
            self.keys.push(Granted {
                key: Arc::clone(key),
                rights,
            });
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end_session();
        if let Some(role) = self.role {
            self.shared.roles.leave(role);
        }
    }
}
