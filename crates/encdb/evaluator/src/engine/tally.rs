//! The counts of a session: those of its leader and of all its parallel workers, summed.
//!
//! A query starts workers that live for milliseconds. Each connection adds what it counted to the
//! tally of its session, and the records are the tally's. So a session has one record for each key
//! in a second, however many workers it has. The first of a kind has a record at once.
//!
//! A tally outlives its session until the last counts have a record: a worker may add some after
//! its leader has ended. It holds numbers and no key.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pgseal_cell::grant::{Operation, Operations};
use pgseal_evaluator_proto::Refusal;

use super::counts::Counts;
use super::roles::Role;
use super::session::Holdings;
use super::{Engine, Shared};
use crate::audit::Event;

const OPERATIONS: usize = Operation::ALL.len();

/// The counts that get a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// All that have none yet.
    All,
    /// All, if this session had none in this second, else [`Records::New`].
    Due,
    /// Those of a kind that has no record in this session.
    New,
    /// None of them.
    None,
}

/// The uses of one grant, by operation.
#[derive(Clone, Default)]
pub struct Uses {
    /// How often each operation used it since its last record.
    pub counts: [u64; OPERATIONS],
    /// The operations that have a record in this session.
    pub written: Operations,
}

/// The cells of one key by what they were asked for.
#[derive(Clone, Default)]
pub struct Cells {
    /// The cells that were compared, hashed and ranked since the last record.
    pub counts: [u64; 3],
    /// The key has a record in this session.
    pub written: bool,
}

/// The refusals of one kind.
pub struct Refused {
    /// The kind.
    pub refusal: Refusal,
    /// How often since the last record.
    pub count: u64,
    /// It has a record in this session.
    written: bool,
}

impl Refused {
    /// Returns the refusals of a kind that has no record.
    pub fn new(refusal: Refusal, count: u64) -> Self {
        Self {
            refusal,
            count,
            written: false,
        }
    }
}

/// The counts of one session; the default is that of a connection without a session.
#[derive(Default)]
pub struct Tally {
    /// The session's number in the log, 0 without one.
    pub session: u64,
    /// The role of its leader.
    role: Option<Role>,
    sums: Mutex<Sums>,
}

/// The contents of a tally. Places are those of the session's lists.
#[derive(Default)]
pub struct Sums {
    workers: u64,
    /// Workers have a record in this session.
    workers_written: bool,
    /// The serial of each grant, and its uses.
    uses: Vec<([u8; 16], Uses)>,
    /// The id of each key, and its cells.
    cells: Vec<(u32, Cells)>,
    refused: Vec<Refused>,
    /// Some count has no record yet.
    waits: bool,
    /// The second in which all counts had a record last.
    second: u64,
}

impl Tally {
    /// Returns the tally of a session that begins.
    pub fn new(session: u64, role: Option<Role>) -> Self {
        Self {
            session,
            role,
            sums: Mutex::default(),
        }
    }

    /// Returns the counts, to change.
    pub fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a parallel worker that comes into the session.
    pub fn add_worker(&self) {
        let mut sums = self.sums();
        sums.workers += 1;
        sums.waits = true;
    }
}

impl Sums {
    /// Takes the uses and the cells of a connection.
    pub fn add_places(&mut self, counts: &mut Counts, holdings: &Holdings) {
        let len = self.uses.len().max(counts.uses.len());
        self.uses.resize_with(len, Default::default);
        let uses = self.uses.iter_mut().zip(&mut counts.uses);
        for ((sum, uses), held) in uses.zip(&holdings.grants) {
            sum.0 = held.grant.terms().serial.0;
            self.waits |= add(&mut sum.1.counts, &mut uses.counts);
        }
        let len = self.cells.len().max(counts.cells.len());
        self.cells.resize_with(len, Default::default);
        let cells = self.cells.iter_mut().zip(&mut counts.cells);
        for ((sum, cells), key) in cells.zip(&holdings.keys) {
            sum.0 = key.id.0;
            self.waits |= add(&mut sum.1.counts, &mut cells.counts);
        }
    }

    /// Takes the refusals of a connection.
    pub fn add_refusals(&mut self, refused: &mut [Refused]) {
        for one in refused.iter_mut().filter(|one| one.count > 0) {
            let count = std::mem::take(&mut one.count);
            self.waits = true;
            match self
                .refused
                .iter_mut()
                .find(|sum| sum.refusal == one.refusal)
            {
                Some(sum) => sum.count += count,
                None => self.refused.push(Refused::new(one.refusal, count)),
            }
        }
    }

    /// Marks the kinds that have a record in a connection's counts: they are no news there.
    pub fn show_written(&self, counts: &mut Counts) {
        for (uses, sum) in counts.uses.iter_mut().zip(&self.uses) {
            uses.written = sum.1.written;
        }
        for (cells, sum) in counts.cells.iter_mut().zip(&self.cells) {
            cells.written = sum.1.written;
        }
        for one in &mut counts.refused {
            let mut sums = self.refused.iter();
            one.written = sums.any(|sum| sum.refusal == one.refusal && sum.written);
        }
    }

