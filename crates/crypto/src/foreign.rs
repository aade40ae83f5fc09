//! Checks signatures that others made with their own keys, as evidence of hardware needs.
//!
//! Nothing here signs. A public key has the form of a certificate's subjectPublicKey: a point of a
//! curve, or RSA's modulus and exponent. Bytes that are no key verify nothing.

use aws_lc_rs::digest::{digest, SHA384};
use aws_lc_rs::signature::{
    UnparsedPublicKey, VerificationAlgorithm, ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1,
    ECDSA_P384_SHA384_FIXED, RSA_PSS_2048_8192_SHA384,
};

use crate::NotAuthentic;

/// A signature scheme that others use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// ECDSA over P-256 with SHA-256, the signature in DER: Intel
    P256,
    /// ECDSA over P-384 with SHA-384, the signature in DER: certificates of AWS
    P384,
    /// ECDSA over P-384 with SHA-384, the signature as r and s of 48 bytes each: reports
    P384Fixed,
    /// RSASSA-PSS with SHA-384, MGF1 with SHA-384 and 48 bytes of salt: certificates of AMD
    RsaPss,
}

impl Scheme {
    /// Whether `signature` is the key's, of this message.
    pub fn verify(self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), NotAuthentic> {
        UnparsedPublicKey::new(self.algorithm(), key)
            .verify(message, signature)
            .map_err(|_| NotAuthentic)
    }

    fn algorithm(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::P256 => &ECDSA_P256_SHA256_ASN1,
            Self::P384 => &ECDSA_P384_SHA384_ASN1,
            Self::P384Fixed => &ECDSA_P384_SHA384_FIXED,
            Self::RsaPss => &RSA_PSS_2048_8192_SHA384,
        }
    }
}

/// SHA-384 of the bytes.
pub fn sha384(bytes: &[u8]) -> [u8; 48] {
    let mut out = [0; 48];
    out.copy_from_slice(digest(&SHA384, bytes).as_ref());
    out
}
