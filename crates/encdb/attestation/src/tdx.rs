//! Intel TDX: a quote of version 4 or 5, signed by a quoting enclave. A key of the platform (PCK)
//! vouches for the enclave; the quote carries the key's certificate, which leads to Intel's root.
//!
//! `dcap-qvl` applies Intel's rules: levels of firmware, identity of the quoting enclave,
//! revocations. It gets our algorithms, our root and the time. This module does the rest: a quote
//! has one spelling, and the owner's policy decides.

use dcap_qvl::config::{Config, CryptoProvider};
use dcap_qvl::quote::{Quote, TDReport10};
use dcap_qvl::verify::QuoteVerifier;
use dcap_qvl::{QuoteClaims, QuoteCollateralV3, TcbStatus};
use pgseal_crypto::foreign::{sha384, Scheme};
use pgseal_crypto::sha256;
use rustls_pki_types::{
    alg_id, AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm,
};
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{Encode, EncodePem};
use x509_cert::Certificate;

use crate::policy::{digits, TdxMeasurement, TdxPolicy, TdxStatus};
use crate::{Attested, BackEnd, Collateral, Measurement, Policy, Refusal, Verifier};

/// The first byte of the attributes: DEBUG, and the reserved bits beside it. A domain with any of
/// them set is under test.
const UNDER_TEST: u8 = 0xff;

/// The byte and the bit of the attribute MIGRATABLE (bit 29): another domain may move this one to
/// another platform.
const MIGRATABLE: (usize, u8) = (3, 1 << 5);

/// Checks quotes of TDX.
#[derive(Clone, Copy, Debug)]
pub struct Tdx<'a> {
    pub(crate) root: &'a [u8],
}

impl Tdx<'static> {
    /// Quotes that lead to Intel's own root.
    pub const INTEL: Self = Self {
        root: include_bytes!("tdx/intel-root.der"),
    };
}

impl Verifier for Tdx<'_> {
    fn back_end(&self) -> BackEnd {
        BackEnd::Tdx
    }

    fn verify(
        &self,
        evidence: &[u8],
        collateral: &Collateral<'_>,
        policy: &Policy,
        now: u64,
    ) -> Result<Attested, Refusal> {
        let table = policy.tdx.as_ref();
        let table = table.ok_or(Refusal::NotAllowed(BackEnd::Tdx))?;
        stays(&one_spelling(evidence, self.root)?)?;
        let json = collateral
            .intel
            .ok_or(Refusal::Missing("Intel's collateral"))?;
        let mut collateral = serde_json::from_str::<QuoteCollateralV3>(json)
            .map_err(|error| Refusal::Quote(error.to_string()))?;
        collateral.pck_certificate_chain = None; // the quote's own was looked at, and counts
        let claims = QuoteVerifier::<AwsLc>::new_with_config(self.root.to_vec())
            .allow_debug(true) // refused below, by its own name
            .verify_with_policy(evidence, &collateral, now, &Everything)
            .map_err(|error| Refusal::Quote(format!("{error:#}")))?;
        accept(&claims, table)
    }
}

const QUOTE: Refusal = Refusal::Malformed("not one whole quote with its chain of certificates");

/// The bytes between the signed part and the certification data: a length, a signature and a key.
const BEFORE_CERTIFICATION: usize = 4 + 64 + 64;

/// The bytes of the certification data before the enclave's own: kind, length, report, signature.
const BEFORE_OWN: usize = 2 + 4 + 384 + 64;

/// The kind of certification data that holds a quoting enclave's report; the next is a chain in
/// PEM.
const ENCLAVE: u16 = 6;
const PEM_CHAIN: u16 = 5;

/// Reads a quote and refuses all spellings but one. The parts around the signed ones could be
/// written in many ways; here all lengths are exact, only zeros may follow, and the chain is in
/// PEM's plain form and ends with the root.
fn one_spelling(evidence: &[u8], root: &[u8]) -> Result<Quote, Refusal> {
    let quote = Quote::parse(evidence).map_err(|_| QUOTE)?;
    let rest = evidence.get(quote.signed_length()..).ok_or(QUOTE)?;
    let (len, rest) = rest.split_first_chunk().ok_or(QUOTE)?;
    let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| QUOTE)?;
    let (auth, zeros) = rest.split_at_checked(len).ok_or(QUOTE)?;
    let certification = auth.get(BEFORE_CERTIFICATION - 4..).ok_or(QUOTE)?;
    certified(certification, ENCLAVE)?;
    let enclave = certification.get(BEFORE_OWN..).ok_or(QUOTE)?;
    let (own, chain) = enclave.split_first_chunk().ok_or(QUOTE)?;
    let chain = chain.get(usize::from(u16::from_le_bytes(*own))..);
    let pem = certified(chain.ok_or(QUOTE)?, PEM_CHAIN)?;
    if zeros.iter().all(|byte| *byte == 0) && is_chain(pem, root).is_some_and(|is| is) {
        Ok(quote)
    } else {
        Err(QUOTE)
    }
}

/// Refuses a domain that may be moved. `dcap-qvl` refuses it too, but as a quote that is not
/// authentic; this check gives it an error of its own, and needs no signature.
fn stays(quote: &Quote) -> Result<(), Refusal> {
    let (byte, bit) = MIGRATABLE;
    match quote.report.as_td10() {
        Some(report) if report.td_attributes[byte] & bit != 0 => Err(Refusal::Migration),
        _ => Ok(()),
    }
}

