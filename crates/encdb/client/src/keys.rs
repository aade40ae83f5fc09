//! The data keys of an owner, unwrapped on the client's side, which seal values and open cells.
//!
//! Rows come from a table that the server's administrator writes. A row of another owner is passed
//! over; a row that claims to be this owner's and does not open is remembered, and its name
//! refused.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use pgseal_cell::{
    CellCipher, CellRef, DataKey, DataKeyId, Envelope, KeyAlgorithm, LegacyCipher, LegacyKey, Mode,
    Nonces, Type, UnwrapError, Unwrapped, WrappedKey,
};
use pgseal_value::Value;
use zeroize::Zeroizing;

use crate::error::ClientError;
use crate::Identity;

/// The public facts of a data key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its name in the table of data keys
    pub name: String,
    /// Its name in cells
    pub id: DataKeyId,
    /// The number by which grants may name it
    pub group: u32,
    /// Whether equal values give equal cells
    pub deterministic: bool,
    /// Whether it seals; a key of version 0 opens only
    pub seals: bool,
}

/// Data keys, expanded.
#[derive(Default)]
pub struct KeyRing {
    named: BTreeMap<String, Named>,
    ciphers: HashMap<DataKeyId, Arc<CellCipher>>,
    legacy: Vec<LegacyCipher>,
    refused: BTreeMap<String, UnwrapError>,
    nonces: Mutex<Nonces>,
}

struct Named {
    info: KeyInfo,
    cipher: Option<Arc<CellCipher>>,
}

impl KeyRing {
    /// Makes a ring without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a row of the table of data keys in. Returns whether it is this owner's and opens.
    pub fn take(&mut self, identity: &Identity, name: &str, wrapped: &[u8]) -> bool {
        match unwrap(identity, name, wrapped) {
            Ok((info, key)) => {
                self.refused.remove(name);
                self.add(info, &key);
                true
            }
            Err(UnwrapError::OtherOwner) => false,
            Err(error) => {
                self.refused.insert(name.to_owned(), error);
                false
            }
        }
    }

    fn add(&mut self, info: KeyInfo, key: &Unwrapped) {
        let cipher = match key {
            Unwrapped::Sealed(key) => Some(Arc::new(CellCipher::new(key))),
            Unwrapped::Legacy(key) => {
                self.legacy.push(LegacyCipher::new(key));
                None
            }
        };
        if let Some(cipher) = &cipher {
            self.ciphers.insert(info.id, Arc::clone(cipher));
        }
        self.named.insert(info.name.clone(), Named { info, cipher });
    }

    /// Returns all keys, by their names.
    pub fn all(&self) -> impl Iterator<Item = &KeyInfo> {
        self.named.values().map(|named| &named.info)
    }

    /// Returns the rows that claim to be this owner's and do not open.
    pub fn refused(&self) -> impl Iterator<Item = (&str, UnwrapError)> {
        self.refused
            .iter()
            .map(|(name, error)| (name.as_str(), *error))
    }

    /// Returns the facts of the key of this name.
    pub fn named(&self, name: &str) -> Result<&KeyInfo, ClientError> {
        self.key(name).map(|named| &named.info)
    }

    fn key(&self, name: &str) -> Result<&Named, ClientError> {
        self.named
            .get(name)
            .ok_or_else(|| match self.refused.get(name) {
                Some(error) => ClientError::KeyRefused(name.to_owned(), *error),
                None => ClientError::NoKey(name.to_owned()),
            })
    }

    /// Appends the cell of a value under the key of this name.
    pub fn seal(&self, name: &str, value: &Value, into: &mut Vec<u8>) -> Result<(), ClientError> {
        let named = self.key(name)?;
        let cipher = named
            .cipher
            .as_ref()
            .ok_or_else(|| ClientError::OpensOnly(name.into()))?;
        let mode = match named.info.deterministic {
            true => Mode::Deterministic,
            false => Mode::Randomised,
        };
        // Larger than what all types but texts and numbers need, so that it seldom moves.
        let mut plain = Zeroizing::new(Vec::with_capacity(64));
        value.encode(&mut plain);
        let mut nonces = self.nonces.lock().unwrap_or_else(PoisonError::into_inner);
        cipher.seal(value.ty(), mode, &plain, &mut nonces, into)?;
        Ok(())
    }

