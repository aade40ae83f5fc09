//! `vectors/primitives.json`: the algorithms of encrypted columns, against published vectors.

use serde::Deserialize;

use super::vectors;
use crate::aead::{Aead, LegacyAead, NotAuthentic};
use crate::awslc::HmacKey;
use crate::exchange::{ExchangeKey, Sender};
use crate::sign::{PublicKey, SigningKey};
use crate::{awslc, sha256, sha512, Mac, Nonces, Prf, Secret};

#[derive(Deserialize)]
struct Vectors {
    siv: Vec<AeadCase>,
    gcm: Vec<AeadCase>,
    signatures: Vec<SignatureCase>,
    exchange: Vec<ExchangeCase>,
    prf: Vec<PrfCase>,
    expand: Vec<ExpandCase>,
}

#[derive(Deserialize)]
struct AeadCase {
    name: String,
    key: String,
    nonce: String,
    #[serde(default)]
    ad: String,
    plain: String,
    sealed: String,
    tag: String,
}

#[derive(Deserialize)]
struct SignatureCase {
    name: String,
    seed: String,
    public: String,
    message: String,
    signature: String,
}

#[derive(Deserialize)]
struct ExchangeCase {
    name: String,
    aead: u8,
    private: String,
    public: String,
    info: String,
    encapsulated: String,
    messages: Vec<ExchangeMessage>,
    context: String,
    exported: String,
}

#[derive(Deserialize)]
struct ExchangeMessage {
    ad: String,
    plain: String,
    sealed: String,
}

#[derive(Deserialize)]
struct PrfCase {
    name: String,
    key: String,
    data: String,
    hash: String,
}

#[derive(Deserialize)]
struct ExpandCase {
    key: String,
    info: String,
    out: String,
}

fn all() -> Vectors {
    vectors!("primitives.json")
}

fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn array<const N: usize>(digits: &str) -> [u8; N] {
    bytes(digits).try_into().unwrap()
}

fn secret(digits: &str) -> Secret {
    Secret::from_bytes(&mut array(digits))
}

#[test]
fn rfc_8452() {
    let cases = all().siv;
    assert_eq!(cases.len(), 26);
    for case in cases {
        let aead = Aead::new(&secret(&case.key));
        let (nonce, ad, tag) = (array(&case.nonce), bytes(&case.ad), array(&case.tag));
        let mut text = bytes(&case.plain);
        assert_eq!(aead.seal(&nonce, &ad, &mut text), tag, "{}", case.name);
        assert_eq!(text, bytes(&case.sealed), "{}", case.name);
        let mut out = vec![9; text.len()];
        assert_eq!(aead.open(&nonce, &ad, &text, &tag, &mut out), Ok(()));
        assert_eq!(out, bytes(&case.plain), "{}", case.name);
        let mut other = tag;
        other[15] ^= 1;
        let refused = aead.open(&nonce, &ad, &text, &other, &mut out);
        assert_eq!(refused, Err(NotAuthentic), "{}", case.name);
        assert!(out.iter().all(|byte| *byte == 0), "{}", case.name);
        let refused = aead.open(&nonce, b"other", &text, &tag, &mut out);
        assert_eq!(refused, Err(NotAuthentic), "{}", case.name);
    }
}

#[test]
fn nist_gcm() {
    for case in all().gcm {
        let aead = LegacyAead::new(&array(&case.key));
        let (nonce, sealed, tag) = (array(&case.nonce), bytes(&case.sealed), array(&case.tag));
        let mut out = vec![9; sealed.len()];
        assert_eq!(aead.open(&nonce, &[], &sealed, &tag, &mut out), Ok(()));
        assert_eq!(out, bytes(&case.plain), "{}", case.name);
        let refused = aead.open(&nonce, b"x", &sealed, &tag, &mut out);
        assert_eq!(refused, Err(NotAuthentic), "{}", case.name);
        assert!(out.iter().all(|byte| *byte == 0), "{}", case.name);
    }
}

#[test]
fn rfc_8032() {
    for case in all().signatures {
        let key = SigningKey::from_seed(&secret(&case.seed));
        let (message, mut signature) = (bytes(&case.message), array(&case.signature));
        assert_eq!(
            key.public(),
            PublicKey(array(&case.public)),
            "{}",
            case.name
        );
        assert_eq!(key.sign(&message), signature, "{}", case.name);
        assert!(key.public().verify(&message, &signature));
        assert!(!key.public().verify(b"another", &signature));
        signature[63] ^= 0x20;
        assert!(!key.public().verify(&message, &signature));
    }
}

