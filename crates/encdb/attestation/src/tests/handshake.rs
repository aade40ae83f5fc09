//! Evidence in the handshake that it was made for.

use pgseal_evaluator_proto::message::{Hello, MessageError, Offer, OfferTerms, Welcome};

use super::policy::statement;
use crate::{Collateral, Judge, Policy, Refusal};

/// Makes an offer of a back end, with evidence that binds the bytes of the handshake.
fn offer(backend: u8, evidence: fn(&[u8; 64]) -> Vec<u8>) -> Offer {
    let hello = Hello::new().expect("random bytes");
    let terms = OfferTerms {
        backend,
        policy: [1; 32],
        expires: 10,
    };
    let produce = |bound: &[u8; 64]| Ok::<_, MessageError>(evidence(bound));
    let welcome = Welcome::new(&hello.message(), terms, produce).expect("an offer");
    hello.offer(welcome.message()).expect("a whole offer")
}

fn judged(policy: &Policy, backend: u8, evidence: fn(&[u8; 64]) -> Vec<u8>) -> Result<(), Refusal> {
    let judge = Judge {
        policy,
        collateral: Collateral::default(),
        now: 1,
    };
    offer(backend, evidence).verify(&judge).map(|_| ())
}

#[test]
fn evidence_holds_for_its_own_handshake_only() {
    let policy = Policy::parse("[software]\nallowed = true").expect("a policy");
    assert_eq!(judged(&policy, 0, statement), Ok(()));
    let other = judged(&policy, 0, |_| statement(&[7; 64]));
    assert_eq!(other, Err(Refusal::ReportData));
    let unknown = judged(&policy, 9, statement);
    assert_eq!(unknown, Err(Refusal::UnknownBackEnd(9)));
}

#[test]
fn software_cannot_pass_for_hardware() {
    let policy = Policy::default();
    let refused: Vec<_> = (0..4)
        .map(|kind| judged(&policy, kind, statement))
        .collect();
    assert!(refused
        .iter()
        .all(|one| matches!(one, Err(Refusal::NotAllowed(_)))));
}
