//! `to_char` of times: PostgreSQL's date/time formatting, in English and in UTC.

use super::calendar::{weekday, Day, EPOCH};
use super::{is_finite, DAY, SECOND};
use crate::ValueError;

/// The meaning of a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// One of two words: before noon and after it, `AD` and `BC`
    Half(&'static [&'static str; 2]),
    Era(&'static [&'static str; 2]),
    /// A name that is padded to nine letters, or its first three letters
    Month(Letters),
    Mon(Letters),
    Day(Letters),
    Dy(Letters),
    /// A month in Roman numerals
    Roman(Letters),
    /// A zone's abbreviation, and its distance from UTC
    Zone(Letters),
    Offset,
    OffsetHours,
    OffsetMinutes,
    Number(Number),
    /// `FX`, which has a meaning for input only
    Nothing,
}

/// The letters of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letters {
    Upper,
    Initial,
    Lower,
}

/// A number of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Hour12,
    Hour24,
    Minute,
    Second,
    /// So many digits of the fraction of a second
    Fraction(u32),
    SecondOfDay,
    DayOfYear,
    IsoDayOfYear,
    DayOfMonth,
    DayOfWeek,
    IsoDayOfWeek,
    Week,
    IsoWeek,
    WeekOfMonth,
    Month,
    Quarter,
    Century,
    YearWithComma,
    /// So many digits of the year
    Year(u32),
    IsoYear(u32),
    Julian,
}

/// The words of a format, whose letters mean something.
const WORDS: [(&str, Key); 34] = {
    use Letters::{Initial, Lower, Upper};
    [
        ("A.D.", Key::Era(&["A.D.", "B.C."])),
        ("B.C.", Key::Era(&["A.D.", "B.C."])),
        ("AD", Key::Era(&["AD", "BC"])),
        ("BC", Key::Era(&["AD", "BC"])),
        ("a.d.", Key::Era(&["a.d.", "b.c."])),
        ("b.c.", Key::Era(&["a.d.", "b.c."])),
        ("ad", Key::Era(&["ad", "bc"])),
        ("bc", Key::Era(&["ad", "bc"])),
        ("A.M.", Key::Half(&["A.M.", "P.M."])),
        ("P.M.", Key::Half(&["A.M.", "P.M."])),
        ("AM", Key::Half(&["AM", "PM"])),
        ("PM", Key::Half(&["AM", "PM"])),
        ("a.m.", Key::Half(&["a.m.", "p.m."])),
        ("p.m.", Key::Half(&["a.m.", "p.m."])),
        ("am", Key::Half(&["am", "pm"])),
        ("pm", Key::Half(&["am", "pm"])),
        ("MONTH", Key::Month(Upper)),
        ("Month", Key::Month(Initial)),
        ("month", Key::Month(Lower)),
        ("MON", Key::Mon(Upper)),
        ("Mon", Key::Mon(Initial)),
        ("mon", Key::Mon(Lower)),
        ("DAY", Key::Day(Upper)),
        ("Day", Key::Day(Initial)),
        ("day", Key::Day(Lower)),
        ("DY", Key::Dy(Upper)),
        ("Dy", Key::Dy(Initial)),
        ("dy", Key::Dy(Lower)),
        ("RM", Key::Roman(Upper)),
        ("rm", Key::Roman(Lower)),
        ("TZ", Key::Zone(Upper)),
        ("tz", Key::Zone(Lower)),
        ("FX", Key::Nothing),
        ("fx", Key::Nothing),
    ]
};

/// The keywords that are the same in capital and in small letters.
const NUMBERS: [(&str, Key); 39] = [
    ("HH24", Key::Number(Number::Hour24)),
    ("HH12", Key::Number(Number::Hour12)),
    ("HH", Key::Number(Number::Hour12)),
    ("MI", Key::Number(Number::Minute)),
    ("SS", Key::Number(Number::Second)),
    ("FF1", Key::Number(Number::Fraction(1))),
    ("FF2", Key::Number(Number::Fraction(2))),
    ("FF3", Key::Number(Number::Fraction(3))),
    ("FF4", Key::Number(Number::Fraction(4))),
    ("FF5", Key::Number(Number::Fraction(5))),
    ("FF6", Key::Number(Number::Fraction(6))),
    ("MS", Key::Number(Number::Fraction(3))),
    ("US", Key::Number(Number::Fraction(6))),
    ("SSSS", Key::Number(Number::SecondOfDay)),
    ("SSSSS", Key::Number(Number::SecondOfDay)),
    ("DDD", Key::Number(Number::DayOfYear)),
    ("IDDD", Key::Number(Number::IsoDayOfYear)),
    ("DD", Key::Number(Number::DayOfMonth)),
    ("D", Key::Number(Number::DayOfWeek)),
    ("ID", Key::Number(Number::IsoDayOfWeek)),
    ("WW", Key::Number(Number::Week)),
    ("IW", Key::Number(Number::IsoWeek)),
    ("W", Key::Number(Number::WeekOfMonth)),
    ("MM", Key::Number(Number::Month)),
    ("Q", Key::Number(Number::Quarter)),
    ("CC", Key::Number(Number::Century)),
    ("Y,YYY", Key::Number(Number::YearWithComma)),
    ("YYYY", Key::Number(Number::Year(4))),
    ("YYY", Key::Number(Number::Year(3))),
    ("YY", Key::Number(Number::Year(2))),
    ("Y", Key::Number(Number::Year(1))),
    ("IYYY", Key::Number(Number::IsoYear(4))),
    ("IYY", Key::Number(Number::IsoYear(3))),
    ("IY", Key::Number(Number::IsoYear(2))),
    ("I", Key::Number(Number::IsoYear(1))),
    ("J", Key::Number(Number::Julian)),
    ("OF", Key::Offset),
    ("TZH", Key::OffsetHours),
    ("TZM", Key::OffsetMinutes),
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const ROMAN: [&str; 12] = [
    "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII",
];

/// A part of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    /// A keyword, without padding if it is `FM`, and with the letters of an ordinal number
    Key {
        key: Key,
        fills: bool,
        ordinal: Option<Letters>,
    },
    /// Text that stays as it is
    Text { text: String, is_quoted: bool },
}

