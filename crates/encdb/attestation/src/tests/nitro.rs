//! Tests of a minted document, at its time, at other times, and bit by bit.

use super::minted::minted;
use super::{outcome, refuses_a_flip_in_each_byte, refuses_flips_and_cuts};
use crate::{verify, Attested, BackEnd, Collateral, Measurement, Refusal};

fn good(check: impl FnOnce(&[u8], &dyn Fn(&[u8], u64) -> Result<Attested, Refusal>, u64)) {
    let cases = minted().nitro;
    let (evidence, policy) = cases.good();
    let none = Collateral::default();
    let at = |evidence: &[u8], now| verify(BackEnd::Nitro, evidence, &none, &policy, now);
    check(&evidence, &at, cases.now);
}

#[test]
fn any_flipped_bit_and_any_cut_is_refused() {
    good(|evidence, at, now| {
        refuses_a_flip_in_each_byte(evidence, &|flipped| at(flipped, now));
        refuses_flips_and_cuts(evidence, &|flipped| at(flipped, now));
    });
}

#[test]
fn it_holds_as_long_as_its_certificates() {
    good(|evidence, at, now| {
        assert_eq!(outcome(&at(evidence, now + 3 * 3600)), "accepted");
        assert_eq!(outcome(&at(evidence, now + 3 * 3600 + 1)), "Expired");
        assert_eq!(outcome(&at(evidence, now - 600)), "accepted");
        assert_eq!(outcome(&at(evidence, now - 601)), "Expired");
    });
}

#[test]
fn its_registers_are_told() {
    good(|evidence, at, now| {
        let attested = at(evidence, now).expect("good evidence");
        let Measurement::Nitro(registers) = attested.measurement() else {
            panic!("registers of Nitro");
        };
        let numbers: Vec<u8> = registers.keys().copied().collect();
        assert_eq!((numbers, registers[&4]), (vec![0, 1, 2, 3, 4, 8], [5; 48]));
    });
}
