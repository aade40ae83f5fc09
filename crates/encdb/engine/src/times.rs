//! The settings by which a session reads and shows times: its time zone and its style of intervals.
//!
//! The server reports both, and a server that is not honest makes values wrong, but sees none of
//! them. A style that is not known shows intervals as `postgres` does, and takes those that mean
//! the same in every style.

use pgseal_value::{Interval, IntervalStyle, Type, Value};

use crate::refusal::Refusal;
use crate::zone::Zone;

/// The settings by which a session reads and shows times and intervals.
#[derive(Clone, Debug)]
pub struct Times {
    zone: Zone,
    /// None: it is not known.
    style: Option<IntervalStyle>,
}

impl Default for Times {
    fn default() -> Self {
        Self::in_zone(Zone::default())
    }
}

/// Returns the session's settings, where a value needs them.
pub type SessionTimes<'t> = &'t dyn Fn() -> Times;

impl Times {
    /// Returns the settings of a session in this time zone.
    pub fn in_zone(zone: Zone) -> Self {
        Self {
            zone,
            style: Some(IntervalStyle::default()),
        }
    }

    /// Returns what is known after a statement that may change the settings.
    pub fn unknown() -> Self {
        Self {
            zone: Zone::Unknown,
            style: None,
        }
    }

    /// Notes a setting that the server reports.
    pub(crate) fn set(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"TimeZone" => self.zone = Zone::named(value),
            b"IntervalStyle" => {
                let name = std::str::from_utf8(value).unwrap_or_default();
                self.style = IntervalStyle::from_name(name);
            }
            _ => {}
        }
    }

    /// Reads a text as a value of a type.
    pub(crate) fn read(&self, text: &str, ty: Type) -> Result<Value, Refusal> {
        match ty {
            Type::Interval => self.interval(text).map(Value::Interval),
            _ => Ok(Value::parse_in(ty, text, self)?),
        }
    }

    /// Returns the text of a value.
    pub(crate) fn shown(&self, value: &Value) -> String {
        match value {
            Value::Interval(interval) => interval.to_text(self.style.unwrap_or_default()),
            value => value.to_text_in(self),
        }
    }

    fn interval(&self, text: &str) -> Result<Interval, Refusal> {
        if let Some(style) = self.style {
            return Ok(Interval::parse(text, style)?);
        }
        let read = Interval::parse(text, IntervalStyle::Postgres)?;
        // No other style reads signs in its own way.
        match Interval::parse(text, IntervalStyle::SqlStandard) {
            Ok(standard) if standard == read => Ok(read),
            _ => Err(Refusal::IntervalStyle),
        }
    }
}

impl pgseal_value::Zone for Times {
    fn at(&self, instant: i64) -> i32 {
        self.zone.at(instant)
    }

    fn at_local(&self, time: i64) -> Option<i32> {
        self.zone.at_local(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(times: &Times, text: &str) -> String {
        match times.read(text, Type::Interval) {
            Ok(value) => value.to_text(),
            Err(refusal) => refusal.sqlstate().to_owned(),
        }
    }

    #[test]
    fn intervals_are_in_the_sessions_style() {
        let mut times = Times::default();
        let interval = times.read("-1 2:03:04", Type::Interval).expect("one");
        assert_eq!(times.shown(&interval), "-1 days +02:03:04");
        times.set(b"IntervalStyle", b"sql_standard");
        assert_eq!(times.shown(&interval), "+0-0 -1 +2:03:04");
        assert_eq!(read(&times, "-1 2:03:04"), "-1 days -02:03:04");
        times.set(b"IntervalStyle", b"iso_8601");
        assert_eq!(times.shown(&interval), "P-1DT2H3M4S");
        assert_eq!(read(&times, "P-1DT2H"), "-1 days +02:00:00");
    }

    #[test]
    fn a_style_that_is_not_known_takes_what_means_the_same_in_all() {
        let mut named = Times::default();
        named.set(b"IntervalStyle", b"of_tomorrow");
        for times in [Times::unknown(), named] {
            assert_eq!(read(&times, "1 day 02:03"), "1 day 02:03:00");
            assert_eq!(read(&times, "-1 day +02:03"), "-1 days +02:03:00");
            assert_eq!(read(&times, "-1 day 02:03"), "22023");
            assert_eq!(read(&times, "1 dya"), "22007");
        }
    }
}