/// A format of `to_char`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format(Vec<Item>);

impl Format {
    /// Reads a format. Names in other languages (`TMMonth`) are refused.
    pub fn new(text: &str) -> Result<Self, ValueError> {
        let (mut items, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let prefix = rest.get(..2).unwrap_or_default();
            let fills = !matches!(prefix, "FM" | "fm");
            let translates = matches!(prefix, "TM" | "tm");
            if !fills || translates {
                rest = &rest[2..];
            }
            match keyword(rest) {
                Some((_, Key::Month(_) | Key::Mon(_) | Key::Day(_) | Key::Dy(_))) if translates => {
                    return Err(ValueError::Translation);
                }
                Some((len, key)) => {
                    rest = &rest[len..];
                    let ordinal = match rest.get(..2) {
                        Some("TH") => Some(Letters::Upper),
                        Some("th") => Some(Letters::Lower),
                        _ => None,
                    };
                    if ordinal.is_some() || rest.starts_with("SP") {
                        rest = &rest[2..];
                    }
                    items.push(Item::Key {
                        key,
                        fills,
                        ordinal,
                    });
                }
                None => items.extend(literal(&mut rest)),
            }
        }
        if items.is_empty() && !text.is_empty() {
            // `FM` alone gives an empty text, and no format gives none.
            items.push(Item::Text {
                text: String::new(),
                is_quoted: false,
            });
        }
        Ok(Self(items))
    }

    /// Returns an instant in this format, where clocks have a zone of this name and are those of
    /// UTC; nothing for an infinite one and by an empty format.
    pub(crate) fn of(&self, instant: i64, zone: &'static str) -> Option<String> {
        if !is_finite(instant) || self.0.is_empty() {
            return None;
        }
        let time = Time::new(instant, zone);
        Some(self.0.iter().map(|item| time.item(item)).collect())
    }

    /// Whether it has no letters and digits but those of keywords, and of quoted parts of two
    /// characters at most.
    pub fn is_bare(&self) -> bool {
        self.0.iter().all(|item| match item {
            Item::Text { text, is_quoted } => {
                let is_short = *is_quoted && text.chars().count() <= 2;
                is_short || !text.contains(char::is_alphanumeric)
            }
            Item::Key { .. } => true,
        })
    }
}

/// Returns the longest keyword with which a text begins, and its length.
fn keyword(text: &str) -> Option<(usize, Key)> {
    let words = WORDS.iter().filter(|(name, _)| text.starts_with(name));
    let is_in_small_letters = |name: &str| {
        let begin = text.as_bytes().get(..name.len());
        let mut pairs = name.bytes().zip(begin.unwrap_or_default());
        begin.is_some() && pairs.all(|(name, byte)| name.to_ascii_lowercase() == *byte)
    };
    let begins = |name: &str| text.starts_with(name) || is_in_small_letters(name);
    let numbers = NUMBERS.iter().filter(|(name, _)| begins(name));
    let longest = words.chain(numbers).max_by_key(|(name, _)| name.len());
    longest.map(|(name, key)| (name.len(), *key))
}

/// Takes a quoted part, or one character that begins no keyword. A backslash takes the meaning of
/// what follows within quotes, and of a quote elsewhere.
fn literal(rest: &mut &str) -> Option<Item> {
    let mut letters = rest.chars();
    let first = letters.next()?;
    let mut text = String::new();
    let is_quoted = first == '"';
    if is_quoted {
        while let Some(letter) = letters.next().filter(|letter| *letter != '"') {
            let escaped = (letter == '\\').then(|| letters.next()).flatten();
            text.push(escaped.unwrap_or(letter));
        }
    } else {
        let quote = first == '\\' && letters.as_str().starts_with('"');
        text.extend(if quote { letters.next() } else { Some(first) });
    }
    *rest = letters.as_str();
    Some(Item::Text { text, is_quoted })
}

/// A time in its parts.
struct Time {
    day: Day,
    julian: i64,
    /// Microseconds of the day
    micros: i64,
    zone: &'static str,
}

