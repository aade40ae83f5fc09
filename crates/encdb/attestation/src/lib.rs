//! Whether an evaluator's evidence of the machine that it runs on is to be trusted
//! (`docs/format/evidence.md`).
//!
//! A client calls [`verify`], or hands a [`Judge`] to the handshake, before it lets a key go. A
//! back end is one maker's kind of evidence; each stands behind [`Verifier`]. What the owner trusts
//! is a [`Policy`]; what a maker publishes beside the evidence is [`Collateral`]. Time is given.
//!
//! Invariants:
//! 1. [`Attested`] comes from a verifier only: whoever holds one knows that the signatures, the
//!    chain to a known root, the dates and the policy were checked, in this order.
//! 2. A back end that the policy does not name is refused; nothing is trusted by default.
//! 3. Evidence has one spelling: any other bytes, be they of no meaning, are refused.
//! 4. Nothing here asks the network, the clock or a file.

mod nitro;
mod policy;
mod snp;
mod software;
mod tdx;
#[cfg(test)]
mod tests;
mod x509;

use std::fmt;

use pgseal_crypto::sign::PublicKey;
use pgseal_evaluator_proto::message::{Claims, VerifyEvidence};

pub use nitro::Nitro;
pub use policy::{
    Hex, NitroMeasurement, NitroPolicy, Policy, PolicyError, Register, SnpPolicy, SnpProducts,
    SoftwarePolicy, TdxMeasurement, TdxPolicy, TdxStatus,
};
pub use snp::{SevSnp, Tcb};
pub use software::Software;
pub use tdx::Tdx;

/// A kind of evidence, by the number that messages give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BackEnd {
    /// An ordinary process: proves nothing
    Software = 0,
    /// AMD SEV-SNP
    SevSnp = 1,
    /// Intel TDX
    Tdx = 2,
    /// AWS Nitro Enclaves
    Nitro = 3,
}

impl BackEnd {
    /// The back end's verifier, with the maker's own roots.
    pub fn verifier(self) -> &'static dyn Verifier {
        match self {
            Self::Software => &Software,
            Self::SevSnp => &SevSnp::AMD,
            Self::Tdx => &Tdx::INTEL,
            Self::Nitro => &Nitro,
        }
    }
}

impl TryFrom<u8> for BackEnd {
    type Error = Refusal;

    fn try_from(number: u8) -> Result<Self, Refusal> {
        match number {
            0 => Ok(Self::Software),
            1 => Ok(Self::SevSnp),
            2 => Ok(Self::Tdx),
            3 => Ok(Self::Nitro),
            other => Err(Refusal::UnknownBackEnd(other)),
        }
    }
}

impl fmt::Display for BackEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Software => "software",
            Self::SevSnp => "sev-snp",
            Self::Tdx => "tdx",
            Self::Nitro => "nitro",
        })
    }
}

/// What a maker publishes that is not in the evidence itself. It need not be trusted: it is signed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collateral<'a> {
    /// AMD: the chip's certificate and, if need be, its issuer's, in DER, one after the other; not
    /// looked at if the evidence carries them
    pub amd: &'a [u8],
    /// Intel: TCB information, identity of the quoting enclave and revocations, as JSON
    pub intel: Option<&'a str>,
}

/// One kind of evidence, and how it is checked.
pub trait Verifier: Sync {
    /// Which kind.
    fn back_end(&self) -> BackEnd;

    /// Checks evidence at `now`, in seconds since 1970.
    fn verify(
        &self,
        evidence: &[u8],
        collateral: &Collateral<'_>,
        policy: &Policy,
        now: u64,
    ) -> Result<Attested, Refusal>;
}

/// Checks evidence of a back end at `now`, in seconds since 1970.
pub fn verify(
    back_end: BackEnd,
    evidence: &[u8],
    collateral: &Collateral<'_>,
    policy: &Policy,
    now: u64,
) -> Result<Attested, Refusal> {
    back_end
        .verifier()
        .verify(evidence, collateral, policy, now)
}

/// What verified evidence says.
#[derive(Debug, PartialEq, Eq)]
pub struct Attested {
    back_end: BackEnd,
    report_data: [u8; 64],
    measurement: Measurement,
}

impl Attested {
    /// Whose evidence it was.
    pub fn back_end(&self) -> BackEnd {
        self.back_end
    }

