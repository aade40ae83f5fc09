//! Intervals as text, in the four styles: `EncodeInterval`.

use super::super::append;
use super::{Interval, IntervalStyle, SECOND};

/// The numbers that a text names. Those of years and months have one sign, those of the time too.
#[derive(Clone, Copy)]
struct Parts {
    years: i32,
    months: i32,
    days: i64,
    hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
}

impl Parts {
    fn of(interval: Interval) -> Self {
        let time = interval.microseconds;
        let minutes = time / (60 * SECOND);
        Self {
            years: interval.months / 12,
            months: interval.months % 12,
            days: interval.days.into(),
            hours: minutes / 60,
            minutes: minutes % 60,
            seconds: time / SECOND % 60,
            micros: time % SECOND,
        }
    }

    fn has_time(&self) -> bool {
        [self.hours, self.minutes, self.seconds, self.micros] != [0; 4]
    }

    /// Whether the time is before zero.
    fn is_time_negative(&self) -> bool {
        [self.hours, self.minutes, self.seconds, self.micros]
            .iter()
            .any(|it| *it < 0)
    }

    /// The months with years, the days and the time, as signs.
    fn signs(&self) -> [i64; 3] {
        let months = i64::from(self.years.signum() | self.months.signum());
        let time = match self.is_time_negative() {
            true => -1,
            false => i64::from(self.has_time()),
        };
        [months, self.days.signum(), time]
    }

    /// Appends the seconds with their fraction and without their sign.
    fn append_seconds(&self, text: &mut String, width: usize) {
        append(text, format_args!("{:0width$}", self.seconds.abs()));
        if self.micros != 0 {
            append(text, format_args!(".{:06}", self.micros.abs()));
            text.truncate(text.trim_end_matches('0').len());
        }
    }

    /// Appends `hh:mm:ss` without a sign, the hours with as many digits at least.
    fn append_time(&self, text: &mut String, width: usize) {
        let (hours, minutes) = (self.hours.unsigned_abs(), self.minutes.abs());
        append(text, format_args!("{hours:0width$}:{minutes:02}:"));
        self.append_seconds(text, 2);
    }
}

/// Returns the text of an interval. There is room for the rest of it from the start.
pub(super) fn shown(interval: Interval, style: IntervalStyle) -> String {
    let parts = Parts::of(interval);
    let mut text = String::with_capacity(128);
    match style {
        IntervalStyle::Postgres => postgres(&parts, &mut text),
        IntervalStyle::PostgresVerbose => verbose(&parts, &mut text),
        IntervalStyle::SqlStandard => standard(&parts, &mut text),
        IntervalStyle::Iso8601 => iso(&parts, &mut text),
    }
    text
}

/// A number behind a negative one has a sign.
fn postgres(parts: &Parts, text: &mut String) {
    let mut is_negative = false;
    let units = [
        (i64::from(parts.years), "year"),
        (i64::from(parts.months), "mon"),
        (parts.days, "day"),
    ];
    for (number, unit) in units.into_iter().filter(|(number, _)| *number != 0) {
        let space = if text.is_empty() { "" } else { " " };
        let plus = if is_negative && number > 0 { "+" } else { "" };
        let plural = if number == 1 { "" } else { "s" };
        append(text, format_args!("{space}{plus}{number} {unit}{plural}"));
        is_negative = number < 0;
    }
    if !text.is_empty() && !parts.has_time() {
        return;
    }
    let space = if text.is_empty() { "" } else { " " };
    let sign = match (parts.is_time_negative(), is_negative) {
        (true, _) => "-",
        (false, true) => "+",
        (false, false) => "",
    };
    append(text, format_args!("{space}{sign}"));
    parts.append_time(text, 2);
}

/// The first number's sign is that of all: `ago`.
fn verbose(parts: &Parts, text: &mut String) {
    text.push('@');
    let mut is_before = None;
    let units = [
        (i64::from(parts.years), "year"),
        (i64::from(parts.months), "mon"),
        (parts.days, "day"),
        (parts.hours, "hour"),
        (parts.minutes, "min"),
    ];
    for (number, unit) in units.into_iter().filter(|(number, _)| *number != 0) {
        let before = *is_before.get_or_insert(number < 0);
        let number = if before { -number } else { number };
        let plural = if number == 1 { "" } else { "s" };
        append(text, format_args!(" {number} {unit}{plural}"));
    }
    if parts.seconds != 0 || parts.micros != 0 {
        let is_negative = parts.seconds < 0 || parts.micros < 0;
        let before = *is_before.get_or_insert(is_negative);
        text.push_str(if before == is_negative { " " } else { " -" });
        parts.append_seconds(text, 1);
        let is_one = parts.seconds.abs() == 1 && parts.micros == 0;
        text.push_str(if is_one { " sec" } else { " secs" });
    }
    text.push_str(match is_before {
        None => " 0",
        Some(true) => " ago",
        Some(false) => "",
    });
}