impl Time {
    fn new(instant: i64, zone: &'static str) -> Self {
        let julian = instant.div_euclid(DAY) + EPOCH;
        Self {
            day: Day::from_julian(julian),
            julian,
            micros: instant.rem_euclid(DAY),
            zone,
        }
    }

    fn item(&self, item: &Item) -> String {
        match item {
            Item::Text { text, .. } => text.clone(),
            Item::Key {
                key,
                fills,
                ordinal,
            } => self.key(*key, *fills, *ordinal),
        }
    }

    fn key(&self, key: Key, fills: bool, ordinal: Option<Letters>) -> String {
        let padded = |word: &str, letters, width: usize| {
            let word = in_letters(word, letters);
            match fills {
                true => format!("{word:<width$}"),
                false => word,
            }
        };
        let month = usize::try_from(self.day.month - 1).unwrap_or_default() % 12;
        let weekday = usize::try_from(weekday(self.julian)).unwrap_or_default() % 7;
        match key {
            Key::Half(words) => words[usize::from(self.micros >= DAY / 2)].to_owned(),
            Key::Era(words) => words[usize::from(self.day.year <= 0)].to_owned(),
            Key::Month(letters) => padded(MONTHS[month], letters, 9),
            Key::Mon(letters) => in_letters(&MONTHS[month][..3], letters),
            Key::Day(letters) => padded(DAYS[weekday], letters, 9),
            Key::Dy(letters) => in_letters(&DAYS[weekday][..3], letters),
            Key::Roman(letters) => padded(ROMAN[month], letters, 4),
            Key::Zone(letters) => in_letters(self.zone, letters),
            Key::Offset if fills => "+00".to_owned(),
            Key::Offset => "+0".to_owned(),
            Key::OffsetHours => "+00".to_owned(),
            Key::OffsetMinutes => "00".to_owned(),
            Key::Nothing => String::new(),
            Key::Number(number) => {
                let mut text = self.number(number, fills);
                text.extend(ordinal.map(|letters| in_letters(suffix(&text), letters)));
                text
            }
        }
    }

    fn number(&self, number: Number, fills: bool) -> String {
        let seconds = self.micros / SECOND;
        let year = era_year(self.day.year);
        let (iso_year, iso_week) = self.day.iso_week();
        let in_year = self.day.of_year();
        let (value, width) = match number {
            Number::Hour12 => ((seconds / 3600 + 11) % 12 + 1, 2),
            Number::Hour24 => (seconds / 3600, 2),
            Number::Minute => (seconds / 60 % 60, 2),
            Number::Second => (seconds % 60, 2),
            Number::Fraction(digits) => {
                let shown = self.micros % SECOND / 10_i64.pow(6 - digits);
                return format!("{shown:0width$}", width = digits as usize);
            }
            Number::SecondOfDay => (seconds, 0),
            Number::DayOfYear => (in_year, 3),
            Number::IsoDayOfYear => (7 * (iso_week - 1) + (weekday(self.julian) + 6) % 7 + 1, 3),
            Number::DayOfMonth => (self.day.day, 2),
            Number::DayOfWeek => (weekday(self.julian) + 1, 0),
            Number::IsoDayOfWeek => ((weekday(self.julian) + 6) % 7 + 1, 0),
            Number::Week => ((in_year - 1) / 7 + 1, 2),
            Number::IsoWeek => (iso_week, 2),
            Number::WeekOfMonth => ((self.day.day - 1) / 7 + 1, 0),
            Number::Month => (self.day.month, 2),
            Number::Quarter => ((self.day.month - 1) / 3 + 1, 0),
            Number::Century => match self.day.year {
                year @ 1.. => ((year - 1) / 100 + 1, 2),
                year => (year / 100 - 1, 3),
            },
            Number::YearWithComma => return format!("{},{:03}", year / 1000, year % 1000),
            Number::Year(digits) => (last_digits(year, digits), digits),
            Number::IsoYear(digits) => (last_digits(era_year(iso_year), digits), digits),
            Number::Julian => (self.julian, 0),
        };
        let width = if fills { width as usize } else { 0 };
        format!("{value:0width$}")
    }
}

/// Returns the number of a year in its era.
fn era_year(year: i64) -> i64 {
    if year <= 0 {
        1 - year
    } else {
        year
    }
}

/// Returns the last digits of a year; four are all.
fn last_digits(year: i64, digits: u32) -> i64 {
    match digits {
        4 => year,
        _ => year % 10_i64.pow(digits),
    }
}

/// Returns a word that begins with a capital letter, in other letters.
fn in_letters(word: &str, letters: Letters) -> String {
    match letters {
        Letters::Upper => word.to_ascii_uppercase(),
        Letters::Initial => word.to_owned(),
        Letters::Lower => word.to_ascii_lowercase(),
    }
}

/// Returns what makes a number an ordinal one.
fn suffix(number: &str) -> &'static str {
    let mut digits = number.bytes().rev();
    let (last, before) = (digits.next(), digits.next());
    match last {
        _ if before == Some(b'1') => "th",
        Some(b'1') => "st",
        Some(b'2') => "nd",
        Some(b'3') => "rd",
        _ => "th",
    }
}
