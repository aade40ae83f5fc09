//! Fields of intervals: `interval_part`. Years and months are those of all months, hours and
//! smaller ones those of the time.

use super::super::extract::Field;
use super::super::SECOND;
use super::Interval;
use crate::decimal::{Decimal, Number};
use crate::{float, Type, ValueError};

/// Seconds of a day, of a month of 30 days, and of a year of 365.25 of them.
const DAY: i64 = 86_400;
const MONTH: i64 = 30 * DAY;
const YEAR: i64 = 31_557_600;

/// Returns a field of an interval, as `extract` gives it.
pub(in crate::datetime) fn interval_part(
    field: Field,
    interval: Interval,
) -> Result<Decimal, ValueError> {
    let micros = interval.microseconds % (60 * SECOND);
    let years = i64::from(interval.months / 12);
    let months = i64::from(interval.months % 12);
    let number = match field {
        Field::Microseconds => Number::from_scaled(micros, 0),
        Field::Milliseconds => Number::from_scaled(micros, 3),
        Field::Second => Number::from_scaled(micros, 6),
        Field::Minute => Number::from_scaled(interval.microseconds / (60 * SECOND) % 60, 0),
        Field::Hour => Number::from_scaled(interval.microseconds / (3600 * SECOND), 0),
        Field::Day => Number::from_scaled(interval.days.into(), 0),
        Field::Month => Number::from_scaled(months, 0),
        Field::Quarter => Number::from_scaled(months / 3 + 1, 0),
        Field::Year => Number::from_scaled(years, 0),
        Field::Decade => Number::from_scaled(years / 10, 0),
        Field::Century => Number::from_scaled(years / 100, 0),
        Field::Millennium => Number::from_scaled(years / 1000, 0),
        Field::Epoch => {
            let days = i64::from(interval.days) * DAY;
            let seconds = years * YEAR + months * MONTH + days;
            Number::from_scaled(interval.microseconds, 6).add(&Number::from_i128(seconds.into()))
        }
        _ => return Err(ValueError::FieldUnsupported(Type::Interval)),
    };
    Decimal::new(number)
}

/// Returns a field that PostgreSQL computes in double precision, as `date_part` gives it; none for
/// those that are whole numbers.
pub(crate) fn fraction_of(field: Field, interval: Interval) -> Option<f64> {
    let micros = interval.microseconds % (60 * SECOND);
    let seconds = float::from_int8(micros / SECOND);
    let fraction = float::from_int8(micros % SECOND);
    Some(match field {
        Field::Milliseconds => seconds * 1000.0 + fraction / 1000.0,
        Field::Second => seconds + fraction / 1_000_000.0,
        Field::Epoch => {
            let years = float::from_int8(YEAR) * f64::from(interval.months / 12);
            let months = float::from_int8(MONTH) * f64::from(interval.months % 12);
            let days = float::from_int8(DAY) * f64::from(interval.days);
            float::from_int8(interval.microseconds) / 1_000_000.0 + years + months + days
        }
        _ => return None,
    })
}
