//! Certificates of makers. They are read strictly, and chains are checked to a root that the caller
//! trusts.
//!
//! Nothing searches for a path: the caller knows the order. All signatures of a chain have one
//! scheme, the one that its maker uses.

use pgseal_crypto::foreign::Scheme;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Encode, Reader, SliceReader};
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage};
use x509_cert::spki::AlgorithmIdentifierOwned;
use x509_cert::{Certificate as Parsed, TbsCertificate};

use crate::Refusal;

const MALFORMED: Refusal = Refusal::Malformed("a certificate cannot be read");

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const SECP384R1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ECDSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");

/// A certificate that was read. Its signature is not checked yet.
pub struct Certificate {
    parsed: Parsed,
    signed: Vec<u8>,
}

impl Certificate {
    /// Reads one certificate, in the only form that DER allows.
    pub fn parse(der: &[u8]) -> Result<Self, Refusal> {
        let parsed = Parsed::from_der(der).map_err(|_| MALFORMED)?;
        let signed = parsed.tbs_certificate().to_der().map_err(|_| MALFORMED)?;
        let again = parsed.to_der().map_err(|_| MALFORMED)?;
        if again != der || parsed.tbs_certificate().signature() != parsed.signature_algorithm() {
            return Err(MALFORMED);
        }
        Ok(Self { parsed, signed })
    }

    /// Reads certificates that follow each other without a gap.
    pub fn parse_all(ders: &[u8]) -> Result<Vec<Self>, Refusal> {
        let mut reader = SliceReader::new(ders).map_err(|_| MALFORMED)?;
        let mut certificates = Vec::new();
        while !reader.is_finished() {
            let der = reader.tlv_bytes().map_err(|_| MALFORMED)?;
            certificates.push(Self::parse(der)?);
        }
        Ok(certificates)
    }

    /// Whether the certificate names `issuer` as its issuer.
    pub fn names_issuer(&self, issuer: &Self) -> bool {
        self.tbs().issuer() == issuer.tbs().subject()
    }

    /// Returns the point of a P-384 key. Fails if the key is of another kind.
    pub fn p384_key(&self) -> Result<&[u8], Refusal> {
        let info = self.tbs().subject_public_key_info();
        let curve = curve(&info.algorithm);
        if info.algorithm.oid != EC || curve != Some(SECP384R1) {
            return Err(Refusal::Malformed("a certificate's key is not of P-384"));
        }
        self.key()
    }

    /// Returns the value of the extension of this name.
    pub fn extension(&self, name: ObjectIdentifier) -> Option<&[u8]> {
        let extensions = self.tbs().extensions()?;
        let found = extensions.iter().find(|found| found.extn_id == name)?;
        Some(found.extn_value.as_bytes())
    }

    fn tbs(&self) -> &TbsCertificate {
        self.parsed.tbs_certificate()
    }

    fn key(&self) -> Result<&[u8], Refusal> {
        let key = &self.tbs().subject_public_key_info().subject_public_key;
        key.as_bytes().ok_or(MALFORMED)
    }

    fn is_valid(&self, now: u64) -> bool {
        let validity = self.tbs().validity();
        let from = validity.not_before.to_unix_duration().as_secs();
        let until = validity.not_after.to_unix_duration().as_secs();
        from <= now && now <= until
    }

    /// Whether the certificate may issue others, with `below` authorities between it and the leaf.
    fn is_authority(&self, below: usize) -> bool {
        let constraints = self.tbs().get_extension::<BasicConstraints>();
        let usage = self.tbs().get_extension::<KeyUsage>();
        let (Ok(Some((_, constraints))), Ok(usage)) = (constraints, usage) else {
            return false;
        };
        let depth = constraints.path_len_constraint.map(usize::from);
        constraints.ca
            && depth.is_none_or(|depth| below <= depth)
            && usage.is_none_or(|(_, usage)| usage.key_cert_sign())
    }

    /// Whether every critical extension is known, and no extension occurs twice.
    fn is_understood(&self) -> bool {
        let extensions = self.tbs().extensions().map_or(&[][..], Vec::as_slice);
        let known = [BASIC_CONSTRAINTS, KEY_USAGE];
        extensions.iter().enumerate().all(|(place, extension)| {
            let name = extension.extn_id;
            let repeats = extensions[..place].iter().any(|e| e.extn_id == name);
            !repeats && (!extension.critical || known.contains(&name))
        })
    }

    fn is_signed_by(&self, issuer: &Self, scheme: Scheme) -> Result<bool, Refusal> {
        let (signature, key) = match scheme {
            Scheme::RsaPss => (RSA_PSS, (RSA, None)),
            _ => (ECDSA_SHA384, (EC, Some(SECP384R1))),
        };
        let issuing = &issuer.tbs().subject_public_key_info().algorithm;
        let bits = self.parsed.signature().as_bytes().ok_or(MALFORMED)?;
        Ok(self.parsed.signature_algorithm().oid == signature
            && (issuing.oid, curve(issuing)) == key
            && scheme.verify(issuer.key()?, &self.signed, bits).is_ok())
    }
}

fn curve(algorithm: &AlgorithmIdentifierOwned) -> Option<ObjectIdentifier> {
    algorithm.parameters.as_ref()?.decode_as().ok()
}

/// Checks a chain at `now`, in seconds since 1970. The leaf comes first, and the root, which the
/// caller trusts, comes last.
pub fn verify_chain(chain: &[&Certificate], scheme: Scheme, now: u64) -> Result<(), Refusal> {
    let issued = chain.iter().zip(chain.iter().skip(1)).enumerate();
    for (below, (subject, issuer)) in issued {
        if !subject.names_issuer(issuer) {
            return Err(Refusal::OtherRoot);
        }
        if !issuer.is_authority(below) || !subject.is_signed_by(issuer, scheme)? {
            return Err(Refusal::NotAuthentic("a certificate"));
        }
    }
    if !chain.iter().all(|one| one.is_understood()) {
        return Err(Refusal::Malformed(
            "a certificate demands what is not known",
        ));
    }
    if chain.iter().all(|one| one.is_valid(now)) {
        Ok(())
    } else {
        Err(Refusal::Expired("a certificate of the evidence"))
    }
}
