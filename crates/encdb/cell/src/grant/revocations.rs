//! The grants that an owner revoked, as one signed list. A later list replaces an earlier one.
//!
//! The layout is `"PGSEALRV" | version u8 | owner 32 | sequence u64 | count u32 | serials |
//! signature 64`. The serials ascend.

use pgseal_crypto::sign::{PublicKey, SigningKey, SIGNATURE};

use pgseal_format::Reader;

use super::{GrantError, Serial};

const MAGIC: &[u8; 8] = b"PGSEALRV";
const VERSION: u8 = 1;
const LABEL: &[u8] = b"pgseal/revocations/1\0";

/// A well-formed list whose signature is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocations {
    owner: PublicKey,
    sequence: u64,
    serials: Vec<Serial>,
    /// The label and the body, in the bytes that were read: the signature is over these.
    signed: Vec<u8>,
    signature: [u8; SIGNATURE],
}

impl Revocations {
    /// Signs a list with this sequence number. A database replaces its list only by one of a higher
    /// number.
    pub fn sign(sequence: u64, mut serials: Vec<Serial>, key: &SigningKey) -> Self {
        serials.sort_unstable();
        serials.dedup();
        let owner = key.public();
        let signed = [LABEL, &body(&owner, sequence, &serials)].concat();
        Self {
            owner,
            sequence,
            serials,
            signature: key.sign(&signed),
            signed,
        }
    }

    /// Reads a list. [`Revocations::most_memory`] says how much memory that takes.
    pub fn parse(bytes: &[u8]) -> Result<Self, GrantError> {
        match bytes.strip_prefix(MAGIC).and_then(<[u8]>::first) {
            Some(&VERSION) => {}
            Some(0) | None => return Err(GrantError::Malformed),
            Some(_) => return Err(GrantError::Unknown),
        }
        Self::read(bytes).ok_or(GrantError::Malformed)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (body, signature) = bytes.split_last_chunk()?;
        let mut reader = Reader::new(body.get(MAGIC.len() + 1..)?);
        let owner = PublicKey(*reader.array()?);
        let sequence = reader.u64()?;
        let count = usize::try_from(reader.u32()?).ok()?;
        let list = reader.rest();
        let (list, rest) = list.as_chunks();
        if list.len() != count || !rest.is_empty() || !list.is_sorted_by(|a, b| a < b) {
            return None;
        }
        Some(Self {
            owner,
            sequence,
            serials: list.iter().copied().map(Serial).collect(),
            signed: [LABEL, body].concat(),
            signature: *signature,
        })
    }

    /// Returns the memory that reading and verifying takes besides a list of this length, in bytes.
    pub const fn most_memory(bytes: usize) -> usize {
        bytes.saturating_mul(2).saturating_add(LABEL.len())
    }

    /// Returns the bytes that are stored and sent.
    pub fn encode(&self) -> Vec<u8> {
        [&self.signed[LABEL.len()..], &self.signature].concat()
    }

    /// Returns the owner that the list claims.
    pub fn owner(&self) -> PublicKey {
        self.owner
    }

    /// Returns the sequence number that the list claims.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Checks that `owner` signed the list.
    pub fn verify(self, owner: &PublicKey) -> Result<VerifiedRevocations, GrantError> {
        if self.owner != *owner || !owner.verify(&self.signed, &self.signature) {
            return Err(GrantError::Foreign);
        }
        Ok(VerifiedRevocations(self))
    }
}

fn body(owner: &PublicKey, sequence: u64, serials: &[Serial]) -> Vec<u8> {
    let count = u32::try_from(serials.len()).expect("fewer than 2^32 serials in memory");
    let mut out = MAGIC.to_vec();
    out.push(VERSION);
    out.extend_from_slice(&owner.0);
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    serials
        .iter()
        .for_each(|serial| out.extend_from_slice(&serial.0));
    out
}

/// A list that its owner signed.
#[derive(Clone, Debug)]
pub struct VerifiedRevocations(Revocations);

impl VerifiedRevocations {
    /// Returns the list itself.
    pub fn list(&self) -> &Revocations {
        &self.0
    }

    /// Returns the owner who signed the list.
    pub fn owner(&self) -> PublicKey {
        self.0.owner
    }

    /// Returns the sequence number. A list of a higher number replaces one of a lower number.
    pub fn sequence(&self) -> u64 {
        self.0.sequence
    }

    /// Returns the serials of the revoked grants, ascending. A later list holds them too.
    pub fn serials(&self) -> &[Serial] {
        &self.0.serials
    }

    /// Whether the list revokes this owner's grant of this serial.
    pub fn revokes(&self, owner: PublicKey, serial: Serial) -> bool {
        self.0.owner == owner && self.0.serials.binary_search(&serial).is_ok()
    }
}
