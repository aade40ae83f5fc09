//! The offer of an evaluator: its public key, its back end, its policy and its end. Evidence must
//! bind them all.

use pgseal_crypto::{sha256, sha512};

use super::{kind, MessageError, VERSION};
use crate::wire::{put_bytes, Reader};

const EVIDENCE_LABEL: &[u8] = b"pgseal/evidence/1\0";
const TRANSCRIPT_LABEL: &[u8] = b"pgseal/transcript/1\0";

/// The part of an offer that the evaluator decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferTerms {
    /// Where its evidence comes from: 0 software, 1 SEV-SNP, 2 TDX, 3 Nitro
    pub backend: u8,
    /// SHA-256 of its configuration
    pub policy: [u8; 32],
    /// Until when it takes an answer, in seconds since 1970
    pub expires: u64,
}

/// The claims that evidence must vouch for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims<'a> {
    /// The terms that the evaluator decided
    pub terms: OfferTerms,
    /// The 64 bytes that the evidence must contain: they bind the rest
    pub report_data: [u8; 64],
    /// The evidence, in the back end's own form
    pub evidence: &'a [u8],
}

/// A hello's nonce.
pub(super) fn parse_hello(message: &[u8]) -> Result<[u8; 32], MessageError> {
    let mut reader = Reader::new(message);
    expect(&mut reader, kind::HELLO)?;
    let nonce = reader.array()?;
    reader.end()?;
    Ok(nonce)
}

pub(super) fn hello(nonce: &[u8; 32]) -> Vec<u8> {
    [&[kind::HELLO, VERSION], &nonce[..]].concat()
}

/// An evidence message, taken apart.
pub(super) struct Parts<'a> {
    pub terms: OfferTerms,
    pub session_nonce: [u8; 32],
    pub public: [u8; 32],
    pub evidence: &'a [u8],
}

impl<'a> Parts<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(message);
        expect(&mut reader, kind::EVIDENCE)?;
        let backend = reader.u8()?;
        let expires = reader.u64()?;
        let session_nonce = reader.array()?;
        let public = reader.array()?;
        let policy = reader.array()?;
        let evidence = reader.bytes()?;
        reader.end()?;
        let terms = OfferTerms {
            backend,
            policy,
            expires,
        };
        Ok(Self {
            terms,
            session_nonce,
            public,
            evidence,
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![kind::EVIDENCE, VERSION, self.terms.backend];
        out.extend_from_slice(&self.terms.expires.to_le_bytes());
        out.extend_from_slice(&self.session_nonce);
        out.extend_from_slice(&self.public);
        out.extend_from_slice(&self.terms.policy);
        put_bytes(&mut out, self.evidence);
        out
    }

    /// Returns the bytes that evidence for this offer, made for this client, must contain.
    pub(super) fn report_data(&self, client_nonce: &[u8; 32]) -> [u8; 64] {
        sha512(&[
            EVIDENCE_LABEL,
            &[self.terms.backend],
            &self.public,
            &self.terms.policy,
            client_nonce,
            &self.session_nonce,
            &self.terms.expires.to_le_bytes(),
        ])
    }
}

/// Returns the hash of the messages that both ends have seen before the session is opened.
pub(super) fn transcript(hello: &[u8], evidence: &[u8]) -> [u8; 32] {
    sha256(&[TRANSCRIPT_LABEL, hello, evidence])
}

/// The first two bytes of a message.
pub(super) fn expect(reader: &mut Reader<'_>, kind: u8) -> Result<(), MessageError> {
    match (reader.u8()?, reader.u8()?) {
        (found, VERSION) if found == kind => Ok(()),
        (found, version) if found == kind && version > VERSION => Err(MessageError::Unknown),
        _ => Err(MessageError::Malformed),
    }
}
