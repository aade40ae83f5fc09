//! The trust that a client puts in evaluators: which kinds of machine, running what, under which
//! rules.
//!
//! `pgseal-attestation` judges evidence. This module has what its user has decided, and what the
//! makers of the hardware publish beside the evidence. Nothing is accepted until the user says so.

use pgseal_attestation::{BackEnd, Collateral, Judge, PolicyError, Refusal};
use pgseal_crypto::sign::PublicKey;
use pgseal_evaluator_proto::message::{Claims, VerifyEvidence};

/// Why evidence is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceError {
    /// The evidence is refused, or what it is of.
    #[error("the evaluator's evidence is not accepted: {0}")]
    Refused(#[from] Refusal),
    /// The evaluator would follow other rules.
    #[error("the evaluator follows rules that are not accepted here: their hash is {0}")]
    Rules(String),
}

/// The evidence and rules that a client accepts.
pub struct Policy {
    evidence: pgseal_attestation::Policy,
    amd: Vec<u8>,
    intel: Option<String>,
    rules: Vec<[u8; 32]>,
}

impl Policy {
    /// Reads a policy's text (`docs/format/evidence.md`).
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        Ok(Self {
            evidence: pgseal_attestation::Policy::parse(text)?,
            amd: Vec::new(),
            intel: None,
            rules: Vec::new(),
        })
    }

    /// Accepts ordinary processes only: for anyone who trusts the machine that they run on.
    pub fn software() -> Self {
        Self::parse("[software]\nallowed = true\n").expect("it is a policy")
    }

    /// Accepts the ordinary processes with these keys only.
    pub fn software_of(keys: &[PublicKey]) -> Self {
        let keys: Vec<String> = keys.iter().map(|key| format!("\"{key}\"")).collect();
        let keys = keys.join(", ");
        let text = format!("[software]\nallowed = true\nkeys = [{keys}]\n");
        Self::parse(&text).expect("it is a policy")
    }

    /// Sets the certificates of AMD's chips, in DER, one after the other.
    #[must_use]
    pub fn amd(mut self, certificates: Vec<u8>) -> Self {
        self.amd = certificates;
        self
    }

    /// Sets the collateral that Intel publishes, as JSON.
    #[must_use]
    pub fn intel(mut self, collateral: String) -> Self {
        self.intel = Some(collateral);
        self
    }

    /// Accepts evaluators with these rules only (the policy hash of their offer); repeatable.
    #[must_use]
    pub fn rules(mut self, hash: [u8; 32]) -> Self {
        self.rules.push(hash);
        self
    }

    /// Returns the decision of this policy at this time, in seconds since 1970.
    pub fn at(&self, now: u64) -> impl VerifyEvidence<Error = EvidenceError> + '_ {
        Decision { policy: self, now }
    }
}

struct Decision<'a> {
    policy: &'a Policy,
    now: u64,
}

impl VerifyEvidence for Decision<'_> {
    type Error = EvidenceError;

    fn verify(&self, claims: &Claims<'_>) -> Result<(), EvidenceError> {
        let policy = self.policy;
        let rules = claims.terms.policy;
        if !policy.rules.is_empty() && !policy.rules.contains(&rules) {
            return Err(EvidenceError::Rules(crate::to_hex(&rules)));
        }
        let judge = Judge {
            policy: &policy.evidence,
            collateral: Collateral {
                amd: &policy.amd,
                intel: policy.intel.as_deref(),
            },
            now: self.now,
        };
        Ok(judge.verify(claims)?)
    }
}

/// Returns the key whose signature evidence of software bears. It is only shown; the policy
/// decides.
pub fn evidence_key(evidence: &[u8]) -> Option<PublicKey> {
    pgseal_attestation::Software::claimed_key(evidence)
}

/// Returns the name of a back end: `software`, `sev-snp`, `tdx`, `nitro`.
pub fn back_end_name(back_end: u8) -> String {
    BackEnd::try_from(back_end).map_or_else(|_| "unknown".to_owned(), |known| known.to_string())
}

#[cfg(test)]
mod tests {
    use pgseal_evaluator::evidence::{Evidence, Software};
    use pgseal_evaluator_proto::message::OfferTerms;

    use super::*;

    fn asked(policy: &Policy, backend: u8, bound: [u8; 64]) -> Result<(), EvidenceError> {
        let terms = OfferTerms {
            backend,
            policy: [9; 32],
            expires: 0,
        };
        let evidence = Software.produce(&bound).unwrap_or_default();
        policy.at(1_000_000_000).verify(&Claims {
            terms,
            report_data: [5; 64],
            evidence: &evidence,
        })
    }

    #[test]
    fn software_is_accepted_only_where_it_was_said() {
        assert_eq!(asked(&Policy::software(), 0, [5; 64]), Ok(()));
        let nothing = Policy::parse("").expect("it is a policy");
        let refused = Refusal::NotAllowed(BackEnd::Software);
        assert_eq!(asked(&nothing, 0, [5; 64]), Err(refused.into()));
        let refused = Refusal::NotAllowed(BackEnd::SevSnp);
        assert_eq!(asked(&Policy::software(), 1, [5; 64]), Err(refused.into()));
        let foreign = asked(&Policy::software(), 0, [6; 64]);
        assert_eq!(foreign, Err(Refusal::ReportData.into()));
    }

    #[test]
    fn other_rules_are_refused() {
        let policy = Policy::software().rules([8; 32]);
        let refused = EvidenceError::Rules("09".repeat(32));
        assert_eq!(asked(&policy, 0, [5; 64]), Err(refused));
        assert_eq!(asked(&policy.rules([9; 32]), 0, [5; 64]), Ok(()));
    }
}
