//! Whether the wrapping of a slot is older than its provider's key.

use pgseal_format::{Header, Slot, SlotKind};

use super::{by, SlotError, Unlocker};
use crate::provider;

impl Unlocker<'_> {
    /// Returns whether the provider of a slot has a newer version of its key than the one that
    /// wrapped; a slot of another kind has no versions.
    pub fn is_older(&self, header: &Header, slot: &Slot) -> Result<bool, SlotError> {
        let SlotKind::Provider { uri, wrapped } = &slot.kind else {
            return Ok(false);
        };
        let found = self.provider.choose(Some(uri))?;
        let rights = self.rights(found)?;
        let key = (found.0, header.cluster);
        provider::is_older(key, rights, wrapped, self.data).map_err(by(found))
    }
}
