//! Keys and lists that outlive sessions: keys that owners left for work that their own sessions do
//! not do, and lists of the grants that they took back.
//!
//! A deposit is one grant and one pair of master key and public key. Anybody can claim a public
//! key, so another pair beside the same grant is another deposit, and displaces none. A list acts
//! when it comes on all that is here ([`Deposits::revoke`], `Session::revoke`), whatever its
//! sequence is: each database numbers an owner's lists by itself. What it takes back is kept for
//! grants that are shown later without it, as long as there is room.

use std::collections::BTreeSet;
use std::sync::Arc;

use pgseal_cell::grant::{KeyScope, Operation, Serial, Subject, VerifiedRevocations};
use pgseal_cell::PublicKey;
use pgseal_evaluator_proto::Refusal;

use super::keys::Owner;
use super::rights::{Asker, Held};
use super::roles::Role;
use super::session::Holdings;
use super::shares::{Full, Holder, Shares};

/// Bytes of deposits, and of lists, that are kept at most.
const MAX_LEFT: usize = 64 << 20;
const MAX_LISTED: usize = 16 << 20;
/// The bytes that a deposit takes, those of an owner's lists beside the numbers in them, and those
/// of a number.
const DEPOSIT: usize = 1024;
const LIST: usize = 128;
const SERIAL: usize = 32;
/// Deposits that one session is handed out.
const MAX_HANDED_OUT: usize = 1024;

/// The keys and lists that are kept beyond sessions.
pub struct Deposits {
    /// The deposits, by the clients that left them, each of a role
    left: Shares<Deposit>,
    /// The grants that each owner took back, in all the lists that a role showed
    taken_back: Shares<BTreeSet<Serial>>,
    /// How many deposits there have been.
    number: u64,
}

/// The outcome of a list.
pub struct Taken {
    /// It is kept for grants that are shown later.
    pub kept: bool,
    /// Something is not what it was.
    pub changed: bool,
}

struct Deposit {
    owner: Arc<Owner>,
    held: Held,
    number: u64,
}

impl Default for Deposits {
    fn default() -> Self {
        Self {
            left: Shares::new(MAX_LEFT),
            taken_back: Shares::new(MAX_LISTED),
            number: 0,
        }
    }
}

impl Deposits {
    /// Keeps an owner's keys for the subject of a grant, if it is for others. `client` left them.
    pub fn keep(
        &mut self,
        owner: &Arc<Owner>,
        held: &Held,
        client: Holder,
        now: u64,
    ) -> Result<(), Refusal> {
        let terms = held.grant.terms();
        let for_others = match terms.subject {
            Subject::Background => true,
            Subject::Client(client) => {
                client != owner.public && terms.operations.has(Operation::Share)
            }
            Subject::Owner => false,
        };
        if !for_others {
            return Ok(());
        }
        self.left
            .retain(|kept| now < kept.held.grant.terms().not_after);
        if self.left.all().flatten().any(|kept| kept.is(owner, held)) {
            return Ok(());
        }
        self.number += 1;
        let deposit = Deposit {
            owner: Arc::clone(owner),
            held: held.clone(),
            number: self.number,
        };
        let weight = DEPOSIT + 8 * numbers(&terms.keys);
        let kept = self.left.add(client, weight, deposit);
        kept.map_err(|Full(_)| Refusal::TooMany)
    }

    /// Drops what a list takes back, and keeps its serials if it `concerns` anyone who showed it
    /// and there is room. None if all of them were taken back before.
    pub fn revoke(
        &mut self,
        list: &VerifiedRevocations,
        role: Option<Role>,
        concerns: bool,
    ) -> Option<Taken> {
        let owner = list.owner();
        let is_new = |serial: &&Serial| !self.revoked(owner, **serial);
        let new: Vec<Serial> = list.serials().iter().filter(is_new).copied().collect();
        if new.is_empty() {
            return None;
        }
        let mut changed = false;
        self.left.retain(|kept| {
            let stays = !kept.held.revoked_by(list);
            changed |= !stays;
            stays
        });
        let kept = concerns && self.take_back((role, owner), &new);
        let changed = changed || kept;
        Some(Taken { kept, changed })
    }

    /// Keeps these serials beside those that the owner took back before. Whether there is room.
    fn take_back(&mut self, owner: Holder, new: &[Serial]) -> bool {
        let weight = |serials: &BTreeSet<Serial>| LIST + SERIAL * serials.len();
        let mut all = self.taken_back.take(owner).unwrap_or_default();
        all.extend(new);
        let Err(Full(mut all)) = self.taken_back.add(owner, weight(&all), all) else {
            return true;
        };
        new.iter().for_each(|serial| {
            all.remove(serial);
        });
        if !all.is_empty() {
            // It was there a moment ago, so there is room for it.
            let _ = self.taken_back.add(owner, weight(&all), all);
        }
        false
    }

    /// Whether this owner took this grant back.
    pub fn revoked(&self, owner: PublicKey, serial: Serial) -> bool {
        let mut taken_back = self.taken_back.of(owner);
        taken_back.any(|serials| serials.contains(&serial))
    }

    /// Whether anything was left for this asker.
    pub fn left_for(&self, asker: &Asker) -> bool {
        self.left.all().flatten().any(|kept| kept.is_for(asker))
    }

    /// Adds to a session what was left for it: first the first deposit of each holder, then the
    /// second of each. So a holder that leaves much hinders no other.
    pub fn hand_out(&self, holdings: &mut Holdings, asker: &Asker) -> Result<(), Refusal> {
        let meant = |of_one| Iterator::filter(of_one, |kept: &&Deposit| kept.is_for(asker));
        let mut all: Vec<_> = self
            .left
            .all()
            .flat_map(|of_one| meant(of_one).enumerate())
            .collect();
        all.sort_by_key(|(place, kept)| (*place, kept.number));
        let mut first = all.into_iter().take(MAX_HANDED_OUT);
        first.try_for_each(|(_, kept)| holdings.hand(&kept.owner, &kept.held))
    }
}

impl Deposit {
    fn is(&self, owner: &Owner, held: &Held) -> bool {
        self.owner.id == owner.id && self.held.is(held)
    }

    fn is_for(&self, asker: &Asker) -> bool {
        let terms = self.held.grant.terms();
        let meant = match (terms.subject, asker.subject) {
            (Subject::Background, None) => true,
            (Subject::Client(client), Some(subject)) => client == subject,
            _ => false,
        };
        meant && asker.now < terms.not_after
    }
}

fn numbers(scope: &KeyScope) -> usize {
    match scope {
        KeyScope::All => 0,
        KeyScope::Groups(groups) => groups.len(),
        KeyScope::Keys(keys) => keys.len(),
    }
}
