//! Owners and their data keys, as a session holds them: opened, expanded, ready for use.

use pgseal_cell::{
    CellCipher, CellError, CellRef, DataKeyId, Envelope, HashKey, LegacyCipher, MasterKey, OwnerId,
    PublicKey, TokenKey, UnwrapError, Unwrapped, WrappedKey,
};

/// An owner whose master key was opened here.
pub struct Owner {
    /// The key that wraps its data keys.
    pub master: MasterKey,
    /// The public key that its grants are verified with.
    pub public: PublicKey,
    /// The identity of both together, as wrapped keys name it.
    pub id: OwnerId,
    /// The key that its values are hashed with.
    pub hash: HashKey,
    /// The key of the tokens of its texts.
    pub tokens: TokenKey,
}

impl Owner {
    /// Takes an owner's keys in.
    pub fn new(master: MasterKey, public: PublicKey) -> Self {
        Self {
            id: master.owner_id(&public),
            hash: master.hash_key(),
            tokens: master.token_key(),
            master,
            public,
        }
    }
}

/// The identity of a key: a hash of it as it came, wrapped.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyIdentity([u8; 32]);

/// A data key in use.
pub struct Key {
    /// The identity that distinguishes it from every other, also from one of its owner's that had
    /// its number before.
    pub identity: KeyIdentity,
    /// The number that its cells name; cells of version 0 name none.
    pub id: DataKeyId,
    /// The group that grants may name.
    pub group: u32,
    /// Conversions make deterministic cells of it.
    pub deterministic: bool,
    /// The place of its owner in the session's list of owners.
    pub owner: usize,
    cipher: Cipher,
}

enum Cipher {
    Sealed(CellCipher),
    Legacy(LegacyCipher),
}

impl Key {
    /// Unwraps a row of the table of data keys under one of these owners' master keys.
    pub fn unwrap<'o>(
        row: &WrappedKey<'_>,
        keyname: &str,
        owners: impl IntoIterator<Item = &'o Owner>,
    ) -> Result<Self, UnwrapError> {
        let mut owners = owners.into_iter().enumerate();
        let (place, owner) = owners
            .find(|(_, owner)| owner.id == row.owner())
            .ok_or(UnwrapError::OtherOwner)?;
        let cipher = match row.unwrap(&owner.master, &owner.public, keyname)? {
            Unwrapped::Sealed(key) => Cipher::Sealed(CellCipher::new(&key)),
            Unwrapped::Legacy(key) => Cipher::Legacy(LegacyCipher::new(&key)),
        };
        Ok(Self {
            identity: KeyIdentity(row.identity()),
            id: row.id(),
            group: row.group(),
            deterministic: row.deterministic(),
            owner: place,
            cipher,
        })
    }

    /// Whether this key may have made the cell: its name is in it, or none is.
    #[inline]
    pub fn fits(&self, cell: &CellRef<'_>) -> bool {
        match (&self.cipher, cell.envelope()) {
            (Cipher::Sealed(_), Envelope::Sealed { key, .. }) => key == self.id,
            (Cipher::Legacy(_), Envelope::Legacy) => true,
            _ => false,
        }
    }

    /// Whether its cells name it so.
    pub fn is_named(&self, id: DataKeyId) -> bool {
        matches!(self.cipher, Cipher::Sealed(_)) && self.id == id
    }

    /// The plain bytes of a cell, in place of what `into` held.
    #[inline]
    pub fn open(&self, cell: &CellRef<'_>, into: &mut Vec<u8>) -> Result<(), CellError> {
        match &self.cipher {
            Cipher::Sealed(cipher) => cipher.open(cell, into),
            Cipher::Legacy(cipher) => {
                let plain = cipher.open(cell)?;
                into.clear();
                into.extend_from_slice(&plain);
                Ok(())
            }
        }
    }

    /// Returns the cipher that seals new cells; None for a key of version 0, which only opens.
    pub fn sealing(&self) -> Option<&CellCipher> {
        match &self.cipher {
            Cipher::Sealed(cipher) => Some(cipher),
            Cipher::Legacy(_) => None,
        }
    }
}