    /// Turns counts into events of this session.
    pub fn write(&mut self, session: u64, records: Records, now: u64, events: &mut Vec<Event>) {
        let all = match records {
            Records::None => return,
            Records::New => false,
            Records::Due => self.is_due(now),
            Records::All => true,
        };
        self.write_workers(session, all, events);
        self.write_uses(session, all, events);
        self.write_cells(session, all, events);
        self.write_refusals(session, all, events);
        if all {
            self.second = now;
            self.waits = false;
        }
    }

    /// Returns whether all counts had no record in this second. A thread may be a moment behind
    /// another, and the clock may be set back.
    fn is_due(&self, now: u64) -> bool {
        now > self.second || self.second > now + 1
    }

    fn write_workers(&mut self, session: u64, all: bool, events: &mut Vec<Event>) {
        if self.workers > 0 && (all || !self.workers_written) {
            self.workers_written = true;
            events.push(Event::Worker {
                session,
                count: std::mem::take(&mut self.workers),
            });
        }
    }

    fn write_uses(&mut self, session: u64, all: bool, events: &mut Vec<Event>) {
        for (grant, uses) in &mut self.uses {
            let counted = uses.counts.iter_mut().zip(Operation::ALL);
            for (count, operation) in counted.filter(|(count, _)| **count > 0) {
                if !all && uses.written.has(operation) {
                    continue;
                }
                uses.written = uses.written.with(operation);
                events.push(Event::Use {
                    session,
                    grant: *grant,
                    operation: operation.name(),
                    count: std::mem::take(count),
                });
            }
        }
    }

    fn write_cells(&mut self, session: u64, all: bool, events: &mut Vec<Event>) {
        for (key, cells) in &mut self.cells {
            if cells.counts == [0; 3] || !all && cells.written {
                continue;
            }
            cells.written = true;
            let [compared, hashed, ranked] = std::mem::take(&mut cells.counts);
            events.push(Event::Cells {
                session,
                key: *key,
                compared,
                hashed,
                ranked,
            });
        }
    }

    fn write_refusals(&mut self, session: u64, all: bool, events: &mut Vec<Event>) {
        for one in &mut self.refused {
            if one.count == 0 || !all && one.written {
                continue;
            }
            one.written = true;
            events.push(Event::Refused {
                session,
                refusal: one.refusal.sqlstate(),
                operation: match one.refusal {
                    Refusal::NoGrant(operation) => Some(operation.name()),
                    _ => None,
                },
                count: std::mem::take(&mut one.count),
            });
        }
    }
}

/// Moves counts to their sums. Returns whether there were any.
fn add(sums: &mut [u64], counts: &mut [u64]) -> bool {
    let mut any = false;
    for (sum, count) in sums.iter_mut().zip(counts) {
        any |= *count > 0;
        *sum += std::mem::take(count);
    }
    any
}

/// The tallies of all sessions that are open or have counts without a record.
#[derive(Default)]
pub struct Tallies(Vec<Arc<Tally>>);

impl Tallies {
    /// Adds the tally of a session that begins.
    pub fn add(&mut self, tally: &Arc<Tally>) {
        self.drop_ended();
        self.0.push(Arc::clone(tally));
    }

    /// Drops those that get no more counts and have none that waits for a record.
    fn drop_ended(&mut self) {
        self.0
            .retain(|tally| Arc::strong_count(tally) > 1 || tally.sums().waits);
    }
}

impl Shared {
    /// Turns counts of the sessions into events, of those whose role may.
    fn take_tallies(&self, records: Records, now: u64, may: impl Fn(Role) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        let mut tallies = self.tallies();
        for tally in &tallies.0 {
            let mut sums = tally.sums();
            if !sums.waits || !tally.role.is_none_or(&may) {
                continue;
            }
            let before = events.len();
            sums.write(tally.session, records, now, &mut events);
            if let Some(role) = tally.role {
                self.roles.logged(role, events.len() - before);
            }
        }
        tallies.drop_ended();
        drop(tallies);
        let mut totals = self.totals();
        events.iter().for_each(|event| totals.add(event));
        events
    }
}

impl Engine {
    /// Returns the counts that wait in the sessions' tallies, of those sessions that had no record
    /// of them in this second. The log asks once a second: workers that have ended left them, and
    /// the connection of their leader may be asleep.
    pub fn take_due(&self, now: u64) -> Vec<Event> {
        let may = |role| self.0.roles.may_count(role, now);
        self.0.take_tallies(Records::Due, now, may)
    }

    /// Returns all counts that wait, when the process ends.
    pub fn take_rest(&self) -> Vec<Event> {
        self.0.take_tallies(Records::All, 0, |_| true)
    }
}
