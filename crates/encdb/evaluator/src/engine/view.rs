//! The keys of a session with what is granted of each, as a connection saw them last.

use std::sync::Arc;

use pgseal_cell::grant::DatabaseId;
use pgseal_cell::{CellRef, OwnerId};
use pgseal_evaluator_proto::Refusal;

use super::keys::{Key, Owner};
use super::rights::Rights;
use super::session::Holdings;

/// The session as this connection saw it last.
#[derive(Default)]
pub(super) struct View {
    /// The engine's epoch then.
    pub epoch: u64,
    /// The second at which rights have to be summed anew; 0: no session.
    pub until: u64,
    /// The keys, at the places that they have in the session's list.
    pub keys: Vec<Granted>,
    /// The owners, at the places that they have in the session's list.
    pub owners: Vec<Arc<Owner>>,
}

/// A key, and what the session may do with it.
pub(super) struct Granted {
    pub key: Arc<Key>,
    pub rights: Rights,
}

impl View {
    /// Returns what a session holds now.
    pub(super) fn of(holdings: &Holdings, database: DatabaseId, now: u64) -> Self {
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
    pub(super) fn take(&mut self, holdings: &Holdings, database: DatabaseId, now: u64) {
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

    /// Returns the key at a place.
    #[inline]
    pub(super) fn key(&self, place: u16) -> &Key {
        &self.keys[usize::from(place)].key
    }

    /// Returns what the session may do with the key at a place.
    #[inline]
    pub(super) fn rights(&self, place: u16) -> &Rights {
        &self.keys[usize::from(place)].rights
    }

    /// Returns the owner of the key at a place.
    #[inline]
    pub(super) fn owner(&self, place: u16) -> &Owner {
        &self.owners[self.key(place).owner]
    }

    /// Whether all keys are of the owner of the key at a place.
    pub(super) fn is_of_one_owner(&self, place: u16) -> bool {
        let owner = self.key(place).owner;
        self.keys.iter().all(|granted| granted.key.owner == owner)
    }

    /// Returns the identity of the owner of the key at a place.
    pub(super) fn owner_id(&self, place: u16) -> OwnerId {
        self.owner(place).id
    }

    /// Returns the place of the first key of which this is true.
    pub(super) fn place(&self, is_it: impl Fn(&Key) -> bool) -> Option<u16> {
        let place = self.keys.iter().position(|granted| is_it(&granted.key))?;
        u16::try_from(place).ok()
    }

    /// Fails if there is no key that may be this cell's.
    pub(super) fn check_key(&self, cell: &[u8]) -> Result<(), Refusal> {
        let cell = CellRef::parse(cell)?;
        let place = self.place(|key| key.fits(&cell));
        place.map(drop).ok_or(Refusal::KeyNotLoaded)
    }
}
