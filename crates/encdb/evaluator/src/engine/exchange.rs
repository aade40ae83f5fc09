//! The exchange with a client, past the server: evidence, the opening of a session, commands.
//!
//! What messages are, and that none is taken twice, is `pgseal_evaluator_proto::message`'s; what
//! they do to sessions is here.

use std::sync::Arc;

use pgseal_cell::grant::{Grant, Revocations, VerifiedRevocations};
use pgseal_crypto::exchange::ExchangeKey;
use pgseal_crypto::Secret;
use pgseal_evaluator_proto::message::{
    Command, EvaluatorSession, Kind, MessageError, OfferTerms, Opened, Welcome,
};
use pgseal_evaluator_proto::Refusal;

use super::access::Access;
use super::deposits::Taken;
use super::keys::Owner;
use super::rights::{Asker, Held};
use super::roles::Deed;
use super::roles::Room;
use super::session::Holdings;
use super::{Connection, Shared};
use crate::audit::Event;

/// How long an offer waits for its answer, in seconds.
const OFFER: u64 = 300;
/// The longest session, in seconds: a week.
const MAX_LIFETIME: u64 = 7 * 24 * 3600;
/// The longest grant, in bytes: some thousand keys. Each session keeps a thousand grants.
const MAX_GRANT: usize = 16 << 10;

/// Where the exchange with the client is. An offer and an open session may be there together:
/// a client of a pool opens its own session after another's.
#[derive(Default)]
pub(super) struct Exchange {
    /// The connection was attached for a client, which may open sessions.
    serves_client: bool,
    offer: Option<Welcome>,
    session: Option<EvaluatorSession>,
}

impl Exchange {
    /// Lets a client open sessions here from now on.
    pub(super) fn serve_client(&mut self) {
        self.serves_client = true;
    }

    /// Whether a client may open sessions here.
    pub(super) fn serves_client(&self) -> bool {
        self.serves_client
    }

    /// Answers a client's greeting with an offer.
    fn welcome(
        &mut self,
        shared: &Shared,
        now: u64,
        hello: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let evidence = &shared.config.evidence;
        let terms = OfferTerms {
            backend: evidence.back_end(),
            policy: shared.policy,
            expires: now.saturating_add(OFFER),
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
        self.offer = Some(offer);
        Ok(())
    }
}

impl Connection {
    /// Takes a client's message, and appends what the client is to be sent.
    pub fn message(&mut self, message: &[u8], into: &mut Vec<u8>) -> Result<(), Refusal> {
        if !self.exchange.serves_client {
            return Err(Refusal::Unsupported);
        }
        match Kind::of(message)? {
            Kind::Hello => {
                let (shared, now) = (&self.access.shared, self.access.now);
                self.exchange.welcome(shared, now, message, into)
            }
            Kind::Open => self.open_session(message, into),
            Kind::Command => self.command(message, into),
        }
    }

    fn open_session(&mut self, message: &[u8], into: &mut Vec<u8>) -> Result<(), Refusal> {
        self.access.check_share(Deed::Open)?;
        let offer = self.exchange.offer.take().ok_or(Refusal::MessageRefused)?;
        let now = self.access.now;
        let opened = offer.open(message, now)?;
        let expires = opened.expires.min(now.saturating_add(MAX_LIFETIME));
        if now >= expires {
            return Err(MessageError::Expired.into());
        }
        let mut opened = opened;
        let (owner, client) = (opened.owner, opened.client);
        let grants = std::mem::take(&mut opened.grants);
        let lists = verified(std::mem::take(&mut opened.revocations))?;
        let (holdings, session, answer) = holdings_of(opened, expires, self.room());
        let database = self.access.database.ok_or(Refusal::NoSession)?;
        let asker = holdings.asker(database, now);
        self.begin(holdings)?;
        self.exchange.session = Some(session);
        self.access.counts.event(Event::Open {
            session: self.access.number(),
            owner: owner.0,
            subject: client.0,
            expiry: expires,
        });
        // A grant that is refused takes nothing from the others.
        for grant in grants {
            if let Err(refusal) = self.access.add_grant(&grant, &lists) {
                self.access.counts.refused(refusal);
            }
        }
        for list in &lists {
            if let Err(refusal) = self.access.revoke(list) {
                self.access.counts.refused(refusal);
            }
        }
        self.access.join_shares(&asker);
        into.extend_from_slice(&answer);
        Ok(())
    }

