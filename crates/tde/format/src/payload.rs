//! The payload: the 104 ASCII bytes that a provider wraps.
//!
//! `"pgsealk1" || hex(master) || hex(bind)`, bind = the MAC of the bound header under a key derived
//! from the master. ASCII, because some key services take text only; with its own binding, because
//! providers do not authenticate our header, and because the exit status of `openssl` does not show
//! a wrong passphrase.
//!
//! Invariant: a [`Payload`] is well formed, nothing more. Only [`Payload::verify`] says whose it
//! is.

use pgseal_crypto::mac::BindMac;
use pgseal_crypto::{KeyId, MasterKey};
use zeroize::Zeroizing;

use crate::{hex, Header};

/// Bytes of a payload.
pub const PAYLOAD: usize = 104;

const MAGIC: &[u8; 8] = b"pgsealk1";

/// A master key with the MAC of the header that it belongs to; neither is checked yet.
pub struct Payload {
    master: MasterKey,
    bind: [u8; 16],
}

/// Why the output of an unwrapping gives no master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// Anything but a payload: the usual sign of a wrong passphrase or a damaged wrapping.
    #[error("what was unwrapped is not a pgseal key: check the passphrase or command, or restore key.bin from a copy")]
    NotAKey,
    /// A good key of something else.
    #[error("what was unwrapped is another cluster's key {found}, not {expected}: use the key file and the secret of this cluster")]
    OtherKey {
        /// The name of the key that came out
        found: KeyId,
        /// The name in the header
        expected: KeyId,
    },
    /// The right key under a header that it was not wrapped for.
    #[error("the key is right but the header of key.bin was altered: restore key.bin from a copy")]
    HeaderAltered,
}

impl Payload {
    /// Encodes the bytes that a provider wraps for a cluster.
    pub fn encode(master: &MasterKey, header: &Header) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(PAYLOAD));
        out.extend_from_slice(MAGIC);
        hex::push(&mut out, master.expose());
        hex::push(&mut out, &BindMac::new(master).tag(&header.bound()));
        out
    }

    /// Decodes the output of an unwrapping; white space may follow it.
    pub fn decode(text: &[u8]) -> Result<Self, PayloadError> {
        let digits = text
            .trim_ascii_end()
            .strip_prefix(MAGIC)
            .filter(|digits| digits.len() == PAYLOAD - MAGIC.len())
            .ok_or(PayloadError::NotAKey)?;
        let (master, bind) = digits.split_at(64);
        let mut master: Zeroizing<[u8; 32]> = hex::parse(master).ok_or(PayloadError::NotAKey)?;
        let bind = *hex::parse(bind).ok_or(PayloadError::NotAKey)?;
        let master = MasterKey::from_bytes(&mut master);
        Ok(Self { master, bind })
    }

    /// The master key, if it is the one that `header` names and the header is the one it was
    /// wrapped for.
    pub fn verify(self, header: &Header) -> Result<MasterKey, PayloadError> {
        let (found, expected) = (self.master.key_id(), header.key_id);
        if found != expected {
            return Err(PayloadError::OtherKey { found, expected });
        }
        if !BindMac::new(&self.master).verify(&header.bound(), &self.bind) {
            return Err(PayloadError::HeaderAltered);
        }
        Ok(self.master)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClusterId;
    use pgseal_crypto::{KeyLength, Suite};

    fn master(first: u8) -> MasterKey {
        let mut bytes = [0; 32];
        for (byte, value) in bytes.iter_mut().zip(first..) {
            *byte = value;
        }
        MasterKey::from_bytes(&mut bytes)
    }

    fn header() -> Header {
        Header {
            suite: Suite::AesXts,
            length: KeyLength::Bits256,
            cluster: ClusterId([7; 16]),
            key_id: master(0).key_id(),
            created: 1_800_000_000,
        }
    }

    fn refusal(text: &[u8], header: &Header) -> PayloadError {
        Payload::decode(text)
            .and_then(|payload| payload.verify(header))
            .err()
            .expect("a refusal")
    }

    #[test]
    fn a_payload_is_104_characters() {
        let text = Payload::encode(&master(0), &header());
        assert_eq!(text.len(), PAYLOAD);
        assert!(text.starts_with(b"pgsealk1000102030405"));
        assert!(text.iter().all(u8::is_ascii_alphanumeric));
    }

    #[test]
    fn white_space_may_follow() {
        let text = [&Payload::encode(&master(0), &header())[..], b" \r\n\n"].concat();
        let master = Payload::decode(&text).and_then(|payload| payload.verify(&header()));
        assert_eq!(master.map(|master| master.expose()[31]), Ok(31));
    }

    #[test]
    fn what_is_not_a_payload() {
        let good = Payload::encode(&master(0), &header());
        let upper = good.to_ascii_uppercase();
        let before = [b" ", &good[..]].concat();
        let longer = [&good[..], b"0"].concat();
        let not_hex = [&good[..103], b"g"].concat();
        for text in [
            &b""[..],
            b"pgsealk1",
            &good[..103],
            &upper,
            &before,
            &longer,
            &not_hex,
        ] {
            assert_eq!(refusal(text, &header()), PayloadError::NotAKey);
        }
    }

    #[test]
    fn another_clusters_key_is_named() {
        let other = Header {
            key_id: master(1).key_id(),
            ..header()
        };
        let expected = PayloadError::OtherKey {
            found: master(1).key_id(),
            expected: master(0).key_id(),
        };
        assert_eq!(
            refusal(&Payload::encode(&master(1), &other), &header()),
            expected
        );
    }

    #[test]
    fn an_altered_header_is_told_apart() {
        let text = Payload::encode(&master(0), &header());
        for altered in [
            Header {
                length: KeyLength::Bits128,
                ..header()
            },
            Header {
                cluster: ClusterId([8; 16]),
                ..header()
            },
            Header {
                created: 1,
                ..header()
            },
        ] {
            assert_eq!(refusal(&text, &altered), PayloadError::HeaderAltered);
        }
    }
}
