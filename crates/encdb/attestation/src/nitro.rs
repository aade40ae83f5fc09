//! AWS Nitro Enclaves: a document in CBOR, signed as COSE_Sign1 with ES384. The document carries
//! the certificate of the signing key and its chain, which begins with AWS's root. The policy names
//! the root.

use std::collections::BTreeMap;

use ciborium::Value;
use coset::iana::Algorithm;
use coset::{CborSerializable, CoseSign1, Header, RegisteredLabelWithPrivate};
use pgseal_crypto::foreign::Scheme;
use pgseal_crypto::sha256;

use crate::policy::{digits, NitroPolicy};
use crate::x509::{verify_chain, Certificate};
use crate::{Attested, BackEnd, Collateral, Measurement, Policy, Refusal, Verifier};

const MALFORMED: Refusal = Refusal::Malformed("not a document of Nitro");

/// Checks documents of Nitro Enclaves.
#[derive(Clone, Copy, Debug)]
pub struct Nitro;

impl Verifier for Nitro {
    fn back_end(&self) -> BackEnd {
        BackEnd::Nitro
    }

    fn verify(
        &self,
        evidence: &[u8],
        _: &Collateral<'_>,
        policy: &Policy,
        now: u64,
    ) -> Result<Attested, Refusal> {
        let table = policy.nitro.as_ref();
        let table = table.ok_or(Refusal::NotAllowed(BackEnd::Nitro))?;
        let envelope = envelope(evidence)?;
        let document = Document::parse(envelope.payload.as_deref().ok_or(MALFORMED)?)?;
        let key = document.leaf(table, now)?;
        envelope.verify_signature(&[], |signature, signed| {
            Scheme::P384Fixed
                .verify(key.p384_key()?, signed, signature)
                .map_err(|_| Refusal::NotAuthentic("the document"))
        })?;
        document.accept(table)
    }
}

/// Reads the envelope in the only spelling that the hypervisor writes: ES384 and no other header.
fn envelope(evidence: &[u8]) -> Result<CoseSign1, Refusal> {
    let envelope = CoseSign1::from_slice(evidence).map_err(|_| MALFORMED)?;
    let header = Header {
        alg: Some(RegisteredLabelWithPrivate::Assigned(Algorithm::ES384)),
        ..Header::default()
    };
    let again = envelope.clone().to_vec().map_err(|_| MALFORMED)?;
    let is_plain = envelope.protected.header == header && envelope.unprotected.is_empty();
    if is_plain && again == evidence {
        Ok(envelope)
    } else {
        Err(MALFORMED)
    }
}

/// A document whose signature may not have been checked yet.
struct Document {
    registers: BTreeMap<u8, [u8; 48]>,
    certificate: Vec<u8>,
    authorities: Vec<Vec<u8>>,
    report_data: [u8; 64],
}

impl Document {
    fn parse(payload: &[u8]) -> Result<Self, Refusal> {
        let value: Value = ciborium::from_reader(payload).map_err(|_| MALFORMED)?;
        let mut fields = Fields::of(value)?;
        if fields.take("digest")?.as_text() != Some("SHA384") {
            return Err(MALFORMED);
        }
        let user_data = fields.take("user_data")?;
        let user_data = user_data
            .as_bytes()
            .and_then(|bytes| bytes[..].try_into().ok());
        let unbound = Refusal::Malformed("the document's user data is not 64 bytes");
        Ok(Self {
            registers: registers(fields.take("pcrs")?)?,
            certificate: fields
                .take("certificate")?
                .into_bytes()
                .map_err(|_| MALFORMED)?,
            authorities: all_bytes(fields.take("cabundle")?)?,
            report_data: user_data.ok_or(unbound)?,
        })
    }

    /// Returns the certificate of the signing key, if the policy's root vouches for it.
    fn leaf(&self, table: &NitroPolicy, now: u64) -> Result<Certificate, Refusal> {
        let root = self.authorities.first().ok_or(MALFORMED)?;
        if sha256(&[root]) != table.root.0 {
            return Err(Refusal::OtherRoot);
        }
        let leaf = Certificate::parse(&self.certificate)?;
        let authorities = self.authorities.iter().rev();
        let authorities = authorities.map(|der| Certificate::parse(der));
        let authorities = authorities.collect::<Result<Vec<_>, _>>()?;
        let chain: Vec<_> = [&leaf].into_iter().chain(&authorities).collect();
        verify_chain(&chain, Scheme::P384, now)?;
        Ok(leaf)
    }

    fn accept(self, table: &NitroPolicy) -> Result<Attested, Refusal> {
        let Some(image) = self.registers.get(&0) else {
            return Err(Refusal::Debug); // registers of zeros were left out
        };
        let is_accepted = table.measurements.iter().any(|accepted| {
            let mut asked = accepted.registers();
            asked.all(|(number, value)| self.registers.get(&number) == Some(value))
        });
        if !is_accepted {
            return Err(Refusal::Measurement(format!("pcr0 {}", digits(image))));
        }
        Ok(Attested {
            back_end: BackEnd::Nitro,
            report_data: self.report_data,
            measurement: Measurement::Nitro(self.registers),
        })
    }
}

/// The document's fields by name. Each name occurs once.
struct Fields(BTreeMap<String, Value>);

impl Fields {
    fn of(value: Value) -> Result<Self, Refusal> {
        let mut fields = BTreeMap::new();
        for (name, value) in value.into_map().map_err(|_| MALFORMED)? {
            let name = name.into_text().map_err(|_| MALFORMED)?;
            if fields.insert(name, value).is_some() {
                return Err(MALFORMED);
            }
        }
        Ok(Self(fields))
    }

    fn take(&mut self, name: &str) -> Result<Value, Refusal> {
        self.0.remove(name).ok_or(MALFORMED)
    }
}

/// Reads the registers and drops those that are zero.
fn registers(value: Value) -> Result<BTreeMap<u8, [u8; 48]>, Refusal> {
    let mut registers = BTreeMap::new();
    for (number, value) in value.into_map().map_err(|_| MALFORMED)? {
        let number = number
            .as_integer()
            .and_then(|number| u8::try_from(number).ok());
        let value = value.as_bytes().and_then(|bytes| bytes[..].try_into().ok());
        let (number, value) = (number.ok_or(MALFORMED)?, value.ok_or(MALFORMED)?);
        if registers.insert(number, value).is_some() {
            return Err(MALFORMED);
        }
    }
    registers.retain(|_, value| *value != [0; 48]);
    Ok(registers)
}

fn all_bytes(value: Value) -> Result<Vec<Vec<u8>>, Refusal> {
    let values = value.into_array().map_err(|_| MALFORMED)?;
    values
        .into_iter()
        .map(|value| value.into_bytes().map_err(|_| MALFORMED))
        .collect()
}