    /// The bytes that whoever asked for the evidence had bound.
    pub fn report_data(&self) -> &[u8; 64] {
        &self.report_data
    }

    /// What runs there.
    pub fn measurement(&self) -> &Measurement {
        &self.measurement
    }

    /// Whether the evidence was made for these bytes, so for this handshake.
    pub fn vouches_for(&self, report_data: &[u8; 64]) -> Result<(), Refusal> {
        if self.report_data == *report_data {
            Ok(())
        } else {
            Err(Refusal::ReportData)
        }
    }
}

/// What runs in the place that the evidence is of, in the maker's own terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measurement {
    /// Nothing is known
    Nothing,
    /// The launch digest
    SevSnp([u8; 48]),
    /// The build of the domain, and what was loaded later
    Tdx {
        /// MRTD
        mrtd: [u8; 48],
        /// RTMR0 to RTMR3
        rtmr: [[u8; 48]; 4],
    },
    /// Platform configuration registers by number, those that are not zero
    Nitro(std::collections::BTreeMap<u8, [u8; 48]>),
}

/// Verifies offers of evaluators: evidence, policy, and that it was made for this handshake.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'a> {
    /// Whom the owner trusts
    pub policy: &'a Policy,
    /// What the makers publish
    pub collateral: Collateral<'a>,
    /// In seconds since 1970
    pub now: u64,
}

impl VerifyEvidence for Judge<'_> {
    type Error = Refusal;

    fn verify(&self, claims: &Claims<'_>) -> Result<(), Refusal> {
        let back_end = BackEnd::try_from(claims.terms.backend)?;
        verify(
            back_end,
            claims.evidence,
            &self.collateral,
            self.policy,
            self.now,
        )?
        .vouches_for(&claims.report_data)
    }
}

/// Why evidence is not trusted. Each is one thing that its reader would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not evidence of this kind.
    #[error("the evidence is malformed: {0}")]
    Malformed(&'static str),
    /// Of a kind, or a version of it, that came later.
    #[error("evidence of kind {0} is unknown to this pgseal: install a newer pgseal")]
    UnknownBackEnd(u8),
    /// A report in a layout that came later.
    #[error("the report has version {0}, which this pgseal does not know: install a newer pgseal")]
    UnknownVersion(u32),
    /// The owner does not trust this kind.
    #[error("the policy has no table [{0}]: it trusts no evidence of this kind")]
    NotAllowed(BackEnd),
    /// What is needed beside the evidence was not given.
    #[error("{0} is needed to verify the evidence and was not given")]
    Missing(&'static str),
    /// A signature does not hold.
    #[error("{0} is not authentic: it was altered, or signed with another key")]
    NotAuthentic(&'static str),
    /// The chain ends elsewhere.
    #[error("the certificates do not lead to a root that is trusted")]
    OtherRoot,
    /// Not yet or no longer valid.
    #[error("{0} is not valid now: fetch it again, and check this machine's clock")]
    Expired(&'static str),
    /// Certificates and evidence are of different chips or versions.
    #[error("the certificate is not the one of this report: {0} differs")]
    OtherCertificate(&'static str),
    /// Intel's rules refuse the quote.
    #[error("the quote does not verify: {0}")]
    Quote(String),
    /// Whoever runs the machine can look inside.
    #[error("the evaluator runs in debug mode: its memory can be read from outside")]
    Debug,
    /// The guest may be moved to where the policy does not see.
    #[error("the guest may be migrated by an agent that this evidence does not describe")]
    Migration,
    /// The report was asked for by code that may not speak for the guest.
    #[error("the report was made at VMPL {0}, which the policy does not trust")]
    Privilege(u32),
    /// Other software than the owner accepts.
    #[error("the measurement is not one that the policy accepts: {0}")]
    Measurement(String),
    /// Hardware whose firmware is too old.
    #[error("the platform's firmware is older than the policy accepts: {0}")]
    Tcb(String),
    /// Hardware that the owner does not accept.
    #[error("the policy does not accept {0}")]
    Platform(String),
    /// Software whose key was not shown.
    #[error("the evidence is not signed, and the policy names the keys that must have signed it: start the evaluator with --identity")]
    Unsigned,
    /// Software with another key.
    #[error("the evidence is signed by {0}, which the policy does not name: ask whoever runs the evaluator for its key")]
    OtherKey(PublicKey),
    /// Made for another handshake.
    #[error("the evidence was made for another handshake")]
    ReportData,
}
