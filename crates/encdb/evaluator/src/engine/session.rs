//! Sessions: the keys that one client opened, and what the grants that it brought say.
//!
//! A session belongs to the connection that opened it. Parallel workers of that connection share
//! it; when the connection ends, it is over for all of them. The keys of an owner outlive its
//! session in one case: it signed a grant for background work or for another subject, and then
//! [`Deposits`](super::deposits::Deposits) keeps its master key until that grant is over or the
//! process ends.
//!
//! States of a session: open, closed. Nothing opens a closed one.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use pgseal_cell::grant::{DatabaseId, Subject, VerifiedRevocations};
use pgseal_cell::{OwnerId, PublicKey, WrappedKey};
use pgseal_crypto::aead::Aead;
use pgseal_crypto::{RandomError, Secret};
use pgseal_evaluator_proto::{KeyRow, Refusal, Ticket, Tickets};

use super::keys::{Key, Owner};
use super::rights::{Asker, Held};
use super::roles::Room;
use super::tally::Tally;

/// Data keys that one session takes of its own owner, and of all others together.
const MAX_KEYS: usize = 16_384;
/// The longest name of a key, in bytes: that of `encdb.data_key`.
const MAX_NAME: usize = 1024;
/// Grants that one session takes of its client.
const MAX_GRANTS: usize = 1024;
/// The bytes that a key takes beside its row, expanded, and a grant beside what its owner signed,
/// which is there twice.
const KEY: usize = 3072;
const GRANT: usize = 512;

/// A session, shared by a connection and its parallel workers.
pub struct Session {
    /// Its number in the log, from 1 on.
    pub number: u64,
    /// The cipher that seals the states of aggregates on their way between the session's
    /// processes.
    pub states: Aead,
    /// The key that [`Session::states`] was made of.
    pub states_key: Secret,
    /// The counts of its connections.
    pub tally: Arc<Tally>,
    closed: AtomicBool,
    /// How many keys it holds.
    loaded: AtomicUsize,
    holdings: RwLock<Holdings>,
}

/// The contents of a session. Lists only grow, so that a place in them keeps its meaning.
pub struct Holdings {
    /// The client; none for background work.
    pub subject: Option<PublicKey>,
    /// When it ends, in seconds since 1970.
    pub expires: u64,
    /// Its own owner first, if it is a client's; then those whose keys it uses by their grants.
    pub owners: Vec<Arc<Owner>>,
    /// How many of the owners are its own: 1 or 0.
    pub own: usize,
    /// Keys that were loaded.
    pub keys: Vec<Arc<Key>>,
    /// The rows that they were loaded from.
    pub rows: Vec<Vec<u8>>,
    /// Grants, each with what is known of its revocation.
    pub grants: Vec<Held>,
    /// How many of the grants came with keys that others left.
    pub handed: usize,
    /// The numbers of the keys.
    ids: BTreeSet<u32>,
    /// How many keys there are of each owner.
    of_owners: Vec<usize>,
    /// The bytes that all this takes, and their part of the role's share.
    bytes: usize,
    room: Room,
}

impl Session {
    /// A session that begins.
    pub fn new(number: u64, holdings: Holdings) -> Result<Self, RandomError> {
        Ok(Self::with_key(number, holdings, Secret::generate()?))
    }

    /// A session whose states are sealed by a key that is there already.
    pub fn with_key(number: u64, holdings: Holdings, states_key: Secret) -> Self {
        Self {
            number,
            states: Aead::new(&states_key),
            states_key,
            tally: Arc::new(Tally::new(number, holdings.room.role())),
            closed: AtomicBool::new(false),
            loaded: AtomicUsize::new(holdings.keys.len()),
            holdings: RwLock::new(holdings),
        }
    }

