//! Arithmetic of intervals, and of instants between which they are: interval_pl, interval_mul,
//! timestamp_mi, timestamp_age and their kin.

use super::super::calendar::{Day, EPOCH};
use super::{add_interval, is_finite, Interval, DAY, DAYS_OF_MONTH};
use crate::{float, Arithmetic, Type, Value, ValueError};

const OUT_OF_RANGE: ValueError = ValueError::OutOfRange(Type::Interval);
const SECONDS_OF_DAY: f64 = 86_400.0;

/// Whether an operator takes or gives intervals with these types.
pub(crate) fn has_intervals(op: Arithmetic, a: Type, b: Type) -> bool {
    let is_time = |ty| matches!(ty, Type::Date | Type::Timestamp | Type::TimestampTz);
    let is_instant = |ty| matches!(ty, Type::Timestamp | Type::TimestampTz);
    match (op, a, b) {
        (Arithmetic::Add | Arithmetic::Sub, Type::Interval, Type::Interval) => true,
        (Arithmetic::Add | Arithmetic::Sub, time, Type::Interval) => is_time(time),
        (Arithmetic::Add, Type::Interval, time) => is_time(time),
        (Arithmetic::Mul | Arithmetic::Div, Type::Interval, Type::Float8) => true,
        (Arithmetic::Mul, Type::Float8, Type::Interval) => true,
        (Arithmetic::Sub | Arithmetic::Age, a, b) => a == b && is_instant(a),
        _ => false,
    }
}

/// Computes an operator that takes or gives intervals.
pub(crate) fn compute_interval(op: Arithmetic, a: &Value, b: &Value) -> Result<Value, ValueError> {
    match (op, a, b) {
        (Arithmetic::Add, Value::Interval(a), Value::Interval(b)) => sum(*a, *b),
        (Arithmetic::Sub, Value::Interval(a), Value::Interval(b)) => difference(*a, *b),
        (Arithmetic::Add, Value::Interval(by), time)
        | (Arithmetic::Add, time, Value::Interval(by)) => {
            return add_interval(time, *by);
        }
        (Arithmetic::Sub, time, Value::Interval(by)) => return add_interval(time, by.negated()),
        (Arithmetic::Mul, Value::Interval(a), Value::Float8(by))
        | (Arithmetic::Mul, Value::Float8(by), Value::Interval(a)) => scaled(*a, |part| part * by),
        (Arithmetic::Div, Value::Interval(a), Value::Float8(by)) => quotient(*a, *by),
        (Arithmetic::Sub, Value::Timestamp(a), Value::Timestamp(b))
        | (Arithmetic::Sub, Value::TimestampTz(a), Value::TimestampTz(b)) => between(*a, *b),
        (Arithmetic::Age, Value::Timestamp(from), Value::Timestamp(to))
        | (Arithmetic::Age, Value::TimestampTz(from), Value::TimestampTz(to)) => {
            age(*from, *to, a.ty())
        }
        _ => Err(ValueError::Undefined(a.ty(), b.ty())),
    }
    .map(Value::Interval)
}

/// Returns `a + b`.
pub(crate) fn sum(a: Interval, b: Interval) -> Result<Interval, ValueError> {
    Interval {
        months: a.months.checked_add(b.months).ok_or(OUT_OF_RANGE)?,
        days: a.days.checked_add(b.days).ok_or(OUT_OF_RANGE)?,
        microseconds: a
            .microseconds
            .checked_add(b.microseconds)
            .ok_or(OUT_OF_RANGE)?,
    }
    .checked()
}

/// Returns `a - b`.
pub(super) fn difference(a: Interval, b: Interval) -> Result<Interval, ValueError> {
    Interval {
        months: a.months.checked_sub(b.months).ok_or(OUT_OF_RANGE)?,
        days: a.days.checked_sub(b.days).ok_or(OUT_OF_RANGE)?,
        microseconds: a
            .microseconds
            .checked_sub(b.microseconds)
            .ok_or(OUT_OF_RANGE)?,
    }
    .checked()
}

