//! `require_fips` of `/etc/pgseal/policy.toml`: only functions that FIPS 140-3 approves, and only
//! from a build that takes them from a FIPS module (docs/security/fips.md).
//!
//! Programs ask [`check_build`] before all else. Who opens or makes a key slot asks for the slot;
//! the library gets the demand with the keys, and keeps it for itself.

use pgseal_crypto::{fips_module, KeyLength};
use pgseal_format::{Cost, Header, Slot, SlotKind};

use crate::exit::{Code, Exit, Failure};
use crate::machine::{Machine, MachineError};

/// The schemes of `pgseal-kms` that need no TLS of ours: the device wraps the key.
const DEVICES: [&str; 2] = ["pkcs11", "tpm"];

/// The reason for which the machine's policy refuses something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotApproved {
    #[error("/etc/pgseal/policy.toml has require_fips, but this pgseal is built without a FIPS module: install one that is built with PGSEAL_FIPS=yes")]
    Build,
    #[error("require_fips refuses keys of {0} bits, because AES-XTS is approved here with 256 alone: re-encrypt the cluster on a machine without require_fips")]
    Length(u16),
    #[error("require_fips refuses Argon2id: add a slot with a passphrase on this machine, opened by another slot, or make it where require_fips is off")]
    Argon2id,
    #[error("require_fips refuses a key in clear in key.bin: protect it by `pgseal key rotate` where require_fips is off")]
    Plain,
    #[error("require_fips refuses {0}: keys, because the TLS of pgseal-kms is not in the FIPS module: use pkcs11: or tpm:, a passphrase, or a command")]
    Service(String),
    #[error("require_fips refuses recovery sheets, because Argon2id wraps their keys: copy key.bin, and keep a second slot")]
    Sheet,
    #[error("require_fips refuses {0}, which uses functions that are not approved: use it on another machine")]
    Command(&'static str),
}

impl Exit for NotApproved {
    fn code(&self) -> Code {
        Code::NotGuaranteed
    }
}

/// The machine's demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand(bool);

impl Demand {
    /// Reads the demand of this machine.
    pub fn of_machine() -> Result<Self, MachineError> {
        Machine::this().requires_fips().map(Self)
    }

    /// Whether only approved functions may run.
    #[must_use]
    pub fn is_made(self) -> bool {
        self.0
    }

    /// Refuses the cluster of a header.
    pub fn header(self, header: &Header) -> Result<(), NotApproved> {
        self.refuse(match header.length {
            KeyLength::Bits256 => None,
            other => Some(NotApproved::Length(other.bits())),
        })
    }

    /// Refuses a slot, before it is opened and before it is written.
    pub fn slot(self, kind: &SlotKind) -> Result<(), NotApproved> {
        self.refuse(match kind {
            SlotKind::Plain { .. } => Some(NotApproved::Plain),
            SlotKind::Derived { kdf, .. } => {
                matches!(kdf.cost, Cost::Argon2id(_)).then_some(NotApproved::Argon2id)
            }
            SlotKind::Provider { uri, .. } => return self.provider(uri),
            // Another program's functions, of which this one knows nothing.
            SlotKind::Command { .. } | SlotKind::File { .. } => None,
        })
    }

    /// Whether the slot of this number, which gave an agent its key, may be opened.
    #[must_use]
    pub fn allows(self, slots: &[Slot], number: u8) -> bool {
        let slot = slots.iter().find(|slot| slot.id == number);
        slot.is_none_or(|slot| self.slot(&slot.kind).is_ok())
    }

    /// Refuses a provider that is reached by TLS.
    pub fn provider(self, uri: &str) -> Result<(), NotApproved> {
        let scheme = uri.split(':').next().unwrap_or_default();
        let is_device = DEVICES.contains(&scheme);
        self.refuse((!is_device).then(|| NotApproved::Service(scheme.to_owned())))
    }

    fn refuse(self, what: Option<NotApproved>) -> Result<(), NotApproved> {
        match what {
            Some(what) if self.0 => Err(what),
            _ => Ok(()),
        }
    }
}

/// Refuses to go on where only approved functions may run and this build cannot offer them.
pub fn check_build() -> Result<Demand, Failure> {
    let demand = Demand::of_machine()?;
    demand.refuse(fips_module().is_none().then_some(NotApproved::Build))?;
    Ok(demand)
}

/// Refuses `what` where only approved functions may run.
pub fn refuse(what: NotApproved) -> Result<(), Failure> {
    Ok(Demand::of_machine()?.refuse(Some(what))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgseal_crypto::passphrase::{Argon2Params, SALT};
    use pgseal_crypto::pbkdf2::Pbkdf2Params;
    use pgseal_crypto::{MasterKey, Suite};
    use pgseal_format::{ClusterId, Kdf, SecretSource};

    fn derived(cost: Cost) -> SlotKind {
        let salt = [0; SALT];
        SlotKind::Derived {
            source: SecretSource::Passphrase,
            kdf: Kdf { salt, cost },
            wrapped: Vec::new(),
        }
    }

    fn provider(uri: &str) -> SlotKind {
        SlotKind::Provider {
            uri: uri.to_owned(),
            wrapped: Vec::new(),
        }
    }

    #[test]
    fn slots_are_sorted_by_what_pgseal_itself_would_run() {
        let argon2 = derived(Cost::Argon2id(Argon2Params::FLOOR));
        let service = |scheme: &str| Err(NotApproved::Service(scheme.to_owned()));
        let payload = Vec::new().into();
        for (kind, verdict) in [
            (SlotKind::Plain { payload }, Err(NotApproved::Plain)),
            (argon2, Err(NotApproved::Argon2id)),
            (derived(Cost::Pbkdf2(Pbkdf2Params::LEAST)), Ok(())),
            (
                SlotKind::File {
                    path: b"/k".to_vec(),
                },
                Ok(()),
            ),
            (provider("pkcs11:token=t;object=o"), Ok(())),
            (provider("tpm:pcrs=7"), Ok(())),
            (provider("vault://transit/keys/k"), service("vault")),
            (provider("pkcs11s://host/k"), service("pkcs11s")),
        ] {
            assert_eq!(Demand(true).slot(&kind), verdict, "{}", kind.name());
            assert_eq!(Demand(false).slot(&kind), Ok(()), "{}", kind.name());
        }
    }

    /// An agent's key counts as its slot would. The slot of a raw key file has no number here.
    #[test]
    fn a_key_of_an_agent_counts_as_its_slot() {
        let slot = |id, kind| Slot { id, kind };
        let slots = [
            slot(1, derived(Cost::Argon2id(Argon2Params::FLOOR))),
            slot(2, derived(Cost::Pbkdf2(Pbkdf2Params::LEAST))),
        ];
        for (number, allowed) in [(1, false), (2, true), (0, true)] {
            assert_eq!(Demand(true).allows(&slots, number), allowed, "{number}");
            assert!(Demand(false).allows(&slots, number), "{number}");
        }
        assert!(Demand(true).is_made() && !Demand(false).is_made());
    }

    #[test]
    fn only_xts_of_256_bits_is_approved() {
        for length in [KeyLength::Bits128, KeyLength::Bits192, KeyLength::Bits256] {
            let header = Header {
                suite: Suite::AesXts,
                length,
                cluster: ClusterId([0; 16]),
                key_id: MasterKey::from_bytes(&mut [1; 32]).key_id(),
                created: 1,
            };
            let verdict = Demand(true).header(&header);
            assert_eq!(verdict.is_ok(), length == KeyLength::Bits256);
            assert_eq!(Demand(false).header(&header), Ok(()));
        }
    }
}
