//! The terms of signed papers. No key and no evaluator is needed: signatures are public.

use std::ffi::c_int;

use pgseal_cell::grant::{self, Grant, GrantError, GrantTerms, Revocations, Subject};
use pgseal_evaluator::os;
use pgseal_evaluator_proto::ring::MAX_MESSAGE;
use pgseal_evaluator_proto::Refusal;

use super::{put, report, shell, PgsealBytes};
use crate::shell::Failure;

/// `PgsealGrant`.
#[repr(C)]
pub struct PgsealGrant {
    serial: [u8; 16],
    owner: [u8; 32],
    subject: [u8; 32],
    subject_len: usize,
}

interface! {
    /// Reads the terms of a grant, if its owner has signed it.
    fn pgseal_grant(bytes: PgsealBytes, terms: *mut PgsealGrant) -> c_int {
        let outcome = paper(bytes.get()).and_then(|bytes| Ok(read(bytes)?));
        put(shell(), outcome.map_err(Failure::from), terms)
    }

    /// Reads the owner and the number of a list of revocations, if that owner has signed it.
    fn pgseal_revocations(bytes: PgsealBytes, owner: *mut u8, sequence: *mut i64) -> c_int {
        let outcome = paper(bytes.get()).and_then(|bytes| Ok(read_list(bytes)?));
        let outcome = outcome.map(|(public, number)| {
            owner.cast::<[u8; 32]>().write(public);
            sequence.write(number);
        });
        report(shell(), outcome.map_err(Failure::from))
    }
}

/// Returns these bytes if there is room to read them. What no message brings to an evaluator is of
/// no use, and any caller may pass anything, without a session or a known signer.
fn paper(bytes: &[u8]) -> Result<&[u8], Refusal> {
    if bytes.len() > MAX_MESSAGE {
        return Err(Refusal::TooLarge);
    }
    let is_there = os::has_room(Revocations::most_memory(bytes.len()));
    is_there.then_some(bytes).ok_or(Refusal::OutOfMemory)
}

fn read(bytes: &[u8]) -> Result<PgsealGrant, GrantError> {
    let claimed = Grant::parse(bytes)?;
    let (owner, begins) = (claimed.terms().owner, claimed.terms().not_before);
    // Whether it holds by now is for the evaluator to say.
    let grant = grant::verify(&claimed, &owner, begins, None)?;
    let GrantTerms {
        serial, subject, ..
    } = grant.terms();
    let (subject, subject_len) = match subject {
        Subject::Client(client) => (client.0, client.0.len()),
        Subject::Owner | Subject::Background => ([0; 32], 0),
    };
    Ok(PgsealGrant {
        serial: serial.0,
        owner: owner.0,
        subject,
        subject_len,
    })
}

fn read_list(bytes: &[u8]) -> Result<([u8; 32], i64), GrantError> {
    let claimed = Revocations::parse(bytes)?;
    let owner = claimed.owner();
    let list = claimed.verify(&owner)?;
    let sequence = i64::try_from(list.sequence()).map_err(|_| GrantError::Malformed)?;
    Ok((owner.0, sequence))
}
