//! The client's end: it trusts evidence, hands over the master key, and speaks in its session.

use pgseal_cell::grant::{Grant, Revocations};
use pgseal_cell::MasterKey;
use pgseal_crypto::exchange::Sender;
use pgseal_crypto::random_bytes;
use pgseal_crypto::sign::{PublicKey, SigningKey};
use zeroize::Zeroizing;

use super::channel::{Channel, Sealer};
use super::offer::{hello, transcript, Parts};
use super::{kind, Claims, Command, MessageError, OfferTerms, ReplyBuffer, VERSION};
use crate::wire::{put_bytes, put_len, Reader};

/// Decides whether evidence is to be trusted. A verifier must find `report_data` in the evidence.
pub trait VerifyEvidence {
    /// The reason why evidence does not hold.
    type Error;
    /// Whether the evidence vouches for the claims.
    fn verify(&self, claims: &Claims<'_>) -> Result<(), Self::Error>;
}

/// A client that asks for evidence.
pub struct Hello {
    nonce: [u8; 32],
}

impl Hello {
    /// A client, with a new nonce.
    pub fn new() -> Result<Self, MessageError> {
        Ok(Self::with_nonce(random_bytes()?))
    }

    /// A client with this nonce, which it must never have used.
    pub fn with_nonce(nonce: [u8; 32]) -> Self {
        Self { nonce }
    }

    /// The message to send to the evaluator.
    pub fn message(&self) -> Vec<u8> {
        hello(&self.nonce)
    }

    /// Reads the evaluator's answer.
    pub fn offer(self, message: &[u8]) -> Result<Offer, MessageError> {
        let parts = Parts::parse(message)?;
        Ok(Offer {
            terms: parts.terms,
            public: parts.public,
            report_data: parts.report_data(&self.nonce),
            evidence: parts.evidence.to_vec(),
            transcript: transcript(&self.message(), message),
        })
    }
}

/// An offer; anybody may have made it.
pub struct Offer {
    terms: OfferTerms,
    public: [u8; 32],
    report_data: [u8; 64],
    evidence: Vec<u8>,
    transcript: [u8; 32],
}

impl Offer {
    /// The claims that the evidence must vouch for.
    pub fn claims(&self) -> Claims<'_> {
        Claims {
            terms: self.terms,
            report_data: self.report_data,
            evidence: &self.evidence,
        }
    }

    /// The offer, if its evidence holds.
    pub fn verify<V: VerifyEvidence>(self, verifier: &V) -> Result<TrustedOffer, V::Error> {
        verifier.verify(&self.claims())?;
        Ok(TrustedOffer(self))
    }
}

/// An offer whose evidence was verified.
pub struct TrustedOffer(Offer);

/// The keys and terms that a client hands over.
pub struct OpenTerms<'a> {
    /// The owner's master key
    pub master: &'a MasterKey,
    /// The owner's public key
    pub owner: PublicKey,
    /// The client's own: the subject of grants
    pub client: &'a SigningKey,
    /// When the session ends, in seconds since 1970
    pub expires: u64,
    /// Grants to this client, or to background work
    pub grants: &'a [Grant],
    /// The owners' latest lists
    pub revocations: &'a [Revocations],
}

const OPEN_LABEL: &[u8] = b"pgseal/open/1\0";

impl TrustedOffer {
    /// Seals the terms to the evaluator. The second part of the result is the message to send.
    pub fn open(self, terms: &OpenTerms<'_>) -> Result<(Opening, Vec<u8>), MessageError> {
        let Offer {
            public, transcript, ..
        } = self.0;
        let (encapsulated, mut sender) = Sender::begin(&public, &transcript)?;
        let signed = signed_open(
            &transcript,
            &encapsulated,
            terms.master,
            &terms.owner,
            terms.expires,
        );
        let mut plain = Zeroizing::new(Vec::with_capacity(Self::room(terms)));
        plain.extend_from_slice(terms.master.expose());
        plain.extend_from_slice(&terms.owner.0);
        plain.extend_from_slice(&terms.client.public().0);
        plain.extend_from_slice(&terms.client.sign(&signed));
        plain.extend_from_slice(&terms.expires.to_le_bytes());
        put_all(&mut plain, terms.grants.iter().map(Grant::encode));
        put_all(
            &mut plain,
            terms.revocations.iter().map(Revocations::encode),
        );
        let mut message = vec![kind::OPEN, VERSION];
        message.extend_from_slice(&encapsulated);
        put_bytes(&mut message, &sender.seal(&[], &plain));
        Ok((Opening(Channel::new(&sender)), message))
    }

    /// Enough that the buffer with the master key never moves.
    fn room(terms: &OpenTerms<'_>) -> usize {
        let grants = terms.grants.iter().map(|grant| grant.encode().len() + 4);
        let lists = terms.revocations.iter().map(|list| list.encode().len() + 4);
        256 + grants.sum::<usize>() + lists.sum::<usize>()
    }
}

/// The bytes that the client signs: that it opens just this session, for this owner.
pub(super) fn signed_open(
    transcript: &[u8; 32],
    encapsulated: &[u8; 32],
    master: &MasterKey,
    owner: &PublicKey,
    expires: u64,
) -> Vec<u8> {
    [
        OPEN_LABEL,
        transcript,
        encapsulated,
        &master.owner_id(owner).0,
        &expires.to_le_bytes(),
    ]
    .concat()
}

fn put_all(into: &mut Vec<u8>, items: impl ExactSizeIterator<Item = Vec<u8>>) {
    put_len(into, items.len());
    items.for_each(|item| put_bytes(into, &item));
}

/// A client that waits for `Opened`.
pub struct Opening(Channel);

impl Opening {
    /// The session, if the evaluator could read what it was sent.
    pub fn opened(self, message: &[u8]) -> Result<ClientSession, MessageError> {
        let (_, plain) = self.0.open(Sealer::Evaluator, kind::OPENED, message)?;
        let mut reader = Reader::new(&plain);
        let expires = reader.u64()?;
        reader.end()?;
        Ok(ClientSession {
            channel: self.0,
            last: 0,
            expires,
        })
    }
}

/// An open session, at the client.
pub struct ClientSession {
    channel: Channel,
    last: u64,
    expires: u64,
}

impl ClientSession {
    /// When it ends, as the evaluator decided, in seconds since 1970.
    pub fn expires(&self) -> u64 {
        self.expires
    }

    /// The session's public name.
    pub fn id(&self) -> [u8; 16] {
        self.channel.id()
    }

    /// Seals a command and returns the message to send.
    pub fn command(&mut self, command: &Command<'_>) -> Vec<u8> {
        self.last += 1;
        let plain = command.encode();
        self.channel
            .seal(Sealer::Client, kind::COMMAND, self.last, &plain)
    }

    /// The reply to the last command, and to no other.
    pub fn reply(&self, message: &[u8]) -> Result<ReplyBuffer, MessageError> {
        let (counter, plain) = self.channel.open(Sealer::Evaluator, kind::REPLY, message)?;
        if counter != self.last {
            return Err(MessageError::Refused);
        }
        Ok(ReplyBuffer(plain))
    }
}
