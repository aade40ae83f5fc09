//! `to_char` of numbers: PostgreSQL's number formatting, with the signs of the locale C.
//!
//! [`NumberFormat`] reads a format and says what its patterns do together, `digits.rs` makes the
//! digits that a value has in it, and `picture.rs` puts them in their places.

mod digits;
mod picture;

use crate::{Value, ValueError};

use picture::Picture;

/// The meaning of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Nine,
    Zero,
    /// `.` and `D`
    Point,
    /// `,` and `G`
    Group,
    /// `RN`; the other one has small letters
    Roman,
    SmallRoman,
    /// `TH`
    Ordinal,
    SmallOrdinal,
    /// `MI`, `PL`, `SG`
    Minus,
    Plus,
    Sign,
    /// `S`, a sign beside the first or the last digit
    Anchored,
    /// `PR`
    Brackets,
    /// `FM`
    Fill,
    /// `B`
    Blank,
    /// `V`
    Shift,
    /// `EEEE`
    Exponent,
    /// `L`
    Currency,
    /// `C` and `SP` do nothing.
    Nothing,
}

/// The patterns in capital letters. Of those that begin alike the longer one comes first.
const WORDS: [(&str, Key); 20] = [
    (",", Key::Group),
    (".", Key::Point),
    ("0", Key::Zero),
    ("9", Key::Nine),
    ("B", Key::Blank),
    ("C", Key::Nothing),
    ("D", Key::Point),
    ("EEEE", Key::Exponent),
    ("FM", Key::Fill),
    ("G", Key::Group),
    ("L", Key::Currency),
    ("MI", Key::Minus),
    ("PL", Key::Plus),
    ("PR", Key::Brackets),
    ("RN", Key::Roman),
    ("SG", Key::Sign),
    ("SP", Key::Nothing),
    ("S", Key::Anchored),
    ("TH", Key::Ordinal),
    ("V", Key::Shift),
];

/// A part of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Key(Key),
    /// A character that is shown as it is
    Text(char),
}

/// The place of the sign of `S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Anchor {
    #[default]
    None,
    Before,
    After,
}

/// A format that was read: the sums and flags of its patterns.
#[derive(Clone, Debug, Default)]
struct Form {
    /// Digits before the point, behind it, and behind `V`
    before: usize,
    behind: usize,
    shifted: usize,
    /// Where zeros begin, counted from 1 on, and where they end
    zero_start: usize,
    zero_end: usize,
    anchor: Anchor,
    /// Digits before `S`
    anchored_at: usize,
    has: Flags,
}

/// The patterns that a format has.
#[derive(Clone, Debug, Default)]
struct Flags {
    zero: bool,
    point: bool,
    fill: bool,
    blank: bool,
    anchored: bool,
    brackets: bool,
    minus: bool,
    plus: bool,
    shift: bool,
    roman: bool,
    exponent: bool,
}

/// A format of numbers.
#[derive(Clone, Debug)]
pub struct NumberFormat {
    parts: Vec<Part>,
    form: Form,
}

impl NumberFormat {
    /// Reads a format.
    ///
    /// # Errors
    /// If PostgreSQL refuses its patterns together, or it has the sign of a currency, which depends
    /// on the server's locale.
    pub fn new(format: &str) -> Result<Self, ValueError> {
        let (mut parts, mut form, mut rest) = (Vec::new(), Form::default(), format);
        while !rest.is_empty() {
            match take_word(rest) {
                Some((key, after)) => {
                    form.add(key)?;
                    parts.push(Part::Key(key));
                    rest = after;
                }
                None => rest = take_text(rest, &mut parts),
            }
        }
        Ok(Self { parts, form })
    }

    /// Whether it has nothing but patterns and what separates them: no letters and digits that are
    /// shown as they are.
    pub fn is_bare(&self) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Key(_) => true,
            Part::Text(text) => text.is_ascii_punctuation() || *text == ' ',
        })
    }

    /// Returns the number as the format shows it.
    ///
    /// # Errors
    /// If the value is no number, or none that the format can show.
    pub(crate) fn of(&self, value: &Value) -> Result<String, ValueError> {
        let mut form = self.form.clone();
        let number = digits::of(value, &mut form)?;
        if form.has.exponent {
            return Ok(number.text.as_str().to_owned());
        }
        Picture::new(form, &number).show(&self.parts)
    }
}

/// Takes a pattern off a format; none if it begins with none. A pattern has capital or small
/// letters, not both.
fn take_word(format: &str) -> Option<(Key, &str)> {
    WORDS.iter().find_map(|(word, key)| {
        let is_word = |written: &str| written == *word || written == word.to_ascii_lowercase();
        let (written, rest) = format.split_at_checked(word.len())?;
        let key = match (key, written == *word) {
            (Key::Roman, false) => Key::SmallRoman,
            (Key::Ordinal, false) => Key::SmallOrdinal,
            _ => *key,
        };
        is_word(written).then_some((key, rest))
    })
}