    /// Opens a cell and returns its value.
    pub fn open(&self, cell: &[u8]) -> Result<Value, ClientError> {
        let cell = CellRef::parse(cell)?;
        let plain = match cell.envelope() {
            Envelope::Sealed { key, .. } => self.open_sealed(&cell, key)?,
            Envelope::Legacy => self.open_legacy(&cell)?,
        };
        Ok(Value::decode(cell.ty(), &plain)?)
    }

    /// Opens a cell of a column of this type and returns its value.
    pub fn open_as(&self, ty: Type, cell: &[u8]) -> Result<Value, ClientError> {
        let value = self.open(cell)?;
        match value.ty() == ty {
            true => Ok(value),
            false => Err(ClientError::Cell(pgseal_cell::CellError::UnknownType)),
        }
    }

    fn open_sealed(
        &self,
        cell: &CellRef<'_>,
        key: DataKeyId,
    ) -> Result<Zeroizing<Vec<u8>>, ClientError> {
        let cipher = self
            .ciphers
            .get(&key)
            .ok_or(ClientError::NoKeyOfCell(key))?;
        let mut plain = Zeroizing::new(Vec::new());
        cipher.open(cell, &mut plain)?;
        Ok(plain)
    }

    /// Opens a cell of version 0, which names no key: the key that opens it is the right one.
    fn open_legacy(&self, cell: &CellRef<'_>) -> Result<Zeroizing<Vec<u8>>, ClientError> {
        let mut opened = self
            .legacy
            .iter()
            .filter_map(|cipher| cipher.open(cell).ok());
        opened.next().ok_or(ClientError::NoLegacyKey)
    }
}

fn unwrap(
    identity: &Identity,
    name: &str,
    wrapped: &[u8],
) -> Result<(KeyInfo, Unwrapped), UnwrapError> {
    let wrapped = WrappedKey::parse(wrapped)?;
    let key = wrapped.unwrap(identity.master(), &identity.owner(), name)?;
    let info = KeyInfo {
        name: name.to_owned(),
        id: wrapped.id(),
        group: wrapped.group(),
        deterministic: wrapped.deterministic(),
        seals: wrapped.algorithm() == KeyAlgorithm::Sealed,
    };
    Ok((info, key))
}

/// The request for a new data key.
#[derive(Clone, Copy, Debug)]
pub struct NewKey<'a> {
    /// Its name in the table of data keys
    pub name: &'a str,
    /// The number by which grants may name it
    pub group: u32,
    /// Whether equal values give equal cells
    pub deterministic: bool,
}

impl NewKey<'_> {
    /// Makes a new key of this identity's owner, wrapped for the table of data keys.
    pub fn generate(&self, identity: &Identity) -> Result<Vec<u8>, ClientError> {
        self.wrap(identity, &Unwrapped::Sealed(DataKey::generate()?))
    }

    /// Wraps a key of 16 bytes that another program made, for its cells of version 0. Wipes the
    /// source.
    pub fn import(&self, identity: &Identity, key: &mut [u8; 16]) -> Result<Vec<u8>, ClientError> {
        self.wrap(identity, &Unwrapped::Legacy(LegacyKey::from_bytes(key)))
    }

    fn wrap(&self, identity: &Identity, key: &Unwrapped) -> Result<Vec<u8>, ClientError> {
        let (master, owner) = (identity.master(), identity.owner());
        let mut nonces = Nonces::new();
        let (group, deterministic) = (self.group, self.deterministic);
        Ok(key.wrap(master, &owner, self.name, group, deterministic, &mut nonces)?)
    }
}

#[cfg(test)]
mod tests {
    use pgseal_cell::CellError;

