//! The sealed clusters that this process knows, by the path of their data directory.
//!
//! A process may hold several, with different keys, and reach one by several paths. Entries are
//! added and never taken away, so that look-up needs no lock.
//!
//! A cluster is *pending* while its directory has no `pg_encryption/` yet (initdb): then its path
//! alone says that what is written below it must be sealed.

use crate::secret::Pages;
use pgseal_crypto::{FileCipher, KeyId, KeyLength, MasterKey, Suite};
use pgseal_format::handover::{self, Entry, Functions, Opener};
use pgseal_format::{
    Altered, BesideError, ClusterId, KeyFile, ReceiverList, ReceiverToken, SlotNotes, TokenError,
    TokenId, UnverifiedKeyFile, UnverifiedNotes,
};
use pgseal_storage::layout::{Root, Spec};
use pgseal_storage::SealedFile;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use zeroize::Zeroizing;

/// Clusters that one process can know: pg_upgrade knows two, pg_combinebackup a chain.
const MAX: usize = 256;

static KEYS: Keys = Keys {
    clusters: [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX],
    pages: Pages::new(),
};

/// The clusters, and the memory that their keys lie in.
struct Keys {
    clusters: [AtomicPtr<Cluster>; MAX],
    pages: Pages,
}

/// A forked child inherits the pages, not their locks.
extern "C" fn lock_again() {
    KEYS.pages.lock();
}

/// A sealed cluster under one of its paths.
pub struct Cluster {
    /// Its data directory: absolute, no trailing slash.
    pub root: Vec<u8>,
    /// The public name of its master key.
    pub key_id: KeyId,
    /// The other facts about it, which may be shown.
    pub facts: &'static Facts,
    /// Its directory has no key file yet; the path alone says that it is sealed.
    pending: bool,
    master: &'static MasterKey,
    ephemeral: &'static MasterKey,
    /// The size of a WAL segment in bytes; 0 until it is known.
    segment_size: AtomicU32,
}

/// How a cluster is stored, and how it was opened.
pub struct Facts {
    /// Its public name.
    pub cluster: ClusterId,
    /// The length of its AES keys.
    pub length: KeyLength,
    /// The slot that opened it and the kind of that; a raw key file has none.
    pub opened_by: Option<(u8, String)>,
}

impl Cluster {
    /// Returns a sealed file of this cluster.
    pub fn open(&self, spec: &Spec) -> SealedFile<'static> {
        let master = match spec.root {
            Root::Cluster => self.master,
            Root::Ephemeral => self.ephemeral,
        };
        SealedFile::new(
            FileCipher::new(master, self.facts.length, &spec.id),
            spec.layout,
        )
    }

    /// Does this cluster's key say that `role` may have clear pages now?
    pub fn verify_token(
        &self,
        token: &ReceiverToken,
        system_id: u64,
        role: &[u8],
        now: u64,
    ) -> Result<(), TokenError> {
        token.verify(self.master, system_id, role, now)
    }

    /// Does this list of receiver tokens admit the token `id`? The error is the end of a sentence
    /// that begins with the list's name.
    pub fn check_list(&self, list: &[u8], id: TokenId) -> Result<bool, BesideError> {
        match ReceiverList::decode(list, self.master) {
            Ok(list) => Ok(!list.revokes(id)),
            // Its tokens are foreign here.
            Err(BesideError::OtherKey) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Returns the key file if it was written under this cluster's key.
    pub fn authenticate(&self, file: UnverifiedKeyFile) -> Result<KeyFile, Altered> {
        file.authenticate(self.master)
    }

    /// Returns the notes about key slots if they were written under this cluster's key.
    pub fn authenticate_notes(&self, notes: UnverifiedNotes) -> Result<SlotNotes, BesideError> {
        notes.authenticate(self.master)
    }

    /// Returns a token that lets `role` receive clear pages of the cluster `system_id`, if that has
    /// our key.
    pub fn token(&self, system_id: u64, role: &[u8], expiry: u64) -> Vec<u8> {
        ReceiverToken::grant(self.master, system_id, role, expiry)
    }

    /// Does only its path say that it is sealed, because it has no key file yet?
    pub fn is_pending(&self) -> bool {
        self.pending
    }

    /// Returns the record by which another program gets this cluster's key.
    pub fn record(&self) -> Option<Zeroizing<Vec<u8>>> {
        let opened_by = self.facts.opened_by.as_ref();
        let entry = Entry {
            root: &self.root,
            suite: Suite::AesXts,
            length: self.facts.length,
            cluster: self.facts.cluster,
            key_id: self.key_id,
            master: self.master.expose(),
            opened_by: opened_by.map(|(slot, kind)| Opener { slot: *slot, kind }),
        };
        // The program that gets it asks its machine what may use the key.
        handover::encode(Functions::Any, &[entry], &[]).ok()
    }

    /// Returns the size of a WAL segment in bytes, if it was remembered.
    pub fn segment_size(&self) -> Option<u32> {
        Some(self.segment_size.load(Ordering::Relaxed)).filter(|&size| size != 0)
    }

    /// Sets the size of WAL segments, in bytes, for all later uses.
    pub fn remember_segment_size(&self, size: u32) {
        self.segment_size.store(size, Ordering::Relaxed);
    }

    /// Do two clusters store the same file in the same bytes?
    pub fn shares_keys(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.key_id == other.key_id && self.facts.length == other.facts.length)
    }
}