/// Takes characters that are no pattern off a format: all in quotes, or one.
fn take_text<'f>(format: &'f str, parts: &mut Vec<Part>) -> &'f str {
    let Some(quoted) = format.strip_prefix('"') else {
        let format = match format.starts_with("\\\"") {
            true => &format[1..],
            false => format,
        };
        let mut rest = format.chars();
        parts.extend(rest.next().map(Part::Text));
        return rest.as_str();
    };
    let mut rest = quoted.chars();
    while let Some(first) = rest.next() {
        match first {
            '"' => break,
            '\\' => parts.push(Part::Text(rest.next().unwrap_or('\\'))),
            _ => parts.push(Part::Text(first)),
        }
    }
    rest.as_str()
}

fn refused(sentence: &'static str) -> Result<(), ValueError> {
    Err(ValueError::NumberFormat(sentence))
}

impl Form {
    /// Adds a pattern to those before it.
    fn add(&mut self, key: Key) -> Result<(), ValueError> {
        if self.has.exponent && key != Key::Exponent {
            return refused("\"EEEE\" must be the last pattern used");
        }
        match key {
            Key::Nine | Key::Zero => self.add_digit(key)?,
            Key::Blank => {
                self.has.blank |= self.before == 0 && self.behind == 0 && !self.has.zero;
            }
            Key::Point | Key::Shift => self.add_point(key)?,
            Key::Fill => self.has.fill = true,
            Key::Anchored => self.anchor()?,
            Key::Minus | Key::Plus | Key::Sign | Key::Brackets => self.add_sign(key)?,
            Key::Roman | Key::SmallRoman => self.has.roman = true,
            Key::Exponent => self.add_exponent()?,
            Key::Currency => return Err(ValueError::Currency),
            Key::Group | Key::Ordinal | Key::SmallOrdinal | Key::Nothing => {}
        }
        Ok(())
    }

    fn add_digit(&mut self, key: Key) -> Result<(), ValueError> {
        let is_zero = key == Key::Zero;
        if self.has.brackets {
            return refused(match is_zero {
                true => "\"0\" must be ahead of \"PR\"",
                false => "\"9\" must be ahead of \"PR\"",
            });
        }
        if is_zero && !self.has.zero && !self.has.point {
            self.has.zero = true;
            self.zero_start = self.before + 1;
        }
        match (self.has.point, self.has.shift && !is_zero) {
            (_, true) => self.shifted += 1,
            (true, _) => self.behind += 1,
            (false, _) => self.before += 1,
        }
        if is_zero {
            self.zero_end = self.before + self.behind;
        }
        Ok(())
    }

    fn add_point(&mut self, key: Key) -> Result<(), ValueError> {
        if key == Key::Point && self.has.point {
            return refused("multiple decimal points");
        }
        let has_other = match key {
            Key::Point => self.has.shift,
            _ => self.has.point,
        };
        if has_other {
            return refused("cannot use \"V\" and decimal point together");
        }
        match key {
            Key::Point => self.has.point = true,
            _ => self.has.shift = true,
        }
        Ok(())
    }

    fn anchor(&mut self) -> Result<(), ValueError> {
        if self.has.anchored {
            return refused("cannot use \"S\" twice");
        }
        if self.has.plus || self.has.minus || self.has.brackets {
            return refused("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together");
        }
        self.has.anchored = true;
        self.anchor = match self.has.point {
            true => Anchor::After,
            false => Anchor::Before,
        };
        self.anchored_at = self.before;
        Ok(())
    }

    fn add_sign(&mut self, key: Key) -> Result<(), ValueError> {
        let is_anchored = self.has.anchored;
        match key {
            Key::Minus if is_anchored => return refused("cannot use \"S\" and \"MI\" together"),
            Key::Plus if is_anchored => return refused("cannot use \"S\" and \"PL\" together"),
            Key::Sign if is_anchored => return refused("cannot use \"S\" and \"SG\" together"),
            Key::Brackets if is_anchored || self.has.plus || self.has.minus => {
                return refused("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together");
            }
            _ => {}
        }
        self.has.minus |= matches!(key, Key::Minus | Key::Sign);
        self.has.plus |= matches!(key, Key::Plus | Key::Sign);
        self.has.brackets |= key == Key::Brackets;
        Ok(())
    }

    fn add_exponent(&mut self) -> Result<(), ValueError> {
        let has = &self.has;
        let signs = has.anchored || has.brackets || has.minus || has.plus;
        if has.exponent {
            return refused("cannot use \"EEEE\" twice");
        }
        if signs || has.blank || has.fill || has.roman || has.shift {
            return refused("\"EEEE\" is incompatible with other formats");
        }
        self.has.exponent = true;
        Ok(())
    }
}
