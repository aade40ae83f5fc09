//! Grants that an owner makes, and lists of those that it took back. Pure: the session stores them
//! in the database and tells the evaluator.

use pgseal_cell::grant::{
    DatabaseId, Grant, GrantError, GrantTerms, KeyScope, Operations, Revocations, Serial, Subject,
    VerifiedRevocations,
};
use pgseal_crypto::random_bytes;

use crate::{ClientError, Identity};

/// What an owner wants to grant.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// To whom
    pub subject: Subject,
    /// What may be done
    pub operations: Operations,
    /// With which keys
    pub keys: KeyScope,
    /// Where; none is everywhere
    pub database: Option<DatabaseId>,
    /// From this second on
    pub not_before: u64,
    /// Before this second
    pub not_after: u64,
}

impl Wanted {
    /// Everything with all keys, for whoever signs as the owner.
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

    /// The grant, signed.
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

/// The owner's latest list among those of a database; none if there is no list of this owner.
/// Whoever keeps the database can withhold lists, and can make none.
pub(crate) fn latest<'a>(
    identity: &Identity,
    lists: impl Iterator<Item = &'a [u8]>,
) -> Option<VerifiedRevocations> {
    let verified = lists.filter_map(|list| {
        let list = Revocations::parse(list).ok()?;
        list.verify(&identity.owner()).ok()
    });
    verified.max_by_key(VerifiedRevocations::sequence)
}

/// The list that follows `last` and takes these grants back too.
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
        let one = revoke(&owner, None, &[other])
            .expect("it is the owner")
            .encode();
        let one = latest(&owner, [&one[..]].into_iter()).expect("it is signed");
        assert_eq!(holds(Some(&one)), Ok(()));
        let two = revoke(&owner, Some(&one), &[first])
            .expect("it is the owner")
            .encode();
        let both = [&two[..], &one_again(&owner, other)[..], b"rubbish"];
        let two = latest(&owner, both.into_iter()).expect("it is signed");
        assert_eq!((two.sequence(), two.serials().len()), (2, 2));
        assert_eq!(holds(Some(&two)), Err(GrantError::Revoked));
    }

    fn one_again(owner: &Identity, serial: Serial) -> Vec<u8> {
        revoke(owner, None, &[serial])
            .expect("it is the owner")
            .encode()
    }

    #[test]
    fn others_cannot() {
        let owner = Identity::for_tests(1);
        let application = owner.application().expect("random bytes");
        let grant = Wanted::all_for_owner(0, 1).sign(&application);
        assert!(matches!(grant, Err(ClientError::NotTheOwner)));
        let list = revoke(&application, None, &[]);
        assert!(matches!(list, Err(ClientError::NotTheOwner)));
        let foreign = one_again(&Identity::for_tests(2), Serial([1; 16]));
        assert!(latest(&owner, [&foreign[..]].into_iter()).is_none());
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
