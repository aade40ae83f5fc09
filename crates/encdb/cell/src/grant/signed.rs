//! Grants: how they are read, signed and verified.
//!
//! The layout is `"PGSEALGR" | version u8 | subject kind u8 | serial 16 | owner 32 | subject 32 |
//! database kind u8 | database 16 | operations u32 | not before u64 | not after u64 | key scope |
//! signature 64`.
//! The signature is over a label and everything before it. A grant has one spelling: unused fields
//! are zero, and lists ascend.

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

/// The terms of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantTerms {
    /// The serial by which the owner can revoke the grant
    pub serial: Serial,
    /// The owner whose keys the grant covers
    pub owner: PublicKey,
    /// The party that may use the grant
    pub subject: Subject,
    /// The only database where the grant holds; without one it holds everywhere
    pub database: Option<DatabaseId>,
    /// The operations that the grant allows
    pub operations: Operations,
    /// The first second in which the grant holds, since 1970
    pub not_before: u64,
    /// The first second in which the grant no longer holds, since 1970
    pub not_after: u64,
    /// The keys that the grant covers
    pub keys: KeyScope,
}

/// A well-formed grant whose signature is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    terms: GrantTerms,
    signature: [u8; SIGNATURE],
}

impl Grant {
    /// Signs a grant. The key's public half replaces the `owner` of the terms.
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

    /// Returns the terms that the grant claims.
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

/// A grant that its owner signed, and that held when it was verified.
#[derive(Clone, Debug)]
pub struct VerifiedGrant(GrantTerms);

/// Checks that `owner` signed the grant, that it allows its subject no more than such a subject can
/// have, and that it holds at `now`: begun, not expired, not revoked.
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
    /// Returns the terms of the grant.
    pub fn terms(&self) -> &GrantTerms {
        &self.0
    }

    /// Checks that the grant holds at `now`. A session asks again each time, because grants expire
    /// and are revoked while it lasts.
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

    /// Whether the grant allows the operation with this key in this database.
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