/// All known clusters.
pub fn all() -> impl Iterator<Item = &'static Cluster> {
    KEYS.clusters.iter().map_while(|entry| {
        let cluster = entry.load(Ordering::Acquire);
        // SAFETY: the entry was published by `publish` and is never freed.
        (!cluster.is_null()).then(|| unsafe { &*cluster })
    })
}

/// Returns the one cluster whose key this process holds, if there is one only.
pub fn sole() -> Option<&'static Cluster> {
    let mut known = all();
    let cluster = known.next()?;
    known
        .all(|other| other.shares_keys(cluster))
        .then_some(cluster)
}

/// Returns a cluster that stores files under the master key of this name and by AES keys of this
/// length.
pub fn of_key(key_id: &KeyId, length: KeyLength) -> Option<&'static Cluster> {
    all().find(|known| known.key_id == *key_id && known.facts.length == length)
}

/// Is there a cluster that only its path gives away?
pub fn any_pending() -> bool {
    all().any(|cluster| cluster.pending)
}

/// Remembers a cluster. The ephemeral key is made here: in the server that is before any fork, so
/// that parallel workers agree on it.
pub fn add(
    root: &[u8],
    pending: bool,
    facts: Facts,
    master: MasterKey,
) -> Option<&'static Cluster> {
    let key_id = master.key_id();
    if let Some(known) = all().find(|known| known.root == root && known.key_id == key_id) {
        return Some(known);
    }
    let (master, ephemeral) = match all().find(|known| known.key_id == key_id) {
        Some(same) => (same.master, same.ephemeral),
        None => KEYS
            .pages
            .keep(master, MasterKey::generate().ok()?, lock_again)?,
    };
    publish(Cluster {
        root: root.to_vec(),
        key_id,
        pending,
        facts: Box::leak(Box::new(facts)),
        master,
        ephemeral,
        segment_size: AtomicU32::new(0),
    })
}

/// Remembers another path of a known cluster.
pub fn add_path(cluster: &Cluster, root: &[u8]) -> Option<&'static Cluster> {
    publish(Cluster {
        root: root.to_vec(),
        segment_size: AtomicU32::new(0),
        ..*cluster
    })
}

fn publish(cluster: Cluster) -> Option<&'static Cluster> {
    let cluster = Box::leak(Box::new(cluster));
    KEYS.clusters.iter().find_map(|entry| {
        let empty = std::ptr::null_mut();
        entry
            .compare_exchange(empty, cluster, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
            .then_some(())
    })?;
    Some(cluster)
}
