//! Functions of times that go by way of another type: date_part, to_char and AT TIME ZONE. to_char
//! is of numbers, too.

use crate::datetime::{extract, fraction_of, fraction_of_interval, is_finite, Field, Format, Zone};
use crate::{cast, cast_in, NumberFormat, Type, Value, ValueError};

/// `date_part(field, value)`, a double; nothing for fields that an infinite time does not have. A
/// date is the timestamp of its midnight.
pub fn date_part(field: Field, value: &Value) -> Result<Option<Value>, ValueError> {
    let fraction = match value {
        Value::Timestamp(instant) | Value::TimestampTz(instant) => {
            fraction_of(field, *instant).filter(|_| is_finite(*instant))
        }
        Value::Interval(interval) => fraction_of_interval(field, *interval),
        Value::Date(_) => return date_part(field, &cast(value, Type::Timestamp)?),
        _ => return Err(ValueError::NoFunction(value.ty())),
    };
    match fraction {
        Some(part) => Ok(Some(Value::Float8(part))),
        None => {
            let part = extract(field, value)?;
            part.map(|it| cast(&it, Type::Float8)).transpose()
        }
    }
}

/// `to_char(value, format)`; nothing for an infinite time, and for a time in an empty format.
pub fn to_char(value: &Value, format: &str) -> Result<Option<String>, ValueError> {
    match value.ty().is_number() {
        true => NumberFormat::new(format)?.of(value).map(Some),
        false => time_to_char(value, &Format::new(format)?),
    }
}

/// A date is the instant of its midnight.
fn time_to_char(value: &Value, format: &Format) -> Result<Option<String>, ValueError> {
    match value {
        Value::Timestamp(instant) => Ok(format.of(*instant, "")),
        Value::TimestampTz(instant) => Ok(format.of(*instant, "UTC")),
        Value::Date(_) => time_to_char(&cast(value, Type::TimestampTz)?, format),
        _ => Err(ValueError::NoFunction(value.ty())),
    }
}

/// `value AT TIME ZONE zone`: what a clock there shows at an instant, or the instant at which it
/// shows a time.
pub fn at_time_zone(value: &Value, zone: &dyn Zone) -> Result<Value, ValueError> {
    match value {
        Value::TimestampTz(_) => cast_in(value, Type::Timestamp, zone),
        Value::Timestamp(_) => cast_in(value, Type::TimestampTz, zone),
        _ => Err(ValueError::NoFunction(value.ty())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_computed_as_postgresql_computes_them() {
        for (field, ty, text, expected) in [
            (
                Field::Second,
                Type::Timestamp,
                "2024-02-29 12:34:56.7",
                "56.7",
            ),
            (
                Field::Milliseconds,
                Type::Timestamp,
                "2024-02-29 12:34:56.789012",
                "56789.012",
            ),
            (
                Field::Epoch,
                Type::TimestampTz,
                "1970-01-01 00:00:00.000001+00",
                "1e-06",
            ),
            (
                Field::Epoch,
                Type::Timestamp,
                "294276-12-31 23:59:59.999999",
                "9224318016000",
            ),
            (
                Field::Julian,
                Type::Timestamp,
                "2000-01-01 12:00",
                "2451545.5",
            ),
            (Field::Hour, Type::Date, "2024-02-29", "0"),
            (Field::Year, Type::Date, "-infinity", "-Infinity"),
            (
                Field::Timezone,
                Type::TimestampTz,
                "2024-02-29 12:00+05",
                "0",
            ),
        ] {
            let value = Value::parse(ty, text).expect("a time");
            let part = date_part(field, &value).ok().flatten();
            assert_eq!(
                part.map(|it| it.to_text()).as_deref(),
                Some(expected),
                "{text}"
            );
        }
        let value = Value::Timestamp(i64::MAX);
        assert!(matches!(date_part(Field::Month, &value), Ok(None)));
        let refused = date_part(Field::Timezone, &Value::Timestamp(0)).err();
        assert_eq!(refused, Some(ValueError::FieldUnsupported(Type::Timestamp)));
    }

    fn shown(text: &str, format: &str) -> String {
        let value = Value::parse(Type::TimestampTz, text).expect("a time");
        let shown = to_char(&value, format).expect("a format that it has");
        shown.unwrap_or_else(|| "NULL".to_owned())
    }

    /// As PostgreSQL 15 shows them.
    #[test]
    fn formats_are_postgresqls() {
        let time = "2024-02-29 15:04:05.067";
        for (format, expected) in [
            ("YYYY-MM-DD\"T\"HH24:MI:SS.MS", "2024-02-29T15:04:05.067"),
            (
                "FMDay, FMDDth FMMonth YYYY HH12:MI p.m.",
                "Thursday, 29th February 2024 03:04 p.m.",
            ),
            ("Day|MONTH|Dy mon|RM|", "Thursday |FEBRUARY |Thu feb|II  |"),
            (
                "Y,YYY CC WW IW IDDD Q J FMWW",
                "2,024 21 09 09 060 1 2460370 9",
            ),
            ("TZ tz OF TZH:TZM", "UTC utc +00 +00:00"),
            ("Yyyy FMx \\\"q\\ 1st", "4024 x \"1\\ 1st"),
            ("", "NULL"),
            ("FM", ""),
        ] {
            assert_eq!(shown(time, format), expected, "{format}");
        }
        assert_eq!(shown("0044-03-15 BC", "YYYY AD cc"), "0044 BC -01");
        assert_eq!(shown("infinity", "YYYY"), "NULL");
        assert_eq!(Format::new("TMMonth"), Err(ValueError::Translation));
    }

    #[test]
    fn formats_with_words_are_not_bare() {
        for (format, is_bare) in [
            ("YYYY-MM-DD\"T\"HH24:MI:SSOF", true),
            ("Dy, DD Mon", true),
            ("\"secret\"YYYY", false),
            ("xyzzy", false),
            ("ada", false),
        ] {
            let found = Format::new(format).expect("a format").is_bare();
            assert_eq!(found, is_bare, "{format}");
        }
    }
}