/// Returns `a / by`.
pub(crate) fn quotient(a: Interval, by: f64) -> Result<Interval, ValueError> {
    match by == 0.0 {
        true => Err(ValueError::DivisionByZero),
        false => scaled(a, |part| part / by),
    }
}

/// Returns an interval whose parts are all multiplied or divided. Parts of months become days, and
/// parts of days become time.
fn scaled(a: Interval, by: impl Fn(f64) -> f64) -> Result<Interval, ValueError> {
    let (months, days) = (by(f64::from(a.months)), by(f64::from(a.days)));
    let (whole_months, whole_days) = (whole(months)?, whole(days)?);
    let rest = rounded((months - f64::from(whole_months)) * f64::from(DAYS_OF_MONTH));
    let days_of_rest = whole(rest)?;
    let part_of_day = days - f64::from(whole_days) + rest - f64::from(days_of_rest);
    let mut seconds = rounded(part_of_day * SECONDS_OF_DAY);
    let mut days = whole_days;
    if seconds.abs() >= SECONDS_OF_DAY {
        let more = whole(seconds / SECONDS_OF_DAY)?;
        days = days.checked_add(more).ok_or(OUT_OF_RANGE)?;
        seconds -= f64::from(more) * SECONDS_OF_DAY;
    }
    days = days.checked_add(days_of_rest).ok_or(OUT_OF_RANGE)?;
    let time = by(float::from_int8(a.microseconds)) + seconds * 1_000_000.0;
    Interval {
        months: whole_months,
        days,
        microseconds: float::to_int8(time).map_err(|_| OUT_OF_RANGE)?,
    }
    .checked()
}

/// Rounds to microseconds of a second.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1_000_000.0).round_ties_even() / 1_000_000.0
}

/// Returns the number without its fraction, if it is one of 32 bits.
fn whole(number: f64) -> Result<i32, ValueError> {
    // NaN is in no range.
    match (-2_147_483_648.0..2_147_483_648.0).contains(&number) {
        true => float::to_int4(number.trunc()).map_err(|_| OUT_OF_RANGE),
        false => Err(OUT_OF_RANGE),
    }
}

/// Returns `a - b` of two instants: days, and a time that is shorter than one.
fn between(a: i64, b: i64) -> Result<Interval, ValueError> {
    if !is_finite(a) || !is_finite(b) {
        return Err(ValueError::InfiniteTimes);
    }
    let time = a.checked_sub(b).ok_or(OUT_OF_RANGE)?;
    Ok(Interval {
        months: 0,
        days: i32::try_from(time / DAY).map_err(|_| OUT_OF_RANGE)?,
        microseconds: time % DAY,
    })
}

/// Returns `age(a, b)`: the days of a month that is not full are those of the earlier month.
fn age(a: i64, b: i64, ty: Type) -> Result<Interval, ValueError> {
    if !is_finite(a) || !is_finite(b) {
        return Err(ValueError::OutOfRange(ty));
    }
    let (late, early) = (a.max(b), a.min(b));
    let day_of = |instant: i64| Day::from_julian(instant.div_euclid(DAY) + EPOCH);
    let (to, from) = (day_of(late), day_of(early));
    let mut time = late.rem_euclid(DAY) - early.rem_euclid(DAY);
    let mut days = to.day - from.day;
    let mut months = (to.year - from.year) * 12 + to.month - from.month;
    if time < 0 {
        time += DAY;
        days -= 1;
    }
    while days < 0 {
        days += from.days_of_month();
        months -= 1;
    }
    let narrow = |number| i32::try_from(number).map_err(|_| OUT_OF_RANGE);
    let age = Interval {
        months: narrow(months)?,
        days: narrow(days)?,
        microseconds: time,
    };
    Ok(if a < b { age.negated() } else { age })
}

#[cfg(test)]
mod tests {
    use super::super::IntervalStyle;
    use super::*;

