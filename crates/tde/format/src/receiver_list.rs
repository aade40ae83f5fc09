//! The list of receiver tokens that were granted, `pg_encryption/receivers.bin`, and which of them
//! are revoked (docs/format/receiver.md).
//!
//! A server reads it whenever a connection shows a token: no list revokes nothing, and a list that
//! cannot be used admits nobody. A list of another key is none: tokens of that key are foreign. A
//! token's id is public; the token cannot be computed from it.

use pgseal_crypto::mac::ReceiverListMac;
use pgseal_crypto::{sha256, MasterKey};

use crate::beside::{self, BesideError};
use crate::reader::Reader;

const MAGIC: &[u8; 8] = b"PGSEALRL";
const FORMAT: u16 = 1;

/// The place of the key id, after magic and format.
const KEY_ID: usize = MAGIC.len() + 2;

/// The most tokens of a list.
pub const MAX_TOKENS: usize = 1000;

/// The most bytes of a role's name that a token can be granted to: PostgreSQL's names have 63.
pub const MAX_ROLE: usize = 1000;

/// The most bytes of the file.
pub const MAX_LIST: usize = 1100 * 1000;

/// The public name of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenId(pub [u8; 8]);

impl TokenId {
    /// The name of a token, as it is written.
    pub fn of(token: &[u8]) -> Self {
        let digest = sha256(&[b"pgseal receiver id 1\0", token]);
        Self(std::array::from_fn(|at| digest[at]))
    }
}

impl std::fmt::Display for TokenId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A token of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedToken {
    /// its name
    pub id: TokenId,
    /// when it expires, in seconds since 1970; 0 if that is not known
    pub expiry: u64,
    /// when it was granted; 0 if that is not known
    pub granted: u64,
    /// when it was revoked; 0 if it is not
    pub revoked: u64,
    /// the role that it was granted to; empty if that is not known
    pub role: Vec<u8>,
}

/// An authenticated list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverList {
    written: u64,
    tokens: Vec<ListedToken>,
}

impl ReceiverList {
    /// Decodes a list and authenticates it.
    pub fn decode(bytes: &[u8], master: &MasterKey) -> Result<Self, BesideError> {
        let mut file = beside::open(bytes, MAGIC, FORMAT, MAX_LIST)?;
        let list = read(file.written, &mut file.fields).ok_or(BesideError::Damaged)?;
        let (body, tag, key_id) = (file.body, file.tag, file.key_id);
        // Under our own key id: a damaged one must not pass for that of another key.
        let own = [&body[..KEY_ID], &master.key_id().0, &body[KEY_ID + 16..]].concat();
        match (
            ReceiverListMac::new(master).verify(&own, tag),
            key_id == master.key_id(),
        ) {
            (true, true) => Ok(list),
            (false, false) => Err(BesideError::OtherKey),
            _ => Err(BesideError::Altered),
        }
    }

    /// The tokens, in the order in which they were granted.
    pub fn tokens(&self) -> &[ListedToken] {
        &self.tokens
    }

    /// Is this token revoked?
    pub fn revokes(&self, id: TokenId) -> bool {
        let mut tokens = self.tokens.iter();
        tokens.any(|token| token.id == id && token.revoked != 0)
    }

    /// Adds a token. The same token granted again stays what it is: one that was revoked is not
    /// given back.
    pub fn add(&mut self, token: ListedToken) -> bool {
        let known = self.tokens.iter().any(|other| other.id == token.id);
        let fits = self.tokens.len() < MAX_TOKENS && token.role.len() <= MAX_ROLE;
        if !known && fits {
            self.tokens.push(token);
        }
        known || fits
    }

    /// Revokes a token at this time; returns whether it is listed.
    pub fn revoke(&mut self, id: TokenId, now: u64) -> bool {
        let mut tokens = self.tokens.iter_mut();
        let Some(token) = tokens.find(|token| token.id == id) else {
            return false;
        };
        if token.revoked == 0 {
            token.revoked = now;
        }
        true
    }

    /// Forgets tokens that expired before this time: they give nothing, revoked or not.
    pub fn forget_expired(&mut self, before: u64) {
        self.tokens
            .retain(|token| token.expiry == 0 || token.expiry >= before);
    }

