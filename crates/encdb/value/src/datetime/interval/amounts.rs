//! The sums of an interval's text: the numbers of its units, each checked on its own, and
//! fractions as parts of smaller units.

use super::{Interval, DAY, DAYS_OF_MONTH};
use crate::{float, Type, ValueError};

const MONTHS_OF_YEAR: i32 = 12;

/// The sums of an interval's units. Each addition is none if a sum does not fit.
#[derive(Clone, Copy, Default)]
pub(super) struct Amounts {
    pub(super) years: i32,
    pub(super) months: i32,
    pub(super) days: i32,
    pub(super) time: i64,
}

impl Amounts {
    /// Adds a number of units of time, each of so many microseconds.
    pub(super) fn add_time(&mut self, whole: i64, fraction: f64, unit: i64) -> Option<()> {
        self.time = self.time.checked_add(whole.checked_mul(unit)?)?;
        self.add_part_of_time(fraction, unit)
    }

    /// Adds a part of a unit of time, rounded to microseconds.
    fn add_part_of_time(&mut self, fraction: f64, unit: i64) -> Option<()> {
        let micros = fraction * float::from_int8(unit);
        let rest = micros - micros.trunc();
        let round = i64::from(rest > 0.5) - i64::from(rest < -0.5);
        let micros = float::to_int8(micros.trunc()).ok()? + round;
        self.time = self.time.checked_add(micros)?;
        Some(())
    }

    /// Adds days; a part of one is time.
    pub(super) fn add_days(&mut self, whole: i64, fraction: f64) -> Option<()> {
        self.add_whole_days(whole, 1)?;
        self.add_part_of_time(fraction, DAY)
    }

    /// Adds weeks; a part of one is days, and time.
    pub(super) fn add_weeks(&mut self, whole: i64, fraction: f64) -> Option<()> {
        self.add_whole_days(whole, 7)?;
        self.add_part_of_days(fraction, 7)
    }

    /// Adds months; a part of one is days, and time.
    pub(super) fn add_months(&mut self, whole: i64, fraction: f64) -> Option<()> {
        let whole = i32::try_from(whole).ok()?;
        self.months = self.months.checked_add(whole)?;
        self.add_part_of_days(fraction, DAYS_OF_MONTH)
    }

    /// Adds units of so many years; a part of one is months.
    pub(super) fn add_years(&mut self, whole: i64, fraction: f64, unit: i32) -> Option<()> {
        let whole = i32::try_from(whole).ok()?.checked_mul(unit)?;
        self.years = self.years.checked_add(whole)?;
        let months = fraction * f64::from(unit) * f64::from(MONTHS_OF_YEAR);
        let months = float::to_int4(months).ok()?;
        self.months = self.months.checked_add(months)?;
        Some(())
    }

    fn add_whole_days(&mut self, whole: i64, unit: i32) -> Option<()> {
        let days = i32::try_from(whole).ok()?.checked_mul(unit)?;
        self.days = self.days.checked_add(days)?;
        Some(())
    }

    fn add_part_of_days(&mut self, fraction: f64, unit: i32) -> Option<()> {
        let days = fraction * f64::from(unit);
        self.days = self.days.checked_add(float::to_int4(days.trunc()).ok()?)?;
        self.add_part_of_time(days - days.trunc(), DAY)
    }

    /// Changes the signs of all.
    pub(super) fn negate(&mut self) -> Option<()> {
        *self = Self {
            years: self.years.checked_neg()?,
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            time: self.time.checked_neg()?,
        };
        Some(())
    }

    /// Returns the interval.
    pub(super) fn interval(self) -> Result<Interval, ValueError> {
        let months = i64::from(self.years) * i64::from(MONTHS_OF_YEAR) + i64::from(self.months);
        Ok(Interval {
            months: i32::try_from(months).map_err(|_| ValueError::OutOfRange(Type::Interval))?,
            days: self.days,
            microseconds: self.time,
        })
    }
}
