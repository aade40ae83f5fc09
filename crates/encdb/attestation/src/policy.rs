//! What an owner trusts: a table for each kind of evidence (`docs/format/evidence.md`).
//!
//! A kind without a table is refused, as is a name that is not known here: a misspelt rule must not
//! become no rule.

use serde::de::{Deserializer, Error};
use serde::Deserialize;

use crate::snp::Tcb;

/// Whom the owner trusts.
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
    /// Reads a policy as it is written: TOML.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        toml::from_str(text).map_err(|error| PolicyError(error.message().to_owned()))
    }
}

/// The policy cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the attestation policy is wrong: {0}")]
pub struct PolicyError(String);

/// Whether an ordinary process will do.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SoftwarePolicy {
    /// Said by name: it proves nothing of the machine
    pub allowed: bool,
    /// Evaluators by the keys that sign their evidence; anybody if there is no such list
    pub keys: Option<Vec<Hex<32>>>,
}

/// Which SEV-SNP guests will do.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SnpPolicy {
    /// Launch digests
    pub measurements: Vec<Hex<48>>,
    /// Processors, each with the oldest firmware
    pub minimum_tcb: SnpProducts,
    /// Chips by their identifier; any if there is no such list
    pub chips: Option<Vec<Hex<64>>>,
    /// Whether a key that AMD gave to the cloud's owner may sign, instead of the chip's own
    #[serde(default)]
    pub vlek: bool,
    /// The least privileged level of the guest that may speak for it
    #[serde(default)]
    pub maximum_vmpl: u32,
}

/// The oldest firmware for each kind of processor; who is not listed is refused.
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

/// Which TDX domains will do.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TdxPolicy {
    /// Any of these
    pub measurements: Vec<TdxMeasurement>,
    /// What Intel may say of the platform's firmware
    #[serde(default = "up_to_date")]
    pub statuses: Vec<TdxStatus>,
    /// The oldest of Intel's evaluations to judge by
    #[serde(default)]
    pub minimum_evaluation: u32,
    /// Platforms by their PPID; any if there is no such list
    pub chips: Option<Vec<Hex<16>>>,
}

fn up_to_date() -> Vec<TdxStatus> {
    vec![TdxStatus::UpToDate]
}

/// What a domain was built from, and loaded later.
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
    /// What the system itself added
    pub rtmr3: Register,
}

/// A register's value, or that it does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Register {
    /// Just this
    Is([u8; 48]),
    /// `"any"`
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

/// What Intel says of a platform; worse ones cannot be accepted.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum TdxStatus {
    /// Nothing is known against it
    UpToDate,
    /// Software has to be hardened
    SWHardeningNeeded,
    /// The platform has to be configured otherwise
    ConfigurationNeeded,
    /// Both
    ConfigurationAndSWHardeningNeeded,
    /// Its firmware has known faults
    OutOfDate,
    /// And it has to be configured otherwise
    OutOfDateConfigurationNeeded,
}

/// Which enclaves will do.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NitroPolicy {
    /// SHA-256 of the root certificate in DER, which AWS publishes
    pub root: Hex<32>,
    /// Any of these
    pub measurements: Vec<NitroMeasurement>,
}

/// Registers of an enclave; what is not listed does not matter.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct NitroMeasurement {
    /// The image
    pub pcr0: Hex<48>,
    /// Kernel and boot ram disk
    pub pcr1: Option<Hex<48>>,
    /// The application
    pub pcr2: Option<Hex<48>>,
    /// The parent's role
    pub pcr3: Option<Hex<48>>,
    /// The parent's instance: pins the machine
    pub pcr4: Option<Hex<48>>,
    /// Who signed the image
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

/// Bytes that are written as hexadecimal digits.
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

/// Hexadecimal digits, for sentences.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
