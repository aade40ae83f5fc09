//! The time zone of a session, as the server reports it: `timestamp with time zone` is read and
//! shown in it.
//!
//! A server that reports another zone makes values wrong, and sees none of them. A zone that is not
//! known shows values in UTC, and takes none without an offset.

use pgseal_value::NamedZone;

/// A time zone.
#[derive(Clone, Debug, Default)]
pub enum Zone {
    /// UTC, before the server has said anything
    #[default]
    Utc,
    /// One of the database
    Known(NamedZone),
    /// One that the database does not have, or that a statement may have changed just now
    Unknown,
}

impl Zone {
    /// Returns the zone by PostgreSQL's name: one of IANA's, or a rule of POSIX.
    pub fn named(name: &[u8]) -> Self {
        let name = std::str::from_utf8(name).unwrap_or_default();
        NamedZone::new(name).map_or(Self::Unknown, Self::Known)
    }
}

impl pgseal_value::Zone for Zone {
    fn at(&self, instant: i64) -> i32 {
        match self {
            Self::Known(zone) => zone.at(instant),
            Self::Utc | Self::Unknown => 0,
        }
    }

    fn at_local(&self, time: i64) -> Option<i32> {
        match self {
            Self::Utc => Some(0),
            Self::Unknown => None,
            Self::Known(zone) => zone.at_local(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use pgseal_value::{Type, Value};

    use super::*;

    fn shown(zone: &str, text: &str) -> String {
        let zone = Zone::named(zone.as_bytes());
        let value = Value::parse_in(Type::TimestampTz, text, &zone);
        value.map_or_else(|error| error.to_string(), |value| value.to_text_in(&zone))
    }

    /// As PostgreSQL 15 shows them.
    #[test]
    fn instants_are_read_and_shown_as_the_server_does() {
        for (zone, text, expected) in [
            (
                "Europe/Berlin",
                "2026-01-02 03:04:05",
                "2026-01-02 03:04:05+01",
            ),
            (
                "Europe/Berlin",
                "2026-07-02 03:04:05Z",
                "2026-07-02 05:04:05+02",
            ),
            // The clock skips this hour, and shows that one twice.
            (
                "Europe/Berlin",
                "2026-03-29 02:30",
                "2026-03-29 03:30:00+02",
            ),
            (
                "Europe/Berlin",
                "2026-10-25 02:30",
                "2026-10-25 02:30:00+01",
            ),
            (
                "Europe/Berlin",
                "1800-01-01",
                "1800-01-01 00:00:00+00:53:28",
            ),
            (
                "Europe/Berlin",
                "12026-07-02 12:00",
                "12026-07-02 12:00:00+02",
            ),
            (
                "America/St_Johns",
                "2026-01-02 03:04:05",
                "2026-01-02 03:04:05-03:30",
            ),
            ("<+02>-02", "2026-01-02 03:04:05", "2026-01-02 03:04:05+02"),
            ("UTC", "2026-01-02 03:04:05", "2026-01-02 03:04:05+00"),
            (
                "Nowhere/Land",
                "2026-01-02 03:04:05+01",
                "2026-01-02 02:04:05+00",
            ),
            (
                "Nowhere/Land",
                "2026-01-02 03:04:05",
                "time zone not recognized",
            ),
        ] {
            assert_eq!(shown(zone, text), expected, "{zone} {text}");
        }
    }

    /// The zone, the text, the types that it is cast from and to, and the answer of PostgreSQL 15.
    /// Berlin's clock skips an hour and shows one twice; that of São Paulo skips a midnight.
    const CASTS: &str = "\
Europe/Berlin | 2026-03-29 02:30 | local | instant | 2026-03-29 03:30:00+02
Europe/Berlin | 2026-10-25 02:30 | local | instant | 2026-10-25 02:30:00+01
Europe/Berlin | 2026-03-29 | date | instant | 2026-03-29 00:00:00+01
Europe/Berlin | 1800-01-01 | date | instant | 1800-01-01 00:00:00+00:53:28
Europe/Berlin | 2026-07-02 22:30Z | instant | date | 2026-07-03
Europe/Berlin | 2026-07-02 22:30Z | instant | local | 2026-07-03 00:30:00
Europe/Berlin | 2026-10-25 00:30Z | instant | local | 2026-10-25 02:30:00
Europe/Berlin | 2026-10-25 01:30Z | instant | local | 2026-10-25 02:30:00
Europe/Berlin | 2026-10-25 01:30Z | instant | text | 2026-10-25 02:30:00+01
Europe/Berlin | infinity | date | instant | infinity
Europe/Berlin | -infinity | instant | date | -infinity
America/Sao_Paulo | 2018-11-04 | date | instant | 2018-11-04 01:00:00-02
America/Sao_Paulo | 2018-11-04 02:59:59.5Z | instant | date | 2018-11-03
America/Sao_Paulo | 2018-11-04 03:00Z | instant | local | 2018-11-04 01:00:00
Asia/Kolkata | 4714-11-24 BC | date | instant | 22008
America/New_York | 294276-12-31 23:59:59 | local | instant | 22008
America/New_York | 4714-11-24 00:00:00+00 BC | instant | local | 22008
Nowhere/Land | 2026-07-02 22:30Z | instant | date | 22023
Nowhere/Land | 2026-07-02 | date | instant | 22023";

    #[test]
    fn casts_are_in_the_zone_as_the_servers_are() {
        let cast = |zone: &str, text: &str, from: Type, to: Type| {
            let zone = Zone::named(zone.as_bytes());
            let value = Value::parse_in(from, text, &zone);
            let value = value.and_then(|value| pgseal_value::cast_in(&value, to, &zone));
            value.map_or_else(
                |error| error.sqlstate().to_owned(),
                |it| it.to_text_in(&zone),
            )
        };
        let type_of = |name: &str| match name {
            "date" => Type::Date,
            "local" => Type::Timestamp,
            "instant" => Type::TimestampTz,
            _ => Type::Text,
        };
        for line in CASTS.lines() {
            let cells: Vec<&str> = line.trim().split(" | ").collect();
            let [zone, text, from, to, expected] = cells[..] else {
                panic!("five cells in {line}");
            };
            let found = cast(zone, text, type_of(from), type_of(to));
            assert_eq!(found, expected, "{line}");
        }
    }
}
