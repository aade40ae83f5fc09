//! Dates, instants and intervals: date.c and timestamp.c, in UTC where no time zone is given.
//!
//! A date counts days, an instant microseconds, both from 2000-01-01; the extremes of the integers
//! are the infinities.

mod calendar;
mod decode;
mod digits;
mod extract;
mod fields;
mod format;
mod interval;
#[cfg(feature = "zones")]
mod named_zone;
mod parse;
mod part;
mod truncate;
mod words;
mod zone;

use std::fmt;

use crate::{Type, ValueError};

use calendar::{Day, EPOCH};

pub use extract::{extract, Field};
pub use format::Format;
pub use interval::{add_interval, Interval, IntervalStyle};
pub(crate) use interval::{
    compute_interval, fraction_of as fraction_of_interval, has_intervals, quotient, sum,
};
#[cfg(feature = "zones")]
pub use named_zone::NamedZone;
pub(crate) use parse::{parse_date, parse_instant};
pub(crate) use part::fraction_of;
pub use truncate::date_trunc;
pub use zone::{East, Utc, Zone};

pub(super) const DAY: i64 = 86_400_000_000;
const SECOND: i64 = 1_000_000;

/// The first day of both, as a date.
const MIN_DATE: i64 = -EPOCH;
/// The day after the last date.
const END_DATE: i64 = 2_147_483_494 - EPOCH;
const MIN_INSTANT: i64 = MIN_DATE * DAY;
/// The microsecond after the last instant.
const END_INSTANT: i64 = (109_203_528 - EPOCH) * DAY;

/// Is it no infinity?
fn is_finite_date(date: i32) -> bool {
    date != i32::MIN && date != i32::MAX
}

pub(crate) fn is_finite(instant: i64) -> bool {
    instant != i64::MIN && instant != i64::MAX
}

/// A number of days as a date, if there is such a one; infinities come out as they came.
pub(crate) fn checked_date(date: i64) -> Result<i32, ValueError> {
    let range = ValueError::OutOfRange(Type::Date);
    let date32 = i32::try_from(date).map_err(|_| range)?;
    if !is_finite_date(date32) || (MIN_DATE..END_DATE).contains(&date) {
        return Ok(date32);
    }
    Err(range)
}

/// A number of microseconds as an instant, if there is such a one.
pub(crate) fn checked_instant(instant: i64, ty: Type) -> Result<i64, ValueError> {
    if !is_finite(instant) || (MIN_INSTANT..END_INSTANT).contains(&instant) {
        return Ok(instant);
    }
    Err(ValueError::OutOfRange(ty))
}

/// `date + days`
pub(crate) fn add_days(date: i32, days: i64) -> Result<i32, ValueError> {
    if !is_finite_date(date) {
        return Ok(date);
    }
    let sum = i64::from(date) + days;
    if (MIN_DATE..END_DATE).contains(&sum) {
        return checked_date(sum);
    }
    Err(ValueError::OutOfRange(Type::Date))
}

/// `a - b` in days.
pub(crate) fn days_between(a: i32, b: i32) -> Result<i32, ValueError> {
    if !is_finite_date(a) || !is_finite_date(b) {
        return Err(ValueError::InfiniteDates);
    }
    // Wraps, as in PostgreSQL; no two dates are that far from each other.
    Ok(a.wrapping_sub(b))
}

/// The first instant of a date.
pub(crate) fn date_to_instant(date: i32, ty: Type) -> Result<i64, ValueError> {
    match date {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        _ if i64::from(date) >= END_INSTANT / DAY => Err(ValueError::OutOfRange(ty)),
        _ => Ok(i64::from(date) * DAY),
    }
}

/// Where a date is among instants: behind all that are finite if it is none of them.
pub(crate) fn place_of_date(date: i32) -> i64 {
    date_to_instant(date, Type::Timestamp).unwrap_or(END_INSTANT)
}

/// The date of an instant.
pub(crate) fn instant_to_date(instant: i64) -> i32 {
    match instant {
        i64::MIN => i32::MIN,
        i64::MAX => i32::MAX,
        _ => i32::try_from(instant.div_euclid(DAY)).unwrap_or(i32::MAX),
    }
}

/// Returns the instant that a clock of the zone shows as this time.
pub(crate) fn instant_of(local: i64, ty: Type, zone: &dyn Zone) -> Result<i64, ValueError> {
    if !is_finite(local) {
        return Ok(local);
    }
    let east = zone.at_local(local).ok_or(ValueError::ZoneName)?;
    let instant = local.checked_sub(i64::from(east) * SECOND);
    checked_instant(instant.ok_or(ValueError::OutOfRange(ty))?, ty)
}

/// Returns the time that a clock of the zone shows at an instant.
pub(crate) fn local_of(instant: i64, ty: Type, zone: &dyn Zone) -> Result<i64, ValueError> {
    if !is_finite(instant) {
        return Ok(instant);
    }
    // A zone that is not known has no local times.
    zone.at_local(instant).ok_or(ValueError::ZoneName)?;
    let local = instant.checked_add(i64::from(zone.at(instant)) * SECOND);
    checked_instant(local.ok_or(ValueError::OutOfRange(ty))?, ty)
}

/// A date in ISO form.
pub(crate) fn print_date(date: i32) -> String {
    match date {
        i32::MIN => "-infinity".to_owned(),
        i32::MAX => "infinity".to_owned(),
        _ => {
            let (mut text, era) = name(i64::from(date));
            text.push_str(era);
            text
        }
    }
}

/// Returns an instant as it is shown in a zone.
pub(crate) fn print_instant_in(instant: i64, zone: &dyn Zone) -> String {
    let east = zone.at(instant);
    match is_finite(instant) {
        true => {
            let local = instant + i64::from(east) * SECOND;
            print_instant(local, &zone::print_offset(east))
        }
        false => print_instant(instant, ""),
    }
}

/// An instant in ISO form; `zone` is behind the time.
pub(crate) fn print_instant(instant: i64, zone: &str) -> String {
    match instant {
        i64::MIN => return "-infinity".to_owned(),
        i64::MAX => return "infinity".to_owned(),
        _ => {}
    }
    let (mut text, era) = name(instant.div_euclid(DAY));
    let time = instant.rem_euclid(DAY);
    let (seconds, fraction) = (time / SECOND, time % SECOND);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    append(
        &mut text,
        format_args!(" {hour:02}:{minute:02}:{second:02}"),
    );
    if fraction > 0 {
        append(&mut text, format_args!(".{fraction:06}"));
        text.truncate(text.trim_end_matches('0').len());
    }
    text.push_str(zone);
    text.push_str(era);
    text
}

/// Year, month and day, and what follows if it was before Christ. There is room for the rest.
fn name(date: i64) -> (String, &'static str) {
    let day = Day::from_julian(date + EPOCH);
    let (year, era) = if day.year > 0 {
        (day.year, "")
    } else {
        (1 - day.year, " BC")
    };
    let mut text = String::with_capacity(48);
    append(
        &mut text,
        format_args!("{year:04}-{:02}-{:02}", day.month, day.day),
    );
    (text, era)
}

fn append(text: &mut String, arguments: fmt::Arguments) {
    // A String takes everything.
    let _ = fmt::Write::write_fmt(text, arguments);
}
