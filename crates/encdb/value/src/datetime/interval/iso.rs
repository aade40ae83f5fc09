//! Intervals of ISO 8601: `P1Y2M3DT4H5M6S` and `P0001-02-03T04:05:06`: `DecodeISO8601Interval`.

use super::super::decode::Fault;
use super::amounts::Amounts;
use super::SECOND;

const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// Numbers beyond it have no exact fraction.
const MOST: f64 = 1.0e15;

/// Reads an interval.
pub(super) fn parse(text: &str) -> Result<Amounts, Fault> {
    let rest = text.strip_prefix('P').filter(|rest| !rest.is_empty());
    let mut reader = Reader {
        rest: rest.ok_or(Fault::Format)?.as_bytes(),
        amounts: Amounts::default(),
        in_date: true,
        has_field: false,
    };
    while !reader.rest.is_empty() {
        if reader.skip(b'T') {
            reader.begin_time();
            continue;
        }
        let is_last = match reader.in_date {
            true => reader.date_field()?,
            false => reader.time_field()?,
        };
        if is_last {
            break;
        }
    }
    Ok(reader.amounts)
}

/// A number, in two parts, and how many digits were before its point.
struct Number {
    whole: i64,
    part: f64,
    width: usize,
}

struct Reader<'a> {
    rest: &'a [u8],
    amounts: Amounts,
    in_date: bool,
    /// There was a field with a unit in this part.
    has_field: bool,
}

impl Reader<'_> {
    fn skip(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn begin_time(&mut self) {
        (self.in_date, self.has_field) = (false, false);
    }

    /// Reads a number as C's strtod does, if it is decimal.
    fn number(&mut self) -> Result<Number, Fault> {
        let text = self.rest;
        let sign = usize::from(text.first() == Some(&b'-'));
        let digits = |from: usize| {
            let rest = text.get(from..).unwrap_or_default();
            rest.iter().take_while(|c| c.is_ascii_digit()).count()
        };
        let width = digits(sign);
        let mut end = sign + width;
        let mut has_digits = width > 0;
        if text.get(end) == Some(&b'.') {
            let decimals = digits(end + 1);
            has_digits |= decimals > 0;
            end += 1 + decimals;
        }
        if !has_digits {
            return Err(Fault::Format);
        }
        if matches!(text.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            end += if exponent > 0 { 1 + sign + exponent } else { 0 };
        }
        let (number, rest) = text.split_at(end);
        self.rest = rest;
        let number = std::str::from_utf8(number).map_err(|_| Fault::Format)?;
        let value: f64 = number.parse().map_err(|_| Fault::Format)?;
        let is_zero = !number
            .split(['e', 'E'])
            .take(1)
            .any(|it| it.contains(|c| ('1'..='9').contains(&c)));
        if value.is_infinite() || value.abs() < f64::MIN_POSITIVE && !is_zero {
            return Err(Fault::Format);
        }
        if value.abs() > MOST {
            return Err(Fault::Range);
        }
        let whole = crate::float::to_int8(value.trunc()).map_err(|_| Fault::Range)?;
        Ok(Number {
            whole,
            part: value - value.trunc(),
            width,
        })
    }

    /// Reads a number of years, months, weeks or days, or a whole date. Returns whether the text
    /// ends with it.
    fn date_field(&mut self) -> Result<bool, Fault> {
        let number = self.number()?;
        let Number { whole, part, .. } = number;
        let added = match self.rest.first() {
            Some(b'Y') => self.amounts.add_years(whole, part, 1),
            Some(b'M') => self.amounts.add_months(whole, part),
            Some(b'W') => self.amounts.add_weeks(whole, part),
            Some(b'D') => self.amounts.add_days(whole, part),
            None | Some(b'T' | b'-') => return self.date(&number),
            Some(_) => return Err(Fault::Format),
        };
        added.ok_or(Fault::Range)?;
        self.rest = &self.rest[1..];
        self.has_field = true;
        Ok(false)
    }

    /// Reads what is behind the first number of `yyyymmdd` or `yyyy-mm-dd`.
    fn date(&mut self, first: &Number) -> Result<bool, Fault> {
        let Number { whole, part, width } = *first;
        if self.has_field {
            return Err(Fault::Format);
        }
        let is_basic = width == 8 && self.rest.first() != Some(&b'-');
        if is_basic {
            let date = self.amounts.add_years(whole / 10_000, 0.0, 1);
            let date = date.and_then(|()| self.amounts.add_months(whole / 100 % 100, 0.0));
            let date = date.and_then(|()| self.amounts.add_days(whole % 100, part));
            date.ok_or(Fault::Range)?;
            return Ok(self.ends_date());
        }
        let years = self.amounts.add_years(whole, part, 1);
        years.ok_or(Fault::Range)?;
        if !self.skip(b'-') {
            return Ok(self.ends_date());
        }
        let Number { whole, part, .. } = self.number()?;
        let months = self.amounts.add_months(whole, part);
        months.ok_or(Fault::Range)?;
        if !self.skip(b'-') {
            return self.must_end_date();
        }
        let Number { whole, part, .. } = self.number()?;
        let days = self.amounts.add_days(whole, part);
        days.ok_or(Fault::Range)?;
        self.must_end_date()
    }

    /// Whether the text ends here; a time follows otherwise.
    fn ends_date(&mut self) -> bool {
        if self.skip(b'T') {
            self.begin_time();
            return false;
        }
        true
    }

    fn must_end_date(&mut self) -> Result<bool, Fault> {
        match self.rest.first() {
            None | Some(b'T') => Ok(self.ends_date()),
            Some(_) => Err(Fault::Format),
        }
    }

    /// Reads a number of hours, minutes or seconds, or a whole time. Returns whether the text ends
    /// with it.
    fn time_field(&mut self) -> Result<bool, Fault> {
        let number = self.number()?;
        let unit = match self.rest.first() {
            Some(b'H') => HOUR,
            Some(b'M') => MINUTE,
            Some(b'S') => SECOND,
            None | Some(b':') => return self.time(&number),
            Some(_) => return Err(Fault::Format),
        };
        self.add_time(&number, unit)?;
        self.rest = &self.rest[1..];
        self.has_field = true;
        Ok(false)
    }

    /// Reads what is behind the first number of `hhmmss` or `hh:mm:ss`.
    fn time(&mut self, first: &Number) -> Result<bool, Fault> {
        if self.has_field {
            return Err(Fault::Format);
        }
        if first.width == 6 && self.rest.is_empty() {
            let whole = first.whole;
            let parts = [
                (whole / 10_000, 0.0, HOUR),
                (whole / 100 % 100, 0.0, MINUTE),
                (whole % 100, 0.0, SECOND),
                (0, first.part, 1),
            ];
            for (whole, part, unit) in parts {
                let added = self.amounts.add_time(whole, part, unit);
                added.ok_or(Fault::Range)?;
            }
            return Ok(true);
        }
        self.add_time(first, HOUR)?;
        for unit in [MINUTE, SECOND] {
            if self.rest.is_empty() {
                return Ok(true);
            }
            if !self.skip(b':') {
                return Err(Fault::Format);
            }
            let number = self.number()?;
            self.add_time(&number, unit)?;
        }
        match self.rest.is_empty() {
            true => Ok(true),
            false => Err(Fault::Format),
        }
    }

    fn add_time(&mut self, number: &Number, unit: i64) -> Result<(), Fault> {
        let added = self.amounts.add_time(number.whole, number.part, unit);
        added.ok_or(Fault::Range)
    }
}
