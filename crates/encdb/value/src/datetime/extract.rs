//! extract: extract_date, timestamp_part, timestamptz_part and interval_part, with numeric results.

use super::calendar::{weekday, Day, EPOCH, UNIX_EPOCH};
use super::interval::interval_part;
use super::{is_finite, is_finite_date, DAY, SECOND};
use crate::decimal::{Decimal, Number};
use crate::{Type, Value, ValueError};

/// A field that extract knows. The numbers are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Field {
    /// Years divided by a hundred, rounded up
    Century = 1,
    /// Day of the month
    Day = 2,
    /// Years divided by ten
    Decade = 3,
    /// Day of the week from Sunday, 0
    Dow = 4,
    /// Day of the year
    Doy = 5,
    /// Seconds since 1970
    Epoch = 6,
    /// Hour
    Hour = 7,
    /// Day of the week from Monday, 1
    IsoDow = 8,
    /// Year of the ISO week
    IsoYear = 9,
    /// Julian day
    Julian = 10,
    /// Seconds in millionths
    Microseconds = 11,
    /// Years divided by a thousand, rounded up
    Millennium = 12,
    /// Seconds in thousandths
    Milliseconds = 13,
    /// Minute
    Minute = 14,
    /// Month
    Month = 15,
    /// Quarter of the year
    Quarter = 16,
    /// Second
    Second = 17,
    /// Offset from UTC in seconds
    Timezone = 18,
    /// Hours of the offset
    TimezoneHour = 19,
    /// Minutes of the offset
    TimezoneMinute = 20,
    /// ISO week
    Week = 21,
    /// Year; negative before Christ
    Year = 22,
}

impl Field {
    /// Every field, in the order of the numbers.
    pub const ALL: [Self; 22] = [
        Self::Century,
        Self::Day,
        Self::Decade,
        Self::Dow,
        Self::Doy,
        Self::Epoch,
        Self::Hour,
        Self::IsoDow,
        Self::IsoYear,
        Self::Julian,
        Self::Microseconds,
        Self::Millennium,
        Self::Milliseconds,
        Self::Minute,
        Self::Month,
        Self::Quarter,
        Self::Second,
        Self::Timezone,
        Self::TimezoneHour,
        Self::TimezoneMinute,
        Self::Week,
        Self::Year,
    ];

    /// The field of this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|field| *field as u8 == byte)
    }

    /// Returns the name of the field in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Century => "century",
            Self::Day => "day",
            Self::Decade => "decade",
            Self::Dow => "dow",
            Self::Doy => "doy",
            Self::Epoch => "epoch",
            Self::Hour => "hour",
            Self::IsoDow => "isodow",
            Self::IsoYear => "isoyear",
            Self::Julian => "julian",
            Self::Microseconds => "microseconds",
            Self::Millennium => "millennium",
            Self::Milliseconds => "milliseconds",
            Self::Minute => "minute",
            Self::Month => "month",
            Self::Quarter => "quarter",
            Self::Second => "second",
            Self::Timezone => "timezone",
            Self::TimezoneHour => "timezone_hour",
            Self::TimezoneMinute => "timezone_minute",
            Self::Week => "week",
            Self::Year => "year",
        }
    }

    /// The field of one of the names that PostgreSQL takes. The case does not matter, nor what
    /// is behind ten characters.
    pub fn from_name(name: &str) -> Option<Self> {
        // Names are of any length, and of the rest there is no copy.
        let name = name.get(..name.len().min(10))?.to_ascii_lowercase();
        Some(match name.as_str() {
            "c" | "cent" | "centuries" | "century" => Self::Century,
            "d" | "day" | "days" => Self::Day,
            "dec" | "decade" | "decades" | "decs" => Self::Decade,
            "dow" => Self::Dow,
            "doy" => Self::Doy,
            "epoch" => Self::Epoch,
            "h" | "hour" | "hours" | "hr" | "hrs" => Self::Hour,
            "isodow" => Self::IsoDow,
            "isoyear" => Self::IsoYear,
            "j" | "jd" | "julian" => Self::Julian,
            "microsecon" | "us" | "usec" | "usecond" | "useconds" | "usecs" => Self::Microseconds,
            "mil" | "millennia" | "millennium" | "mils" => Self::Millennium,
            "millisecon" | "ms" | "msec" | "msecond" | "mseconds" | "msecs" => Self::Milliseconds,
            "m" | "min" | "mins" | "minute" | "minutes" => Self::Minute,
            "mon" | "mons" | "month" | "months" => Self::Month,
            "qtr" | "quarter" => Self::Quarter,
            "s" | "sec" | "second" | "seconds" | "secs" => Self::Second,
            "timezone" => Self::Timezone,
            "timezone_h" => Self::TimezoneHour,
            "timezone_m" => Self::TimezoneMinute,
            "w" | "week" | "weeks" => Self::Week,
            "y" | "year" | "years" | "yr" | "yrs" => Self::Year,
            _ => return None,
        })
    }

    /// Does it grow with time for ever, so that an infinite instant has an infinite one?
    fn grows(self) -> bool {
        matches!(
            self,
            Self::Year
                | Self::Decade
                | Self::Century
                | Self::Millennium
                | Self::Julian
                | Self::IsoYear
                | Self::Epoch
        )
    }

    fn is_of_time(self) -> bool {
        matches!(
            self,
            Self::Hour | Self::Minute | Self::Second | Self::Milliseconds | Self::Microseconds
        )
    }

    fn is_of_zone(self) -> bool {
        matches!(
            self,
            Self::Timezone | Self::TimezoneHour | Self::TimezoneMinute
        )
    }
}

