//! The words that dates may have: datetktbl, without those that mean the clock (`now`, `today`),
//! and of the zones those that are UTC by another name.

/// The meaning of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A month, from 1
    Month(i32),
    /// A day of the week, which is believed
    Weekday,
    /// AD (false) or BC (true)
    Era(bool),
    /// am (false) or pm (true)
    Half(bool),
    /// The unit of the next number
    Unit(Unit),
    /// `T`: a time follows
    Time,
    /// A zone without an offset
    Utc,
    /// An hour more
    Daylight,
    /// 00:00:00 UTC
    Midnight,
    /// 1970-01-01
    Epoch,
    /// infinity
    Infinity,
    /// -infinity
    NegativeInfinity,
    /// Nothing: `on`, `at`
    Filler,
}

/// The unit of a number that follows a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Julian,
    /// Behind `T`
    Time,
    /// A label that no number can follow
    Other,
}

/// The meaning of a word in lower case; what is behind ten characters does not count.
pub(super) fn word(word: &[u8]) -> Option<Word> {
    let word = word.get(..10).unwrap_or(word);
    Some(match word {
        b"ad" => Word::Era(false),
        b"bc" => Word::Era(true),
        b"am" => Word::Half(false),
        b"pm" => Word::Half(true),
        b"allballs" => Word::Midnight,
        b"at" | b"on" => Word::Filler,
        b"dst" => Word::Daylight,
        b"epoch" => Word::Epoch,
        b"infinity" => Word::Infinity,
        b"-infinity" => Word::NegativeInfinity,
        b"t" => Word::Time,
        b"d" => Word::Unit(Unit::Day),
        b"h" => Word::Unit(Unit::Hour),
        b"j" | b"jd" | b"julian" => Word::Unit(Unit::Julian),
        b"m" => Word::Unit(Unit::Month),
        b"mm" => Word::Unit(Unit::Minute),
        b"s" => Word::Unit(Unit::Second),
        b"y" => Word::Unit(Unit::Year),
        b"dow" | b"doy" | b"isodow" | b"isoyear" => Word::Unit(Unit::Other),
        b"utc" | b"uct" | b"ut" | b"gmt" | b"z" | b"zulu" | b"wet" => Word::Utc,
        b"sun" | b"sunday" | b"mon" | b"monday" | b"tue" | b"tues" | b"tuesday" | b"wed"
        | b"weds" | b"wednesday" | b"thu" | b"thur" | b"thurs" | b"thursday" | b"fri"
        | b"friday" | b"sat" | b"saturday" => Word::Weekday,
        _ => Word::Month(month(word)?),
    })
}

fn month(word: &[u8]) -> Option<i32> {
    Some(match word {
        b"jan" | b"january" => 1,
        b"feb" | b"february" => 2,
        b"mar" | b"march" => 3,
        b"apr" | b"april" => 4,
        b"may" => 5,
        b"jun" | b"june" => 6,
        b"jul" | b"july" => 7,
        b"aug" | b"august" => 8,
        b"sep" | b"sept" | b"september" => 9,
        b"oct" | b"october" => 10,
        b"nov" | b"november" => 11,
        b"dec" | b"december" => 12,
        _ => return None,
    })
}
