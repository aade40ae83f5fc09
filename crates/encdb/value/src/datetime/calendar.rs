//! Days and their names: the proleptic Gregorian calendar by Julian day numbers: date2j, j2date.
//!
//! Years count through zero here: 0 is 1 BC.

/// The Julian day of 2000-01-01, from which PostgreSQL counts.
pub(super) const EPOCH: i64 = 2_451_545;
/// The Julian day of 1970-01-01.
pub(super) const UNIX_EPOCH: i64 = 2_440_588;

/// A day by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Day {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
}

impl Day {
    /// The day of this Julian number; of numbers that no day has, what their low 32 bits give.
    pub(super) fn from_julian(julian: i64) -> Self {
        let low = |number: i64| number & 0xffff_ffff;
        let shifted = low(julian + 32_044);
        let centuries = shifted / 146_097;
        let within = (shifted - centuries * 146_097) * 4 + 3;
        let shifted = low(shifted + 60 + centuries * 3 + within / 146_097);
        let cycle = shifted / 1461;
        let rest = shifted - cycle * 1461;
        let year = rest * 4 / 1461;
        let rest = if year == 0 {
            (rest + 306) % 366
        } else {
            (rest + 305) % 365
        } + 123;
        let month = rest * 2141 / 65_536;
        Self {
            year: year + cycle * 4 - 4800,
            month: (month + 10) % 12 + 1,
            day: rest - 7834 * month / 256,
        }
    }

    /// The Julian number; the day need not exist in its month.
    pub(super) fn julian(self) -> i64 {
        let (year, month) = if self.month > 2 {
            (self.year + 4800, self.month + 1)
        } else {
            (self.year + 4799, self.month + 13)
        };
        let century = year / 100;
        year * 365 - 32_167 + year / 4 - century + century / 4 + 7834 * month / 256 + self.day
    }

    /// Does the month have this day?
    pub(super) fn exists(self) -> bool {
        (1..=12).contains(&self.month) && (1..=self.days_of_month()).contains(&self.day)
    }

    /// How many days its month has.
    pub(super) fn days_of_month(self) -> i64 {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        match self.month {
            2 => 28 + i64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// The day of the year, from 1.
    pub(super) fn of_year(self) -> i64 {
        let first = Self {
            month: 1,
            day: 1,
            ..self
        };
        self.julian() - first.julian() + 1
    }

    /// The ISO year and week.
    pub(super) fn iso_week(self) -> (i64, i64) {
        let julian = self.julian();
        let mut year = self.year;
        if julian < first_monday(year) {
            year -= 1;
        } else if julian >= first_monday(year + 1) {
            year += 1;
        }
        (year, (julian - first_monday(year)) / 7 + 1)
    }
}

/// The Monday with which the first ISO week of a year begins.
fn first_monday(year: i64) -> i64 {
    let fourth = Day {
        year,
        month: 1,
        day: 4,
    };
    fourth.julian() - weekday(fourth.julian() - 1)
}

/// The day of the week of a Julian number, from Sunday, 0.
pub(super) fn weekday(julian: i64) -> i64 {
    (julian + 1).rem_euclid(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_lead_to_numbers_and_back() {
        for (julian, year, month, day) in [
            (0, -4713, 11, 24),
            (EPOCH, 2000, 1, 1),
            (UNIX_EPOCH, 1970, 1, 1),
            (2_451_604, 2000, 2, 29),
            (2_147_483_493, 5_874_897, 12, 31),
        ] {
            let name = Day { year, month, day };
            assert_eq!(Day::from_julian(julian), name);
            assert_eq!(name.julian(), julian);
            assert!(name.exists());
        }
        for julian in (0..3_000_000).step_by(17) {
            assert_eq!(Day::from_julian(julian).julian(), julian);
        }
    }

    #[test]
    fn weeks_begin_on_mondays_and_belong_to_their_thursdays() {
        let week = |year, month, day| Day { year, month, day }.iso_week();
        assert_eq!(week(2021, 1, 3), (2020, 53));
        assert_eq!(week(2021, 1, 4), (2021, 1));
        assert_eq!(week(2018, 12, 31), (2019, 1));
        assert_eq!(weekday(EPOCH), 6);
    }
}
