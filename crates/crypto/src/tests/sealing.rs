//! `vectors/primitives.json`: the algorithms of encrypted columns, against published vectors.

use proptest::prelude::*;
use serde::Deserialize;
use zeroize::Zeroize;

use super::vectors;
use crate::aead::{open_four, Aead, LegacyAead, NotAuthentic, Sealed, LANES, NONCE, TAG};
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

/// Opens four messages side by side: the results, and what was written.
fn opened_by_four(
    keys: [&Aead; LANES],
    cases: [&Given; LANES],
) -> [(Result<(), NotAuthentic>, Vec<u8>); LANES] {
    let mut outs = cases.map(|case| vec![9; case.text.len()]);
    let mut rooms = outs.iter_mut();
    let mut messages = cases.map(|case| Sealed {
        nonce: &case.nonce,
        ad: &case.ad,
        text: &case.text,
        tag: &case.tag,
        out: rooms.next().unwrap(),
    });
    let mut results = open_four(keys, &mut messages).into_iter();
    outs.map(|out| (results.next().unwrap(), out))
}

/// A sealed message, and its text.
#[derive(Clone, Debug)]
struct Given {
    nonce: [u8; NONCE],
    ad: Vec<u8>,
    text: Vec<u8>,
    tag: [u8; TAG],
    plain: Vec<u8>,
}

#[test]
fn rfc_8452_by_four() {
    let cases = all().siv;
    let keys: Vec<Aead> = cases
        .iter()
        .map(|case| Aead::new(&secret(&case.key)))
        .collect();
    let given = cases.iter().map(|case| Given {
        nonce: array(&case.nonce),
        ad: bytes(&case.ad),
        text: bytes(&case.sealed),
        tag: array(&case.tag),
        plain: bytes(&case.plain),
    });
    let given: Vec<Given> = given.collect();
    // Each case in each lane, beside other ones.
    for at in 0..given.len() {
        let four = [0, 1, 2, 3].map(|lane| (at + 7 * lane) % given.len());
        let opened = opened_by_four(four.map(|at| &keys[at]), four.map(|at| &given[at]));
        for (at, (result, out)) in four.into_iter().zip(opened) {
            assert_eq!(result, Ok(()), "{}", cases[at].name);
            assert_eq!(out, given[at].plain, "{}", cases[at].name);
        }
    }
}

proptest! {
    /// AWS-LC seals, and what was altered in one lane is refused in that lane alone.
    #[test]
    fn four_messages_are_opened_as_one_by_one(
        key in any::<[[u8; 32]; LANES]>(),
        nonces in any::<[[u8; NONCE]; LANES]>(),
        texts in any::<[[u8; 70]; LANES]>(),
        lengths in [0_usize..=70, 0..=70, 0..=20, 0..=20],
        ads in [0_usize..=40, 0..=40, 0..=40, 20..=20],
        same_key in any::<bool>(),
        altered in proptest::option::of(
            (0_usize..LANES, 0_usize..3, any::<proptest::sample::Index>(), 0_u32..8)
        ),
    ) {
        let mut key = key;
        let keys = [0, 1, 2, 3].map(|lane| {
            let mut key = key[if same_key { 0 } else { lane }];
            Aead::new(&Secret::from_bytes(&mut key))
        });
        key.zeroize();
        let mut given = [0, 1, 2, 3].map(|lane| {
            let plain = texts[lane][..lengths[lane]].to_vec();
            let (mut text, ad) = (plain.clone(), texts[(lane + 1) % LANES][..ads[lane]].to_vec());
            let tag = keys[lane].seal(&nonces[lane], &ad, &mut text);
            Given { nonce: nonces[lane], ad, text, tag, plain }
        });
        let mut refused = None;
        if let Some((lane, part, at, bit)) = altered {
            let Given { nonce, text, tag, .. } = &mut given[lane];
            let bytes = match part {
                0 if !text.is_empty() => &mut text[..],
                1 => &mut nonce[..],
                _ => &mut tag[..],
            };
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            refused = Some(lane);
        }
        let opened = opened_by_four(keys.each_ref(), given.each_ref());
        for (lane, (result, out)) in opened.into_iter().enumerate() {
            match refused == Some(lane) {
                true => {
                    prop_assert_eq!(result, Err(NotAuthentic));
                    prop_assert!(out.iter().all(|byte| *byte == 0));
                }
                false => {
                    prop_assert_eq!(result, Ok(()));
                    prop_assert_eq!(out, given[lane].plain.clone());
                }
            }
        }
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
