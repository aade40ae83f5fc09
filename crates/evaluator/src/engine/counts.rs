//! What is counted for the log: uses of grants, refusals, and single events in their order.
//!
//! A connection counts as it works and tells what it counted when it is asked
//! ([`Connection::take_events`]): a record says how often, so that a statement over a million rows
//! is a few records.

use std::collections::BTreeMap;

use pgseal_cell::grant::{Operation, Operations};
use pgseal_evaluator_proto::Refusal;

use super::Connection;
use crate::audit::Event;

const OPERATIONS: usize = Operation::ALL.len();

/// What one connection counted since it was last asked.
#[derive(Default)]
pub(super) struct Counts {
    /// By the place of the grant in the session's list, and by operation.
    uses: Vec<Uses>,
    /// With how often since it was told last; 0 once it was.
    refused: Vec<(Refusal, u64)>,
    events: Vec<Event>,
    /// How many of the events are in the engine's totals.
    summed: usize,
    any: bool,
    /// Something happened for the first time in this session.
    news: bool,
}

/// The uses of one grant.
#[derive(Clone, Default)]
struct Uses {
    counts: [u64; OPERATIONS],
    told: Operations,
}

impl Counts {
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
        match self.refused.iter_mut().find(|(known, _)| *known == refusal) {
            Some((_, count)) => *count += 1,
            None => {
                self.news = true;
                self.refused.push((refusal, 1));
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

/// What was counted since the engine began, by name, for [`Status`](super::Engine).
#[derive(Default)]
pub(super) struct Totals(BTreeMap<String, u64>);

impl Totals {
    fn add(&mut self, event: &Event) {
        let (name, count) = match event {
            Event::Use {
                operation, count, ..
            } => (format!("used {operation}"), *count),
            Event::Refused { refusal, count, .. } => (format!("refused {refusal}"), *count),
            Event::Open { .. } => ("opened".to_owned(), 1),
            Event::Close { .. } => ("closed".to_owned(), 1),
            _ => return,
        };
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

    /// What happened since the last time, in order; counts last.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.flush_counts(self.number());
        let counts = &mut self.counts;
        (counts.any, counts.news, counts.summed) = (false, false, 0);
        std::mem::take(&mut counts.events)
    }

    /// What is counted from now on is another session's.
    pub(super) fn begin_counts(&mut self) {
        self.counts.uses.clear();
        self.counts.refused.clear();
    }

    /// Ends the session if there is one, and gives what happened until then.
    pub fn close(&mut self) -> Vec<Event> {
        self.end_session();
        self.take_events()
    }

    /// Turns counts into events of this session.
    pub(super) fn flush_counts(&mut self, session: u64) {
        let mut events = std::mem::take(&mut self.counts.events);
        for (place, uses) in self.counts.uses.iter_mut().enumerate() {
            let counted = uses.counts.iter_mut().zip(Operation::ALL);
            for (count, operation) in counted.filter(|(count, _)| **count > 0) {
                uses.told = uses.told.with(operation);
                let Some(serial) = self.session.as_ref().and_then(|session| {
                    let holdings = session.read();
                    holdings
                        .grants
                        .get(place)
                        .map(|held| held.grant.terms().serial)
                }) else {
                    continue;
                };
                events.push(Event::Use {
                    session,
                    grant: serial.0,
                    operation: operation.name(),
                    count: std::mem::take(count),
                });
            }
        }
        let refused = { self.counts.refused.iter_mut() }.filter(|(_, count)| *count > 0);
        for (refusal, count) in refused {
            events.push(Event::Refused {
                session,
                refusal: refusal.sqlstate(),
                operation: match refusal {
                    Refusal::NoGrant(operation) => Some(operation.name()),
                    _ => None,
                },
                count: std::mem::take(count),
            });
        }
        let mut totals = self.shared.totals();
        let new = &events[self.counts.summed..];
        new.iter().for_each(|event| totals.add(event));
        drop(totals);
        self.counts.summed = events.len();
        self.counts.events = events;
    }
}
