//! The owner's policy: a table for each kind of evidence (`docs/format/evidence.md`).
//!
//! A kind without a table is refused, and so is an unknown name: a misspelt rule must not become no
//! rule.

use serde::de::{Deserializer, Error};
use serde::Deserialize;

use crate::snp::Tcb;

/// The evidence that an owner trusts. A kind without a table is not trusted.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Policy {
    /// Ordinary processes
    pub software: Option<SoftwarePolicy>,
    /// AMD SEV-SNP
    pub sev_snp: Option<SnpPolicy>,
    /// Intel TDX
    pub tdx: Option<TdxPolicy>,
    /// AWS Nitro Enclaves
    pub nitro: Option<NitroPolicy>,
}

impl Policy {
    /// Reads a policy in TOML.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        toml::from_str(text).map_err(|error| PolicyError(error.message().to_owned()))
    }
}

/// The error of a policy that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the attestation policy is wrong: {0}")]
pub struct PolicyError(String);

/// The rules for ordinary processes.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SoftwarePolicy {
    /// `true` accepts ordinary processes, which prove nothing about the machine; the policy must
    /// say so
    pub allowed: bool,
    /// The keys that may sign the evidence; without this list anybody may
    pub keys: Option<Vec<Hex<32>>>,
}

/// The rules for SEV-SNP guests.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SnpPolicy {
    /// The launch digests that are accepted
    pub measurements: Vec<Hex<48>>,
    /// The kinds of processor that are accepted, each with its oldest firmware
    pub minimum_tcb: SnpProducts,
    /// The identifiers of the chips that are accepted; without this list any chip is
    pub chips: Option<Vec<Hex<64>>>,
    /// Whether a key that AMD gave to the cloud's operator may sign, instead of the chip's own
    #[serde(default)]
    pub vlek: bool,
    /// The least privileged level of the guest that may speak for it
    #[serde(default)]
    pub maximum_vmpl: u32,
}

/// The oldest firmware for each kind of processor. A kind that is not listed is refused.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SnpProducts {
    /// EPYC 7003
    pub milan: Option<Tcb>,
    /// EPYC 9004 and 8004
    pub genoa: Option<Tcb>,
    /// EPYC 9005
    pub turin: Option<Tcb>,
}

/// The rules for TDX domains.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TdxPolicy {
    /// The measurements of which a domain must have one
    pub measurements: Vec<TdxMeasurement>,
    /// The states of the platform's firmware, as Intel reports them, that are accepted
    #[serde(default = "up_to_date")]
    pub statuses: Vec<TdxStatus>,
    /// The lowest number of Intel's evaluations that may have judged the platform
    #[serde(default)]
    pub minimum_evaluation: u32,
    /// The PPIDs of the platforms that are accepted; without this list any platform is
    pub chips: Option<Vec<Hex<16>>>,
}

fn up_to_date() -> Vec<TdxStatus> {
    vec![TdxStatus::UpToDate]
}

/// The measurements of a domain as it was built, and of the software that it loaded later.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct TdxMeasurement {
    /// The domain as it was built: its firmware
    pub mrtd: Hex<48>,
    /// The firmware's configuration
    pub rtmr0: Register,
    /// Boot loader and kernel
    pub rtmr1: Register,
    /// Command line and initial ram disk
    pub rtmr2: Register,
    /// Measurements that the domain's own system added
    pub rtmr3: Register,
}

/// The rule for one register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Register {
    /// The register must have this value
    Is([u8; 48]),
    /// `"any"`: every value is accepted
    Any,
}

impl Register {
    pub(crate) fn accepts(&self, value: &[u8; 48]) -> bool {
        match self {
            Self::Is(accepted) => accepted == value,
            Self::Any => true,
        }
    }
}

impl<'de> Deserialize<'de> for Register {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "any" {
            return Ok(Self::Any);
        }
        bytes(&text).map(Self::Is).map_err(Error::custom)
    }
}

/// A state of a platform, as Intel reports it. Worse states than these cannot be accepted.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum TdxStatus {
    /// Nothing is known against the platform
    UpToDate,
    /// Software has to be hardened
    SWHardeningNeeded,
    /// The configuration of the platform has to change
    ConfigurationNeeded,
    /// Software has to be hardened, and the configuration of the platform has to change
    ConfigurationAndSWHardeningNeeded,
    /// The platform's firmware has known faults
    OutOfDate,
    /// The platform's firmware has known faults, and its configuration has to change
    OutOfDateConfigurationNeeded,
}

/// The rules for Nitro enclaves.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NitroPolicy {
    /// SHA-256 of the root certificate in DER, which AWS publishes
    pub root: Hex<32>,
    /// The measurements of which an enclave must have one
    pub measurements: Vec<NitroMeasurement>,
}

/// The values that an enclave's registers must have. A register that is not listed may have any
/// value.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct NitroMeasurement {
    /// The image
    pub pcr0: Hex<48>,
    /// Kernel and boot ram disk
    pub pcr1: Option<Hex<48>>,
    /// The application
    pub pcr2: Option<Hex<48>>,
    /// The role of the parent instance
    pub pcr3: Option<Hex<48>>,
    /// The identifier of the parent instance, which pins the machine
    pub pcr4: Option<Hex<48>>,
    /// The certificate that signed the image
    pub pcr8: Option<Hex<48>>,
}

impl NitroMeasurement {
    pub(crate) fn registers(&self) -> impl Iterator<Item = (u8, &[u8; 48])> {
        let Self {
            pcr0,
            pcr1,
            pcr2,
            pcr3,
            pcr4,
            pcr8,
        } = self;
        let optional = [(1, pcr1), (2, pcr2), (3, pcr3), (4, pcr4), (8, pcr8)];
        let optional = optional
            .into_iter()
            .filter_map(|(number, register)| Some((number, &register.as_ref()?.0)));
        [(0, &pcr0.0)].into_iter().chain(optional)
    }
}

/// Bytes that the policy writes as hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex<const N: usize>(pub [u8; N]);

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        bytes(&text).map(Self).map_err(Error::custom)
    }
}

fn bytes<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let wrong = || format!("{} hexadecimal digits are needed", 2 * N);
    let mut out = [0; N];
    if text.len() != 2 * N {
        return Err(wrong());
    }
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digit = |character: u8| {
            char::from(character)
                .to_digit(16)
                .and_then(|d| u8::try_from(d).ok())
        };
        let (high, low) = (digit(pair[0]), digit(pair[1]));
        *byte = high.ok_or_else(wrong)? << 4 | low.ok_or_else(wrong)?;
    }
    Ok(out)
}

/// Formats bytes as hexadecimal digits, for messages.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
