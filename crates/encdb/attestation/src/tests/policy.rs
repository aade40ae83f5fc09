//! Policies hold as they are written, and nothing is guessed.

use pgseal_crypto::sign::SigningKey;
use pgseal_crypto::Secret;

use super::policy_of;
use crate::{verify, BackEnd, Collateral, Policy, Refusal, Software, Verifier};

/// Makes the evidence of an evaluator that is an ordinary process (docs/format/evidence.md).
pub fn statement(bound: &[u8; 64]) -> Vec<u8> {
    let text = "pgseal software evaluator: an ordinary process. This proves nothing about \
                hardware: whoever controls the machine can read its memory.\n";
    [text.as_bytes(), bound].concat()
}

fn evidence() -> Vec<u8> {
    statement(&[5; 64])
}

fn software(policy: &str, evidence: &[u8]) -> Result<[u8; 64], Refusal> {
    let policy = policy_of(policy);
    let none = Collateral::default();
    verify(BackEnd::Software, evidence, &none, &policy, 0).map(|one| *one.report_data())
}

#[test]
fn software_is_trusted_by_name_only() {
    let refused = Err(Refusal::NotAllowed(BackEnd::Software));
    assert_eq!(software("", &evidence()), refused);
    assert_eq!(
        software("[software]\nallowed = false", &evidence()),
        refused
    );
    assert_eq!(
        software("[software]\nallowed = true", &evidence()),
        Ok([5; 64])
    );
    assert_eq!(Software.back_end(), BackEnd::Software);
}

#[test]
fn a_statement_has_one_text() {
    let good = evidence();
    for place in 0..good.len() - 64 {
        let mut flipped = good.clone();
        flipped[place] ^= 1;
        let result = software("[software]\nallowed = true", &flipped);
        assert!(matches!(result, Err(Refusal::Malformed(_))), "byte {place}");
    }
    for len in 0..good.len() {
        assert!(software("[software]\nallowed = true", &good[..len]).is_err());
    }
    let long = [&good[..], &[0]].concat();
    assert!(software("[software]\nallowed = true", &long).is_err());
}

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&Secret::from_bytes(&mut [seed; 32]))
}

/// Makes the statement of an evaluator with this key, and signs it.
fn signed(seed: u8) -> Vec<u8> {
    let text = "pgseal software evaluator: an ordinary process, known by its key. This proves \
                nothing about hardware: whoever controls the machine can read its memory.\n";
    let message = [text.as_bytes(), &[5; 64], &key(seed).public().0].concat();
    let signature = key(seed).sign(&message);
    [&message[..], &signature].concat()
}

#[test]
fn a_key_that_is_named_must_have_signed() {
    let any = "[software]\nallowed = true";
    let named = format!(
        "{any}\nkeys = [\"{}\", \"{}\"]",
        key(1).public(),
        key(2).public()
    );
    for seed in [1, 2] {
        assert_eq!(software(&named, &signed(seed)), Ok([5; 64]));
    }
    let other = Refusal::OtherKey(key(3).public());
    assert_eq!(software(&named, &signed(3)), Err(other));
    assert_eq!(software(&named, &evidence()), Err(Refusal::Unsigned));
    assert_eq!(software(any, &signed(3)), Ok([5; 64]));
    let nobody = format!("{any}\nkeys = []");
    assert!(software(&nobody, &signed(1)).is_err());
}

#[test]
fn every_bit_is_signed() {
    let good = signed(1);
    for place in 0..good.len() {
        let mut flipped = good.clone();
        flipped[place] ^= 1;
        for policy in ["", &format!("keys = [\"{}\"]", key(1).public())] {
            let policy = format!("[software]\nallowed = true\n{policy}");
            assert!(software(&policy, &flipped).is_err(), "byte {place}");
        }
    }
    for len in 0..good.len() {
        assert!(software("[software]\nallowed = true", &good[..len]).is_err());
    }
    let long = [&good[..], &[0]].concat();
    assert!(software("[software]\nallowed = true", &long).is_err());
}

#[test]
fn what_is_misspelt_or_missing_is_no_policy() {
    let tcb = "milan = { bootloader = 3, tee = 0, snp = 8, microcode = 115 }";
    let digest = "ab".repeat(48);
    let wrong = [
        "[sgx]\nallowed = true".to_owned(),
        "[software]".to_owned(),
        "[software]\nallowed = true\nhardware = true".to_owned(),
        format!("[sev-snp]\nmeasurements = [\"{digest}\"]"),
        format!("[sev-snp]\n[sev-snp.minimum-tcb]\n{tcb}"),
        format!(
            "[sev-snp]\nmeasurements = [\"{}\"]\n[sev-snp.minimum-tcb]\n{tcb}",
            &digest[2..]
        ),
        format!("[sev-snp]\nmeasurements = [\"{digest}\"]\n[sev-snp.minimum-tcb]\nrome = 1"),
        format!("[tdx]\nmeasurements = [{{ mrtd = \"{digest}\" }}]"),
        "[tdx]\nmeasurements = []\nstatuses = [\"Revoked\"]".to_owned(),
        format!("[nitro]\nmeasurements = [{{ pcr0 = \"{digest}\" }}]"),
        format!(
            "[nitro]\nroot = \"{}\"\nmeasurements = [{{ pcr9 = \"\" }}]",
            "00".repeat(32)
        ),
        format!(
            "[nitro]\nroot = \"{}\"\nmeasurements = [{{}}]",
            "00".repeat(32)
        ),
        format!("[nitro]\nroot = \"{}\"\nmeasurements = []", "0g".repeat(32)),
    ];
    for text in wrong {
        let error = Policy::parse(&text).expect_err(&text);
        assert!(error
            .to_string()
            .starts_with("the attestation policy is wrong: "));
    }
}

#[test]
fn unknown_kinds_are_refused() {
    assert_eq!(BackEnd::try_from(4), Err(Refusal::UnknownBackEnd(4)));
    for number in 0..4 {
        let back_end = BackEnd::try_from(number).expect("known");
        assert_eq!(back_end.verifier().back_end(), back_end);
        assert_eq!(back_end as u8, number);
    }
}
