//! Evidence of an ordinary process: a statement that it proves nothing, and the bytes to be bound.

use crate::{Attested, BackEnd, Collateral, Measurement, Policy, Refusal, Verifier};

/// What such evidence begins with.
const STATEMENT: &[u8] = b"pgseal software evaluator: an ordinary process. \
    This proves nothing about hardware: whoever controls the machine can read its memory.\n";

/// Takes the statement for what it is, if the policy allows it by name.
#[derive(Clone, Copy, Debug)]
pub struct Software;

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
        let allowed = policy.software.as_ref().is_some_and(|table| table.allowed);
        if !allowed {
            return Err(Refusal::NotAllowed(BackEnd::Software));
        }
        let report_data = evidence
            .strip_prefix(STATEMENT)
            .and_then(|bound| bound.try_into().ok())
            .ok_or(Refusal::Malformed("not the statement and 64 bytes"))?;
        Ok(Attested {
            back_end: BackEnd::Software,
            report_data,
            measurement: Measurement::Nothing,
        })
    }
}