/// `extract(field from value)`, a numeric; nothing for fields that an infinite date does not have.
pub fn extract(field: Field, value: &Value) -> Result<Option<Value>, ValueError> {
    let number = match value {
        Value::Date(date) => date_part(field, *date)?,
        Value::Timestamp(instant) => instant_part(field, *instant, Type::Timestamp)?,
        Value::TimestampTz(instant) => instant_part(field, *instant, Type::TimestampTz)?,
        Value::Interval(interval) => Some(interval_part(field, *interval)?),
        _ => return Err(ValueError::NoFunction(value.ty())),
    };
    Ok(number.map(Value::Decimal))
}

fn date_part(field: Field, date: i32) -> Result<Option<Decimal>, ValueError> {
    if field.is_of_time() || field.is_of_zone() {
        return Err(ValueError::FieldUnsupported(Type::Date));
    }
    if !is_finite_date(date) {
        return Ok(infinite(field, date < 0));
    }
    let julian = i64::from(date) + EPOCH;
    Ok(Some(Decimal::from(match field {
        Field::Epoch => (julian - UNIX_EPOCH) * 86_400,
        _ => day_part(field, julian),
    })))
}

fn infinite(field: Field, negative: bool) -> Option<Decimal> {
    field.grows().then(|| Decimal::infinity(negative))
}

/// A field of the day of this Julian number.
fn day_part(field: Field, julian: i64) -> i64 {
    let day = Day::from_julian(julian);
    let year = day.year;
    // There is no year 0: what is -1 here is 2 BC.
    let in_parts_of = |len: i64| {
        if year > 0 {
            (year + len - 1) / len
        } else {
            -((len - 1 - (year - 1)) / len)
        }
    };
    match field {
        Field::Century => in_parts_of(100),
        Field::Millennium => in_parts_of(1000),
        Field::Decade if year >= 0 => year / 10,
        Field::Decade => -((8 - (year - 1)) / 10),
        Field::Day => day.day,
        Field::Dow => weekday(julian),
        Field::IsoDow => (weekday(julian) + 6) % 7 + 1,
        Field::Doy => day.of_year(),
        Field::IsoYear => {
            let (year, _) = day.iso_week();
            year - i64::from(year <= 0)
        }
        Field::Week => day.iso_week().1,
        Field::Month => day.month,
        Field::Quarter => (day.month - 1) / 3 + 1,
        Field::Year => year - i64::from(year <= 0),
        _ => julian,
    }
}

fn instant_part(field: Field, instant: i64, ty: Type) -> Result<Option<Decimal>, ValueError> {
    if !is_finite(instant) {
        return Ok(infinite(field, instant < 0));
    }
    if field.is_of_zone() && ty == Type::Timestamp {
        return Err(ValueError::FieldUnsupported(ty));
    }
    let julian = instant.div_euclid(DAY) + EPOCH;
    let time = instant.rem_euclid(DAY);
    let micros = time % (60 * SECOND);
    let number = match field {
        Field::Microseconds => Number::from_scaled(micros, 0),
        Field::Milliseconds => Number::from_scaled(micros, 3),
        Field::Second => Number::from_scaled(micros, 6),
        Field::Epoch => return epoch(instant).map(Some),
        Field::Julian => return julian_part(julian, time).map(Some),
        Field::Minute => Number::from_scaled(time / (60 * SECOND) % 60, 0),
        Field::Hour => Number::from_scaled(time / (3600 * SECOND), 0),
        Field::Timezone | Field::TimezoneHour | Field::TimezoneMinute => Number::zero(0),
        _ => Number::from_scaled(day_part(field, julian), 0),
    };
    Decimal::new(number).map(Some)
}

/// Seconds since 1970.
fn epoch(instant: i64) -> Result<Decimal, ValueError> {
    let between = i128::from((EPOCH - UNIX_EPOCH) * DAY);
    let micros = i128::from(instant) + between;
    let number = match i64::try_from(micros) {
        Ok(micros) => Number::from_scaled(micros, 6),
        // Too far away for 64 bits: the same by division.
        Err(_) => {
            let mut number = Number::from_i128(micros).quotient(&Number::from_i128(1_000_000))?;
            number.round(6);
            number
        }
    };
    Decimal::new(number)
}

/// The Julian day with the part of it that has passed.
fn julian_part(julian: i64, time: i64) -> Result<Decimal, ValueError> {
    let part = Number::from_i128(time.into()).quotient(&Number::from_i128(DAY.into()))?;
    Decimal::new(Number::from_i128(julian.into()).add(&part))
}
