//! The grants that an owner took back, as one signed list. A later list replaces an earlier one.
//!
//! `"PGSEALRV" | version u8 | owner 32 | sequence u64 | count u32 | serials | signature 64`; the
//! serials ascend.

use pgseal_crypto::sign::{PublicKey, SigningKey, SIGNATURE};

use pgseal_format::Reader;

use super::{GrantError, Serial};

const MAGIC: &[u8; 8] = b"PGSEALRV";
const VERSION: u8 = 1;
const LABEL: &[u8] = b"pgseal/revocations/1\0";

/// A well-formed list that nobody has vouched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocations {
    owner: PublicKey,
    sequence: u64,
    serials: Vec<Serial>,
    signature: [u8; SIGNATURE],
}

impl Revocations {
    /// The list of this number; an evaluator takes no list below the last one.
    pub fn sign(sequence: u64, mut serials: Vec<Serial>, key: &SigningKey) -> Self {
        serials.sort_unstable();
        serials.dedup();
        let mut list = Self {
            owner: key.public(),
            sequence,
            serials,
            signature: [0; SIGNATURE],
        };
        list.signature = key.sign(&list.signed());
        list
    }

    /// Reads a list.
    pub fn parse(bytes: &[u8]) -> Result<Self, GrantError> {
        match bytes.strip_prefix(MAGIC).and_then(<[u8]>::first) {
            Some(&VERSION) => {}
            Some(0) | None => return Err(GrantError::Malformed),
            Some(_) => return Err(GrantError::Unknown),
        }
        let reader = Reader::new(&bytes[MAGIC.len() + 1..]);
        Self::read(reader).ok_or(GrantError::Malformed)
    }

    fn read(mut reader: Reader<'_>) -> Option<Self> {
        let owner = PublicKey(*reader.array()?);
        let sequence = reader.u64()?;
        let count = usize::try_from(reader.u32()?).ok()?;
        let mut list = Reader::new(reader.take(count.checked_mul(16)?)?);
        let serials: Vec<Serial> =
            std::iter::from_fn(|| list.array().map(|serial| Serial(*serial))).collect();
        let signature = *reader.array()?;
        let list = Self {
            owner,
            sequence,
            serials,
            signature,
        };
        (reader.is_empty() && list.serials.is_sorted_by(|a, b| a < b)).then_some(list)
    }

    /// The bytes that are handed on.
    pub fn encode(&self) -> Vec<u8> {
        [&self.body()[..], &self.signature].concat()
    }

    fn body(&self) -> Vec<u8> {
        let count = u32::try_from(self.serials.len()).expect("fewer than 2^32 serials in memory");
        let mut out = MAGIC.to_vec();
        out.push(VERSION);
        out.extend_from_slice(&self.owner.0);
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        self.serials
            .iter()
            .for_each(|serial| out.extend_from_slice(&serial.0));
        out
    }

    fn signed(&self) -> Vec<u8> {
        [LABEL, &self.body()].concat()
    }

    /// Whose it claims to be.
    pub fn owner(&self) -> PublicKey {
        self.owner
    }

    /// Its number, as it claims.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Vouches for a list: signed by `owner`.
    pub fn verify(self, owner: &PublicKey) -> Result<VerifiedRevocations, GrantError> {
        if self.owner != *owner || !owner.verify(&self.signed(), &self.signature) {
            return Err(GrantError::Foreign);
        }
        Ok(VerifiedRevocations(self))
    }
}

/// A list that its owner signed.
#[derive(Clone, Debug)]
pub struct VerifiedRevocations(Revocations);

impl VerifiedRevocations {
    /// The list itself.
    pub fn list(&self) -> &Revocations {
        &self.0
    }

    /// Whose grants.
    pub fn owner(&self) -> PublicKey {
        self.0.owner
    }

    /// Its number; a higher one replaces a lower one.
    pub fn sequence(&self) -> u64 {
        self.0.sequence
    }

    /// The grants that were taken back, ascending: a later list holds them too.
    pub fn serials(&self) -> &[Serial] {
        &self.0.serials
    }

    /// Whether this owner's grant of this serial was taken back.
    pub fn revokes(&self, owner: PublicKey, serial: Serial) -> bool {
        self.0.owner == owner && self.0.serials.binary_search(&serial).is_ok()
    }
}