    use super::*;

    fn ring(identity: &Identity, names: &[(&str, bool)]) -> KeyRing {
        let mut ring = KeyRing::new();
        for &(name, deterministic) in names {
            let key = NewKey {
                name,
                group: 3,
                deterministic,
            };
            let wrapped = key.generate(identity).expect("random bytes");
            assert!(ring.take(identity, name, &wrapped));
        }
        ring
    }

    fn sealed(ring: &KeyRing, name: &str, value: &Value) -> Vec<u8> {
        let mut cell = Vec::new();
        ring.seal(name, value, &mut cell).expect("the key is there");
        cell
    }

    #[test]
    fn what_one_key_seals_the_ring_opens() {
        let ring = ring(&Identity::for_tests(1), &[("a", false), ("b", true)]);
        let value = Value::Int4(-7);
        let (first, second) = (sealed(&ring, "a", &value), sealed(&ring, "a", &value));
        assert_eq!(first.len(), 39);
        assert_ne!(first, second);
        assert_eq!(sealed(&ring, "b", &value), sealed(&ring, "b", &value));
        for cell in [&first, &sealed(&ring, "b", &value)] {
            let opened = ring.open(cell).expect("it was sealed so");
            assert_eq!(opened.to_text(), "-7");
        }
        let wrong = ring.open_as(Type::Text, &first);
        assert!(matches!(
            wrong,
            Err(ClientError::Cell(CellError::UnknownType))
        ));
    }

    #[test]
    fn keys_of_others_are_passed_over_and_altered_ones_refused() {
        let (mine, other) = (Identity::for_tests(1), Identity::for_tests(2));
        let key = NewKey {
            name: "k",
            group: 0,
            deterministic: false,
        };
        let mut wrapped = key.generate(&mine).expect("random bytes");
        let mut ring = KeyRing::new();
        assert!(!ring.take(&other, "k", &wrapped));
        assert!(matches!(ring.named("k"), Err(ClientError::NoKey(_))));
        assert!(!ring.take(&mine, "another name", &wrapped));
        let refused = ring.named("another name").err();
        let expected = UnwrapError::NotAuthentic;
        assert!(matches!(refused, Some(ClientError::KeyRefused(_, error)) if error == expected));
        *wrapped.last_mut().expect("it is long") ^= 1;
        assert!(!ring.take(&mine, "k", &wrapped));
        assert_eq!(ring.refused().count(), 2);
        assert_eq!(ring.all().count(), 0);
    }

    #[test]
    fn cells_that_no_key_opens_say_why() {
        let (mine, other) = (Identity::for_tests(1), Identity::for_tests(2));
        let (ring, others) = (ring(&mine, &[("k", false)]), ring(&other, &[("k", false)]));
        let mut cell = sealed(&others, "k", &Value::Bool(true));
        assert!(matches!(ring.open(&cell), Err(ClientError::NoKeyOfCell(_))));
        cell = sealed(&ring, "k", &Value::Bool(true));
        cell[10] ^= 1;
        assert!(matches!(
            ring.open(&cell),
            Err(ClientError::Cell(CellError::Malformed))
        ));
        cell[0] ^= 1;
        assert!(matches!(
            ring.open(&cell),
            Err(ClientError::Cell(CellError::NotAuthentic))
        ));
    }

    #[test]
    fn a_legacy_key_opens_and_does_not_seal() {
        let mine = Identity::for_tests(1);
        let key = NewKey {
            name: "old",
            group: 0,
            deterministic: false,
        };
        let wrapped = key.import(&mine, &mut [4; 16]).expect("random bytes");
        let mut ring = KeyRing::new();
        assert!(ring.take(&mine, "old", &wrapped));
        assert!(!ring.named("old").expect("it is there").seals);
        let sealed = ring.seal("old", &Value::Bool(true), &mut Vec::new());
        assert!(matches!(sealed, Err(ClientError::OpensOnly(_))));
    }
}
