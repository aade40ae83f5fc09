//! The order in which the slots of a key file are tried.

use pgseal_format::{SecretSource, SlotKind};

/// Returns the rank of a slot: cheap ones first; a user is asked last.
pub fn cost(kind: &SlotKind) -> u8 {
    match kind {
        SlotKind::Plain { .. } => 0,
        SlotKind::File { .. } => 1,
        SlotKind::Command { .. } => 2,
        SlotKind::Provider { .. } => 3,
        SlotKind::Derived {
            source: SecretSource::Command(_),
            ..
        } => 4,
        SlotKind::Derived {
            source: SecretSource::Passphrase,
            ..
        } => 5,
    }
}
