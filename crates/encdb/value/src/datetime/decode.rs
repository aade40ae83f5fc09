//! The meaning of the fields of a date: `DecodeDateTime`, with dates in the order month, day,
//! year, and zones as offsets.
//!
//! Every field fills parts of the date, and none may be filled twice; `filled` has a bit for each.

use super::calendar::Day;
use super::digits::{decimals, fraction, integer, narrow, wide_integer, wrapped, zone};
use super::fields::{Field, Form};
use super::words::{word, Unit, Word};
use super::{DAY, SECOND};

/// Why text is no date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does not look like a date.
    Format,
    /// A part is out of range.
    Range,
    /// The zone's offset is out of range.
    Zone,
    /// A zone by name.
    Name,
}

/// The meaning of a text.
pub(super) enum Decoded {
    /// A day and a time; the zone in seconds west of UTC.
    Moment(Moment),
    Epoch,
    Infinity,
    NegativeInfinity,
}

/// A day, a time of the day and a zone.
#[derive(Clone, Copy, Default)]
pub(super) struct Moment {
    pub(super) year: i32,
    pub(super) month: i32,
    pub(super) day: i32,
    pub(super) hour: i32,
    pub(super) minute: i32,
    pub(super) second: i32,
    pub(super) micros: i64,
    pub(super) zone: i32,
    /// The text has a zone.
    pub(super) has_zone: bool,
}

const YEAR: u32 = 1;
const MONTH: u32 = 1 << 1;
const DAY_OF_MONTH: u32 = 1 << 2;
const YEAR_MONTH: u32 = YEAR | MONTH;
const MONTH_DAY: u32 = MONTH | DAY_OF_MONTH;
const DATE: u32 = YEAR | MONTH | DAY_OF_MONTH;
const DAY_OF_YEAR: u32 = 1 << 3;
const HOUR: u32 = 1 << 4;
const MINUTE: u32 = 1 << 5;
const WHOLE_SECOND: u32 = 1 << 6;
const FRACTION: u32 = 1 << 7;
const TIME: u32 = HOUR | MINUTE | WHOLE_SECOND | FRACTION;
const ZONE: u32 = 1 << 8;
const DAYLIGHT: u32 = 1 << 9;
const ERA: u32 = 1 << 10;
const HALF: u32 = 1 << 11;
const WEEKDAY: u32 = 1 << 12;
const RESERVED: u32 = 1 << 13;

#[derive(Default)]
struct Decoder {
    moment: Moment,
    filled: u32,
    day_of_year: i32,
    short_year: bool,
    text_month: bool,
    before_christ: bool,
    julian: bool,
    half: Option<bool>,
    label: Option<Unit>,
    special: Option<Decoded>,
}

/// The meaning of the fields.
pub(super) fn decode(fields: &[Field]) -> Result<Decoded, Fault> {
    let mut decoder = Decoder::default();
    for (index, field) in fields.iter().enumerate() {
        let next = fields.get(index + 1).map(|next| next.form);
        let filled = match field.form {
            Form::Date => decoder.date_field(&field.text)?,
            Form::Time => decoder.time_field(&field.text)?,
            Form::Zone => {
                decoder.moment.zone = zone(&field.text)?;
                ZONE
            }
            Form::Number => decoder.number_field(&field.text)?,
            Form::Word | Form::Special => decoder.word_field(&field.text, next)?,
        };
        if filled & decoder.filled != 0 {
            return Err(Fault::Format);
        }
        decoder.filled |= filled;
    }
    decoder.finish()
}

impl Decoder {
    /// A field with `-`, `/` or `.` inside.
    fn date_field(&mut self, text: &[u8]) -> Result<u32, Fault> {
        let label = self.label.take();
        if label == Some(Unit::Julian) {
            let (value, rest) = integer(text);
            let value = value.filter(|value| *value >= 0).ok_or(Fault::Range)?;
            self.moment_of_julian(i64::from(value));
            self.moment.zone = zone(rest)?;
            return Ok(DATE | TIME | ZONE);
        }
        if label.is_none() && self.filled & (MONTH | DAY_OF_MONTH) != MONTH | DAY_OF_MONTH {
            return self.date(text);
        }
        // The date is known: this is a time with a zone, or the name of a zone.
        if label.is_none() && !text[0].is_ascii_digit() {
            return Err(Fault::Name);
        }
        let is_time = matches!(label, None | Some(Unit::Time)) && self.filled & TIME != TIME;
        let dash = text.iter().position(|c| *c == b'-');
        let (true, Some(dash)) = (is_time, dash) else {
            return Err(Fault::Format);
        };
        self.moment.zone = zone(&text[dash..])?;
        Ok(self.run_together(&text[..dash], self.filled)? | ZONE)
    }