    fn interval(text: &str) -> Interval {
        Interval::parse(text, IntervalStyle::Postgres).expect("an interval")
    }

    fn instant(text: &str) -> i64 {
        match Value::parse(Type::Timestamp, text).expect("an instant") {
            Value::Timestamp(instant) => instant,
            _ => 0,
        }
    }

    fn shown(result: Result<Interval, ValueError>) -> String {
        match result {
            Ok(interval) => interval.to_text(IntervalStyle::Postgres),
            Err(error) => error.sqlstate().to_owned(),
        }
    }

    /// As PostgreSQL 15 shows them.
    #[test]
    fn times_are_apart_in_days_and_of_an_age_in_months() {
        for (a, b, apart, of_age) in [
            ("2024-03-01", "2024-01-31", "30 days", "1 mon 1 day"),
            ("2024-01-31", "2024-03-01", "-30 days", "-1 mons -1 days"),
            ("2023-03-01", "2023-02-28", "1 day", "1 day"),
            (
                "2001-04-10",
                "1957-06-13",
                "16007 days",
                "43 years 9 mons 27 days",
            ),
            (
                "2000-01-01 01:00",
                "2000-01-02 00:00",
                "-23:00:00",
                "-23:00:00",
            ),
            (
                "2000-03-01 00:00:00",
                "1999-12-31 23:59:59.999999",
                "60 days 00:00:00.000001",
                "2 mons 00:00:00.000001",
            ),
            ("0001-01-01", "0001-12-31 BC", "1 day", "1 day"),
            ("infinity", "2000-01-01", "22008", "22008"),
            ("2000-01-01", "-infinity", "22008", "22008"),
            (
                "294276-12-31",
                "4714-11-24 BC",
                "22008",
                "298989 years 1 mon 7 days",
            ),
        ] {
            let (x, y) = (instant(a), instant(b));
            assert_eq!(shown(between(x, y)), apart, "{a} - {b}");
            assert_eq!(shown(age(x, y, Type::Timestamp)), of_age, "{a}, {b}");
        }
    }

    /// As PostgreSQL 15 shows them.
    #[test]
    fn parts_become_smaller_units() {
        for (text, by, product, ratio) in [
            ("1 mon", 0.5, "15 days", "2 mons"),
            (
                "1 mon 1 day",
                1.1,
                "1 mon 4 days 02:24:00",
                "28 days 04:21:49.067345",
            ),
            ("1 day", -0.25, "-06:00:00", "-4 days"),
            ("2147483647 days", 2.0, "22008", "1073741823 days 12:00:00"),
            ("1 sec", f64::NAN, "22008", "22008"),
            ("1 sec", f64::INFINITY, "22008", "00:00:00"),
            ("1 year", 0.0, "00:00:00", "22012"),
        ] {
            let a = interval(text);
            assert_eq!(shown(scaled(a, |part| part * by)), product, "{text} * {by}");
            assert_eq!(shown(quotient(a, by)), ratio, "{text} / {by}");
        }
    }

    #[test]
    fn each_part_has_to_fit() {
        let day = interval("1 day");
        let most = interval("2147483647 days");
        assert_eq!(shown(sum(most, day)), "22008");
        assert_eq!(shown(difference(most, day)), "2147483646 days");
        assert_eq!(
            shown(interval("-2147483648 days").checked_negated()),
            "22008"
        );
    }

    #[test]
    fn infinite_intervals_are_out_of_range() {
        let nearly = Interval {
            months: i32::MAX,
            days: i32::MAX,
            microseconds: i64::MAX - 1,
        };
        let least = Interval {
            microseconds: 1,
            ..Interval::ZERO
        };
        assert_eq!(shown(sum(nearly, least)), "22008");
        let mut infinite = nearly.encode();
        infinite[7] = 0xff;
        let decoded = Interval::decode(infinite);
        assert_eq!(decoded, Err(ValueError::OutOfRange(Type::Interval)));
        assert_eq!(Interval::decode(nearly.encode()), Ok(nearly));
    }
}