/// Years and months, or days and a time, with one sign; all with theirs if it is more than that.
fn standard(parts: &Parts, text: &mut String) {
    let signs = parts.signs();
    let [months, days, time] = signs;
    let (has_negative, has_positive) = (signs.contains(&-1), signs.contains(&1));
    let has_both = months != 0 && (days != 0 || time != 0);
    if !has_negative && !has_positive {
        text.push('0');
        return;
    }
    let (years, of_year) = (parts.years.unsigned_abs(), parts.months.unsigned_abs());
    let whole_days = parts.days.unsigned_abs();
    if has_both || has_negative && has_positive {
        let [months, days, time] = signs.map(|sign| if sign < 0 { '-' } else { '+' });
        append(
            text,
            format_args!("{months}{years}-{of_year} {days}{whole_days} {time}"),
        );
        parts.append_time(text, 1);
        return;
    }
    if has_negative {
        text.push('-');
    }
    if months != 0 {
        append(text, format_args!("{years}-{of_year}"));
        return;
    }
    if days != 0 {
        append(text, format_args!("{whole_days} "));
    }
    parts.append_time(text, 1);
}

fn iso(parts: &Parts, text: &mut String) {
    text.push('P');
    let append_all = |text: &mut String, units: &[(i64, char)]| {
        for (number, unit) in units.iter().filter(|(number, _)| *number != 0) {
            append(text, format_args!("{number}{unit}"));
        }
    };
    let (years, months) = (parts.years.into(), parts.months.into());
    append_all(text, &[(years, 'Y'), (months, 'M'), (parts.days, 'D')]);
    if text.len() == 1 && !parts.has_time() {
        text.push_str("T0S");
        return;
    }
    if parts.has_time() {
        text.push('T');
    }
    append_all(text, &[(parts.hours, 'H'), (parts.minutes, 'M')]);
    if parts.seconds != 0 || parts.micros != 0 {
        if parts.seconds < 0 || parts.micros < 0 {
            text.push('-');
        }
        parts.append_seconds(text, 1);
        text.push('S');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 15 shows them.
    #[test]
    fn styles_are_postgresqls() {
        let long = "1 year 2 mons 3 days 04:05:06.7";
        for (text, [postgres, verbose, standard, iso]) in [
            (
                long,
                [
                    long,
                    "@ 1 year 2 mons 3 days 4 hours 5 mins 6.7 secs",
                    "+1-2 +3 +4:05:06.7",
                    "P1Y2M3DT4H5M6.7S",
                ],
            ),
            ("0", ["00:00:00", "@ 0", "0", "PT0S"]),
            (
                "-1 mons +1 day -00:00:01",
                [
                    "-1 mons +1 day -00:00:01",
                    "@ 1 mon -1 days 1 sec ago",
                    "-0-1 +1 -0:00:01",
                    "P-1M1DT-1S",
                ],
            ),
            (
                "-2 days -0.5 s",
                [
                    "-2 days -00:00:00.5",
                    "@ 2 days 0.5 secs ago",
                    "-2 0:00:00.5",
                    "P-2DT-0.5S",
                ],
            ),
            (
                "-14 mons",
                ["-1 years -2 mons", "@ 1 year 2 mons ago", "-1-2", "P-1Y-2M"],
            ),
            (
                "100 hours",
                ["100:00:00", "@ 100 hours", "100:00:00", "PT100H"],
            ),
        ] {
            let read = |style| Interval::parse(text, style).expect("an interval");
            for (style, expected) in [
                (IntervalStyle::Postgres, postgres),
                (IntervalStyle::PostgresVerbose, verbose),
                (IntervalStyle::SqlStandard, standard),
                (IntervalStyle::Iso8601, iso),
            ] {
                let interval = read(IntervalStyle::Postgres);
                assert_eq!(interval.to_text(style), expected, "{text}");
                assert_eq!(Interval::parse(expected, style), Ok(interval), "{expected}");
            }
        }
    }
}
