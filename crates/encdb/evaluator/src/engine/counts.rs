//! Counts for the log: uses of grants, cells that were compared, refusals, and single events in
//! their order.
//!
//! A connection counts as it works and tells what it counted when it is asked
//! ([`Connection::take_events`]): a record says how often, so that a statement over a million rows
//! is a few records.

use std::collections::BTreeMap;

use pgseal_cell::grant::{Operation, Operations};
use pgseal_evaluator_proto::Refusal;

use super::session::Holdings;
use super::Connection;
use crate::audit::Event;

const OPERATIONS: usize = Operation::ALL.len();

/// The counts of one connection since it was last asked.
#[derive(Default)]
pub(super) struct Counts {
    /// The uses, by the place of the grant in the session's list, and by operation.
    uses: Vec<Uses>,
    /// The cells, by the place of the key in the session's list.
    cells: Vec<Cells>,
    refused: Vec<Refused>,
    events: Vec<Event>,
    /// How many of the events are in the engine's totals.
    summed: usize,
    any: bool,
    /// Something happened for the first time in this session.
    news: bool,
}

/// The counts that are told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tell {
    All,
    /// Those of what was not told before in this session.
    New,
}

/// How often something was refused since it was told.
struct Refused {
    refusal: Refusal,
    count: u64,
    told: bool,
}

/// The uses of one grant.
#[derive(Clone, Default)]
struct Uses {
    counts: [u64; OPERATIONS],
    told: Operations,
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

/// The cells of one key by what they were asked for, and whether the log has heard of any.
#[derive(Clone, Default)]
struct Cells {
    counts: [u64; 3],
    told: bool,
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
        self.news |= !cells.told;
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
        self.news |= !uses.told.has(operation);
        self.any = true;
        uses.counts[operation as usize] += 1;
    }

    /// Something was refused.
    #[cold]
    pub(super) fn refused(&mut self, refusal: Refusal) {
        self.any = true;
        let mut refused = self.refused.iter_mut();
        match refused.find(|known| known.refusal == refusal) {
            Some(known) => known.count += 1,
            None => {
                self.news = true;
                self.refused.push(Refused {
                    refusal,
                    count: 1,
                    told: false,
                });
            }
        }
    }

    /// Something happened.
    pub(super) fn event(&mut self, event: Event) {
        self.any = true;
        self.news = true;
        self.events.push(event);
    }
}

/// The counts since the engine began, by name, for [`Status`](super::Engine).
#[derive(Default)]
pub(super) struct Totals(BTreeMap<String, u64>);

impl Totals {
    fn add(&mut self, event: &Event) {
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
        self.counts.any
    }

    /// Whether something happened for the first time in this session: worth to be told at once.
    pub fn has_news(&self) -> bool {
        self.counts.news
    }

    /// Returns what happened since the last call, in order; counts come last.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.flush_counts(self.number(), Tell::All);
        self.counts.any = false;
        self.take_told()
    }

    /// Returns what is to be told before the next answer: events with a record of their own, and
    /// counts of what was not told in this session, if counts are written now. All else goes on to
    /// be counted.
    pub fn take_news(&mut self) -> Vec<Event> {
        if self.may_count() {
            self.flush_counts(self.number(), Tell::New);
        }
        self.take_told()
    }

    fn take_told(&mut self) -> Vec<Event> {
        let counts = &mut self.counts;
        (counts.news, counts.summed) = (false, 0);
        let events = std::mem::take(&mut counts.events);
        if let Some(role) = self.role {
            self.shared.roles.logged(role, events.len());
        }
        events
    }

    /// Clears the counts: what is counted from now on is another session's.
    pub(super) fn begin_counts(&mut self) {
        self.counts.uses.clear();
        self.counts.cells.clear();
        self.counts.refused.clear();
    }

    /// Ends the session if there is one, and gives what happened until then.
    pub fn close(&mut self) -> Vec<Event> {
        self.end_session();
        self.take_events()
    }

    /// Turns counts into events of this session.
    pub(super) fn flush_counts(&mut self, session: u64, tell: Tell) {
        if let Some(held) = self.session.clone() {
            let holdings = held.read();
            self.counts.tell_uses(session, &holdings, tell);
            self.counts.tell_cells(session, &holdings, tell);
        }
        let counts = &mut self.counts;
        counts.tell_refusals(session, tell);
        let mut totals = self.shared.totals();
        let new = &counts.events[counts.summed..];
        new.iter().for_each(|event| totals.add(event));
        drop(totals);
        counts.summed = counts.events.len();
    }
}

impl Counts {
    fn tell_uses(&mut self, session: u64, holdings: &Holdings, tell: Tell) {
        for (uses, held) in self.uses.iter_mut().zip(&holdings.grants) {
            let counted = uses.counts.iter_mut().zip(Operation::ALL);
            for (count, operation) in counted.filter(|(count, _)| **count > 0) {
                if tell == Tell::New && uses.told.has(operation) {
                    continue;
                }
                uses.told = uses.told.with(operation);
                self.events.push(Event::Use {
                    session,
                    grant: held.grant.terms().serial.0,
                    operation: operation.name(),
                    count: std::mem::take(count),
                });
            }
        }
    }

    fn tell_cells(&mut self, session: u64, holdings: &Holdings, tell: Tell) {
        let cells = self.cells.iter_mut().zip(&holdings.keys);
        for (cells, key) in cells.filter(|(cells, _)| tell == Tell::All || !cells.told) {
            let [compared, hashed, ranked] = std::mem::take(&mut cells.counts);
            if compared + hashed + ranked > 0 {
                cells.told = true;
                self.events.push(Event::Cells {
                    session,
                    key: key.id.0,
                    compared,
                    hashed,
                    ranked,
                });
            }
        }
    }

    fn tell_refusals(&mut self, session: u64, tell: Tell) {
        for Refused {
            refusal,
            count,
            told,
        } in &mut self.refused
        {
            if *count == 0 || tell == Tell::New && *told {
                continue;
            }
            *told = true;
            self.events.push(Event::Refused {
                session,
                refusal: refusal.sqlstate(),
                operation: match refusal {
                    Refusal::NoGrant(operation) => Some(operation.name()),
                    _ => None,
                },
                count: std::mem::take(count),
            });
        }
    }
}
