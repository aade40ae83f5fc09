//! `vectors/primitives.json`: signatures and digests that others made.

use serde::Deserialize;

use super::{hex, vectors, Hex};
use crate::foreign::{sha384, Scheme};
use crate::NotAuthentic;

#[derive(Deserialize)]
struct Vectors {
    digests: Vec<Digest>,
    foreign: Vec<Signature>,
}

#[derive(Deserialize)]
struct Digest {
    name: String,
    data: Hex,
    sha384: Hex,
}

#[derive(Deserialize)]
struct Signature {
    name: String,
    scheme: String,
    key: Hex,
    message: Hex,
    signature: Hex,
}

impl Signature {
    fn scheme(&self) -> Scheme {
        match self.scheme.as_str() {
            "P256" => Scheme::P256,
            "P384" => Scheme::P384,
            "P384Fixed" => Scheme::P384Fixed,
            "RsaPss" => Scheme::RsaPss,
            other => panic!("scheme {other}"),
        }
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), NotAuthentic> {
        self.scheme().verify(&self.key.0, message, signature)
    }
}

fn all() -> Vectors {
    vectors!("primitives.json")
}

fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut flipped = bytes.to_vec();
    flipped[bit / 8] ^= 1 << (bit % 8);
    flipped
}

#[test]
fn digests_of_nist() {
    let cases = all().digests;
    assert_eq!(cases.len(), 2);
    for case in cases {
        let digest = sha384(&case.data.0);
        assert_eq!(hex(&digest), hex(&case.sha384.0), "{}", case.name);
    }
}

#[test]
fn published_signatures_of_every_scheme() {
    let cases = all().foreign;
    assert_eq!(cases.len(), 4);
    for case in cases {
        let (message, signature) = (&case.message.0, &case.signature.0);
        assert_eq!(case.verify(message, signature), Ok(()), "{}", case.name);
    }
}

#[test]
fn a_signature_is_refused_unless_every_bit_is_its_keys() {
    for case in all().foreign {
        let (message, signature) = (&case.message.0, &case.signature.0);
        for bit in (0..8 * signature.len()).step_by(7) {
            let refused = case.verify(message, &flipped(signature, bit));
            assert_eq!(refused, Err(NotAuthentic), "{}, bit {bit}", case.name);
        }
        let refused = case.verify(&flipped(message, 0), signature);
        assert_eq!(refused, Err(NotAuthentic), "{}", case.name);
        let refused = case.verify(message, &[]);
        assert_eq!(refused, Err(NotAuthentic), "{}", case.name);
        let refused = case.scheme().verify(&[], message, signature);
        assert_eq!(refused, Err(NotAuthentic), "{}", case.name);
    }
}

#[test]
fn a_scheme_verifies_no_signature_of_another() {
    let schemes = [
        Scheme::P256,
        Scheme::P384,
        Scheme::P384Fixed,
        Scheme::RsaPss,
    ];
    for case in all().foreign {
        for other in schemes.iter().filter(|other| **other != case.scheme()) {
            let refused = other.verify(&case.key.0, &case.message.0, &case.signature.0);
            assert_eq!(refused, Err(NotAuthentic), "{} by {other:?}", case.name);
        }
    }
}
