//! Grants that an owner makes, and lists of those that it took back. The module is pure: the
//! session stores them in the database and informs the evaluator.

use std::collections::{BTreeMap, BTreeSet};

use pgseal_cell::grant::{
    DatabaseId, Grant, GrantError, GrantTerms, KeyScope, Operations, Revocations, Serial, Subject,
    VerifiedRevocations,
};
use pgseal_cell::PublicKey;
use pgseal_crypto::random_bytes;

use crate::{ClientError, Identity};

/// The terms of a grant that an owner wants to make.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The subject that gets the grant
    pub subject: Subject,
    /// The operations that it allows
    pub operations: Operations,
    /// The keys that it allows them with
    pub keys: KeyScope,
    /// The database that it is for; none is every database
    pub database: Option<DatabaseId>,
    /// The second from which it holds
    pub not_before: u64,
    /// The second at which it ends
    pub not_after: u64,
}

impl Wanted {
    /// Returns terms that allow everything with all keys, for anyone who signs as the owner.
    pub fn all_for_owner(not_before: u64, not_after: u64) -> Self {
        Self {
            subject: Subject::Owner,
            operations: Operations::ALL,
            keys: KeyScope::All,
            database: None,
            not_before,
            not_after,
        }
    }

    /// Signs the grant.
    pub fn sign(self, identity: &Identity) -> Result<Grant, ClientError> {
        if !identity.is_owner() {
            return Err(ClientError::NotTheOwner);
        }
        if self.subject == Subject::Background && !self.operations.within(Operations::BACKGROUND) {
            return Err(GrantError::TooWide.into());
        }
        let terms = GrantTerms {
            serial: Serial(random_bytes()?),
            owner: identity.owner(),
            subject: self.subject,
            database: self.database,
            operations: self.operations,
            not_before: self.not_before,
            not_after: self.not_after,
            keys: self.keys,
        };
        Ok(Grant::sign(terms, identity.signing()))
    }
}

/// Owners' lists; none where there is one that is too long to be shown.
pub(crate) type Lists = BTreeMap<PublicKey, Option<Revocations>>;

/// The longest list of another owner that is shown, in bytes: 16 thousand grants.
pub(crate) const MAX_LIST: i32 = 1 << 18;
/// Bytes of others' grants and lists that are shown: an opening is one message of at most 8 MB.
const OTHERS: usize = 2 << 20;

/// The grants and lists that are shown at an opening.
pub(crate) struct Papers {
    /// The grants of the owner, or to this subject
    pub grants: Vec<Grant>,
    /// The lists of the owners who signed them
    pub lists: Vec<Revocations>,
}

impl Papers {
    /// Adds what other owners signed, as far as it fits. No grant is shown without its owner's
    /// list.
    pub fn add_others(&mut self, grants: Vec<Grant>, mut lists: Lists) {
        let mut room = OTHERS;
        lists.retain(|owner, _| !self.lists.iter().any(|shown| shown.owner() == *owner));
        for grant in grants {
            let owner = grant.terms().owner;
            let list = match lists.get(&owner) {
                Some(None) => continue,
                Some(Some(list)) => Some(list.encode().len()),
                None => None,
            };
            let size = grant.encode().len() + list.unwrap_or(0);
            let Some(left) = room.checked_sub(size) else {
                continue;
            };
            room = left;
            self.grants.push(grant);
            self.lists.extend(lists.remove(&owner).flatten());
        }
    }
}

/// The number of grants that an evaluator takes of one client.
const MAX_SHOWN: usize = 1024;

/// Returns at most `MAX_SHOWN` of these grants, which come newest first. Expired ones go last,
/// because they say no more than that they have expired: owners who keep their grants short have
/// made many.
pub(crate) fn shown(mut grants: Vec<Grant>, now: u64) -> Vec<Grant> {
    grants.sort_by_key(|grant| grant.terms().not_after <= now);
    grants.truncate(MAX_SHOWN);
    grants
}

/// Returns the owners who signed these grants.
pub(crate) fn owners(grants: &[Grant]) -> BTreeSet<PublicKey> {
    grants.iter().map(|grant| grant.terms().owner).collect()
}

/// Returns the list that follows `last` and takes these grants back too.
pub(crate) fn revoke(
    identity: &Identity,
    last: Option<&VerifiedRevocations>,
    serials: &[Serial],
) -> Result<Revocations, ClientError> {
    if !identity.is_owner() {
        return Err(ClientError::NotTheOwner);
    }
    let before = last.map_or(&[][..], VerifiedRevocations::serials);
    let sequence = last.map_or(0, VerifiedRevocations::sequence) + 1;
    let all = [before, serials].concat();
    Ok(Revocations::sign(sequence, all, identity.signing()))
}

#[cfg(test)]
mod tests {
    use pgseal_cell::grant::{verify, Operation};

    use super::*;

