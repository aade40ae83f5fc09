//! Intervals from text: interval_in and `DecodeInterval`, and ISO 8601 if that finds no meaning.
//!
//! Fields are read from the last to the first, so that a unit comes before its number. No unit may
//! come twice; `filled` has a bit for each.

use super::super::decode::Fault;
use super::super::digits::{decimals, fraction, integer};
use super::super::fields::{split, Field, Form};
use super::amounts::Amounts;
use super::{iso, Interval, IntervalStyle, SECOND};
use crate::{Type, ValueError};

/// The room that PostgreSQL has for the fields.
const ROOM: usize = 256;

const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// The unit of a number. The numbers are bits of what is filled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Microsecond = 0,
    Millisecond = 1,
    Second = 2,
    Minute = 3,
    Hour = 4,
    Day = 5,
    Week = 6,
    Month = 7,
    Year = 8,
    Decade = 9,
    Century = 10,
    Millennium = 11,
    /// A unit of which no interval has a number
    Other = 12,
}

impl Unit {
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

const SECONDS: u32 = Unit::Second.bit() | Unit::Millisecond.bit() | Unit::Microsecond.bit();
const TIME: u32 = Unit::Hour.bit() | Unit::Minute.bit() | SECONDS;

/// Reads an interval.
pub(super) fn parse(text: &str, style: IntervalStyle) -> Result<Interval, ValueError> {
    let fields = split(text, ROOM);
    let found = match fields.and_then(|fields| decode(&fields, style)) {
        Err(Fault::Format) => iso::parse(text),
        found => found,
    };
    let amounts = found.map_err(|fault| match fault {
        Fault::Range => ValueError::IntervalField,
        _ => ValueError::DatetimeSyntax(Type::Interval),
    })?;
    amounts.interval()
}

struct Decoder {
    amounts: Amounts,
    filled: u32,
    /// The unit of the next number, if a field said so
    unit: Option<Unit>,
    /// A sign at the start is that of all fields.
    is_negative: bool,
    is_before: bool,
}

fn decode(fields: &[Field], style: IntervalStyle) -> Result<Amounts, Fault> {
    let signs: Vec<_> = fields.iter().map(|field| sign(&field.text)).collect();
    let is_negative = match signs.as_slice() {
        [Some(b'-'), others @ ..] => others.iter().all(Option::is_none),
        _ => false,
    };
    let mut decoder = Decoder {
        amounts: Amounts::default(),
        filled: 0,
        unit: None,
        is_negative: is_negative && style == IntervalStyle::SqlStandard,
        is_before: false,
    };
    for field in fields.iter().rev() {
        let filled = decoder.field(field)?;
        if filled & decoder.filled != 0 {
            return Err(Fault::Format);
        }
        decoder.filled |= filled;
    }
    if decoder.filled == 0 {
        return Err(Fault::Format);
    }
    if decoder.is_before {
        decoder.amounts.negate().ok_or(Fault::Range)?;
    }
    Ok(decoder.amounts)
}

fn sign(text: &[u8]) -> Option<u8> {
    text.first().copied().filter(|it| matches!(it, b'+' | b'-'))
}

impl Decoder {
    fn field(&mut self, field: &Field) -> Result<u32, Fault> {
        match field.form {
            Form::Time => self.time(&field.text, false),
            Form::Zone if field.text.contains(&b':') => {
                let is_negative = field.text[0] == b'-';
                match time(&field.text[1..]) {
                    Ok(_) => self.time(&field.text[1..], is_negative),
                    Err(_) => self.number(&field.text),
                }
            }
            Form::Date | Form::Number | Form::Zone => self.number(&field.text),
            Form::Word | Form::Special => self.word(&field.text),
        }
    }

    fn time(&mut self, text: &[u8], is_negative: bool) -> Result<u32, Fault> {
        let time = time(text)?;
        let is_negative = is_negative || self.is_negative;
        self.amounts.time = if is_negative { -time } else { time };
        self.unit = Some(Unit::Day);
        Ok(TIME)
    }

    fn word(&mut self, text: &[u8]) -> Result<u32, Fault> {
        let word = text.get(..10).unwrap_or(text);
        self.is_before |= word == b"ago";
        self.unit = Some(unit(word).ok_or(Fault::Format)?);
        Ok(0)
    }

