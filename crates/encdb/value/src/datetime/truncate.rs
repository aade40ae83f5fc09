//! date_trunc: timestamp_trunc, and timestamptz_trunc in UTC.

use super::calendar::{weekday, Day, EPOCH};
use super::extract::Field;
use super::{checked_instant, is_finite, DAY, SECOND};
use crate::{cast, Type, Value, ValueError};

impl Field {
    /// Whether PostgreSQL's date_trunc knows the field as a unit. It has no periods of time zones,
    /// which are units, too.
    pub fn is_unit(self) -> bool {
        !matches!(
            self,
            Self::Dow | Self::Doy | Self::Epoch | Self::IsoDow | Self::IsoYear | Self::Julian
        )
    }
}

/// `date_trunc(field, value)`; that of a date is `timestamp with time zone`, as in PostgreSQL.
pub fn date_trunc(field: Field, value: &Value) -> Result<Value, ValueError> {
    match value {
        Value::Timestamp(instant) => {
            truncated(field, *instant, Type::Timestamp).map(Value::Timestamp)
        }
        Value::TimestampTz(instant) => {
            truncated(field, *instant, Type::TimestampTz).map(Value::TimestampTz)
        }
        Value::Date(_) => date_trunc(field, &cast(value, Type::TimestampTz)?),
        _ => Err(ValueError::NoFunction(value.ty())),
    }
}

fn truncated(field: Field, instant: i64, ty: Type) -> Result<i64, ValueError> {
    let part = match field {
        _ if !is_finite(instant) => return Ok(instant),
        Field::Microseconds => 1,
        Field::Milliseconds => 1000,
        Field::Second => SECOND,
        Field::Minute => 60 * SECOND,
        Field::Hour => 3600 * SECOND,
        Field::Day => DAY,
        _ => {
            let julian = first_day(field, instant.div_euclid(DAY) + EPOCH);
            let julian = julian.ok_or(ValueError::FieldUnsupported(ty))?;
            return checked_instant((julian - EPOCH) * DAY, ty);
        }
    };
    Ok(instant - instant.rem_euclid(part))
}

/// Returns the first day of the week or longer period that a day is in; none if a field is no such
/// period. Centuries and millennia begin with the year 1, decades with a year that ends in 0.
fn first_day(field: Field, julian: i64) -> Option<i64> {
    let day = Day::from_julian(julian);
    let of = |year, month| Day {
        year,
        month,
        day: 1,
    };
    // There is no year 0: what is 0 here is 1 BC, the last of its century.
    let first_year_of = |len: i64| (day.year - 1).div_euclid(len) * len + 1;
    let first = match field {
        Field::Week => return Some(julian - (weekday(julian) + 6) % 7),
        Field::Month => of(day.year, day.month),
        Field::Quarter => of(day.year, (day.month - 1) / 3 * 3 + 1),
        Field::Year => of(day.year, 1),
        Field::Decade => of(day.year.div_euclid(10) * 10, 1),
        Field::Century => of(first_year_of(100), 1),
        Field::Millennium => of(first_year_of(1000), 1),
        _ => return None,
    };
    Some(first.julian())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_where_postgresql_begins_them() {
        let found = |field: &str, text: &str| {
            let field = Field::from_name(field).expect("a field");
            let value = Value::parse(Type::Timestamp, text).expect("an instant");
            date_trunc(field, &value).map(|it| it.to_text())
        };
        for (field, text, expected) in [
            (
                "microseconds",
                "2026-11-29 10:20:30.123456",
                "2026-11-29 10:20:30.123456",
            ),
            (
                "milliseconds",
                "2026-11-29 10:20:30.123456",
                "2026-11-29 10:20:30.123",
            ),
            ("second", "1999-12-31 23:59:59.9", "1999-12-31 23:59:59"),
            ("hour", "1999-12-31 23:59:59.9", "1999-12-31 23:00:00"),
            ("day", "0044-03-15 12:00 BC", "0044-03-15 00:00:00 BC"),
            ("week", "2021-01-03 01:00", "2020-12-28 00:00:00"),
            ("week", "2026-11-30", "2026-11-30 00:00:00"),
            ("month", "2024-02-29 12:00", "2024-02-01 00:00:00"),
            ("quarter", "2024-12-01", "2024-10-01 00:00:00"),
            ("year", "0001-05-05 BC", "0001-01-01 00:00:00 BC"),
            ("decade", "2009-05-05", "2000-01-01 00:00:00"),
            ("decade", "0002-05-05 BC", "0011-01-01 00:00:00 BC"),
            ("century", "2000-05-05", "1901-01-01 00:00:00"),
            ("century", "0001-05-05 BC", "0100-01-01 00:00:00 BC"),
            ("millennium", "2001-05-05", "2001-01-01 00:00:00"),
            ("month", "infinity", "infinity"),
        ] {
            assert_eq!(
                found(field, text).as_deref(),
                Ok(expected),
                "{field} {text}"
            );
        }
        let none = Err(ValueError::FieldUnsupported(Type::Timestamp));
        assert_eq!(found("dow", "2026-11-29"), none);
        let early = Err(ValueError::OutOfRange(Type::Timestamp));
        assert_eq!(found("millennium", "4713-12-31 BC"), early);
    }
}
