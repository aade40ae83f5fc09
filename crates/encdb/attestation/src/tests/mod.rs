//! Tests of every back end with stored evidence: AMD's and Intel's own, and minted evidence, most
//! of it bad.

mod handshake;
mod minted;
mod nitro;
mod policy;
mod snp;
mod tdx;

use std::fs;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::{Attested, Policy, Refusal};

/// Reads a file of `vectors/attestation/`.
fn stored(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../vectors/attestation/");
    fs::read(format!("{folder}{name}")).expect("the vectors lie beside the crates")
}

fn stored_text(name: &str) -> String {
    String::from_utf8(stored(name)).expect("text")
}

fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let pair = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
    pairs.map(|one| pair(one).expect("digits")).collect()
}

/// Parses a policy that is well written.
fn policy_of(text: &str) -> Policy {
    Policy::parse(text).expect("a policy")
}

/// Returns the name of the refusal, or `accepted`.
fn outcome(result: &Result<Attested, Refusal>) -> String {
    let Err(refusal) = result else {
        return "accepted".into();
    };
    let name = format!("{refusal:?}");
    let end = name.find(['(', ' ', '{']).unwrap_or(name.len());
    name[..end].to_owned()
}

type Check<'a> = dyn Fn(&[u8]) -> Result<Attested, Refusal> + 'a;

/// Flips one bit in each byte, a different one from byte to byte. The verifier must refuse each.
fn refuses_a_flip_in_each_byte(evidence: &[u8], check: &Check<'_>) {
    assert_eq!(outcome(&check(evidence)), "accepted");
    for place in 0..evidence.len() {
        let mut flipped = evidence.to_vec();
        flipped[place] ^= 1 << (place % 8);
        assert!(check(&flipped).is_err(), "byte {place}");
    }
}

/// Flips random bits and cuts the evidence at random places. The verifier must refuse each.
fn refuses_flips_and_cuts(evidence: &[u8], check: &Check<'_>) {
    assert_eq!(outcome(&check(evidence)), "accepted");
    let places = (0..evidence.len(), 0..8u8);
    let mut runner = proptest::test_runner::TestRunner::default();
    let tried = runner.run(&places, |(place, bit)| {
        let mut flipped = evidence.to_vec();
        flipped[place] ^= 1 << bit;
        prop_assert!(check(&flipped).is_err(), "byte {place} bit {bit}");
        prop_assert!(check(&evidence[..place]).is_err(), "cut at {place}");
        Ok::<(), TestCaseError>(())
    });
    assert_eq!(tried, Ok(()));
}
