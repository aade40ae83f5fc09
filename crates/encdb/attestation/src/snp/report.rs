//! The layout of a report: AMD 56860 "SEV-SNP Firmware ABI", ATTESTATION_REPORT. Integers are
//! little-endian.

use crate::snp::Tcb;
use crate::Refusal;

/// The length of a report in bytes.
pub const LEN: usize = 1184;

/// The length of its signed part in bytes.
pub const SIGNED: usize = 0x2a0;

/// The versions that have this layout.
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=5;

/// The report's number for ECDSA over P-384 with SHA-384.
const ECDSA_P384: u32 = 1;

const DEBUG: u32 = 1 << 19;
const MIGRATION: u32 = 1 << 18;

/// The key that signed a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// The chip's own key (VCEK)
    Chip,
    /// A key that AMD gave to the cloud's operator (VLEK)
    Cloud,
}

/// The fields of a report that are checked.
pub struct Report {
    pub debug: bool,
    pub migration: bool,
    pub vmpl: u32,
    pub signer: Signer,
    pub report_data: [u8; 64],
    pub measurement: [u8; 48],
    pub reported_tcb: Tcb,
    pub chip: [u8; 64],
}

impl Report {
    /// Reads a report. The caller has checked its signature.
    pub fn parse(bytes: &[u8; LEN], turin: bool) -> Result<Self, Refusal> {
        let version = word(bytes, 0);
        if !VERSIONS.contains(&version) {
            return Err(Refusal::UnknownVersion(version));
        }
        if word(bytes, 0x34) != ECDSA_P384 {
            return Err(Refusal::Malformed(
                "the report's signature is of another kind",
            ));
        }
        let policy = word(bytes, 0x08);
        Ok(Self {
            debug: policy & DEBUG != 0,
            migration: policy & MIGRATION != 0,
            vmpl: word(bytes, 0x30),
            signer: signer(word(bytes, 0x48))?,
            report_data: field(bytes, 0x50),
            measurement: field(bytes, 0x90),
            reported_tcb: tcb(field(bytes, 0x180), turin),
            chip: field(bytes, 0x1a0),
        })
    }

    /// Whether a certificate is for the chip of this report. Turin's identifiers are shorter than
    /// the field, and zeros follow them.
    pub fn is_of_chip(&self, certified: &[u8]) -> bool {
        let (chip, rest) = self.chip.split_at(certified.len().min(self.chip.len()));
        let is_zero = chip.iter().all(|byte| *byte == 0);
        chip == certified && !is_zero && rest.iter().all(|byte| *byte == 0)
    }
}

fn signer(flags: u32) -> Result<Signer, Refusal> {
    match flags >> 2 & 7 {
        0 => Ok(Signer::Chip),
        1 => Ok(Signer::Cloud),
        _ => Err(Refusal::Malformed(
            "the report is signed by no key that is known",
        )),
    }
}

fn tcb(bytes: [u8; 8], turin: bool) -> Tcb {
    if turin {
        let [fmc, bootloader, tee, snp, _, _, _, microcode] = bytes;
        Tcb {
            bootloader,
            tee,
            snp,
            microcode,
            fmc,
        }
    } else {
        let [bootloader, tee, _, _, _, _, snp, microcode] = bytes;
        Tcb {
            bootloader,
            tee,
            snp,
            microcode,
            fmc: 0,
        }
    }
}

/// Returns the signature as r and s, 48 bytes each, big-endian. The report stores them
/// little-endian, each followed by zeros.
pub fn signature(bytes: &[u8; LEN]) -> Result<[u8; 96], Refusal> {
    let stored = &bytes[SIGNED..];
    let (r, s, rest) = (&stored[..72], &stored[72..144], &stored[144..]);
    let padding = r[48..].iter().chain(&s[48..]).chain(rest);
    if padding.copied().any(|byte| byte != 0) {
        return Err(Refusal::Malformed("the report's signature is too long"));
    }
    let mut out = [0; 96];
    let parts = r[..48].iter().rev().chain(s[..48].iter().rev());
    out.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
    Ok(out)
}

fn field<const N: usize>(bytes: &[u8; LEN], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

fn word(bytes: &[u8; LEN], at: usize) -> u32 {
    u32::from_le_bytes(field(bytes, at))
}