    fn command(&mut self, message: &[u8], into: &mut Vec<u8>) -> Result<(), Refusal> {
        let session = self.exchange.session.take();
        let mut session = session.ok_or(Refusal::MessageRefused)?;
        let mut over = false;
        let answer = session.command(message, |command| match command {
            Command::AddGrant(grant) => {
                self.access.check_share(Deed::Add)?;
                let grant = Grant::parse(grant)?;
                self.access.fresh()?;
                self.access.add_grant(&grant, &[]).map(|()| None)
            }
            Command::Revoke(list) => {
                self.access.check_share(Deed::Revoke)?;
                let list = Revocations::parse(list)?;
                let lists = verified(vec![list])?;
                lists.iter().try_for_each(|list| self.access.revoke(list))?;
                Ok(None)
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
}

impl Access {
    /// Adds keys that other owners left for this asker, whose session it is.
    pub(super) fn join_shares(&mut self, asker: &Asker) {
        let Some(session) = &self.session else {
            return;
        };
        let mut holdings = session.write();
        let handed = self.shared.deposits().hand_out(&mut holdings, asker);
        let (session, grants) = (session.number, holdings.handed as u64);
        drop(holdings);
        self.shared.advance();
        if grants > 0 {
            self.counts.event(Event::Handed { session, grants });
        }
        if let Err(refusal) = handed {
            self.counts.refused(refusal);
        }
    }

    /// Takes a grant in that its owner signed, whenever it holds: every use asks for the time.
    /// `lists` were shown with it. Anybody stores grants of owners that they make up, for whom they
    /// likes: only its own owner's has a record, another's is told when it is used.
    fn add_grant(&mut self, grant: &Grant, lists: &[VerifiedRevocations]) -> Result<(), Refusal> {
        let session = self.session.as_ref().ok_or(Refusal::NoSession)?;
        if grant.encode().len() > MAX_GRANT {
            return Err(Refusal::TooLarge);
        }
        let mut held = Held::verify(grant)?;
        let (owner, serial) = (grant.terms().owner, grant.terms().serial);
        let mut holdings = session.write();
        let mut deposits = self.shared.deposits();
        held.revoked =
            deposits.revoked(owner, serial) || lists.iter().any(|list| held.revoked_by(list));
        let mut own = holdings.owners[..holdings.own].iter();
        let issuer = own.find(|own| own.public == owner);
        let is_own = issuer.is_some();
        if let Some(owner) = issuer.filter(|_| !held.revoked) {
            if let Some(client) = holdings.speaks_for(owner, self.now) {
                deposits.keep(owner, &held, (self.member.role(), client), self.now)?;
            }
        }
        drop(deposits);
        holdings.grant(held)?;
        drop(holdings);
        let session = session.number;
        self.shared.advance();
        if is_own {
            self.counts.event(Event::Granted {
                session,
                grant: serial.0,
            });
        }
        Ok(())
    }

    /// Takes an owner's list of revocations in, unless all of it is known. It acts on what all
    /// sessions hold, and on what was left; it is kept if this session has the owner's keys.
    /// Refused if there is no room to keep it: it has acted, and has to be shown again.
    fn revoke(&mut self, list: &VerifiedRevocations) -> Result<(), Refusal> {
        let session = self.session.as_ref();
        let concerns = session.is_some_and(|session| session.read().concerns(list.owner()));
        // It is kept first: a grant that comes meanwhile meets it there, or in its session.
        let taken = self
            .shared
            .deposits()
            .revoke(list, self.member.role(), concerns);
        let Some(Taken { kept, mut changed }) = taken else {
            return Ok(());
        };
        let sessions = self.shared.sessions().all();
        for session in sessions {
            changed |= session.revoke(list);
        }
        if changed {
            self.shared.advance();
            self.counts.event(Event::Revoked {
                session: self.number(),
                owner: list.owner().0,
                sequence: list.sequence(),
            });
        }
        if concerns && !kept {
            return Err(Refusal::TooMany);
        }
        Ok(())
    }
}

/// The lists, if their owners signed all of them.
fn verified(lists: Vec<Revocations>) -> Result<Vec<VerifiedRevocations>, Refusal> {
    let verified = lists.into_iter().map(|list| {
        let owner = list.owner();
        Ok(list.verify(&owner)?)
    });
    verified.collect()
}

/// Returns what a session of this opening holds at first, with its channel to the client and the
/// answer.
fn holdings_of(opened: Opened, expires: u64, room: Room) -> (Holdings, EvaluatorSession, Vec<u8>) {
    let (client, public) = (opened.client, opened.owner);
    let (master, session, answer) = opened.accept(expires);
    let owner = Arc::new(Owner::new(master, public));
    let holdings = Holdings::new(Some(client), expires, vec![owner], room);
    (holdings, session, answer)
}
