//! Intervals: their forms, and their order.
//!
//! PostgreSQL has infinite intervals since version 17. Here they are out of range, wherever they
//! come from, so that no value means one thing to one server and another to the next.

mod amounts;
mod compute;
mod decode;
mod iso;
mod moved;
mod part;
mod show;

use super::{is_finite, DAY, SECOND};
use crate::{Type, ValueError};

pub(crate) use compute::{compute_interval, has_intervals, quotient, sum};
pub use moved::add_interval;
pub(crate) use part::fraction_of;
pub(super) use part::interval_part;

/// The days of a month, where a number of days is asked for.
const DAYS_OF_MONTH: i32 = 30;

/// PostgreSQL's interval: three numbers that do not become one another. Its equality is that of
/// the numbers: `1 mon` and `30 days` are two, and equal in SQL alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Years too
    pub months: i32,
    /// Weeks too
    pub days: i32,
    /// Hours, minutes and seconds
    pub microseconds: i64,
}

/// The forms of an interval's text: the setting `IntervalStyle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`
    Iso8601,
}

impl IntervalStyle {
    /// Returns the style of this name of the setting's.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "postgres" => Self::Postgres,
            "postgres_verbose" => Self::PostgresVerbose,
            "sql_standard" => Self::SqlStandard,
            "iso_8601" => Self::Iso8601,
            _ => return None,
        })
    }
}

impl Interval {
    /// No time
    pub const ZERO: Self = Self {
        months: 0,
        days: 0,
        microseconds: 0,
    };

    /// Returns `-interval`; wraps, as PostgreSQL 15 does where it subtracts one from a time.
    pub fn negated(self) -> Self {
        Self {
            months: self.months.wrapping_neg(),
            days: self.days.wrapping_neg(),
            microseconds: self.microseconds.wrapping_neg(),
        }
    }

    /// Reads PostgreSQL's text of an interval, where the session has this style: `sql_standard`
    /// applies a sign at the start to all that follows.
    pub fn parse(text: &str, style: IntervalStyle) -> Result<Self, ValueError> {
        decode::parse(text, style)?.checked()
    }

    /// Returns the text of an interval in a style.
    pub fn to_text(self, style: IntervalStyle) -> String {
        show::shown(self, style)
    }

    /// Returns `-interval`, if it is an interval.
    pub(crate) fn checked_negated(self) -> Result<Self, ValueError> {
        compute::difference(Self::ZERO, self)
    }

    /// Reads PostgreSQL's send format.
    pub(crate) fn decode(bytes: [u8; 16]) -> Result<Self, ValueError> {
        let [time @ .., _, _, _, _, _, _, _, _] = bytes;
        let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h] = bytes;
        let read = Self {
            months: i32::from_be_bytes([e, f, g, h]),
            days: i32::from_be_bytes([a, b, c, d]),
            microseconds: i64::from_be_bytes(time),
        };
        read.checked()
    }

    /// Returns PostgreSQL's send format.
    pub(crate) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.microseconds.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.days.to_be_bytes());
        bytes[12..].copy_from_slice(&self.months.to_be_bytes());
        bytes
    }

    /// Returns the microseconds by which intervals are compared: a month has 30 days, and a day 24
    /// hours.
    pub(crate) fn span(self) -> i128 {
        let days = i64::from(self.months) * i64::from(DAYS_OF_MONTH) + i64::from(self.days);
        i128::from(days) * i128::from(DAY) + i128::from(self.microseconds)
    }

    /// Returns a number of 64 bits that grows with the span, if not always.
    pub(crate) fn leading_span(self) -> i64 {
        // The longest spans have 73 bits with the sign.
        i64::try_from(self.span() >> 10).unwrap_or(i64::MAX)
    }

    /// Returns the interval, if PostgreSQL takes it for a finite one.
    fn checked(self) -> Result<Self, ValueError> {
        let greatest = (i32::MAX, i32::MAX, i64::MAX);
        let least = (i32::MIN, i32::MIN, i64::MIN);
        match (self.months, self.days, self.microseconds) {
            it if it == greatest || it == least => Err(ValueError::OutOfRange(Type::Interval)),
            _ => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_interval_is_its_own_negative() {
        let least = Interval {
            months: i32::MIN,
            days: 1,
            microseconds: i64::MIN,
        };
        let negated = Interval { days: -1, ..least };
        assert_eq!(least.negated(), negated);
    }
}
