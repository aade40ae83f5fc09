//! Evidence of an ordinary process: a statement that it proves nothing about the machine, the bytes
//! to be bound, and, if the process has a key of its own, that key and its signature.
//!
//! Anybody can make such evidence without a key. A policy that names keys accepts it only from
//! their holders, so nobody between client and evaluator can make it.

use pgseal_crypto::sign::{PublicKey, SIGNATURE};

use crate::{Attested, BackEnd, Collateral, Measurement, Policy, Refusal, Verifier};

/// The beginning of evidence without a key.
const STATEMENT: &[u8] = b"pgseal software evaluator: an ordinary process. \
    This proves nothing about hardware: whoever controls the machine can read its memory.\n";

/// The beginning of evidence with a key and a signature.
const SIGNED_STATEMENT: &[u8] =
    b"pgseal software evaluator: an ordinary process, known by its key. \
    This proves nothing about hardware: whoever controls the machine can read its memory.\n";

/// Accepts the statement, which proves nothing, if the policy allows it by name.
#[derive(Clone, Copy, Debug)]
pub struct Software;

impl Software {
    /// Returns the key that claims to have signed the evidence. Nothing is checked.
    pub fn claimed_key(evidence: &[u8]) -> Option<PublicKey> {
        let rest = evidence.strip_prefix(SIGNED_STATEMENT)?;
        Some(PublicKey(rest.get(64..96)?.try_into().ok()?))
    }
}

impl Verifier for Software {
    fn back_end(&self) -> BackEnd {
        BackEnd::Software
    }

    fn verify(
        &self,
        evidence: &[u8],
        _: &Collateral<'_>,
        policy: &Policy,
        _: u64,
    ) -> Result<Attested, Refusal> {
        let table = policy.software.as_ref().filter(|table| table.allowed);
        let table = table.ok_or(Refusal::NotAllowed(BackEnd::Software))?;
        let (report_data, signer) = opened(evidence)?;
        match (&table.keys, signer) {
            (None, _) => {}
            (Some(_), None) => return Err(Refusal::Unsigned),
            (Some(keys), Some(signer)) if keys.iter().any(|key| key.0 == signer.0) => {}
            (Some(_), Some(signer)) => return Err(Refusal::OtherKey(signer)),
        }
        Ok(Attested {
            back_end: BackEnd::Software,
            report_data,
            measurement: Measurement::Nothing,
        })
    }
}

/// Returns the bound bytes, and the key that signed them, if there is a signature. The signature is
/// checked.
fn opened(evidence: &[u8]) -> Result<([u8; 64], Option<PublicKey>), Refusal> {
    let malformed = Refusal::Malformed("not the statement, 64 bytes, and a key with its signature");
    if let Some(bound) = evidence.strip_prefix(STATEMENT) {
        return Ok((bound.try_into().map_err(|_| malformed)?, None));
    }
    let signed = evidence.split_last_chunk::<SIGNATURE>();
    let (message, signature) = signed.ok_or(malformed.clone())?;
    let bound = message.strip_prefix(SIGNED_STATEMENT);
    let (report_data, key) = bound
        .and_then(<[u8]>::split_first_chunk::<64>)
        .ok_or(malformed.clone())?;
    let key = PublicKey(key.try_into().map_err(|_| malformed)?);
    match key.verify(message, signature) {
        true => Ok((*report_data, Some(key))),
        false => Err(Refusal::NotAuthentic("the evaluator's statement")),
    }
}