    fn moment_of_julian(&mut self, julian: i64) {
        let day = Day::from_julian(julian);
        let part = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
        self.moment.year = part(day.year);
        self.moment.month = part(day.month);
        self.moment.day = part(day.day);
        self.julian = true;
    }

    /// Year, month and day in one field: DecodeDate.
    fn date(&mut self, text: &[u8]) -> Result<u32, Fault> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() && parts.len() < 25 {
            let skip = rest.iter().position(u8::is_ascii_alphanumeric);
            rest = &rest[skip.ok_or(Fault::Format)?..];
            let same = |c: &u8| c.is_ascii_digit() == rest[0].is_ascii_digit();
            let run = rest
                .iter()
                .take_while(|c| c.is_ascii_alphanumeric() && same(c));
            let (part, after) = rest.split_at(run.count());
            parts.push(part);
            rest = after.get(1..).unwrap_or(&[]);
        }
        let mut known = self.filled;
        let mut filled = 0;
        let mut text_month = false;
        let is_month =
            |part: &&&[u8]| part[0].is_ascii_alphabetic() && **part != b"at" && **part != b"on";
        for part in parts.iter().filter(is_month) {
            let Some(Word::Month(month)) = word(part) else {
                return Err(Fault::Format);
            };
            self.moment.month = month;
            text_month = true;
            join(&mut known, &mut filled, MONTH)?;
        }
        for part in parts.iter().filter(|part| !is_month(part)) {
            let new = self.number(part, known, text_month)?;
            join(&mut known, &mut filled, new)?;
        }
        if known & !(DAY_OF_YEAR | ZONE) != DATE {
            return Err(Fault::Format);
        }
        Ok(filled)
    }

    /// One number of a date, by what is known already: DecodeNumber.
    fn number(&mut self, text: &[u8], known: u32, text_month: bool) -> Result<u32, Fault> {
        let (value, rest) = integer(text);
        let value = value.ok_or(Fault::Range)?;
        match rest.first() {
            None => {}
            _ if rest.len() == text.len() => return Err(Fault::Format),
            Some(b'.') if text.len() - rest.len() > 2 => {
                return self.run_together(text, known | DATE);
            }
            Some(b'.') => self.moment.micros = fraction(rest)?,
            Some(_) => return Err(Fault::Format),
        }
        if text.len() == 3 && known & DATE == YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(DAY_OF_YEAR | MONTH | DAY_OF_MONTH);
        }
        let is_year = text.len() >= 3;
        let part = match known & DATE {
            0 if is_year => YEAR,
            0 | YEAR | DAY_OF_MONTH => MONTH,
            MONTH if text_month && is_year => YEAR,
            MONTH => DAY_OF_MONTH,
            YEAR_MONTH if text_month && is_year && self.short_year => {
                self.moment.day = self.moment.year;
                self.moment.year = value;
                self.short_year = false;
                return Ok(DAY_OF_MONTH);
            }
            YEAR_MONTH => DAY_OF_MONTH,
            MONTH_DAY => YEAR,
            DATE => return self.run_together(text, known),
            _ => return Err(Fault::Format),
        };
        if part == YEAR {
            self.short_year = !is_year;
        }
        *self.part(part) = value;
        Ok(part)
    }

    fn part(&mut self, part: u32) -> &mut i32 {
        match part {
            YEAR => &mut self.moment.year,
            MONTH => &mut self.moment.month,
            _ => &mut self.moment.day,
        }
    }

    /// `yyyymmdd`, `hhmmss` or `hhmm`: DecodeNumberField.
    fn run_together(&mut self, text: &[u8], known: u32) -> Result<u32, Fault> {
        let point = text.iter().position(|c| *c == b'.');
        let digits = &text[..point.unwrap_or(text.len())];
        let len = digits.len();
        let part = |from: usize, to: usize| wrapped(&digits[from..to]);
        if let Some(point) = point {
            let decimals = text[point + 1..].iter().take_while(|c| c.is_ascii_digit());
            self.moment.micros = fraction(&text[point..point + 1 + decimals.count()])?;
        } else if known & DATE != DATE && len >= 6 {
            self.moment.day = part(len - 2, len);
            self.moment.month = part(len - 4, len - 2);
            self.moment.year = part(0, len - 4);
            self.short_year |= len == 6;
            return Ok(DATE);
        }
        if known & TIME == TIME || !matches!(len, 4 | 6) {
            return Err(Fault::Format);
        }
        self.moment.hour = part(0, 2);
        self.moment.minute = part(2, 4);
        self.moment.second = part(4, len);
        Ok(TIME)
    }

    /// `hh:mm`, `hh:mm:ss.ffffff`, `mm:ss.ffffff`: DecodeTime.
    fn time_field(&mut self, text: &[u8]) -> Result<u32, Fault> {
        if !matches!(self.label.take(), None | Some(Unit::Time)) {
            return Err(Fault::Format);
        }
        let (first, rest) = wide_integer(text).ok_or(Fault::Range)?;
        let (second, rest) = integer(rest.get(1..).unwrap_or(&[]));
        let second = second.ok_or(Fault::Range)?;
        let (time, micros) = match rest.first() {
            None => ((first, second, 0), 0),
            Some(b'.') => {
                let micros = fraction(rest)?;
                ((0, narrow(first)?, second), micros)
            }
            _ => {
                let (third, rest) = integer(rest.get(1..).unwrap_or(&[]));
                let third = third.ok_or(Fault::Range)?;
                let micros = match rest.first() {
                    None => 0,
                    Some(b'.') => fraction(rest)?,
                    Some(_) => return Err(Fault::Format),
                };
                ((first, second, third), micros)
            }
        };
        let time = (narrow(time.0)?, time.1, time.2);
        let moment = &mut self.moment;
        (moment.hour, moment.minute, moment.second) = time;
        moment.micros = micros;
        let fits = moment.hour >= 0
            && (0..60).contains(&moment.minute)
            && (0..=60).contains(&moment.second)
            && moment.time() <= DAY;
        if fits {
            Ok(TIME)
        } else {
            Err(Fault::Range)
        }
    }

    /// A number by itself.
    fn number_field(&mut self, text: &[u8]) -> Result<u32, Fault> {
        if let Some(label) = self.label.take() {
            return self.labelled(label, text);
        }
        let point = text.iter().position(|c| *c == b'.');
        let known = self.filled;
        match point {
            Some(_) if known & DATE == 0 => self.date(text),
            Some(point) if point > 2 => self.run_together(text, known),
            _ if text.len() >= 6 && (known & DATE == 0 || known & TIME == 0) => {
                self.run_together(text, known)
            }
            _ => self.number(text, known, self.text_month),
        }
    }

    /// A number behind a label, as in `y2001m02d04`.
    fn labelled(&mut self, label: Unit, text: &[u8]) -> Result<u32, Fault> {
        let (value, rest) = integer(text);
        let value = value.ok_or(Fault::Range)?;
        let decimal = matches!(label, Unit::Julian | Unit::Time | Unit::Second);
        match rest.first() {
            None => {}
            Some(b'.') if decimal => {}
            Some(_) => return Err(Fault::Format),
        }
        self.special = None;
        let moment = &mut self.moment;
        let (part, filled) = match label {
            Unit::Year => (&mut moment.year, YEAR),
            Unit::Month if self.filled & MONTH != 0 && self.filled & HOUR != 0 => {
                (&mut moment.minute, MINUTE)
            }
            Unit::Month => (&mut moment.month, MONTH),
            Unit::Day => (&mut moment.day, DAY_OF_MONTH),
            Unit::Hour => (&mut moment.hour, HOUR),
            Unit::Minute => (&mut moment.minute, MINUTE),
            Unit::Second if rest.is_empty() => (&mut moment.second, WHOLE_SECOND),
            Unit::Second => {
                moment.micros = fraction(rest)?;
                (&mut moment.second, WHOLE_SECOND | FRACTION)
            }
            Unit::Julian => return self.julian_number(value, rest),
            Unit::Time => {
                return match self.run_together(text, self.filled | DATE)? {
                    TIME => Ok(TIME),
                    _ => Err(Fault::Format),
                };
            }
            Unit::Other => return Err(Fault::Format),
        };
        *part = value;
        Ok(filled)
    }

    fn julian_number(&mut self, value: i32, rest: &[u8]) -> Result<u32, Fault> {
        self.moment_of_julian(i64::from(value));
        if rest.is_empty() {
            return Ok(DATE);
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
        let micros = (decimals(rest)? * DAY as f64) as i64;
        let seconds = i32::try_from(micros / SECOND).unwrap_or(0);
        let moment = &mut self.moment;
        (moment.hour, moment.minute) = (seconds / 3600, seconds / 60 % 60);
        (moment.second, moment.micros) = (seconds % 60, micros % SECOND);
        Ok(DATE | TIME)
    }

    fn word_field(&mut self, text: &[u8], next: Option<Form>) -> Result<u32, Fault> {
        Ok(match word(text).ok_or(Fault::Format)? {
            Word::Filler => 0,
            Word::Month(month) => return Ok(self.month_word(month)),
            Word::Weekday => WEEKDAY,
            Word::Era(before_christ) => {
                self.before_christ = before_christ;
                ERA
            }
            Word::Half(half) => {
                self.half = Some(half);
                HALF
            }
            Word::Unit(unit) => {
                self.label = Some(unit);
                0
            }
            Word::Time => return self.time_mark(next),
            Word::Utc => {
                self.moment.zone = 0;
                ZONE
            }
            Word::Daylight => {
                self.moment.zone -= 3600;
                DAYLIGHT
            }
            Word::Midnight => {
                let moment = &mut self.moment;
                (moment.hour, moment.minute, moment.second) = (0, 0, 0);
                moment.zone = 0;
                self.special = None;
                TIME | ZONE
            }
            Word::Epoch => self.reserved(Decoded::Epoch),
            Word::Infinity => self.reserved(Decoded::Infinity),
            Word::NegativeInfinity => self.reserved(Decoded::NegativeInfinity),
        })
    }

    /// `T`, behind a date and before a time.
    fn time_mark(&mut self, next: Option<Form>) -> Result<u32, Fault> {
        let follows = matches!(next, Some(Form::Number | Form::Time | Form::Date));
        if self.filled & DATE != DATE || !follows {
            return Err(Fault::Format);
        }
        self.label = Some(Unit::Time);
        Ok(0)
    }

    fn reserved(&mut self, special: Decoded) -> u32 {
        self.special = Some(special);
        RESERVED
    }

    /// A month's name; a number that was taken for the month was the day then.
    fn month_word(&mut self, month: i32) -> u32 {
        let was_day = self.filled & MONTH != 0
            && !self.text_month
            && self.filled & DAY_OF_MONTH == 0
            && (1..=31).contains(&self.moment.month);
        let filled = if was_day {
            self.moment.day = self.moment.month;
            DAY_OF_MONTH
        } else {
            MONTH
        };
        self.text_month = true;
        self.moment.month = month;
        filled
    }

    /// The checks of the whole: ValidateDate, and whether enough was said.
    fn finish(mut self) -> Result<Decoded, Fault> {
        self.validate()?;
        let moment = &mut self.moment;
        match self.half {
            Some(_) if moment.hour > 12 => return Err(Fault::Range),
            Some(false) if moment.hour == 12 => moment.hour = 0,
            Some(true) if moment.hour != 12 => moment.hour += 12,
            _ => {}
        }
        if let Some(special) = self.special {
            return Ok(special);
        }
        let daylight_alone = self.filled & (DAYLIGHT | ZONE) == DAYLIGHT;
        if self.filled & DATE != DATE || daylight_alone {
            return Err(Fault::Format);
        }
        self.moment.has_zone = self.filled & ZONE != 0;
        Ok(Decoded::Moment(self.moment))
    }

    fn validate(&mut self) -> Result<(), Fault> {
        let moment = &mut self.moment;
        if self.filled & YEAR != 0 && !self.julian {
            let short = self.short_year && !self.before_christ;
            if moment.year <= 0 && !(short && moment.year == 0) {
                return Err(Fault::Range);
            }
            if self.before_christ {
                moment.year = 1 - moment.year;
            } else if short {
                moment.year += match moment.year {
                    0..70 => 2000,
                    70..100 => 1900,
                    _ => 0,
                };
            }
        }
        if self.filled & DAY_OF_YEAR != 0 {
            let (julian, days) = (self.julian, i64::from(self.day_of_year));
            let first = Day {
                year: i64::from(moment.year),
                month: 1,
                day: 1,
            };
            self.moment_of_julian(first.julian() + days - 1);
            self.julian = julian;
        }
        let moment = &self.moment;
        let month_exists = self.filled & MONTH == 0 || (1..=12).contains(&moment.month);
        let day_may_exist = self.filled & DAY_OF_MONTH == 0 || (1..=31).contains(&moment.day);
        let exists = self.filled & DATE != DATE || moment.day().exists();
        if month_exists && day_may_exist && exists {
            Ok(())
        } else {
            Err(Fault::Range)
        }
    }
}

impl Moment {
    pub(super) fn day(&self) -> Day {
        Day {
            year: i64::from(self.year),
            month: i64::from(self.month),
            day: i64::from(self.day),
        }
    }

    /// Microseconds since midnight.
    pub(super) fn time(&self) -> i64 {
        let minutes = i64::from(self.hour) * 60 + i64::from(self.minute);
        (minutes * 60 + i64::from(self.second)) * SECOND + self.micros
    }
}

fn join(known: &mut u32, filled: &mut u32, new: u32) -> Result<(), Fault> {
    if *known & new != 0 {
        return Err(Fault::Format);
    }
    *known |= new;
    *filled |= new;
    Ok(())
}
