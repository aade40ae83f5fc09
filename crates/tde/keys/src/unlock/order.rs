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

#[cfg(test)]
mod tests {
    use super::*;
    use pgseal_crypto::passphrase::{Argon2Params, SALT};
    use pgseal_format::{Cost, Kdf};

    /// A slot that costs nothing is tried before one that asks a service, and a user last.
    #[test]
    fn cheap_slots_come_first() {
        let derived = |source| SlotKind::Derived {
            source,
            kdf: Kdf {
                salt: [0; SALT],
                cost: Cost::Argon2id(Argon2Params::FLOOR),
            },
            wrapped: Vec::new(),
        };
        let command = SlotKind::Command {
            unwrap: "cat".to_owned(),
            wrapped: Vec::new(),
        };
        let provider = SlotKind::Provider {
            uri: "tpm:".to_owned(),
            wrapped: Vec::new(),
        };
        let ordered = [
            SlotKind::Plain {
                payload: Vec::new().into(),
            },
            SlotKind::File {
                path: b"/key".to_vec(),
            },
            command,
            provider,
            derived(SecretSource::Command("cat".to_owned())),
            derived(SecretSource::Passphrase),
        ];
        assert!(ordered
            .iter()
            .map(cost)
            .is_sorted_by(|one, next| one < next));
    }
}
