//! Evidence: what an evaluator can show of the machine that it runs on, before it is given a key.
//!
//! Evidence binds 64 bytes of the handshake (`report_data`: the key for the exchange, the policy,
//! both nonces, the expiry) to a place. A back end is one kind of place. The client verifies, and
//! decides whom it trusts; here is only the side that produces.

use pgseal_crypto::sign::SigningKey;

/// A kind of place that can produce evidence.
pub trait Evidence: Send + Sync {
    /// The number of the kind, as docs/format/message.md lists them.
    fn back_end(&self) -> u8;

    /// Evidence for this handshake.
    fn produce(&self, report_data: &[u8; 64]) -> Result<Vec<u8>, EvidenceError>;
}

/// The place gave no evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the machine gives no evidence of itself: {0}")]
pub struct EvidenceError(pub String);

/// An ordinary process on an ordinary machine: there is nothing to prove, and its evidence says so.
pub struct Software;

impl Software {
    /// The number of this kind.
    pub const BACK_END: u8 = 0;

    /// The text that the evidence begins with; the 64 bytes that were to be bound follow.
    pub const STATEMENT: &'static str = "pgseal software evaluator: an ordinary process. \
        This proves nothing about hardware: whoever controls the machine can read its memory.\n";
}

impl Evidence for Software {
    fn back_end(&self) -> u8 {
        Self::BACK_END
    }

    fn produce(&self, report_data: &[u8; 64]) -> Result<Vec<u8>, EvidenceError> {
        Ok([Self::STATEMENT.as_bytes(), report_data].concat())
    }
}

/// An ordinary process with a key of its own, by which a client distinguishes it from an impostor.
pub struct SignedSoftware(SigningKey);

impl SignedSoftware {
    /// The text that the evidence begins with; the 64 bytes, the public key and the signature of
    /// all follow.
    pub const STATEMENT: &'static str =
        "pgseal software evaluator: an ordinary process, known by its key. \
        This proves nothing about hardware: whoever controls the machine can read its memory.\n";

    /// The key is for nothing else.
    pub fn new(key: SigningKey) -> Self {
        Self(key)
    }
}

impl Evidence for SignedSoftware {
    fn back_end(&self) -> u8 {
        Software::BACK_END
    }

    fn produce(&self, report_data: &[u8; 64]) -> Result<Vec<u8>, EvidenceError> {
        let public = self.0.public();
        let message = [Self::STATEMENT.as_bytes(), report_data, &public.0].concat();
        let signature = self.0.sign(&message);
        Ok([&message[..], &signature].concat())
    }
}

#[cfg(test)]
mod tests {
    use pgseal_crypto::Secret;

    use super::*;

    #[test]
    fn software_says_what_it_is() {
        let evidence = Software.produce(&[5; 64]).expect("it always answers");
        let (text, bound) = evidence.split_at(Software::STATEMENT.len());
        assert!(String::from_utf8_lossy(text).contains("proves nothing about hardware"));
        assert_eq!((bound, Software.back_end()), (&[5u8; 64][..], 0));
    }

    #[test]
    fn a_key_signs_all_before_its_signature() {
        let key = || SigningKey::from_seed(&Secret::from_bytes(&mut [7; 32]));
        let signer = SignedSoftware::new(key());
        let evidence = signer.produce(&[5; 64]).expect("it always answers");
        let (message, signature) = evidence.split_last_chunk().expect("a signature");
        assert!(key().public().verify(message, signature));
        assert!(message.ends_with(&key().public().0));
        assert!(!Software
            .produce(&[5; 64])
            .expect("too")
            .starts_with(&message[..80]));
    }
}
