//! Tests of quotes of version 4 and 5 that Intel's own root vouches for, with collateral of the
//! same time.

use super::{
    outcome, policy_of, refuses_a_flip_in_each_byte, refuses_flips_and_cuts, stored, stored_text,
};
use crate::policy::digits;
use crate::{verify, Attested, BackEnd, Collateral, Measurement, Refusal};

/// A stored quote, its collateral, and a time at which the collateral was valid.
struct Sample {
    quote: Vec<u8>,
    collateral: String,
    now: u64,
}

/// The offsets of MRTD and RTMR0 in a quote of version 4, in bytes.
const MRTD: usize = 48 + 136;
const RTMR: usize = 48 + 328;

impl Sample {
    /// Returns a quote of version 4, from July 2025.
    fn v4() -> Self {
        Self {
            quote: stored("tdx-v4-quote.bin"),
            collateral: stored_text("tdx-v4-collateral.json"),
            now: 1_752_000_000,
        }
    }

    /// Returns a quote of version 5 with a report of TDX 1.5, from October 2026.
    fn v5() -> Self {
        Self {
            quote: stored("tdx-v5-quote.bin"),
            collateral: stored_text("tdx-v5-collateral.json"),
            now: 1_792_500_000,
        }
    }

    /// Returns the register at this offset of version 4, as hexadecimal digits.
    fn register(&self, at: usize) -> String {
        let shift = if self.quote[0] == 5 { 6 } else { 0 };
        digits(&self.quote[at + shift..at + shift + 48])
    }

    fn policy(&self) -> String {
        let mut text = format!(
            "[tdx]\nmeasurements = [{{ mrtd = \"{}\"",
            self.register(MRTD)
        );
        for number in 0..4 {
            let register = self.register(RTMR + 48 * number);
            text.push_str(&format!(", rtmr{number} = \"{register}\""));
        }
        text + " }]\n"
    }

    /// Returns the quote without the zeros that follow it, except the one that ends its text.
    fn whole(&self) -> &[u8] {
        let end = self.quote.iter().rposition(|byte| *byte != 0);
        &self.quote[..end.map_or(0, |last| last + 2)]
    }

    fn check(&self, quote: &[u8], policy: &str, now: u64) -> Result<Attested, Refusal> {
        let collateral = Collateral {
            intel: Some(&self.collateral),
            ..Collateral::default()
        };
        let policy = policy_of(policy);
        verify(BackEnd::Tdx, quote, &collateral, &policy, now)
    }

    fn under(&self, policy: &str) -> String {
        let result = self.check(&self.quote, policy, self.now);
        let why = result.as_ref().err().map(ToString::to_string);
        format!("{} {}", outcome(&result), why.unwrap_or_default())
    }
}

#[test]
fn both_versions_are_accepted() {
    for sample in [Sample::v4(), Sample::v5()] {
        assert_eq!(sample.under(&sample.policy()), "accepted ");
    }
}

#[test]
fn what_is_bound_is_told() {
    let sample = Sample::v4();
    let attested = sample.check(&sample.quote, &sample.policy(), sample.now);
    let attested = attested.expect("a good quote");
    assert_eq!(attested.report_data()[..], sample.quote[568..632]);
    assert_eq!(attested.vouches_for(&[0; 64]), Err(Refusal::ReportData));
    let Measurement::Tdx { mrtd, rtmr } = attested.measurement() else {
        panic!("registers of TDX");
    };
    assert_eq!(mrtd[..], sample.quote[MRTD..MRTD + 48]);
    assert_eq!(rtmr[3][..], sample.quote[RTMR + 144..RTMR + 192]);
}

#[test]
fn they_hold_as_long_as_their_collateral() {
    let month = 30 * 86_400;
    for sample in [Sample::v4(), Sample::v5()] {
        let policy = sample.policy();
        let late = sample.check(&sample.quote, &policy, sample.now + month);
        let early = sample.check(&sample.quote, &policy, sample.now - month);
        let why = [late, early].map(|result| result.expect_err("no longer").to_string());
        assert!(why[0].contains("expired"), "{}", why[0]);
        assert!(why[1].contains("in the future"), "{}", why[1]);
    }
}

#[test]
fn later_collateral_knows_of_faults() {
    let later = Sample {
        quote: Sample::v4().quote,
        ..Sample::v5()
    };
    let strict = later.policy();
    assert!(later.under(&strict).starts_with("Tcb "));
    let known = "[\"OutOfDate\", \"SWHardeningNeeded\", \"OutOfDateConfigurationNeeded\"]";
    let lenient = format!("{strict}statuses = {known}\n");
    assert_eq!(later.under(&lenient), "accepted ");
}

#[test]
fn any_flipped_bit_and_any_cut_is_refused() {
    for sample in [Sample::v4(), Sample::v5()] {
        let policy = sample.policy();
        let check = |flipped: &[u8]| sample.check(flipped, &policy, sample.now);
        refuses_a_flip_in_each_byte(&sample.quote, &check);
        refuses_flips_and_cuts(sample.whole(), &check);
    }
}

#[test]
fn any_flipped_bit_of_signed_collateral_is_refused() {
    let sample = Sample::v4();
    let policy = sample.policy();
    for signed in [
        "tcb_info\"",
        "qe_identity\"",
        "tcb_info_signature\"",
        "root_ca_crl\"",
        "pck_crl\"",
    ] {
        let start = sample.collateral.find(signed).expect("it is there");
        for place in (start + signed.len() + 10..).step_by(37).take(7) {
            let mut altered = sample.collateral.clone().into_bytes();
            altered[place] ^= 1;
            let collateral = String::from_utf8(altered).expect("ASCII");
            let altered = Sample {
                collateral,
                ..Sample::v4()
            };
            let result = altered.check(&altered.quote, &policy, altered.now);
            assert!(result.is_err(), "{signed} {place}");
        }
    }
}

#[test]
fn firmware_below_all_levels_is_refused_by_any_policy() {
    let sample = Sample {
        quote: stored("tdx-old-quote.bin"),
        collateral: stored_text("tdx-old-collateral.json"),
        now: 1_772_500_000,
    };
    let lenient =
        sample.policy() + "statuses = [\"OutOfDate\", \"OutOfDateConfigurationNeeded\"]\n";
    let why = sample.under(&lenient);
    assert!(why.contains("No matching TCB level"), "{why}");
}
