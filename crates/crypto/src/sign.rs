//! Signatures of owners and clients: Ed25519 (RFC 8032).
//!
//! A caller signs only its own label followed by what it means, so that no signature can be shown
//! for something else.

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair, UnparsedPublicKey, ED25519};

use crate::Secret;

/// Bytes of a signature.
pub const SIGNATURE: usize = 64;

/// The private key of an owner or of a client.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// The key of a seed: RFC 8032's private key.
    pub fn from_seed(seed: &Secret) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(seed.expose()).expect("a seed of 32 bytes"))
    }

    /// Returns the public key that verifies its signatures.
    pub fn public(&self) -> PublicKey {
        let mut public = [0; 32];
        public.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(public)
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE] {
        let mut signature = [0; SIGNATURE];
        signature.copy_from_slice(self.0.sign(message).as_ref());
        signature
    }
}

/// The public key of a signer: an owner or a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Whether `signature` is this key's, of this message. Bytes that are no point never signed.
    pub fn verify(&self, message: &[u8], signature: &[u8; SIGNATURE]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0)
            .verify(message, signature)
            .is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}
