//! The exchange with a client, past the server: evidence, the opening of a session, commands.
//!
//! What messages are, and that none is taken twice, is `pgseal_evaluator_proto::message`'s; what
//! they do to sessions is here.

use std::sync::Arc;

use pgseal_cell::grant::{Grant, Revocations};
use pgseal_crypto::exchange::ExchangeKey;
use pgseal_crypto::Secret;
use pgseal_evaluator_proto::message::{
    Command, EvaluatorSession, Kind, MessageError, OfferTerms, Opened, Welcome,
};
use pgseal_evaluator_proto::Refusal;

use super::keys::Owner;
use super::rights::Held;
use super::session::Holdings;
use super::Connection;
use crate::audit::Event;

/// How long an offer waits for its answer, in seconds.
const OFFER: u64 = 300;
/// The longest session, in seconds: a week.
const LONGEST: u64 = 7 * 24 * 3600;

/// Where the exchange with the client stands. An offer and an open session may be there together:
/// a client of a pool opens its own session after another's.
#[derive(Default)]
pub(super) struct Exchange {
    offer: Option<Welcome>,
    session: Option<EvaluatorSession>,
}

impl Connection {
    /// Takes a client's message, and appends what the client is to be sent.
    pub fn message(&mut self, message: &[u8], into: &mut Vec<u8>) -> Result<(), Refusal> {
        if !self.serves_client {
            return Err(Refusal::Unsupported);
        }
        match Kind::of(message)? {
            Kind::Hello => self.welcome(message, into),
            Kind::Open => self.open_session(message, into),
            Kind::Command => self.command(message, into),
        }
    }

    fn welcome(&mut self, hello: &[u8], into: &mut Vec<u8>) -> Result<(), Refusal> {
        let evidence = &self.shared.config.evidence;
        let terms = OfferTerms {
            backend: evidence.back_end(),
            policy: self.shared.policy,
            expires: self.now.saturating_add(OFFER),
        };
        // AWS-LC's own random numbers gather entropy for milliseconds in every thread that asks.
        let secret = Secret::generate().map_err(|_| Refusal::NoRandom)?;
        let nonce = pgseal_crypto::random_bytes().map_err(|_| Refusal::NoRandom)?;
        let key = ExchangeKey::from_secret(&secret);
        let offer = Welcome::with(key, nonce, hello, terms, |report_data| {
            evidence
                .produce(report_data)
                .map_err(|_| Refusal::EvaluatorAbsent)
        })?;
        into.extend_from_slice(offer.message());
        self.exchange.offer = Some(offer);
        Ok(())
    }

    fn open_session(&mut self, message: &[u8], into: &mut Vec<u8>) -> Result<(), Refusal> {
        let offer = self.exchange.offer.take().ok_or(Refusal::MessageRefused)?;
        let opened = offer.open(message, self.now)?;
        let expires = opened.expires.min(self.now.saturating_add(LONGEST));
        if self.now >= expires {
            return Err(MessageError::Expired.into());
        }
        let mut opened = opened;
        let (owner, client) = (opened.owner, opened.client);
        let grants = std::mem::take(&mut opened.grants);
        let lists = std::mem::take(&mut opened.revocations);
        let (holdings, session, answer) = holdings_of(opened, expires);
        self.begin(holdings)?;
        self.exchange.session = Some(session);
        self.counts.event(Event::Open {
            session: self.number(),
            owner: owner.0,
            subject: client.0,
            expiry: expires,
        });
        // A list or a grant that is refused takes nothing from the others.
        for list in lists {
            self.note(|connection| connection.revoke(list));
        }
        for grant in grants {
            self.note(|connection| connection.add_grant(&grant));
        }
        self.join_shares()?;
        into.extend_from_slice(&answer);
        Ok(())
    }

    /// Counts the refusal of something that was asked beside something else.
    fn note(&mut self, act: impl FnOnce(&mut Self) -> Result<(), Refusal>) {
        if let Err(refusal) = act(self) {
            self.counts.refused(refusal);
        }
    }

    /// Adds keys that other owners left for this client.
    fn join_shares(&mut self) -> Result<(), Refusal> {
        let (Some(session), Some(database)) = (&self.session, self.attached) else {
            return Err(Refusal::NoSession);
        };
        let mut holdings = session.write();
        let asker = holdings.asker(database, self.now);
        self.shared.deposits().hand_out(&mut holdings, &asker)?;
        drop(holdings);
        self.shared.advance();
        Ok(())
    }

    fn command(&mut self, message: &[u8], into: &mut Vec<u8>) -> Result<(), Refusal> {
        let session = self.exchange.session.take();
        let mut session = session.ok_or(Refusal::MessageRefused)?;
        let mut over = false;
        let answer = session.command(message, |command| match command {
            Command::AddGrant(grant) => {
                let grant = Grant::parse(grant)?;
                self.fresh()?;
                self.add_grant(&grant).map(|()| None)
            }
            Command::Revoke(list) => {
                let list = Revocations::parse(list)?;
                self.revoke(list).map(|()| None)
            }
            Command::GenerateKey {
                name,
                group,
                deterministic,
            } => self.generate_key(name, group, deterministic).map(Some),
            Command::Close => {
                over = true;
                Ok(None)
            }
        });
        if over {
            self.end_session();
        } else {
            self.exchange.session = Some(session);
        }
        into.extend_from_slice(&answer?);
        Ok(())
    }

    /// Takes a grant in that its owner signed, whenever it holds: every use asks for the time.
    fn add_grant(&mut self, grant: &Grant) -> Result<(), Refusal> {
        let session = self.session.as_ref().ok_or(Refusal::NoSession)?;
        let held = Held::verify(grant)?;
        let serial = grant.terms().serial;
        let mut holdings = session.write();
        let own = holdings.owners[..holdings.own].iter();
        let issuer = { own }.find(|owner| owner.public == grant.terms().owner);
        if let Some(owner) = issuer.filter(|owner| holdings.speaks_for(owner, self.now)) {
            self.shared.deposits().keep(owner, &held, self.now)?;
        }
        holdings.grant(held)?;
        drop(holdings);
        let session = session.number;
        self.shared.advance();
        self.counts.event(Event::Granted {
            session,
            grant: serial.0,
        });
        Ok(())
    }

    /// Takes an owner's list of revocations in, for all sessions.
    fn revoke(&mut self, list: Revocations) -> Result<(), Refusal> {
        let owner = list.owner();
        let list = list.verify(&owner)?;
        let sequence = list.sequence();
        if self.shared.deposits().revoke(list)? {
            self.shared.advance();
            self.counts.event(Event::Revoked {
                session: self.number(),
                owner: owner.0,
                sequence,
            });
        }
        Ok(())
    }
}

/// What a session of this opening holds at first.
fn holdings_of(opened: Opened, expires: u64) -> (Holdings, EvaluatorSession, Vec<u8>) {
    let (client, public) = (opened.client, opened.owner);
    let (master, session, answer) = opened.accept(expires);
    let holdings = Holdings {
        subject: Some(client),
        expires,
        owners: vec![Arc::new(Owner::new(master, public))],
        own: 1,
        keys: Vec::new(),
        rows: Vec::new(),
        grants: Vec::new(),
    };
    (holdings, session, answer)
}