    /// The bytes of the file's next version.
    pub fn write(&mut self, master: &MasterKey) -> Vec<u8> {
        self.written += 1;
        let mut out = beside::begin(MAGIC, FORMAT, master, self.written);
        let count = u16::try_from(self.tokens.len()).expect("at most a thousand");
        out.extend_from_slice(&count.to_le_bytes());
        for token in &self.tokens {
            out.extend_from_slice(&token.id.0);
            for time in [token.expiry, token.granted, token.revoked] {
                out.extend_from_slice(&time.to_le_bytes());
            }
            let len = u16::try_from(token.role.len()).expect("checked when it was added");
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(&token.role);
        }
        let tag = ReceiverListMac::new(master).tag(&out);
        out.extend_from_slice(&tag);
        out
    }
}

fn read(written: u64, reader: &mut Reader<'_>) -> Option<ReceiverList> {
    let count = usize::from(reader.u16()?);
    let mut tokens = Vec::<ListedToken>::new();
    for _ in 0..count {
        let token = ListedToken {
            id: TokenId(*reader.array()?),
            expiry: reader.u64()?,
            granted: reader.u64()?,
            revoked: reader.u64()?,
            role: reader.counted()?.to_vec(),
        };
        if token.role.len() > MAX_ROLE || tokens.iter().any(|other| other.id == token.id) {
            return None;
        }
        tokens.push(token);
    }
    (reader.is_empty() && count <= MAX_TOKENS).then_some(ReceiverList { written, tokens })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn master() -> MasterKey {
        MasterKey::from_bytes(&mut std::array::from_fn(|at| {
            u8::try_from(at).expect("0 to 31")
        }))
    }

    /// The token of the example in docs/format/receiver.md.
    const TOKEN: &[u8] = b"v1.1800000000.repl.6278d3b6897d2d78f40dea91a97a1f99";

    fn example() -> ReceiverList {
        let mut list = ReceiverList::default();
        assert!(list.add(ListedToken {
            id: TokenId::of(TOKEN),
            expiry: 1_800_000_000,
            granted: 1_790_000_000,
            revoked: 0,
            role: b"repl".to_vec(),
        }));
        assert!(list.revoke(TokenId::of(TOKEN), 1_795_000_000));
        list
    }

    /// The example of docs/format/receiver.md, which was computed apart from this code.
    #[test]
    fn the_documented_example() {
        let page = include_str!("../../../../docs/format/receiver.md");
        let text = page.split("whose list is\n").nth(1).expect("an example");
        let expected: String = text.split_whitespace().collect();
        let written = example().write(&master());
        let written: String = written.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, expected);
        assert!(page.contains(&format!("`{}`", TokenId::of(TOKEN))));
    }

    #[test]
    fn what_was_revoked_stays_revoked() {
        let mut list = example();
        let bytes = list.write(&master());
        let mut read = ReceiverList::decode(&bytes, &master()).expect("it is ours");
        assert_eq!(read, list);
        assert!(read.revokes(TokenId::of(TOKEN)));
        assert!(!read.revokes(TokenId::of(b"another")));
        let again = ListedToken {
            revoked: 0,
            ..read.tokens()[0].clone()
        };
        assert!(read.add(again));
        assert!(read.revokes(TokenId::of(TOKEN)));
        assert!(!read.revoke(TokenId::of(b"another"), 1));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let bytes = example().write(&master());
        for at in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            let refusal = ReceiverList::decode(&bytes, &master());
            let expected = [
                BesideError::Damaged,
                BesideError::Altered,
                BesideError::Newer(0),
            ];
            let same = |error: &BesideError| match error {
                BesideError::Newer(_) => matches!(refusal, Err(BesideError::Newer(_))),
                error => refusal == Err(*error),
            };
            assert!(expected.iter().any(same), "bit {at}: {refusal:?}");
        }
        for len in 0..bytes.len() {
            assert!(
                ReceiverList::decode(&bytes[..len], &master()).is_err(),
                "{len}"
            );
        }
        let other = MasterKey::from_bytes(&mut [9; 32]);
        assert_eq!(
            ReceiverList::decode(&bytes, &other),
            Err(BesideError::OtherKey)
        );
    }

    #[test]
    fn only_what_expired_is_forgotten() {
        let mut list = example();
        list.forget_expired(1_800_000_000);
        assert_eq!(list.tokens().len(), 1);
        list.forget_expired(1_800_000_001);
        assert_eq!(list.tokens(), []);
    }
}
