//! Evidence: what an evaluator can show of the machine that it runs on, before it is given a key.
//!
//! Evidence binds 64 bytes of the handshake (`report_data`: the key for the exchange, the policy,
//! both nonces, the expiry) to a place. A back end is one kind of place. The client verifies, and
//! decides whom it trusts; here is only the side that produces.

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

    /// What the evidence begins with; the 64 bytes that were to be bound follow.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_says_what_it_is() {
        let evidence = Software.produce(&[5; 64]).expect("it always answers");
        let (text, bound) = evidence.split_at(Software::STATEMENT.len());
        assert!(String::from_utf8_lossy(text).contains("proves nothing about hardware"));
        assert_eq!((bound, Software.back_end()), (&[5u8; 64][..], 0));
    }
}
