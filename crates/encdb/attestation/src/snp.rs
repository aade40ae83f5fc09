//! AMD SEV-SNP: a report of 1184 bytes, signed by a key of the chip (VCEK) or by one that AMD gave
//! to the cloud's operator (VLEK). The key's certificate leads to AMD's root for the kind of
//! processor.
//!
//! The signature is checked first, so all other fields that are read come from the firmware.

mod report;

use pgseal_crypto::foreign::Scheme;
use serde::Deserialize;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::Decode;

use crate::policy::{digits, SnpPolicy, SnpProducts};
use crate::x509::{verify_chain, Certificate};
use crate::{Attested, BackEnd, Collateral, Measurement, Policy, Refusal, Verifier};
use report::{Report, Signer, LEN, SIGNED};

const CHIP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.3704.1.4");
const CLOUD: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.3704.1.5");
const BOOTLOADER: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.3704.1.3.1");
const TEE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.3704.1.3.2");
const SNP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.3704.1.3.3");
const MICROCODE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.3704.1.3.8");
const FMC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.3704.1.3.9");

/// Versions of the parts of a platform's firmware. No part may be older than the policy requires.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Tcb {
    /// The boot loader's version
    pub bootloader: u8,
    /// The version of the secure processor's system
    pub tee: u8,
    /// The version of SNP's firmware
    pub snp: u8,
    /// The version of the cores' microcode
    pub microcode: u8,
    /// The version of the first mutable code, on Turin only
    #[serde(default)]
    pub fmc: u8,
}

impl Tcb {
    fn parts(&self) -> [u8; 5] {
        let Self {
            bootloader,
            tee,
            snp,
            microcode,
            fmc,
        } = *self;
        [bootloader, tee, snp, microcode, fmc]
    }

    fn is_at_least(&self, other: &Self) -> bool {
        self.parts()
            .iter()
            .zip(other.parts())
            .all(|(own, asked)| *own >= asked)
    }
}

/// A kind of processor, each with a root of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Milan,
    Genoa,
    Turin,
}

impl Kind {
    fn minimum(self, products: &SnpProducts) -> Option<&Tcb> {
        match self {
            Self::Milan => products.milan.as_ref(),
            Self::Genoa => products.genoa.as_ref(),
            Self::Turin => products.turin.as_ref(),
        }
    }
}

/// A root of AMD, and the authority below it that issues certificates of chips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product<'a> {
    pub kind: Kind,
    pub ark: &'a [u8],
    pub ask: &'a [u8],
}

static PRODUCTS: [Product<'static>; 3] = [
    Product {
        kind: Kind::Milan,
        ark: include_bytes!("snp/roots/milan-ark.der"),
        ask: include_bytes!("snp/roots/milan-ask.der"),
    },
    Product {
        kind: Kind::Genoa,
        ark: include_bytes!("snp/roots/genoa-ark.der"),
        ask: include_bytes!("snp/roots/genoa-ask.der"),
    },
    Product {
        kind: Kind::Turin,
        ark: include_bytes!("snp/roots/turin-ark.der"),
        ask: include_bytes!("snp/roots/turin-ask.der"),
    },
];

/// Checks reports of SEV-SNP.
#[derive(Clone, Copy, Debug)]
pub struct SevSnp<'a> {
    pub(crate) products: &'a [Product<'a>],
}

impl SevSnp<'static> {
    /// Reports that lead to AMD's own roots.
    pub const AMD: Self = Self {
        products: &PRODUCTS,
    };
}

impl Verifier for SevSnp<'_> {
    fn back_end(&self) -> BackEnd {
        BackEnd::SevSnp
    }

    fn verify(
        &self,
        evidence: &[u8],
        collateral: &Collateral<'_>,
        policy: &Policy,
        now: u64,
    ) -> Result<Attested, Refusal> {
        let table = policy.sev_snp.as_ref();
        let table = table.ok_or(Refusal::NotAllowed(BackEnd::SevSnp))?;
        let short = Refusal::Malformed("shorter than a report");
        let (bytes, carried) = evidence.split_first_chunk::<LEN>().ok_or(short)?;
        let given = if carried.is_empty() {
            collateral.amd
        } else {
            carried
        };
        let (kind, leaf) = self.leaf(given, now)?;
        let report = signed_report(bytes, kind, &leaf)?;
        belongs(&report, kind, &leaf)?;
        accept(&report, kind, table)?;
        Ok(Attested {
            back_end: BackEnd::SevSnp,
            report_data: report.report_data,
            measurement: Measurement::SevSnp(report.measurement),
        })
    }
}

