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

mod access;
mod aggregates;
mod ahead;
mod answer;
mod attach;
mod cache;
mod cells;
mod collations;
mod conversions;
mod counts;
mod deposits;
mod descent;
mod each;
mod exchange;
mod expressions;
mod filters;
mod handover;
mod keys;
mod operations;
mod patterns;
mod permit;
mod prefixes;
mod rank;
mod rights;
mod roles;
mod session;
mod shares;
mod tally;
mod texts;
mod tokens;
mod trees;
mod view;
mod zones;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use pgseal_cell::OwnerId;
use pgseal_evaluator_proto::Refusal;

use crate::evidence::Evidence;
use access::Access;
use aggregates::States;
use cells::Cells;
use collations::Collations;
use counts::Totals;
use deposits::Deposits;
use exchange::Exchange;
use patterns::Patterns;
use roles::Roles;
use session::{Leaders, Numbers, Session, Sessions};
use tally::Tallies;
use texts::Growth;
use trees::{Page, PageId, Trees};

pub use answer::most_memory;
pub use collations::{CollationId, SharedCollation};
pub use descent::{Findings, Start};
pub use roles::Room;
pub use zones::read_zones;

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
            access: Access::new(&self.0),
            exchange: Exchange::default(),
            cells: Cells::new(config.cache),
            states: States::new(config.states),
            collations: Collations::default(),
            patterns: Patterns::default(),
            growth: Growth::of_request(),
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

/// One backend's side of the engine. It puts its parts together: each operation opens cells, asks
/// for access to them, and seals what it made of them.
pub struct Connection {
    access: Access,
    exchange: Exchange,
    cells: Cells,
    states: States,
    collations: Collations,
    patterns: Patterns,
    growth: Growth,
}

impl Connection {
    /// Sets the time, in seconds since 1970.
    #[inline]
    pub fn set_time(&mut self, now: u64) {
        self.access.now = now;
    }

    /// Whether there is a session that has not ended.
    pub fn has_session(&mut self) -> bool {
        self.access.fresh().is_ok()
    }

    /// Grows with every change of grants and revocations, and with every session's begin and end.
    pub fn epoch(&self) -> u64 {
        self.access.shared.epoch.load(Ordering::Acquire)
    }

    /// Room of its role's share of the memory, none yet.
    pub fn room(&self) -> Room {
        self.access.member.room()
    }

    /// Whether what its role does is counted in the log now, and not later.
    pub fn may_count(&self) -> bool {
        self.access.member.may_count(self.access.now)
    }

    /// Makes ready for a lookup of the operands of an operation. Fails without a session that has
    /// not ended.
    #[inline]
    fn begin_operation(&mut self) -> Result<(), Refusal> {
        self.cells.grow();
        self.access.fresh()
    }

    /// Opens cells side by side that will be asked for next, unless the session has ended.
    fn open_ahead<'c>(&mut self, cells: impl Iterator<Item = &'c [u8]>) {
        if self.access.fresh().is_ok() {
            self.cells.open_ahead(&self.access.view, cells);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end_session();
    }
}
