//! The rights of a connection: its role, its session, and the keys and rights of the
//! session as the connection saw them last.
//!
//! The questions whether the session may are in [`permit`](super::permit). Each is counted here, so
//! that nothing is granted without a count.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use pgseal_cell::grant::DatabaseId;
use pgseal_evaluator_proto::Refusal;

use super::counts::Counts;
use super::roles::{Deed, Membership};
use super::session::{Holdings, Session};
use super::tally::Records;
use super::view::View;
use super::Shared;
use crate::audit::Event;

/// One backend's right to ask.
pub(super) struct Access {
    pub shared: Arc<Shared>,
    /// The time of the request, in seconds since 1970.
    pub now: u64,
    /// The connection's part of its role's share.
    pub member: Membership,
    /// The database that it was attached for.
    pub database: Option<DatabaseId>,
    pub session: Option<Arc<Session>>,
    /// The session is this connection's own, and ends with it.
    pub leads: bool,
    pub view: View,
    /// The counts of requests, grants and refusals.
    pub counts: Counts,
}

impl Access {
    /// Returns that of a connection that is not attached yet.
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            now: 0,
            member: Membership::new(&shared.roles),
            database: None,
            session: None,
            leads: false,
            view: View::default(),
            counts: Counts::default(),
            shared: Arc::clone(shared),
        }
    }

    /// Refused if its role has no room for this in the log.
    pub(super) fn check_share(&self, deed: Deed) -> Result<(), Refusal> {
        self.member.check(deed, self.now)
    }

    /// The number of the session; 0 without one.
    pub(super) fn number(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.number)
    }

    /// Returns the session and the database that it is used in.
    pub(super) fn session(&self) -> Result<(&Arc<Session>, DatabaseId), Refusal> {
        let session = self.session.as_ref().zip(self.database);
        session.ok_or(Refusal::NoSession)
    }

    /// Begins a session that this connection leads. There is none before it.
    pub(super) fn lead(&mut self, holdings: Holdings) -> Result<(), Refusal> {
        let number = self.shared.numbers.next();
        let session = Session::new(number, holdings).map_err(|_| Refusal::NoRandom)?;
        let session = Arc::new(session);
        self.shared.sessions().add(&session);
        self.shared.tallies().add(&session.tally);
        self.session = Some(session);
        self.leads = true;
        Ok(())
    }

    /// Joins the session of a parallel worker's leader. There is none before it.
    pub(super) fn join(&mut self, session: Arc<Session>) {
        session.tally.add_worker();
        self.counts.came();
        self.session = Some(session);
    }

    /// Leaves the session, which ends if this connection leads it. Returns whether there was one.
    pub(super) fn leave(&mut self) -> bool {
        // The counts of a parallel worker wait for those of its leader.
        let is_worker = self.session.is_some() && !self.leads;
        self.flush_counts(match is_worker {
            true => Records::None,
            false => Records::All,
        });
        self.counts.begin();
        let Some(session) = self.session.take() else {
            return false;
        };
        if std::mem::take(&mut self.leads) {
            session.close();
            self.shared.advance();
            self.shared.forget_pages(&session, self.now);
            self.counts.event(Event::Close {
                session: session.number,
            });
        }
        self.view = View::default();
        true
    }

    /// Adds what was counted to the session's tally, and turns some of that into events.
    pub(super) fn flush_counts(&mut self, records: Records) {
        let (session, totals) = (self.session.as_deref(), &self.shared.totals);
        self.counts.flush(session, records, self.now, totals);
    }

    /// Sees to it that what is known of keys and rights holds now.
    #[inline]
    pub(super) fn fresh(&mut self) -> Result<(), Refusal> {
        let holds = self.now < self.view.until
            && self.shared.epoch.load(Ordering::Acquire) == self.view.epoch;
        match &self.session {
            Some(session) if holds && session.loaded() == self.view.keys.len() => Ok(()),
            Some(session) if holds => self.view_more(&Arc::clone(session)),
            _ => self.refresh(),
        }
    }

    /// Takes the keys in that were loaded since, and nothing else: they come one by one.
    #[cold]
    fn view_more(&mut self, session: &Session) -> Result<(), Refusal> {
        let database = self.database.ok_or(Refusal::NoSession)?;
        self.view.take(&session.read(), database, self.now);
        Ok(())
    }

    #[cold]
    fn refresh(&mut self) -> Result<(), Refusal> {
        self.view.until = 0;
        // Before it is asked whether the session is closed: that is said first, and told by an
        // epoch. Counts are by the place of a key and a grant, which stay what they are.
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        let (session, database) = self.session()?;
        if session.is_closed() {
            return Err(Refusal::NoSession);
        }
        let holdings = session.read();
        if self.now >= holdings.expires {
            drop(holdings);
            self.shared.forget_pages(session, self.now);
            return Err(Refusal::SessionExpired);
        }
        let mut view = View::of(&holdings, database, self.now);
        view.epoch = epoch;
        drop(holdings);
        self.view = view;
        Ok(())
    }
}
