//! Tests of a report of a Milan processor that AMD's own root vouches for.

use super::{outcome, refuses_a_flip_in_each_byte, refuses_flips_and_cuts, stored, unhex};
use crate::{verify, Attested, BackEnd, Collateral, Measurement, Policy, Refusal};

/// 2023-11-14: the certificate is of April 2023, and lasts for seven years.
const NOW: u64 = 1_700_000_000;
const NOT_BEFORE: u64 = 1_680_549_823;
const NOT_AFTER: u64 = 1_901_474_623;

const MEASUREMENT: &str = "7a1e5c266c0108dbc9bb94fa926951320940915d0aafb424\
                           64bd88b579ea158d3e1a0dc39b2c60bd95b9c480cd81841f";

fn policy() -> Policy {
    let minimum = "milan = { bootloader = 3, tee = 0, snp = 8, microcode = 115 }";
    let text = format!(
        "[sev-snp]\nmeasurements = [\"{MEASUREMENT}\"]\n[sev-snp.minimum-tcb]\n{minimum}\n"
    );
    Policy::parse(&text).expect("a policy")
}

fn at(evidence: &[u8], now: u64) -> Result<Attested, Refusal> {
    let none = Collateral::default();
    verify(BackEnd::SevSnp, evidence, &none, &policy(), now)
}

fn evidence() -> Vec<u8> {
    [stored("milan-report.bin"), stored("milan-vcek.der")].concat()
}

#[test]
fn it_is_accepted_with_what_it_says() {
    let attested = at(&evidence(), NOW).expect("a good report");
    let measurement = unhex(MEASUREMENT).try_into().expect("48 bytes");
    assert_eq!(attested.measurement(), &Measurement::SevSnp(measurement));
    let bound = attested.report_data();
    assert_eq!(bound[..4], [0xd4, 0x47, 0xb5, 0x5d]);
    assert_eq!(attested.vouches_for(&bound.clone()), Ok(()));
    assert_eq!(attested.vouches_for(&[0; 64]), Err(Refusal::ReportData));
}

#[test]
fn its_certificate_may_come_from_elsewhere() {
    let vcek = stored("milan-vcek.der");
    let given = Collateral {
        amd: &vcek,
        ..Collateral::default()
    };
    let report = stored("milan-report.bin");
    let result = verify(BackEnd::SevSnp, &report, &given, &policy(), NOW);
    assert_eq!(outcome(&result), "accepted");
    assert_eq!(
        at(&report, NOW),
        Err(Refusal::Missing("the chip's certificate"))
    );
}

#[test]
fn it_holds_as_long_as_its_certificate() {
    let results = [NOT_BEFORE - 1, NOT_BEFORE, NOT_AFTER, NOT_AFTER + 1];
    let results = results.map(|now| outcome(&at(&evidence(), now)));
    assert_eq!(results, ["Expired", "accepted", "accepted", "Expired"]);
}

#[test]
fn any_flipped_bit_and_any_cut_is_refused() {
    refuses_a_flip_in_each_byte(&evidence(), &|flipped| at(flipped, NOW));
    refuses_flips_and_cuts(&evidence(), &|flipped| at(flipped, NOW));
}

/// A certificate that AMD made for another chip is good, and vouches for nothing but that chip.
#[test]
fn another_chips_certificate_does_not_vouch_for_it() {
    let evidence = [stored("milan-report.bin"), stored("turin-vcek.der")].concat();
    let (in_2024, too_early) = (1_735_000_000, NOW);
    assert_eq!(outcome(&at(&evidence, too_early)), "Expired");
    let refusal = Refusal::NotAuthentic("the report");
    assert_eq!(at(&evidence, in_2024), Err(refusal));
}

#[test]
fn other_back_ends_refuse_it() {
    let none = Collateral::default();
    for back_end in [BackEnd::Software, BackEnd::Tdx, BackEnd::Nitro] {
        let result = verify(back_end, &evidence(), &none, &policy(), NOW);
        assert_eq!(result, Err(Refusal::NotAllowed(back_end)));
    }
}
