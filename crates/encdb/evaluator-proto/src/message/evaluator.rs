//! The evaluator's end: it offers a key with evidence, takes what is sealed to it, and answers.

use pgseal_cell::grant::{Grant, Revocations};
use pgseal_cell::MasterKey;
use pgseal_crypto::exchange::ExchangeKey;
use pgseal_crypto::random_bytes;
use pgseal_crypto::sign::PublicKey;
use zeroize::Zeroizing;

use super::channel::{Channel, Sealer};
use super::client::signed_open;
use super::offer::{expect, parse_hello, transcript, Parts};
use super::{kind, Command, MessageError, OfferTerms, Reply};
use crate::wire::Reader;
use crate::{Items, Refusal};

/// An offer to one client that waits for its answer. Its key is for that answer only.
pub struct Welcome {
    key: ExchangeKey,
    transcript: [u8; 32],
    expires: u64,
    message: Vec<u8>,
}

impl Welcome {
    /// The offer to the client that sent this hello. `evidence` is asked for evidence that contains
    /// the 64 bytes.
    pub fn new<E: From<MessageError>>(
        hello: &[u8],
        terms: OfferTerms,
        evidence: impl FnOnce(&[u8; 64]) -> Result<Vec<u8>, E>,
    ) -> Result<Self, E> {
        let nonce = random_bytes().map_err(MessageError::from)?;
        Self::with(ExchangeKey::generate(), nonce, hello, terms, evidence)
    }

    /// The offer of this key and nonce, which were never used.
    pub fn with<E: From<MessageError>>(
        key: ExchangeKey,
        session_nonce: [u8; 32],
        hello: &[u8],
        terms: OfferTerms,
        evidence: impl FnOnce(&[u8; 64]) -> Result<Vec<u8>, E>,
    ) -> Result<Self, E> {
        let client_nonce = parse_hello(hello)?;
        let mut parts = Parts {
            terms,
            session_nonce,
            public: key.public(),
            evidence: &[],
        };
        let evidence = evidence(&parts.report_data(&client_nonce))?;
        parts.evidence = &evidence;
        let message = parts.encode();
        Ok(Self {
            key,
            transcript: transcript(hello, &message),
            expires: terms.expires,
            message,
        })
    }

    /// The message to send to the client.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Takes the client's answer. Whatever becomes of it, the offer is over.
    pub fn open(self, message: &[u8], now: u64) -> Result<Opened, MessageError> {
        if now >= self.expires {
            return Err(MessageError::Expired);
        }
        let mut reader = Reader::new(message);
        expect(&mut reader, kind::OPEN)?;
        let encapsulated = reader.array()?;
        let sealed = reader.bytes()?;
        reader.end()?;
        let mut receiver = self.key.receive(&encapsulated, &self.transcript)?;
        let plain = receiver.open(&[], sealed)?;
        let opened = Opened::read(&plain, Channel::new(&receiver), |opened, signature| {
            let (master, owner, expires) = (&opened.master, &opened.owner, opened.expires);
            let signed = signed_open(&self.transcript, &encapsulated, master, owner, expires);
            opened.client.verify(&signed, signature)
        });
        opened?.ok_or(MessageError::Refused)
    }
}

/// The keys and terms that a client handed over. Its signature was checked, its grants were not.
pub struct Opened {
    /// The owner's master key
    pub master: MasterKey,
    /// The owner's public key
    pub owner: PublicKey,
    /// The key of the client that opened the session: the subject of grants
    pub client: PublicKey,
    /// When the client wants the session to end, in seconds since 1970
    pub expires: u64,
    /// Grants to this client, or to background work
    pub grants: Vec<Grant>,
    /// Owners' lists
    pub revocations: Vec<Revocations>,
    channel: Channel,
}

impl Opened {
    fn read(
        plain: &[u8],
        channel: Channel,
        is_signed: impl FnOnce(&Self, &[u8; 64]) -> bool,
    ) -> Result<Option<Self>, MessageError> {
        let mut reader = Reader::new(plain);
        let mut master = Zeroizing::new(reader.array()?);
        let (owner, client) = (PublicKey(reader.array()?), PublicKey(reader.array()?));
        let signature = reader.array()?;
        let expires = reader.u64()?;
        let (grants, lists) = (Items::read(&mut reader)?, Items::read(&mut reader)?);
        reader.end()?;
        let opened = Self {
            master: MasterKey::from_bytes(&mut master),
            owner,
            client,
            expires,
            grants: all(grants, |bytes| Grant::parse(bytes).ok())?,
            revocations: all(lists, |bytes| Revocations::parse(bytes).ok())?,
            channel,
        };
        Ok(is_signed(&opened, &signature).then_some(opened))
    }

    /// Opens the session until `expires`; the last is what to send.
    pub fn accept(self, expires: u64) -> (MasterKey, EvaluatorSession, Vec<u8>) {
        let session = EvaluatorSession {
            channel: self.channel,
            last: 0,
        };
        let plain = expires.to_le_bytes();
        let message = session
            .channel
            .seal(Sealer::Evaluator, kind::OPENED, 0, &plain);
        (self.master, session, message)
    }
}

fn all<T>(items: Items<'_>, parse: impl Fn(&[u8]) -> Option<T>) -> Result<Vec<T>, MessageError> {
    items
        .iter()
        .map(|item| parse(item).ok_or(MessageError::Malformed))
        .collect()
}

/// An open session, at the evaluator.
pub struct EvaluatorSession {
    channel: Channel,
    last: u64,
}

impl EvaluatorSession {
    /// The session's public name.
    pub fn id(&self) -> [u8; 16] {
        self.channel.id()
    }

    /// Opens a command, which must be newer than all before it, lets `act` do it, and gives what to
    /// send.
    pub fn command(
        &mut self,
        message: &[u8],
        act: impl FnOnce(Command<'_>) -> Result<Option<Vec<u8>>, Refusal>,
    ) -> Result<Vec<u8>, MessageError> {
        let (counter, plain) = self.channel.open(Sealer::Client, kind::COMMAND, message)?;
        if counter <= self.last {
            return Err(MessageError::Refused);
        }
        self.last = counter;
        let done = act(Command::parse(&plain)?);
        let reply = match &done {
            Ok(None) => Reply::Done,
            Ok(Some(wrapped)) => Reply::WrappedKey(wrapped),
            Err(refusal) => Reply::Refused((*refusal).into()),
        };
        let reply = reply.encode();
        Ok(self
            .channel
            .seal(Sealer::Evaluator, kind::REPLY, counter, &reply))
    }
}
