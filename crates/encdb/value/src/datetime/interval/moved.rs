//! Dates and instants with intervals: timestamp_pl_interval and its kin, in the time zone UTC.

use super::super::calendar::{Day, EPOCH};
use super::super::{date_to_instant, END_INSTANT, MIN_INSTANT};
use super::{is_finite, Interval, DAY};
use crate::{Type, Value, ValueError};

/// `value + interval`; a date becomes a timestamp.
pub fn add_interval(value: &Value, interval: Interval) -> Result<Value, ValueError> {
    let ty = match value.ty() {
        Type::Date => Type::Timestamp,
        ty => ty,
    };
    match value {
        Value::Date(date) => {
            shifted(date_to_instant(*date, ty)?, interval, ty).map(Value::Timestamp)
        }
        Value::Timestamp(instant) => shifted(*instant, interval, ty).map(Value::Timestamp),
        Value::TimestampTz(instant) => shifted(*instant, interval, ty).map(Value::TimestampTz),
        _ => Err(ValueError::NoFunction(ty)),
    }
}

/// Months first, then days, then the time; each has to lead to an instant.
fn shifted(instant: i64, interval: Interval, ty: Type) -> Result<i64, ValueError> {
    if !is_finite(instant) {
        return Ok(instant);
    }
    let moved = after_months(instant, interval.months)
        .and_then(|instant| after_days(instant, interval.days))
        .and_then(|instant| instant.checked_add(interval.microseconds));
    moved
        .filter(|instant| (MIN_INSTANT..END_INSTANT).contains(instant))
        .ok_or(ValueError::OutOfRange(ty))
}

/// Returns the instant on the same day of another month, or on its last one.
fn after_months(instant: i64, months: i32) -> Option<i64> {
    if months == 0 {
        return Some(instant);
    }
    let day = Day::from_julian(instant.div_euclid(DAY) + EPOCH);
    let month = day.month - 1 + i64::from(months);
    let first = Day {
        year: day.year + month.div_euclid(12),
        month: month.rem_euclid(12) + 1,
        day: 1,
    };
    let day = Day {
        day: day.day.min(first.days_of_month()),
        ..first
    };
    at_day(day.julian(), instant)
}

fn after_days(instant: i64, days: i32) -> Option<i64> {
    at_day(instant.div_euclid(DAY) + EPOCH + i64::from(days), instant)
}

/// The time of an instant on another day, if there is an instant on that day.
fn at_day(julian: i64, instant: i64) -> Option<i64> {
    let day = julian - EPOCH;
    (MIN_INSTANT / DAY..END_INSTANT / DAY)
        .contains(&day)
        .then(|| day * DAY + instant.rem_euclid(DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ty: Type, text: &str, months: i32, days: i32, microseconds: i64) -> String {
        let value = Value::parse(ty, text).expect("a date or an instant");
        let interval = Interval {
            months,
            days,
            microseconds,
        };
        match add_interval(&value, interval) {
            Ok(sum) => sum.to_text().to_string(),
            Err(error) => error.sqlstate().to_owned(),
        }
    }

    #[test]
    fn months_come_first_and_end_with_the_month() {
        let timestamp = |text, months, days, time| after(Type::Timestamp, text, months, days, time);
        assert_eq!(timestamp("2024-01-31", 1, 0, 0), "2024-02-29 00:00:00");
        assert_eq!(timestamp("2023-01-31", 1, 1, 0), "2023-03-01 00:00:00");
        assert_eq!(
            timestamp("2024-03-31", -13, 0, 1),
            "2023-02-28 00:00:00.000001"
        );
        assert_eq!(timestamp("0001-01-01", -1, 0, 0), "0001-12-01 00:00:00 BC");
        assert_eq!(
            timestamp("1999-12-31 23:59:59", 0, 0, 1_000_000),
            "2000-01-01 00:00:00"
        );
        assert_eq!(timestamp("infinity", i32::MIN, 0, 0), "infinity");
    }

    #[test]
    fn dates_become_timestamps_and_zones_stay() {
        assert_eq!(
            after(Type::Date, "2024-02-29", 12, 0, 0),
            "2025-02-28 00:00:00"
        );
        let zoned = after(Type::TimestampTz, "2024-03-31 01:30+01", 0, 1, 0);
        assert_eq!(zoned, "2024-04-01 00:30:00+00");
    }

    #[test]
    fn each_step_has_to_lead_to_an_instant() {
        let timestamp =
            |months, days, time| after(Type::Timestamp, "2024-01-01", months, days, time);
        assert_eq!(timestamp(i32::MAX, 0, 0), "22008");
        assert_eq!(timestamp(0, i32::MIN, 0), "22008");
        assert_eq!(timestamp(0, 0, i64::MAX), "22008");
        assert_eq!(timestamp(12 * 300_000, -365 * 300_000, 0), "22008");
        assert_eq!(after(Type::Date, "5874897-12-31", 0, 0, 0), "22008");
        assert_eq!(after(Type::Int4, "1", 1, 0, 0), "42883");
    }
}
