//! Evidence under roots that were made for these tests: `vectors/attestation/minted.json`.

use serde::Deserialize;

use super::{outcome, stored_text, unhex};
use crate::snp::{Kind, Product};
use crate::{Collateral, Nitro, Policy, SevSnp, Tdx, Verifier};

#[derive(Deserialize)]
pub struct Minted {
    pub snp: Vec<Snp>,
    pub nitro: Cases,
    pub tdx: TdxCases,
}

#[derive(Deserialize)]
pub struct Snp {
    pub ark: String,
    pub ask: String,
    pub kind: String,
    #[serde(flatten)]
    pub cases: Cases,
}

#[derive(Deserialize)]
pub struct TdxCases {
    pub root: String,
    #[serde(flatten)]
    pub cases: Cases,
}

#[derive(Deserialize)]
pub struct Cases {
    pub now: u64,
    pub report_data: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
pub struct Case {
    name: String,
    expect: Option<String>,
    evidence: Option<String>,
    policy: Option<String>,
    collateral: Option<String>,
}

pub fn minted() -> Minted {
    serde_json::from_str(&stored_text("minted.json")).expect("what mint.py wrote")
}

impl Cases {
    /// Returns the evidence and the policy of the first case, which are good.
    pub fn good(&self) -> (Vec<u8>, Policy) {
        let first = &self.cases[0];
        let evidence = first.evidence.as_deref().map(unhex);
        let policy = first.policy.as_deref().map(Policy::parse);
        let policy = policy.expect("it has one").expect("a policy");
        (evidence.expect("it has some"), policy)
    }

    /// Returns a field of a case. A case without it takes the field of the first case.
    fn said<'a>(&'a self, case: &'a Case, of: fn(&Case) -> Option<&String>) -> Option<&'a str> {
        of(case).or(of(&self.cases[0])).map(String::as_str)
    }

    fn hold(&self, verifier: &dyn Verifier) {
        assert!(self.cases.len() > 3);
        for case in &self.cases {
            let evidence = self.said(case, |one| one.evidence.as_ref());
            let policy = self.said(case, |one| one.policy.as_ref());
            let policy = Policy::parse(policy.expect("a policy")).expect(&case.name);
            let intel = self.said(case, |one| one.collateral.as_ref());
            let collateral = Collateral {
                intel: intel.filter(|json| !json.is_empty()),
                ..Collateral::default()
            };
            let evidence = unhex(evidence.expect("evidence"));
            let result = verifier.verify(&evidence, &collateral, &policy, self.now);
            let expected = self.said(case, |one| one.expect.as_ref());
            let name = &case.name;
            assert_eq!(
                Some(outcome(&result).as_str()),
                expected,
                "{name}: {result:?}"
            );
            if let Ok(attested) = result {
                assert_eq!(
                    attested.report_data()[..],
                    unhex(&self.report_data),
                    "{name}"
                );
                assert_eq!(attested.back_end(), verifier.back_end());
            }
        }
    }
}

#[test]
fn reports_of_sev_snp() {
    let products = minted().snp;
    let kinds: Vec<_> = products.iter().map(|snp| snp.kind.as_str()).collect();
    assert_eq!(kinds, ["Milan", "Turin"]);
    for snp in products {
        let (ark, ask) = (unhex(&snp.ark), unhex(&snp.ask));
        let kind = if snp.kind == "Turin" {
            Kind::Turin
        } else {
            Kind::Milan
        };
        let products = [Product {
            kind,
            ark: &ark,
            ask: &ask,
        }];
        snp.cases.hold(&SevSnp {
            products: &products,
        });
    }
}

#[test]
fn documents_of_nitro() {
    minted().nitro.hold(&Nitro);
}

#[test]
fn quotes_of_tdx() {
    let TdxCases { root, cases } = minted().tdx;
    cases.hold(&Tdx {
        root: &unhex(&root),
    });
}
