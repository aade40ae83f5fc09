//! The beginning and the end of a connection's work: its role, what it is attached for, and the
//! session that it leads or joins.

use std::sync::Arc;

use pgseal_cell::grant::DatabaseId;
use pgseal_evaluator_proto::{AttachAs, Refusal};

use super::roles::{Deed, Role};
use super::session::{Holdings, Session};
use super::Connection;

impl Connection {
    /// Takes a place of this role's share, once in a connection, before all else is done in it.
    pub fn enter(&mut self, role: Role) -> Result<(), Refusal> {
        self.enter_for(role, Deed::Revoke)
    }

    /// Takes a place as [`Self::enter`], for what is then done at least.
    fn enter_for(&mut self, role: Role, deed: Deed) -> Result<(), Refusal> {
        self.access.member.enter(role, deed, self.access.now)?;
        self.states.count_with(self.room());
        Ok(())
    }

    /// Says who this is. Once in a connection.
    pub fn attach(&mut self, kind: AttachAs, database: [u8; 16]) -> Result<(), Refusal> {
        if self.access.database.is_some() {
            return Err(Refusal::MalformedRequest);
        }
        let leaders = self.leaders_session(kind);
        self.attach_to(leaders, kind, database)
    }

    /// Says for which role this is and who it is. What comes of it is in the log by that role's
    /// share, so one that has none left is turned away before anything is begun.
    pub(super) fn attach_for(
        &mut self,
        role: Role,
        kind: AttachAs,
        database: [u8; 16],
    ) -> Result<(), Refusal> {
        if self.access.member.role().is_some() || self.access.database.is_some() {
            return Err(Refusal::MalformedRequest);
        }
        // A ticket is good once, also where there is no room for the worker.
        let leaders = self.leaders_session(kind);
        let deed = match kind {
            // The refusal of a worker without a session has a record. The others are counted.
            AttachAs::ParallelWorker { .. } if leaders.is_none() => Deed::Add,
            _ => Deed::Revoke,
        };
        self.enter_for(role, deed)?;
        self.attach_to(leaders, kind, database)
    }

    /// The session that a parallel worker has the ticket of, which is good no more.
    fn leaders_session(&self, kind: AttachAs) -> Option<Arc<Session>> {
        match kind {
            AttachAs::ParallelWorker { ticket } => self.access.shared.leaders().admit(&ticket),
            _ => None,
        }
    }

    /// Attaches as [`Self::attach`], a parallel worker to the session of its leader.
    fn attach_to(
        &mut self,
        leaders: Option<Arc<Session>>,
        kind: AttachAs,
        database: [u8; 16],
    ) -> Result<(), Refusal> {
        let database = DatabaseId(database);
        match kind {
            AttachAs::Client => self.exchange.serve_client(),
            AttachAs::ParallelWorker { .. } => {
                let session = leaders.ok_or(Refusal::UnknownTicket)?;
                self.end_session();
                self.access.join(session);
            }
            AttachAs::Background => self.begin_background(database)?,
        }
        self.access.database = Some(database);
        Ok(())
    }

    /// A session of what owners left for background work, if they left anything.
    fn begin_background(&mut self, database: DatabaseId) -> Result<(), Refusal> {
        let holdings = Holdings::new(None, u64::MAX, Vec::new(), self.room());
        let asker = holdings.asker(database, self.access.now);
        if self.access.shared.deposits().left_for(&asker) {
            self.begin(holdings)?;
            self.access.join_shares(&asker);
        }
        Ok(())
    }

    /// The secret of tickets for parallel workers of the client's session that this connection
    /// leads; those before are good no more. Workers of background work come as their leader does.
    pub fn tickets(&mut self) -> Result<[u8; 32], Refusal> {
        self.access.fresh()?;
        match &self.access.session {
            Some(session) if self.access.leads && self.exchange.serves_client() => {
                let secret = self.access.shared.leaders().issue(session);
                secret.map_err(|_| Refusal::NoRandom)
            }
            _ => Err(Refusal::NoSession),
        }
    }

    /// Begins a session that this connection leads; the one before it ends.
    pub(super) fn begin(&mut self, holdings: Holdings) -> Result<(), Refusal> {
        self.end_session();
        self.access.lead(holdings)
    }

    /// Ends the session, if there is one, and forgets all that came of it.
    pub(super) fn end_session(&mut self) {
        if self.access.leave() {
            self.cells.clear();
            self.states.clear();
            self.patterns.clear();
        }
    }
}
