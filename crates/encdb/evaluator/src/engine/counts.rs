//! The counts of one connection for the log: uses of grants, cells that were compared, refusals,
//! and single events in their order.
//!
//! A connection counts as it works. What it counted goes to the [tally](super::tally) of its
//! session when records are asked for ([`Connection::take_events`]). A record says how often, so
//! that a statement over a million rows is a few records.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pgseal_cell::grant::Operation;
use pgseal_evaluator_proto::Refusal;

use super::session::Session;
use super::tally::{Cells, Records, Refused, Tally, Uses};
use super::Connection;
use crate::audit::Event;

/// The counts of one connection since they last went to a tally.
#[derive(Default)]
pub(super) struct Counts {
    /// The uses, by the place of the grant in the session's list, and by operation.
    pub uses: Vec<Uses>,
    /// The cells, by the place of the key in the session's list.
    pub cells: Vec<Cells>,
    /// The refusals, each kind once.
    pub refused: Vec<Refused>,
    events: Vec<Event>,
    /// The tally of what happens without a session.
    outside: Arc<Tally>,
    /// How many of the events are in the engine's totals.
    summed: usize,
    any: bool,
    /// Something happened for the first time in this session, as far as this connection knows.
    news: bool,
}

/// The use of a cell for which its owner's session needs no grant.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    /// Its order beside another cell.
    Compared,
    /// Its hash.
    Hashed,
    /// Its place among many.
    Ranked,
}

impl Counts {
    /// A cell under the key at this place was asked for something. Nothing is done more often:
    /// these are a few instructions.
    #[inline]
    pub(super) fn cell(&mut self, asked: Asked, key: u16) {
        let key = usize::from(key);
        if key >= self.cells.len() {
            self.cells.resize(key + 1, Cells::default());
        }
        let cells = &mut self.cells[key];
        self.news |= !cells.written;
        self.any = true;
        cells.counts[asked as usize] += 1;
    }

    /// A grant was used.
    #[inline]
    pub(super) fn used(&mut self, grant: usize, operation: Operation) {
        if grant >= self.uses.len() {
            self.uses.resize(grant + 1, Uses::default());
        }
        let uses = &mut self.uses[grant];
        self.news |= !uses.written.has(operation);
        self.any = true;
        uses.counts[operation as usize] += 1;
    }

    /// Something was refused.
    #[cold]
    pub(super) fn refused(&mut self, refusal: Refusal) {
        self.any = true;
        match self
            .refused
            .iter_mut()
            .find(|known| known.refusal == refusal)
        {
            Some(known) => known.count += 1,
            None => {
                self.news = true;
                self.refused.push(Refused::new(refusal, 1));
            }
        }
    }

    /// The connection came into a session, of a parallel worker. The session's tally counts it.
    pub(super) fn came(&mut self) {
        self.any = true;
        self.news = true;
    }

    /// Something happened.
    pub(super) fn event(&mut self, event: Event) {
        self.any = true;
        self.news = true;
        self.events.push(event);
    }

    /// Clears the counts: what is counted from now on is another session's.
    pub(super) fn begin(&mut self) {
        self.uses.clear();
        self.cells.clear();
        self.refused.clear();
    }

    /// Adds what was counted to the tally of this session, and turns some of that into events,
    /// which are added to the totals.
    pub(super) fn flush(
        &mut self,
        session: Option<&Session>,
        records: Records,
        now: u64,
        totals: &Mutex<Totals>,
    ) {
        let tally = Arc::clone(session.map_or(&self.outside, |session| &session.tally));
        let mut sums = tally.sums();
        if let Some(session) = session {
            sums.add_places(self, &session.read());
        }
        sums.add_refusals(&mut self.refused);
        sums.write(tally.session, records, now, &mut self.events);
        sums.show_written(self);
        drop(sums);
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        let new = &self.events[self.summed..];
        new.iter().for_each(|event| totals.add(event));
        drop(totals);
        self.summed = self.events.len();
    }

    /// Takes the events, in order.
    fn take_events(&mut self) -> Vec<Event> {
        (self.news, self.summed) = (false, 0);
        std::mem::take(&mut self.events)
    }
}

/// The counts since the engine began, by name, for [`Status`](super::Engine).
#[derive(Default)]
pub(super) struct Totals(BTreeMap<String, u64>);

impl Totals {
    /// Adds what this event says.
    pub(super) fn add(&mut self, event: &Event) {
        let (name, count) = match event {
            Event::Use {
                operation, count, ..
            } => (format!("used {operation}"), *count),
            Event::Cells {
                compared,
                hashed,
                ranked,
                ..
            } => {
                self.count("cells compared".to_owned(), *compared);
                self.count("cells hashed".to_owned(), *hashed);
                ("cells ranked".to_owned(), *ranked)
            }
            Event::Refused { refusal, count, .. } => (format!("refused {refusal}"), *count),
            Event::Open { .. } => ("opened".to_owned(), 1),
            Event::Close { .. } => ("closed".to_owned(), 1),
            _ => return,
        };
        self.count(name, count);
    }

    fn count(&mut self, name: String, count: u64) {
        *self.0.entry(name).or_default() += count;
    }

    /// Names and counts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }
}

impl Connection {
    /// Whether something was counted since the events were taken.
    pub fn has_events(&self) -> bool {
        self.access.counts.any
    }

    /// Whether something happened for the first time in this session: worth to be told at once.
    pub fn has_news(&self) -> bool {
        self.access.counts.news
    }

    /// Returns what happened since the last call, in order. The counts come last; they are those
    /// of the whole session, of its other connections too.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.take_counted(Records::All)
    }

    /// Returns the events as [`Self::take_events`], once a second for each session: its other
    /// connections and [`Engine::take_due`](super::Engine::take_due) take them, too. In between
    /// the counts wait in the session's tally.
    pub fn take_due(&mut self) -> Vec<Event> {
        self.take_counted(Records::Due)
    }

    fn take_counted(&mut self, records: Records) -> Vec<Event> {
        self.access.flush_counts(records);
        self.access.counts.any = false;
        self.take_written()
    }

    /// Returns the records that come before the next answer: events with a record of their own, and
    /// counts of what has none in this session, if counts are written now. All else goes on to
    /// be counted.
    pub fn take_news(&mut self) -> Vec<Event> {
        if self.may_count() {
            self.access.flush_counts(Records::New);
        }
        self.take_written()
    }

    fn take_written(&mut self) -> Vec<Event> {
        let events = self.access.counts.take_events();
        self.access.member.logged(events.len());
        events
    }

    /// Ends the session if there is one, and gives what happened until then.
    pub fn close(&mut self) -> Vec<Event> {
        self.end_session();
        self.take_events()
    }
}
