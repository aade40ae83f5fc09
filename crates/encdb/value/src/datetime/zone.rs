//! Time zones, as far as instants are read and shown in them.

/// A time zone. Its database is the caller's.
pub trait Zone {
    /// Returns the seconds east of UTC at an instant, which is in microseconds since 2000.
    fn at(&self, instant: i64) -> i32;

    /// Returns the seconds east of UTC at a local time; none if the zone is not known. A time that
    /// a clock skips is one before it was put forward, and one that it shows twice is the later
    /// one.
    fn at_local(&self, local: i64) -> Option<i32>;
}

/// UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utc;

impl Zone for Utc {
    fn at(&self, _: i64) -> i32 {
        0
    }

    fn at_local(&self, _: i64) -> Option<i32> {
        Some(0)
    }
}

/// A zone whose clocks are always as many seconds east of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct East(pub i32);

impl Zone for East {
    fn at(&self, _: i64) -> i32 {
        self.0
    }

    fn at_local(&self, _: i64) -> Option<i32> {
        Some(self.0)
    }
}

/// Returns an offset as PostgreSQL writes it behind a time: `+00`, `+05:30`.
pub(super) fn print_offset(east: i32) -> String {
    let sign = if east < 0 { '-' } else { '+' };
    let east = east.unsigned_abs();
    let (hours, minutes, seconds) = (east / 3600, east / 60 % 60, east % 60);
    match (minutes, seconds) {
        (0, 0) => format!("{sign}{hours:02}"),
        (_, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::East;
    use crate::{Type, Value, ValueError, Zone};

    /// Five hours and a half east.
    const INDIA: East = East(19_800);

    /// A zone that is not known.
    struct Unknown;

    impl Zone for Unknown {
        fn at(&self, _: i64) -> i32 {
            19_800
        }

        fn at_local(&self, _: i64) -> Option<i32> {
            None
        }
    }

    #[test]
    fn an_instant_without_a_zone_is_in_the_callers() {
        for (text, shown) in [
            ("2026-01-02 03:04:05", "2026-01-02 03:04:05+05:30"),
            ("2026-01-02 03:04:05+00", "2026-01-02 08:34:05+05:30"),
            ("2026-01-02 03:04:05 utc", "2026-01-02 08:34:05+05:30"),
            ("0044-03-15 BC", "0044-03-15 00:00:00+05:30 BC"),
            ("infinity", "infinity"),
            ("epoch", "1970-01-01 05:30:00+05:30"),
        ] {
            let value = Value::parse_in(Type::TimestampTz, text, &INDIA);
            let value = value.unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(value.to_text_in(&INDIA), shown, "{text}");
        }
        let unknown = |text| Value::parse_in(Type::TimestampTz, text, &Unknown).err();
        assert_eq!(unknown("2026-01-02"), Some(ValueError::ZoneName));
        assert_eq!(unknown("2026-01-02 03:04+01"), None);
        let local = Value::parse_in(Type::Timestamp, "2026-01-02", &INDIA);
        let shown = local.map(|value| value.to_text_in(&INDIA));
        assert_eq!(shown.ok().as_deref(), Some("2026-01-02 00:00:00"));
    }
}
