//! The grant itself: read, signed, verified.
//!
//! `"PGSEALGR" | version u8 | subject kind u8 | serial 16 | owner 32 | subject 32 | database kind
//! u8 | database 16 | operations u32 | not before u64 | not after u64 | key scope | signature 64`.
//! The signature is over a label and everything before it. A grant has one spelling: what is unused
//! is zero, lists ascend.

use pgseal_crypto::sign::{PublicKey, SigningKey, SIGNATURE};

use crate::DataKeyId;
use pgseal_format::Reader;

use super::{
    DatabaseId, GrantError, KeyScope, Operation, Operations, Serial, Subject, VerifiedRevocations,
};

const MAGIC: &[u8; 8] = b"PGSEALGR";
const VERSION: u8 = 1;
const LABEL: &[u8] = b"pgseal/grant/1\0";
const NOBODY: [u8; 32] = [0; 32];
const EVERYWHERE: [u8; 16] = [0; 16];

/// What a grant says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantTerms {
    /// What it is revoked by
    pub serial: Serial,
    /// Whose keys
    pub owner: PublicKey,
    /// Who may use it
    pub subject: Subject,
    /// Where; none is everywhere
    pub database: Option<DatabaseId>,
    /// What may be done
    pub operations: Operations,
    /// From this second on
    pub not_before: u64,
    /// Before this second
    pub not_after: u64,
    /// With which keys
    pub keys: KeyScope,
}

/// A well-formed grant that nobody has vouched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    terms: GrantTerms,
    signature: [u8; SIGNATURE],
}

impl Grant {
    /// A grant by the owner; its `owner` is the key's own.
    pub fn sign(terms: GrantTerms, key: &SigningKey) -> Self {
        let terms = GrantTerms {
            owner: key.public(),
            keys: terms.keys.canonical(),
            ..terms
        };
        let signature = key.sign(&signed(&terms.encode()));
        Self { terms, signature }
    }

    /// Reads a grant.
    pub fn parse(bytes: &[u8]) -> Result<Self, GrantError> {
        let version = bytes.strip_prefix(MAGIC).and_then(<[u8]>::first);
        match version {
            Some(&VERSION) => {}
            Some(0) | None => return Err(GrantError::Malformed),
            Some(_) => return Err(GrantError::Unknown),
        }
        let mut reader = Reader::new(&bytes[MAGIC.len() + 1..]);
        let terms = GrantTerms::read(&mut reader).ok_or(GrantError::Malformed)?;
        let signature = *reader.array().ok_or(GrantError::Malformed)?;
        if !reader.is_empty() {
            return Err(GrantError::Malformed);
        }
        Ok(Self { terms, signature })
    }

    /// Returns the bytes that are stored and sent.
    pub fn encode(&self) -> Vec<u8> {
        [&self.terms.encode()[..], &self.signature].concat()
    }

    /// What it claims.
    pub fn terms(&self) -> &GrantTerms {
        &self.terms
    }
}

impl GrantTerms {
    fn encode(&self) -> Vec<u8> {
        let (subject, subject_key) = match self.subject {
            Subject::Owner => (0, NOBODY),
            Subject::Client(client) => (1, client.0),
            Subject::Background => (2, NOBODY),
        };
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[VERSION, subject]);
        out.extend_from_slice(&self.serial.0);
        out.extend_from_slice(&self.owner.0);
        out.extend_from_slice(&subject_key);
        out.push(u8::from(self.database.is_some()));
        out.extend_from_slice(&self.database.map_or(EVERYWHERE, |database| database.0));
        out.extend_from_slice(&self.operations.bits().to_le_bytes());
        out.extend_from_slice(&self.not_before.to_le_bytes());
        out.extend_from_slice(&self.not_after.to_le_bytes());
        self.keys.write(&mut out);
        out
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let kind = reader.u8()?;
        let serial = Serial(*reader.array()?);
        let owner = PublicKey(*reader.array()?);
        let subject = match (kind, *reader.array()?) {
            (0, NOBODY) => Subject::Owner,
            (1, client) => Subject::Client(PublicKey(client)),
            (2, NOBODY) => Subject::Background,
            _ => return None,
        };
        let database = match (reader.u8()?, *reader.array()?) {
            (0, EVERYWHERE) => None,
            (1, database) => Some(DatabaseId(database)),
            _ => return None,
        };
        let terms = Self {
            serial,
            owner,
            subject,
            database,
            operations: Operations::from_bits(reader.u32()?)?,
            not_before: reader.u64()?,
            not_after: reader.u64()?,
            keys: KeyScope::read(reader)?,
        };
        Some(terms)
    }
}

fn signed(terms: &[u8]) -> Vec<u8> {
    [LABEL, terms].concat()
}

/// A grant that its owner signed and that held when it was verified.
#[derive(Clone, Debug)]
pub struct VerifiedGrant(GrantTerms);

/// Vouches for a grant: signed by `owner`, for no more than its subject can have, begun, not over
/// and not revoked at `now`.
pub fn verify(
    grant: &Grant,
    owner: &PublicKey,
    now: u64,
    revocations: Option<&VerifiedRevocations>,
) -> Result<VerifiedGrant, GrantError> {
    let terms = &grant.terms;
    if terms.owner != *owner || !owner.verify(&signed(&terms.encode()), &grant.signature) {
        return Err(GrantError::Foreign);
    }
    if terms.subject == Subject::Background && !terms.operations.within(Operations::BACKGROUND) {
        return Err(GrantError::TooWide);
    }
    let verified = VerifiedGrant(terms.clone());
    verified.holds(now, revocations).map(|()| verified)
}

impl VerifiedGrant {
    /// What it says.
    pub fn terms(&self) -> &GrantTerms {
        &self.0
    }

    /// Whether it still holds.
    pub fn holds(
        &self,
        now: u64,
        revocations: Option<&VerifiedRevocations>,
    ) -> Result<(), GrantError> {
        if now < self.0.not_before {
            return Err(GrantError::Early);
        }
        if now >= self.0.not_after {
            return Err(GrantError::Expired);
        }
        match revocations {
            Some(list) if list.revokes(self.0.owner, self.0.serial) => Err(GrantError::Revoked),
            _ => Ok(()),
        }
    }

    /// Whether it lets its subject do this with this key in this database.
    pub fn allows(
        &self,
        operation: Operation,
        database: DatabaseId,
        group: u32,
        key: DataKeyId,
    ) -> bool {
        self.0.operations.has(operation)
            && self.0.database.is_none_or(|only| only == database)
            && self.0.keys.covers(group, key)
    }
}