    /// Returns the holdings, to read.
    pub fn read(&self) -> RwLockReadGuard<'_, Holdings> {
        self.holdings.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the holdings, to change; the caller advances the engine's epoch afterwards.
    pub fn write(&self) -> RwLockWriteGuard<'_, Holdings> {
        self.holdings
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a row of the table of data keys in, as [`Holdings::load`]. Its connections see that
    /// there is a key more; others are not to look again.
    pub fn load(&self, item: &[u8]) -> Result<bool, Refusal> {
        let mut holdings = self.write();
        let is_new = holdings.load(item)?;
        self.loaded.store(holdings.keys.len(), Ordering::Release);
        Ok(is_new)
    }

    /// How many keys it holds.
    #[inline]
    pub fn loaded(&self) -> usize {
        self.loaded.load(Ordering::Acquire)
    }

    /// Takes grants back. Whether that changes what it may do: it held one of them, and keys of
    /// their owner.
    pub fn revoke(&self, list: &VerifiedRevocations) -> bool {
        let mut revoked = false;
        let mut holdings = self.write();
        for held in &mut holdings.grants {
            if !held.revoked && held.revoked_by(list) {
                (held.revoked, revoked) = (true, true);
            }
        }
        revoked && holdings.concerns(list.owner())
    }

    /// Ends it for everybody.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether it has ended.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Holdings {
    /// Nothing yet of this subject, whose own owners these are.
    pub fn new(
        subject: Option<PublicKey>,
        expires: u64,
        owners: Vec<Arc<Owner>>,
        room: Room,
    ) -> Self {
        Self {
            subject,
            expires,
            own: owners.len(),
            owners,
            keys: Vec::new(),
            rows: Vec::new(),
            grants: Vec::new(),
            handed: 0,
            ids: BTreeSet::new(),
            of_owners: Vec::new(),
            bytes: 0,
            room,
        }
    }