impl SevSnp<'_> {
    /// Returns the certificate of the signing key and the kind of processor, if AMD vouches for the
    /// certificate.
    fn leaf(&self, given: &[u8], now: u64) -> Result<(Kind, Certificate), Refusal> {
        let mut given = Certificate::parse_all(given)?.into_iter();
        let leaf = given
            .next()
            .ok_or(Refusal::Missing("the chip's certificate"))?;
        let issuer = given.next();
        if given.next().is_some() {
            return Err(Refusal::Malformed("more certificates than a chain has"));
        }
        for product in self.products {
            let root = Certificate::parse(product.ark)?;
            let own = Certificate::parse(product.ask)?;
            let issuer = issuer.as_ref().unwrap_or(&own);
            if leaf.names_issuer(issuer) && issuer.names_issuer(&root) {
                verify_chain(&[&leaf, issuer, &root], Scheme::RsaPss, now)?;
                return Ok((product.kind, leaf));
            }
        }
        Err(Refusal::OtherRoot)
    }
}

fn signed_report(bytes: &[u8; LEN], kind: Kind, leaf: &Certificate) -> Result<Report, Refusal> {
    let signature = report::signature(bytes)?;
    Scheme::P384Fixed
        .verify(leaf.p384_key()?, &bytes[..SIGNED], &signature)
        .map_err(|_| Refusal::NotAuthentic("the report"))?;
    Report::parse(bytes, kind == Kind::Turin)
}

/// Checks that the certificate names the chip and the firmware of the report.
fn belongs(report: &Report, kind: Kind, leaf: &Certificate) -> Result<(), Refusal> {
    if certified_tcb(leaf, kind) != Some(report.reported_tcb) {
        return Err(Refusal::OtherCertificate("the version of the firmware"));
    }
    let (chip, is_cloud) = (leaf.extension(CHIP), leaf.extension(CLOUD).is_some());
    let matches = match report.signer {
        Signer::Chip => chip.is_some_and(|chip| !is_cloud && report.is_of_chip(chip)),
        Signer::Cloud => chip.is_none() && is_cloud,
    };
    if matches {
        Ok(())
    } else {
        Err(Refusal::OtherCertificate("the chip"))
    }
}

fn certified_tcb(leaf: &Certificate, kind: Kind) -> Option<Tcb> {
    let part = |name| u8::from_der(leaf.extension(name)?).ok();
    Some(Tcb {
        bootloader: part(BOOTLOADER)?,
        tee: part(TEE)?,
        snp: part(SNP)?,
        microcode: part(MICROCODE)?,
        fmc: if kind == Kind::Turin { part(FMC)? } else { 0 },
    })
}

fn accept(report: &Report, kind: Kind, table: &SnpPolicy) -> Result<(), Refusal> {
    if report.debug {
        return Err(Refusal::Debug);
    }
    if report.migration {
        return Err(Refusal::Migration);
    }
    if report.vmpl > table.maximum_vmpl {
        return Err(Refusal::Privilege(report.vmpl));
    }
    if !table
        .measurements
        .iter()
        .any(|one| one.0 == report.measurement)
    {
        return Err(Refusal::Measurement(digits(&report.measurement)));
    }
    accept_platform(report, kind, table)
}

fn accept_platform(report: &Report, kind: Kind, table: &SnpPolicy) -> Result<(), Refusal> {
    let minimum = kind.minimum(&table.minimum_tcb);
    let minimum = minimum.ok_or_else(|| Refusal::Platform(format!("processors like {kind:?}")))?;
    if !report.reported_tcb.is_at_least(minimum) {
        return Err(Refusal::Tcb(format!("{:?}", report.reported_tcb)));
    }
    if report.signer == Signer::Cloud && !table.vlek {
        return Err(Refusal::Platform(
            "reports signed with a cloud's key".into(),
        ));
    }
    match &table.chips {
        Some(chips) if !chips.iter().any(|chip| chip.0 == report.chip) => {
            Err(Refusal::Platform(format!("chip {}", digits(&report.chip))))
        }
        _ => Ok(()),
    }
}