    /// A number of the unit behind it.
    fn number(&mut self, text: &[u8]) -> Result<u32, Fault> {
        let mut unit = self.unit.unwrap_or(Unit::Second);
        let is_negative = text.first() == Some(&b'-');
        let (whole, rest) = long(text)?;
        let (whole, part) = match rest.first() {
            None => (whole, 0.0),
            Some(b'-') => {
                unit = Unit::Month;
                (years_and_months(whole, &rest[1..], is_negative)?, 0.0)
            }
            Some(b'.') if is_negative => (whole, -decimals(rest)?),
            Some(b'.') => (whole, decimals(rest)?),
            Some(_) => return Err(Fault::Format),
        };
        self.unit = Some(match unit {
            Unit::Hour => Unit::Day,
            unit => unit,
        });
        let (whole, part) = match self.is_negative {
            true => (whole.checked_abs().map_or(whole, |it| -it), -part.abs()),
            false => (whole, part),
        };
        self.add(whole, part, unit)
    }

    fn add(&mut self, whole: i64, part: f64, unit: Unit) -> Result<u32, Fault> {
        let amounts = &mut self.amounts;
        let added = match unit {
            Unit::Microsecond => amounts.add_time(whole, part, 1),
            Unit::Millisecond => amounts.add_time(whole, part, 1000),
            Unit::Second => amounts.add_time(whole, part, SECOND),
            Unit::Minute => amounts.add_time(whole, part, MINUTE),
            Unit::Hour => amounts.add_time(whole, part, HOUR),
            Unit::Day => amounts.add_days(whole, part),
            Unit::Week => amounts.add_weeks(whole, part),
            Unit::Month => amounts.add_months(whole, part),
            Unit::Year => amounts.add_years(whole, part, 1),
            Unit::Decade => amounts.add_years(whole, part, 10),
            Unit::Century => amounts.add_years(whole, part, 100),
            Unit::Millennium => amounts.add_years(whole, part, 1000),
            Unit::Other => return Err(Fault::Format),
        };
        added.ok_or(Fault::Range)?;
        Ok(match unit {
            Unit::Second if part != 0.0 => SECONDS,
            unit => unit.bit(),
        })
    }
}

/// Reads a number of 64 bits with a sign or without, and returns it with the text behind it; 0, and
/// all of the text, if it begins with no digit.
fn long(text: &[u8]) -> Result<(i64, &[u8]), Fault> {
    let digits = usize::from(sign(text).is_some());
    let len = text[digits..]
        .iter()
        .take_while(|c| c.is_ascii_digit())
        .count();
    if len == 0 {
        return Ok((0, text));
    }
    let (number, rest) = text.split_at(digits + len);
    let number = std::str::from_utf8(number).map_err(|_| Fault::Format)?;
    Ok((number.parse().map_err(|_| Fault::Range)?, rest))
}

/// Reads the months of `years-months`.
fn years_and_months(years: i64, months: &[u8], is_negative: bool) -> Result<i64, Fault> {
    let (months, rest) = integer(months);
    let months = months
        .filter(|it| (0..12).contains(it))
        .ok_or(Fault::Range)?;
    if !rest.is_empty() {
        return Err(Fault::Format);
    }
    let months = i64::from(if is_negative { -months } else { months });
    let sum = years.checked_mul(12).and_then(|it| it.checked_add(months));
    sum.ok_or(Fault::Range)
}

/// Reads `hh:mm`, `hh:mm:ss.ffffff` or `mm:ss.ffffff` as microseconds.
fn time(text: &[u8]) -> Result<i64, Fault> {
    let (first, rest) = long(text)?;
    let rest = rest.strip_prefix(b":").ok_or(Fault::Format)?;
    let (second, rest) = integer(rest);
    let second = second.ok_or(Fault::Range)?;
    let (hours, minutes, seconds, micros) = match rest {
        [] => (first, second, 0, 0),
        [b'.', ..] => {
            let micros = fraction(rest)?;
            let minutes = i32::try_from(first).map_err(|_| Fault::Range)?;
            (0, minutes, second, micros)
        }
        [b':', rest @ ..] => {
            let (third, rest) = integer(rest);
            let third = third.ok_or(Fault::Range)?;
            match rest {
                [] => (first, second, third, 0),
                [b'.', ..] => (first, second, third, fraction(rest)?),
                _ => return Err(Fault::Format),
            }
        }
        _ => return Err(Fault::Format),
    };
    let fits = (0..60).contains(&minutes) && (0..=60).contains(&seconds);
    let rest = i64::from(minutes) * MINUTE + i64::from(seconds) * SECOND + micros;
    let time = hours.checked_mul(HOUR).filter(|_| fits && hours >= 0);
    time.and_then(|time| time.checked_add(rest))
        .ok_or(Fault::Range)
}

/// Returns the unit of a word, of which ten characters count.
fn unit(word: &[u8]) -> Option<Unit> {
    Some(match word {
        b"us" | b"usec" | b"usecond" | b"useconds" | b"usecs" | b"microsecon" => Unit::Microsecond,
        b"ms" | b"msec" | b"msecond" | b"mseconds" | b"msecs" | b"millisecon" => Unit::Millisecond,
        b"s" | b"sec" | b"second" | b"seconds" | b"secs" => Unit::Second,
        b"m" | b"min" | b"mins" | b"minute" | b"minutes" => Unit::Minute,
        b"h" | b"hour" | b"hours" | b"hr" | b"hrs" => Unit::Hour,
        b"d" | b"day" | b"days" => Unit::Day,
        b"w" | b"week" | b"weeks" => Unit::Week,
        b"mon" | b"mons" | b"month" | b"months" => Unit::Month,
        b"y" | b"year" | b"years" | b"yr" | b"yrs" => Unit::Year,
        b"dec" | b"decade" | b"decades" | b"decs" => Unit::Decade,
        b"c" | b"cent" | b"centuries" | b"century" => Unit::Century,
        b"mil" | b"millennia" | b"millennium" | b"mils" => Unit::Millennium,
        b"ago" | b"qtr" | b"quarter" | b"timezone" | b"timezone_h" | b"timezone_m" => Unit::Other,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, style: IntervalStyle) -> String {
        match Interval::parse(text, style) {
            Ok(interval) => interval.to_text(IntervalStyle::Postgres),
            Err(error) => error.sqlstate().to_owned(),
        }
    }

    /// As PostgreSQL 15 reads them.
    #[test]
    fn intervals_of_many_forms_are_read() {
        for (text, expected) in [
            ("1 day 02:03:04", "1 day 02:03:04"),
            ("@ 1 year 2 mons ago", "-1 years -2 mons"),
            ("1.5", "00:00:01.5"),
            ("1.5 weeks", "10 days 12:00:00"),
            ("0.1 mon", "3 days"),
            ("1-2", "1 year 2 mons"),
            ("-1-2 +3 -4:05", "-1 years -2 mons +3 days -04:05:00"),
            ("12:34.56", "00:12:34.56"),
            ("1d2h", "1 day 02:00:00"),
            ("1day2hours", "22007"),
            ("P1Y2M3W4DT5H6M7.5S", "1 year 2 mons 25 days 05:06:07.5"),
            ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("P00010203T040506", "1 year 2 mons 3 days 04:05:06"),
            ("PT-0.000001S", "-00:00:00.000001"),
            ("1 day 2 days", "22007"),
            ("", "22007"),
            ("1-12", "22015"),
            ("2147483648 days", "22015"),
            ("P1e16D", "22015"),
            ("178956971 years", "22008"),
            ("infinity", "22007"),
        ] {
            assert_eq!(read(text, IntervalStyle::Postgres), expected, "{text}");
        }
    }

    #[test]
    fn a_first_sign_may_be_that_of_all() {
        let text = "-1 2:03:04";
        assert_eq!(read(text, IntervalStyle::Postgres), "-1 days +02:03:04");
        assert_eq!(read(text, IntervalStyle::SqlStandard), "-1 days -02:03:04");
        let text = "-1 +2:03:04";
        assert_eq!(read(text, IntervalStyle::SqlStandard), "-1 days +02:03:04");
    }
}