    /// Takes so many bytes more of the role's share.
    fn take_room(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.room.fit(self.bytes + bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Returns the session as it asks for rights.
    pub fn asker(&self, database: DatabaseId, now: u64) -> Asker {
        Asker {
            subject: self.subject,
            database,
            now,
        }
    }

    /// Takes a row of the table of data keys in, if there is room. False if the key is here, or
    /// its owner's keys are not. A session has one key of an id, as that table has: states and
    /// conversions name their keys by it alone.
    pub fn load(&mut self, item: &[u8]) -> Result<bool, Refusal> {
        let row = KeyRow::parse(item)?;
        if row.name.len() > MAX_NAME {
            return Ok(false);
        }
        let wrapped = WrappedKey::parse(row.wrapped)?;
        let owner = self
            .owners
            .iter()
            .position(|owner| owner.id == wrapped.owner());
        match owner {
            Some(owner) if !self.ids.contains(&wrapped.id().0) => {
                if !self.has_room(owner) {
                    return Err(Refusal::TooMany);
                }
                self.take(item)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Whether one more key of this owner is taken. Each of those who share theirs has as much
    /// room as any other, so that none fills what another needs.
    fn has_room(&self, owner: usize) -> bool {
        let taken = self.of_owners.get(owner).map_or(0, |keys| *keys);
        let sharing = if owner < self.own {
            1
        } else {
            self.owners.len() - self.own
        };
        taken < MAX_KEYS / sharing
    }

    /// Takes a row in that is new and of an owner whose keys are here.
    pub fn take(&mut self, item: &[u8]) -> Result<(), Refusal> {
        let row = KeyRow::parse(item)?;
        let wrapped = WrappedKey::parse(row.wrapped)?;
        let owners = self.owners.iter().map(Arc::as_ref);
        let key = Key::unwrap(&wrapped, row.name, owners)?;
        self.take_room(KEY + item.len())?;
        self.ids.insert(key.id.0);
        self.of_owners.resize(self.owners.len(), 0);
        self.of_owners[key.owner] += 1;
        self.keys.push(Arc::new(key));
        self.rows.push(item.to_vec());
        Ok(())
    }

    /// The client, if it may leave this owner's keys for others: it is the owner, or the owner
    /// signed a grant for it. Anyone may claim a public key beside a master key of their own.
    pub fn speaks_for(&self, owner: &Owner, now: u64) -> Option<PublicKey> {
        let client = self.subject?;
        let is_for_client = |held: &Held| {
            let terms = held.grant.terms();
            terms.owner == owner.public
                && terms.subject == Subject::Client(client)
                && !held.revoked
                && held.grant.holds(now, None).is_ok()
        };
        let speaks = client == owner.public || self.grants.iter().any(is_for_client);
        speaks.then_some(client)
    }

    /// Whether there are keys of this owner, or it is the client. Grants alone are nothing: anybody
    /// signs them with as many keys as they like.
    pub fn concerns(&self, owner: PublicKey) -> bool {
        self.subject == Some(owner) || self.owners.iter().any(|known| known.public == owner)
    }

    /// Takes a grant of the client's in.
    pub fn grant(&mut self, grant: Held) -> Result<(), Refusal> {
        if self.grants.len() - self.handed >= MAX_GRANTS && !self.has(&grant) {
            return Err(Refusal::TooMany);
        }
        if !self.has(&grant) {
            self.take_room(GRANT + 2 * grant.signed.encode().len())?;
        }
        self.insert(grant);
        Ok(())
    }

    /// Takes in an owner and a grant that were left for it.
    pub fn hand(&mut self, owner: &Arc<Owner>, grant: &Held) -> Result<(), Refusal> {
        self.take_room(GRANT)?;
        if !self.holds(owner.id) {
            self.owners.push(Arc::clone(owner));
        }
        self.handed += usize::from(self.insert(grant.clone()));
        Ok(())
    }

    /// Whether this owner's keys are here.
    pub fn holds(&self, owner: OwnerId) -> bool {
        self.owners.iter().any(|known| known.id == owner)
    }

    /// Whether it has not expired, and this owner's keys are here.
    pub fn has_now(&self, owner: OwnerId, now: u64) -> bool {
        now < self.expires && self.holds(owner)
    }

    /// Adds a grant; a second time it is the same grant. Whether it is new.
    pub fn insert(&mut self, grant: Held) -> bool {
        let is_new = !self.has(&grant);
        if is_new {
            self.grants.push(grant);
        }
        is_new
    }

    fn has(&self, grant: &Held) -> bool {
        self.grants.iter().any(|held| held.is(grant))
    }
}

/// The sessions of a process.
#[derive(Default)]
pub struct Sessions(Vec<Weak<Session>>);

impl Sessions {
    /// Adds a session that begins.
    pub fn add(&mut self, session: &Arc<Session>) {
        self.0.retain(|session| session.strong_count() > 0);
        self.0.push(Arc::downgrade(session));
    }

    /// Returns all sessions that have not ended.
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.0.iter().filter_map(Weak::upgrade).collect()
    }
}

/// The sessions that may have parallel workers, with their tickets.
#[derive(Default)]
pub struct Leaders(Vec<(Tickets, Weak<Session>)>);

impl Leaders {
    /// New tickets of this session, in place of those that it has: their secret.
    pub fn issue(&mut self, session: &Arc<Session>) -> Result<[u8; 32], RandomError> {
        let tickets = Tickets::new(Secret::generate()?);
        let secret = *tickets.secret();
        let stays =
            |kept: &Weak<Session>| kept.strong_count() > 0 && kept.as_ptr() != Arc::as_ptr(session);
        self.0.retain(|(_, kept)| stays(kept));
        self.0.push((tickets, Arc::downgrade(session)));
        Ok(secret)
    }

    /// The session whose ticket this is, if it is still open. The ticket is good no more.
    pub fn admit(&mut self, ticket: &Ticket) -> Option<Arc<Session>> {
        let good = |tickets: &Tickets| pgseal_crypto::equal(&tickets.ticket(), ticket);
        let (tickets, session) = self.0.iter_mut().find(|(tickets, _)| good(tickets))?;
        tickets.advance();
        let session = session.upgrade()?;
        (!session.is_closed()).then_some(session)
    }
}

/// Numbers sessions.
#[derive(Default)]
pub struct Numbers(AtomicU64);

impl Numbers {
    /// The next number, from 1 on.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}
