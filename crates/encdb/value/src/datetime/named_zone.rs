//! Time zones by their names, from IANA's database.

use std::collections::HashMap;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};
use jiff::Timestamp;

use super::Zone;

/// Microseconds from 1970 to 2000.
const EPOCH: i64 = 946_684_800_000_000;
/// The days and the rules of a zone repeat after 400 years, in microseconds.
const CYCLE: i64 = 400 * 31_556_952 * 1_000_000;
/// An instant before the year 9999, the last that the database has.
const LAST: i64 = 250_000_000_000_000_000;

/// A time zone of the database, or a rule of POSIX.
#[derive(Clone, Debug)]
pub struct NamedZone(TimeZone);

impl NamedZone {
    /// Returns the zone by PostgreSQL's name, from the machine's database or else from the one that
    /// is built in.
    pub fn new(name: &str) -> Option<Self> {
        let found = TimeZone::get(name).or_else(|_| TimeZone::posix(name));
        found.ok().map(Self)
    }

    /// Returns the zone as [`Self::new`] does, without rules of POSIX, which any word with a number
    /// is.
    pub fn of_database(name: &str) -> Option<Self> {
        TimeZone::get(name).ok().map(Self)
    }

    /// Returns all zones of the machine's database by their names, for a process that opens no
    /// files later.
    pub fn all() -> HashMap<String, Self> {
        let database = TimeZoneDatabase::from_env();
        let names = database.available();
        let zone = |name: &str| database.get(name).ok().map(Self);
        let known = names.filter_map(|name| Some((name.to_string(), zone(name.as_str())?)));
        known.collect()
    }

    /// Returns the zone from the database that is built in: no file is read.
    pub fn built_in(name: &str) -> Option<Self> {
        let found = TimeZoneDatabase::bundled().get(name);
        found.or_else(|_| TimeZone::posix(name)).ok().map(Self)
    }
}

/// Returns the time since 1970, in a cycle that the database has.
fn within(micros: i64) -> Timestamp {
    let cycles = (micros - LAST).max(0).div_euclid(CYCLE) + i64::from(micros > LAST);
    let within = micros - cycles * CYCLE + EPOCH;
    Timestamp::from_microsecond(within).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn local(micros: i64) -> DateTime {
    Offset::UTC.to_datetime(within(micros))
}

impl Zone for NamedZone {
    fn at(&self, instant: i64) -> i32 {
        self.0.to_offset(within(instant)).seconds()
    }

    fn at_local(&self, time: i64) -> Option<i32> {
        let offset = match self.0.to_ambiguous_timestamp(local(time)).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            // PostgreSQL: DetermineTimeZoneOffset
            AmbiguousOffset::Gap { before, .. } => before,
            AmbiguousOffset::Fold { after, .. } => after,
        };
        Some(offset.seconds())
    }
}
