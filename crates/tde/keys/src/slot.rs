//! Opening and making slots.
//!
//! Invariant: a master key leaves this file only after it was compared with the header.

use pgseal_crypto::passphrase::{self, DeriveError, WrongKey};
use pgseal_crypto::pbkdf2::{self, TooShort};
use pgseal_crypto::{random_bytes, MasterKey, RandomError};
use pgseal_format::{Cost, Header, Kdf, Payload, PayloadError, SecretSource, SlotKind};
use zeroize::Zeroizing;

/// Why a hardened secret does not open or make a slot.
#[derive(Debug, thiserror::Error)]
pub enum DerivedError {
    /// It is not the secret of this slot.
    #[error(transparent)]
    Wrong(#[from] WrongKey),
    /// It could not be hardened.
    #[error(transparent)]
    Derive(#[from] DeriveError),
    /// It is too short for a new slot.
    #[error(transparent)]
    Short(#[from] TooShort),
    /// It opened something that is not this cluster's key.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// No salt for a new slot.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// The output of a key command is not an AES key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key command must print a key of 128, 192 or 256 bits as 32, 48 or 64 hexadecimal digits and nothing else")]
pub struct NotAnAesKey;

/// Returns the master key in a payload that is in clear: in a plain slot, in a file, or on the
/// standard output of an unwrap command.
pub fn open_text(text: &[u8], header: &Header) -> Result<MasterKey, PayloadError> {
    Payload::decode(text)?.verify(header)
}

/// Returns the master key under a passphrase or a printed key.
pub fn open_derived(
    header: &Header,
    source: &SecretSource,
    kdf: &Kdf,
    wrapped: &[u8],
    secret: &[u8],
) -> Result<MasterKey, DerivedError> {
    let aad = kdf.aad(header, source);
    let text = match kdf.cost {
        Cost::Argon2id(params) => {
            passphrase::derive(secret, &kdf.salt, params)?.open(wrapped, &aad)?
        }
        Cost::Pbkdf2(params) => {
            // No slot was made with a secret that is too short.
            let kek = pbkdf2::derive(secret, &kdf.salt, params).map_err(|TooShort| WrongKey)?;
            kek.open(wrapped, &aad)?
        }
    };
    Ok(open_text(&text, header)?)
}

/// Makes a new slot that `secret` opens.
pub fn seal_derived(
    header: &Header,
    master: &MasterKey,
    source: SecretSource,
    cost: Cost,
    secret: &[u8],
) -> Result<SlotKind, DerivedError> {
    let salt = random_bytes()?;
    let kdf = Kdf { salt, cost };
    let (payload, aad) = (Payload::encode(master, header), kdf.aad(header, &source));
    let wrapped = match cost {
        Cost::Argon2id(params) => passphrase::derive(secret, &salt, params)?.wrap(&payload, &aad),
        Cost::Pbkdf2(params) => pbkdf2::derive(secret, &salt, params)?.wrap(&payload, &aad),
    };
    Ok(SlotKind::Derived {
        source,
        kdf,
        wrapped,
    })
}

/// Returns the secret that a key command printed: the bytes of an AES key, whatever case its
/// digits have.
pub fn command_key(printed: &[u8]) -> Result<Zeroizing<Vec<u8>>, NotAnAesKey> {
    let digits = printed.trim_ascii();
    if !matches!(digits.len(), 32 | 48 | 64) {
        return Err(NotAnAesKey);
    }
    let mut key = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    for pair in digits.chunks_exact(2) {
        key.push(digit(pair[0])? << 4 | digit(pair[1])?);
    }
    Ok(key)
}

fn digit(character: u8) -> Result<u8, NotAnAesKey> {
    let value = char::from(character).to_digit(16).ok_or(NotAnAesKey)?;
    u8::try_from(value).map_err(|_| NotAnAesKey)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgseal_crypto::passphrase::Argon2Params;
    use pgseal_crypto::pbkdf2::Pbkdf2Params;
    use pgseal_crypto::{KeyLength, Suite};
    use pgseal_format::ClusterId;

    fn master() -> MasterKey {
        MasterKey::from_bytes(&mut [9; 32])
    }

    fn header() -> Header {
        Header {
            suite: Suite::AesXts,
            length: KeyLength::Bits256,
            cluster: ClusterId([7; 16]),
            key_id: master().key_id(),
            created: 1,
        }
    }

    /// Opens a slot of type 3 or 4.
    fn opened(kind: SlotKind, header: &Header, secret: &[u8]) -> Result<MasterKey, DerivedError> {
        let SlotKind::Derived {
            source,
            kdf,
            wrapped,
        } = kind
        else {
            panic!("seal_derived makes derived slots");
        };
        open_derived(header, &source, &kdf, &wrapped, secret)
    }

    const RIGHT: &[u8] = b"the right secret";
    const WRONG: &[u8] = b"the wrong secret";

    /// Slots under both functions.
    fn sealed() -> [SlotKind; 2] {
        let cheap = Pbkdf2Params::for_reading(1000).expect("within the limits");
        [Cost::Argon2id(Argon2Params::FLOOR), Cost::Pbkdf2(cheap)].map(|cost| {
            let source = SecretSource::Passphrase;
            seal_derived(&header(), &master(), source, cost, RIGHT).expect("a slot")
        })
    }

    #[test]
    fn the_secret_opens_its_slot() {
        for slot in sealed() {
            let key = opened(slot, &header(), RIGHT).expect("the secret is right");
            assert_eq!(key.expose(), master().expose());
        }
    }

    #[test]
    fn another_secret_does_not() {
        for slot in sealed() {
            let refusal = opened(slot, &header(), WRONG).err();
            assert!(matches!(refusal, Some(DerivedError::Wrong(WrongKey))));
        }
    }

    #[test]
    fn another_header_does_not() {
        let other = Header {
            created: 2,
            ..header()
        };
        for slot in sealed() {
            let refusal = opened(slot, &other, RIGHT).err();
            assert!(matches!(refusal, Some(DerivedError::Wrong(WrongKey))));
        }
    }

    #[test]
    fn a_slot_cannot_change_its_source() {
        for slot in sealed() {
            let SlotKind::Derived { kdf, wrapped, .. } = slot else {
                panic!("seal_derived makes derived slots");
            };
            let source = SecretSource::Command("echo x".into());
            let refusal = open_derived(&header(), &source, &kdf, &wrapped, RIGHT).err();
            assert!(matches!(refusal, Some(DerivedError::Wrong(WrongKey))));
        }
    }

    #[test]
    fn pbkdf2_takes_no_short_secret() {
        let cost = Cost::Pbkdf2(Pbkdf2Params::LEAST);
        let made = |secret| {
            seal_derived(&header(), &master(), SecretSource::Passphrase, cost, secret).err()
        };
        assert!(made(b"fourteen bytes").is_none());
        assert!(matches!(
            made(b"thirteen byte"),
            Some(DerivedError::Short(TooShort))
        ));
    }

    #[test]
    fn printed_keys() {
        assert_eq!(
            **command_key(b"00fF".repeat(8).as_slice())
                .as_ref()
                .expect("16 bytes"),
            [0, 255].repeat(8)
        );
        assert_eq!(
            command_key(&[&b"a1".repeat(32)[..], b"\n"].concat())
                .expect("32 bytes")
                .len(),
            32
        );
        assert_eq!(command_key(&b"a1".repeat(24)).expect("24 bytes").len(), 24);
        for bad in [
            &b""[..],
            &b"a".repeat(31),
            &b"a".repeat(33),
            &b"g".repeat(32),
            &b"a".repeat(80),
        ] {
            assert_eq!(command_key(bad).err(), Some(NotAnAesKey));
        }
    }
}
