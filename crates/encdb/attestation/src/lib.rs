//! Verification of an evaluator's evidence: it decides whether an owner may trust the machine that
//! the evaluator runs on (`docs/format/evidence.md`).
//!
//! A client calls [`verify`], or gives a [`Judge`] to the handshake, before it sends a key. Each
//! back end is one maker's kind of evidence and has one [`Verifier`]. A [`Policy`] says what the
//! owner trusts; [`Collateral`] is what a maker publishes beside the evidence. The caller passes
//! the time.
//!
//! Invariants:
//! 1. Only a verifier makes an [`Attested`]: its signatures, the chain to a known root, the dates
//!    and the policy were checked, in this order.
//! 2. A back end that the policy does not name is refused; nothing is trusted by default.
//! 3. Evidence has one spelling: any other bytes are refused, even if their meaning is the same.
//! 4. Nothing here uses the network, the clock or a file.

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

/// A kind of evidence. Messages carry its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BackEnd {
    /// An ordinary process, which proves nothing about the machine
    Software = 0,
    /// AMD SEV-SNP
    SevSnp = 1,
    /// Intel TDX
    Tdx = 2,
    /// AWS Nitro Enclaves
    Nitro = 3,
}

impl BackEnd {
    /// Returns the back end's verifier, with the maker's own roots.
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

/// Data that a maker publishes beside the evidence. It need not come from a trusted place, because
/// it is signed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collateral<'a> {
    /// AMD: the chip's certificate and, if needed, its issuer's, in DER, one after the other;
    /// ignored if the evidence carries them
    pub amd: &'a [u8],
    /// Intel: TCB information, identity of the quoting enclave and revocations, as JSON
    pub intel: Option<&'a str>,
}

/// The checks of one kind of evidence.
pub trait Verifier: Sync {
    /// Returns the kind of evidence that this checks.
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

/// The statements of verified evidence.
#[derive(Debug, PartialEq, Eq)]
pub struct Attested {
    back_end: BackEnd,
    report_data: [u8; 64],
    measurement: Measurement,
}

impl Attested {
    /// Returns the kind of evidence.
    pub fn back_end(&self) -> BackEnd {
        self.back_end
    }

    /// Returns the bytes that the evaluator had to bind into the evidence.
    pub fn report_data(&self) -> &[u8; 64] {
        &self.report_data
    }

    /// Returns the measurement of the software that runs there.
    pub fn measurement(&self) -> &Measurement {
        &self.measurement
    }

    /// Checks that the evidence was made for these bytes, and so for this handshake.
    pub fn vouches_for(&self, report_data: &[u8; 64]) -> Result<(), Refusal> {
        if self.report_data == *report_data {
            Ok(())
        } else {
            Err(Refusal::ReportData)
        }
    }
}

/// The software that the evidence measured, in the maker's own terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measurement {
    /// Nothing is known of the software
    Nothing,
    /// The launch digest
    SevSnp([u8; 48]),
    /// The domain as it was built, and the software that was loaded later
    Tdx {
        /// MRTD
        mrtd: [u8; 48],
        /// RTMR0 to RTMR3
        rtmr: [[u8; 48]; 4],
    },
    /// Platform configuration registers by number, without those that are zero
    Nitro(std::collections::BTreeMap<u8, [u8; 48]>),
}

/// Verifies the offers of evaluators: the evidence, the policy, and that the evidence was made for
/// this handshake.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'a> {
    /// The evidence that the owner trusts
    pub policy: &'a Policy,
    /// The data that the makers publish
    pub collateral: Collateral<'a>,
    /// The time in seconds since 1970
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

/// The reason why evidence is not trusted. Each variant calls for one action of its reader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The bytes are not evidence of this kind.
    #[error("the evidence is malformed: {0}")]
    Malformed(&'static str),
    /// The kind of evidence, or its version, is newer than this pgseal.
    #[error("evidence of kind {0} is unknown to this pgseal: install a newer pgseal")]
    UnknownBackEnd(u8),
    /// The layout of the report is newer than this pgseal.
    #[error("the report has version {0}, which this pgseal does not know: install a newer pgseal")]
    UnknownVersion(u32),
    /// The owner does not trust this kind of evidence.
    #[error("the policy has no table [{0}]: it trusts no evidence of this kind")]
    NotAllowed(BackEnd),
    /// Something is missing that is needed beside the evidence.
    #[error("{0} is needed to verify the evidence and was not given")]
    Missing(&'static str),
    /// A signature does not hold.
    #[error("{0} is not authentic: it was altered, or signed with another key")]
    NotAuthentic(&'static str),
    /// The chain of certificates ends at another root.
    #[error("the certificates do not lead to a root that is trusted")]
    OtherRoot,
    /// A certificate or a list is not yet valid, or no longer valid.
    #[error("{0} is not valid now: fetch it again, and check this machine's clock")]
    Expired(&'static str),
    /// Certificates and evidence are of different chips or versions.
    #[error("the certificate is not the one of this report: {0} differs")]
    OtherCertificate(&'static str),
    /// Intel's rules refuse the quote.
    #[error("the quote does not verify: {0}")]
    Quote(String),
    /// The machine's operator can read the evaluator's memory.
    #[error("the evaluator runs in debug mode: its memory can be read from outside")]
    Debug,
    /// The guest may be moved to a place that the policy does not describe.
    #[error("the guest may be migrated by an agent that this evidence does not describe")]
    Migration,
    /// The code that requested the report may not speak for the guest.
    #[error("the report was made at VMPL {0}, which the policy does not trust")]
    Privilege(u32),
    /// The software is not one that the owner accepts.
    #[error("the measurement is not one that the policy accepts: {0}")]
    Measurement(String),
    /// The hardware's firmware is too old.
    #[error("the platform's firmware is older than the policy accepts: {0}")]
    Tcb(String),
    /// The owner does not accept the hardware.
    #[error("the policy does not accept {0}")]
    Platform(String),
    /// The policy names keys, and the evidence is not signed.
    #[error("the evidence is not signed, and the policy names the keys that must have signed it: start the evaluator with --identity")]
    Unsigned,
    /// The policy does not name the key that signed the evidence.
    #[error("the evidence is signed by {0}, which the policy does not name: ask the evaluator's operator for its key")]
    OtherKey(PublicKey),
    /// The evidence was made for another handshake.
    #[error("the evidence was made for another handshake")]
    ReportData,
}
