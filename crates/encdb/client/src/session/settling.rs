//! Keys that a transaction may take back: made in one, or read in one that has written.
//!
//! If that transaction is rolled back, the wrapped key is in no table any more, and what it seals
//! would be lost with the session. So each key is looked for before a statement seals with it,
//! until it was seen outside of such a transaction.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The names of such keys; none in nearly every session.
#[derive(Default)]
pub(super) struct Settling(Mutex<BTreeSet<String>>);

impl Settling {
    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key to look for.
    pub(super) fn watch(&self, name: &str) {
        self.names().insert(name.to_owned());
    }

    /// Returns those of these keys that are to be looked for.
    pub(super) fn watched<'n>(&self, among: impl IntoIterator<Item = &'n str>) -> BTreeSet<String> {
        let names = self.names();
        if names.is_empty() {
            return BTreeSet::new();
        }
        let watched = among.into_iter().filter(|name| names.contains(*name));
        watched.map(str::to_owned).collect()
    }

    /// Removes a key that stays.
    pub(super) fn settled(&self, name: &str) {
        self.names().remove(name);
    }
}