#[test]
fn a_key_that_is_no_point_signed_nothing() {
    assert!(!PublicKey([0xff; 32]).verify(b"", &[0; 64]));
    let no_point = array(&format!("02{}", "00".repeat(31)));
    assert!(!PublicKey(no_point).verify(b"", &[0; 64]));
}

#[test]
fn exchanges_open_what_others_sealed() {
    let cases = all().exchange;
    let ours: Vec<_> = cases.iter().filter(|case| case.aead == 2).collect();
    assert_eq!(ours.len(), 2);
    for case in ours {
        let key = ExchangeKey::from_secret(&secret(&case.private));
        assert_eq!(key.public(), array(&case.public), "{}", case.name);
        let encapsulated = array(&case.encapsulated);
        let mut receiver = key.receive(&encapsulated, &bytes(&case.info)).unwrap();
        for message in &case.messages {
            let opened = receiver.open(&bytes(&message.ad), &bytes(&message.sealed));
            assert_eq!(**opened.as_ref().unwrap(), bytes(&message.plain));
        }
        let exported = receiver.export(&bytes(&case.context));
        assert_eq!(exported.expose(), &array(&case.exported), "{}", case.name);
    }
}

#[test]
fn an_exchange_has_two_ends() {
    let key = ExchangeKey::generate();
    let (encapsulated, mut sender) = Sender::begin(&key.public(), b"info").unwrap();
    let mut receiver = key.receive(&encapsulated, b"info").unwrap();
    let sealed = sender.seal(b"ad", b"text");
    assert_eq!(sealed.len(), 20);
    assert_eq!(receiver.open(b"ad", &sealed).unwrap().as_slice(), b"text");
    assert_eq!(sender.export(b"a").expose(), receiver.export(b"a").expose());
    assert_ne!(sender.export(b"a").expose(), receiver.export(b"b").expose());
    // A message counts: it is not opened a second time.
    assert_eq!(receiver.open(b"ad", &sealed).err(), Some(NotAuthentic));
    let mut other = key.receive(&encapsulated, b"other").unwrap();
    assert_eq!(other.open(b"ad", &sealed).err(), Some(NotAuthentic));
    assert_eq!(other.open(b"ad", b"short").err(), Some(NotAuthentic));
}

#[test]
fn what_is_no_key_is_refused() {
    assert!(Sender::begin(&[0; 32], b"").is_err());
    assert!(ExchangeKey::generate().receive(&[0; 32], b"").is_err());
}

#[test]
fn siphash() {
    let cases = all().prf;
    assert!(!cases.is_empty());
    for case in cases {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&bytes(&case.key));
        let prf = Prf::new(Secret::from_bytes(&mut key));
        let data = bytes(&case.data);
        let hash = u64::from_str_radix(&case.hash, 16).unwrap();
        assert_eq!(prf.of(&[&data]), hash, "{}", case.name);
        let (head, tail) = data.split_at(data.len() / 2);
        assert_eq!(prf.of(&[head, tail]), hash, "in parts: {}", case.name);
    }
}

/// A value that may be shown is HKDF-Expand of any length; a derived secret is its first 32 bytes.
#[test]
fn rfc_5869() {
    let cases = all().expand;
    assert_eq!(cases.len(), 1);
    for case in cases {
        let (secret, info) = (secret(&case.key), bytes(&case.info));
        let out: [u8; 42] = array(&case.out);
        assert_eq!(secret.derive_public(&info), out);
        assert_eq!(secret.derive(&info).expose(), &out[..32]);
    }
}

#[test]
fn macs_in_parts_are_macs_of_the_whole() {
    let secret = Secret::from_bytes(&mut [7; 32]);
    let whole = awslc::hmac(secret.expose(), b"one and two");
    assert_eq!(
        Mac::new(&secret).tag(&[b"one", b" and ", b"", b"two"]),
        whole
    );
    let key = HmacKey::new(secret.expose());
    assert_eq!(key.tag(&[b"one and two"]), whole);
    assert_eq!(key.tag(&[b"one and two"]), whole, "a key is used again");
}

#[test]
fn digests_of_nothing() {
    assert_eq!(sha256(&[])[..4], [0xe3, 0xb0, 0xc4, 0x42]);
    assert_eq!(sha512(&[b"", b""])[..4], [0xcf, 0x83, 0xe1, 0x35]);
}

#[test]
fn nonces_differ_across_their_pool() {
    let mut nonces = Nonces::new();
    let taken: Vec<_> = (0..600).map(|_| nonces.take().unwrap()).collect();
    let mut distinct = taken.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 600);
    assert!(!taken.contains(&[0; 12]));
}