/// Returns the bytes after kind and length, if the kind is this one and the length is exact.
fn certified(bytes: &[u8], kind: u16) -> Result<&[u8], Refusal> {
    let (found, rest) = bytes.split_first_chunk().ok_or(QUOTE)?;
    let (len, body) = rest.split_first_chunk().ok_or(QUOTE)?;
    let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| QUOTE)?;
    if u16::from_le_bytes(*found) == kind && body.len() == len {
        Ok(body)
    } else {
        Err(QUOTE)
    }
}

/// Whether the bytes are three certificates in PEM, the last of them the root. A zero byte may
/// follow, which ends a string in C.
fn is_chain(pem: &[u8], root: &[u8]) -> Option<bool> {
    let pem = pem.strip_suffix(&[0]).unwrap_or(pem);
    let chain = Certificate::load_pem_chain(pem).ok()?;
    let [_, _, last] = &chain[..] else {
        return Some(false);
    };
    let again = chain.iter().map(|one| one.to_pem(LineEnding::LF));
    let again = again.collect::<Result<String, _>>().ok()?;
    Some(again.as_bytes() == pem && last.to_der().ok()? == root)
}

fn accept(claims: &QuoteClaims, table: &TdxPolicy) -> Result<Attested, Refusal> {
    let report = claims.report.as_td10();
    let report = report.ok_or(Refusal::Malformed("the quote is not of a domain"))?;
    if report.td_attributes[0] & UNDER_TEST != 0 {
        return Err(Refusal::Debug);
    }
    let rtmr = [report.rt_mr0, report.rt_mr1, report.rt_mr2, report.rt_mr3];
    if !table
        .measurements
        .iter()
        .any(|one| is_same(one, report, &rtmr))
    {
        let found: Vec<_> = rtmr.iter().map(|one| digits(one)).collect();
        let found = format!("mrtd {}, rtmr {}", digits(&report.mr_td), found.join(" "));
        return Err(Refusal::Measurement(found));
    }
    accept_platform(claims, table)?;
    Ok(Attested {
        back_end: BackEnd::Tdx,
        report_data: report.report_data,
        measurement: Measurement::Tdx {
            mrtd: report.mr_td,
            rtmr,
        },
    })
}

fn is_same(accepted: &TdxMeasurement, report: &TDReport10, rtmr: &[[u8; 48]; 4]) -> bool {
    let TdxMeasurement {
        mrtd,
        rtmr0,
        rtmr1,
        rtmr2,
        rtmr3,
    } = accepted;
    let registers = [rtmr0, rtmr1, rtmr2, rtmr3].into_iter().zip(rtmr);
    mrtd.0 == report.mr_td && registers.into_iter().all(|(is, value)| is.accepts(value))
}

fn accept_platform(claims: &QuoteClaims, table: &TdxPolicy) -> Result<(), Refusal> {
    let status = claims.tcb.status;
    if !table.statuses.iter().any(|one| one.intel() == status) {
        let advisories = claims.tcb.advisory_ids.join(" ");
        return Err(Refusal::Tcb(format!("{status} {advisories}")));
    }
    let evaluation = claims.tcb.eval_data_number;
    if evaluation < table.minimum_evaluation {
        return Err(Refusal::Tcb(format!("evaluation {evaluation}")));
    }
    let ppid = &claims.platform.pck.ppid;
    match &table.chips {
        Some(chips) if !chips.iter().any(|chip| chip.0[..] == ppid[..]) => {
            Err(Refusal::Platform(format!("platform {}", digits(ppid))))
        }
        _ => Ok(()),
    }
}

impl TdxStatus {
    fn intel(self) -> TcbStatus {
        match self {
            Self::UpToDate => TcbStatus::UpToDate,
            Self::SWHardeningNeeded => TcbStatus::SWHardeningNeeded,
            Self::ConfigurationNeeded => TcbStatus::ConfigurationNeeded,
            Self::ConfigurationAndSWHardeningNeeded => TcbStatus::ConfigurationAndSWHardeningNeeded,
            Self::OutOfDate => TcbStatus::OutOfDate,
            Self::OutOfDateConfigurationNeeded => TcbStatus::OutOfDateConfigurationNeeded,
        }
    }
}

/// Accepts every quote that `dcap-qvl` verified, because the owner's policy is applied afterwards.
struct Everything;

impl dcap_qvl::Policy for Everything {
    fn validate(&self, _: &QuoteClaims) -> Result<(), anyhow::Error> {
        Ok(())
    }
}

/// Connects `dcap-qvl` to our implementations of the algorithms.
struct AwsLc;

impl Config for AwsLc {
    type X509 = dcap_qvl::x509::X509CertBackend;
    type SigEncoder = dcap_qvl::signature::DerSigEncoder;
    type Crypto = Self;
}

impl CryptoProvider for AwsLc {
    fn sig_algo() -> &'static dyn SignatureVerificationAlgorithm {
        &P256
    }

    fn sha256(data: &[u8]) -> [u8; 32] {
        sha256(&[data])
    }

    fn sha384(data: &[u8]) -> [u8; 48] {
        sha384(data)
    }
}

/// ECDSA over P-256, the only scheme of Intel's quotes, certificates and lists.
#[derive(Debug)]
struct P256;

impl SignatureVerificationAlgorithm for P256 {
    fn verify_signature(
        &self,
        key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let checked = Scheme::P256.verify(key, message, signature);
        checked.map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_P256
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_SHA256
    }
}
