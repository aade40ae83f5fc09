//! Sends secrets to the holder of a known public key, by HPKE (RFC 9180) in base mode, with
//! DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-256-GCM.

use crate::awslc::{HpkeContext, HpkeKey};
use crate::{NotAuthentic, Secret};

/// The receiver's key pair; a new one is made for each exchange.
pub struct ExchangeKey(HpkeKey);

impl ExchangeKey {
    /// A new key.
    pub fn generate() -> Self {
        Self(HpkeKey::generate())
    }

    /// The key of these bytes: RFC 9180's skR.
    pub fn from_secret(secret: &Secret) -> Self {
        Self(HpkeKey::from_bytes(secret.expose()))
    }

    /// Returns the public key, which the sender needs.
    pub fn public(&self) -> [u8; 32] {
        self.0.public()
    }

    /// The exchange that a sender began with `encapsulated` and the same `info`.
    pub fn receive(&self, encapsulated: &[u8; 32], info: &[u8]) -> Result<Receiver, NotAuthentic> {
        HpkeContext::recipient(&self.0, encapsulated, info)
            .map(Receiver)
            .ok_or(NotAuthentic)
    }
}

/// The sender's end of an exchange.
pub struct Sender(HpkeContext);

impl Sender {
    /// Begins an exchange; the receiver needs the 32 bytes. Refused if `public` is no key.
    pub fn begin(public: &[u8; 32], info: &[u8]) -> Result<([u8; 32], Self), NotAuthentic> {
        HpkeContext::sender(public, info)
            .map(|(encapsulated, context)| (encapsulated, Self(context)))
            .ok_or(NotAuthentic)
    }

    /// Seals the next message.
    pub fn seal(&mut self, ad: &[u8], plain: &[u8]) -> Vec<u8> {
        self.0.seal(ad, plain)
    }

    /// A secret that only the two ends know.
    pub fn export(&self, context: &[u8]) -> Secret {
        self.0.export(context)
    }
}

/// The receiver's end of an exchange.
pub struct Receiver(HpkeContext);

impl Receiver {
    /// Opens the next message.
    pub fn open(
        &mut self,
        ad: &[u8],
        sealed: &[u8],
    ) -> Result<zeroize::Zeroizing<Vec<u8>>, NotAuthentic> {
        self.0.open(ad, sealed).ok_or(NotAuthentic)
    }

    /// A secret that only the two ends know.
    pub fn export(&self, context: &[u8]) -> Secret {
        self.0.export(context)
    }
}
