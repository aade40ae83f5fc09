//! The rights of a session to use a key, and the grants that they come from.
//!
//! Without a grant the owner's own session compares and hashes what clients made, and nothing else.
//! All else, and everything of another owner's keys, comes from grants that the key's owner signed
//! for this session's subject. [`Rights`] is the sum of what holds at one moment; with it comes
//! until when it stays the sum.

use std::sync::Arc;

use pgseal_cell::grant::{
    verify, DatabaseId, Grant, GrantError, Operation, Operations, Subject, VerifiedGrant,
    VerifiedRevocations,
};
use pgseal_cell::PublicKey;

use super::keys::Key;

const OPERATIONS: usize = Operation::ALL.len();
/// The operations on a value that was derived here.
const WITH_DERIVED: [Operation; 11] = [
    Operation::ConvertOut,
    Operation::CompareDerived,
    Operation::ComparePlain,
    Operation::Arithmetic,
    Operation::Text,
    Operation::Aggregate,
    Operation::Cast,
    Operation::Extract,
    Operation::Limit,
    Operation::Words,
    Operation::Trigrams,
];
/// No grant: by default, or not at all.
const NO_GRANT: u16 = u16::MAX;

/// The operations that are allowed with one key now.
#[derive(Clone)]
pub struct Rights {
    allowed: Operations,
    /// The place of the grant that allows each operation.
    by: [u16; OPERATIONS],
}

/// The session that asks for rights: for whom, in which database, and when.
#[derive(Clone, Copy)]
pub struct Asker {
    /// The client's key; none for background work.
    pub subject: Option<PublicKey>,
    /// The database that the connection named when it was attached.
    pub database: DatabaseId,
    /// Seconds since 1970.
    pub now: u64,
}

/// A grant that a session holds, with what is known of its revocation. All who hold it have one
/// copy: anybody leaves large ones for others.
#[derive(Clone)]
pub struct Held {
    /// The grant.
    pub grant: Arc<VerifiedGrant>,
    /// The grant as it came, for parallel workers.
    pub signed: Arc<Grant>,
    /// Its owner took it back.
    pub revoked: bool,
}

impl Held {
    /// A grant that its owner signed, whenever it holds: every use asks for the time.
    pub fn verify(grant: &Grant) -> Result<Self, GrantError> {
        let terms = grant.terms();
        Ok(Self {
            grant: Arc::new(verify(grant, &terms.owner, terms.not_before, None)?),
            signed: Arc::new(grant.clone()),
            revoked: false,
        })
    }

    /// Whether the two are one grant.
    pub fn is(&self, other: &Self) -> bool {
        let (a, b) = (self.grant.terms(), other.grant.terms());
        a.owner == b.owner && a.serial == b.serial
    }

    /// Whether the list takes it back.
    pub fn revoked_by(&self, list: &VerifiedRevocations) -> bool {
        let terms = self.grant.terms();
        list.revokes(terms.owner, terms.serial)
    }

    /// Whether the grant is by the key's owner, for this asker, and still holds.
    fn state(&self, owner: PublicKey, asker: &Asker) -> Option<Result<(), GrantError>> {
        let terms = self.grant.terms();
        let meant = match (terms.subject, asker.subject) {
            (Subject::Background, None) => true,
            (Subject::Client(client), Some(subject)) => client == subject,
            (Subject::Owner, Some(subject)) => subject == owner,
            _ => false,
        };
        if terms.owner != owner || !meant {
            return None;
        }
        Some(match self.revoked {
            true => Err(GrantError::Revoked),
            false => self.grant.holds(asker.now, None),
        })
    }
}

impl Rights {
    /// The sum of what holds for `key`, and the second at which it has to be made anew. `own`: the
    /// session opened this owner's keys itself.
    pub fn sum(
        key: &Key,
        owner: PublicKey,
        own: bool,
        held: &[Held],
        asker: &Asker,
    ) -> (Self, u64) {
        let mut rights = Self {
            allowed: if own {
                Operations::NONE.with(Operation::CompareStored)
            } else {
                Operations::NONE
            },
            by: [NO_GRANT; OPERATIONS],
        };
        let mut until = u64::MAX;
        for (place, held) in held.iter().enumerate() {
            let terms = held.grant.terms();
            match held.state(owner, asker) {
                Some(Ok(())) => until = until.min(terms.not_after),
                Some(Err(GrantError::Early)) => {
                    until = until.min(terms.not_before);
                    continue;
                }
                _ => continue,
            }
            for operation in Operation::ALL {
                if !rights.allowed.has(operation)
                    && held
                        .grant
                        .allows(operation, asker.database, key.group, key.id)
                {
                    rights.allowed = rights.allowed.with(operation);
                    rights.by[operation as usize] = u16::try_from(place).unwrap_or(NO_GRANT);
                }
            }
        }
        // Their owner opened these keys elsewhere: they are here for as long, and as far, as they
        // shares them.
        if !own && asker.subject.is_some() && !rights.allows(Operation::Share) {
            rights.allowed = Operations::NONE;
        }
        (rights, until)
    }

    /// Whether the operation is allowed.
    #[inline]
    pub fn allows(&self, operation: Operation) -> bool {
        self.allowed.has(operation)
    }

    /// Returns an operation on derived values that these rights allow, and the others do not.
    pub fn beyond(&self, others: &Self) -> Option<Operation> {
        let mut gained = WITH_DERIVED.into_iter();
        gained.find(|operation| self.allows(*operation) && !others.allows(*operation))
    }

    /// The place of the grant that allows the operation; none if it needs none.
    #[inline]
    pub fn grant(&self, operation: Operation) -> Option<usize> {
        match self.by[operation as usize] {
            NO_GRANT => None,
            place => Some(usize::from(place)),
        }
    }
}

/// Why an operation is not allowed: the best grant that would allow it does not hold any more, or
/// not yet, or there is none.
pub fn why_not(
    operation: Operation,
    key: &Key,
    owner: PublicKey,
    held: &[Held],
    asker: &Asker,
) -> Option<GrantError> {
    let matching = held.iter().filter(|held| {
        held.grant
            .allows(operation, asker.database, key.group, key.id)
    });
    matching
        .filter_map(|held| held.state(owner, asker)?.err())
        .min_by_key(|error| *error == GrantError::Revoked)
}