    #[test]
    fn an_owner_grants_and_revokes() {
        let owner = Identity::for_tests(1);
        let grant = Wanted::all_for_owner(10, 20)
            .sign(&owner)
            .expect("it is the owner");
        let holds = |list: Option<&VerifiedRevocations>| {
            verify(&grant, &owner.owner(), 15, list).map(|_| ())
        };
        assert_eq!(holds(None), Ok(()));
        let (first, other) = (grant.terms().serial, Serial([7; 16]));
        let next = |last, serial| {
            let list = revoke(&owner, last, &[serial]).expect("it is the owner");
            list.verify(&owner.owner()).expect("it is signed")
        };
        let one = next(None, other);
        assert_eq!(holds(Some(&one)), Ok(()));
        let two = next(Some(&one), first);
        assert_eq!((two.sequence(), two.serials().len()), (2, 2));
        assert_eq!(holds(Some(&two)), Err(GrantError::Revoked));
    }

    /// Makes grants of these owners, each with so many numbers of keys, to one subject.
    fn granted(owners: &[(u8, u16)]) -> Vec<Grant> {
        let grant = |(owner, keys): &(u8, u16)| {
            let wanted = Wanted {
                subject: Subject::Client(PublicKey([9; 32])),
                keys: KeyScope::Groups((0..u32::from(*keys)).collect()),
                ..Wanted::all_for_owner(0, 1)
            };
            let grant = wanted.sign(&Identity::for_tests(*owner));
            grant.expect("it is the owner")
        };
        owners.iter().map(grant).collect()
    }

    fn list_of(owner: u8, serials: u32) -> (PublicKey, Option<Revocations>) {
        let owner = Identity::for_tests(owner);
        let serial = |number: u32| Serial(u128::from(number).to_le_bytes());
        let serials: Vec<Serial> = (0..serials).map(serial).collect();
        let list = revoke(&owner, None, &serials).expect("it is the owner");
        (owner.owner(), Some(list))
    }

    #[test]
    fn others_grants_are_shown_with_their_owners_lists_or_not_at_all() {
        let number = |key: PublicKey| (1..9).find(|n| Identity::for_tests(*n).owner() == key);
        let shown = |papers: &Papers| -> (Vec<_>, Vec<_>) {
            let of = papers
                .grants
                .iter()
                .map(|grant| number(grant.terms().owner));
            let lists = papers.lists.iter().map(|list| number(list.owner()));
            (of.flatten().collect(), lists.flatten().collect())
        };
        let own = || Papers {
            grants: granted(&[(1, 1)]),
            lists: list_of(1, 3).1.into_iter().collect(),
        };
        let mut papers = own();
        let lists = Lists::from([list_of(2, 1), list_of(4, 1)]);
        papers.add_others(granted(&[(2, 1), (3, 1), (2, 2), (1, 2)]), lists);
        assert_eq!(shown(&papers), (vec![1, 2, 3, 2, 1], vec![1, 2]));

        // One list is too long to be fetched, others are too long together.
        let mut papers = own();
        let half = u32::try_from(OTHERS / 32).expect("a few MB");
        let too_long = (Identity::for_tests(2).owner(), None);
        let lists = Lists::from([too_long, list_of(3, half), list_of(4, half), list_of(5, 9)]);
        papers.add_others(granted(&[(2, 1), (3, 1), (4, 1), (4, 2), (5, 1)]), lists);
        assert_eq!(shown(&papers), (vec![1, 3, 5], vec![1, 3, 5]));
    }

    #[test]
    fn what_is_over_keeps_nothing_from_being_shown() {
        let owner = Identity::for_tests(1);
        let grant = |until| {
            let wanted = Wanted::all_for_owner(0, until).sign(&owner);
            wanted.expect("it is the owner")
        };
        let newest_first: Vec<Grant> = [90, 200]
            .into_iter()
            .chain(std::iter::repeat_n(80, 2000))
            .chain([300])
            .map(grant)
            .collect();
        let shown = shown(newest_first, 100);
        let ends: Vec<u64> = shown.iter().map(|grant| grant.terms().not_after).collect();
        assert_eq!(
            (&ends[..4], ends.len()),
            (&[200, 300, 90, 80][..], MAX_SHOWN)
        );
    }

    #[test]
    fn others_cannot() {
        let owner = Identity::for_tests(1);
        let application = owner.application().expect("random bytes");
        let grant = Wanted::all_for_owner(0, 1).sign(&application);
        assert!(matches!(grant, Err(ClientError::NotTheOwner)));
        let list = revoke(&application, None, &[]);
        assert!(matches!(list, Err(ClientError::NotTheOwner)));
    }

    #[test]
    fn background_work_is_granted_comparisons_only() {
        let owner = Identity::for_tests(1);
        let wanted = Wanted {
            subject: Subject::Background,
            ..Wanted::all_for_owner(0, 1)
        };
        let wide = wanted.clone().sign(&owner);
        assert!(matches!(wide, Err(ClientError::Grant(GrantError::TooWide))));
        let operations = Operations::NONE.with(Operation::CompareStored);
        let narrow = Wanted {
            operations,
            ..wanted
        };
        assert!(narrow.sign(&owner).is_ok());
    }
}
