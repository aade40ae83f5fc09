//! Digits in the places of a format.
//!
//! PostgreSQL's rules, with their odd corners: what a pattern writes depends on the patterns and
//! the digits before it. A digit that is not there is a zero byte, which ends the text.

use super::digits::Digits;
use super::{Anchor, Form, Key, Part};
use crate::ValueError;

/// A number that is being put in its places.
pub(super) struct Picture<'n> {
    form: Form,
    number: &'n [u8],
    /// The next digit
    at: usize,
    /// The next place for a digit
    place: usize,
    /// The last place, without the point and the spaces
    last_place: usize,
    spaces: usize,
    sign: u8,
    sign_is_written: bool,
    /// The last digit that `FM` does not leave out
    relevant: Option<usize>,
    /// A digit was the last thing that was written
    is_inside: bool,
    out: Vec<u8>,
}

impl<'n> Picture<'n> {
    /// Begins with this number.
    pub(super) fn new(mut form: Form, number: &'n Digits) -> Self {
        form.zero_start = form.zero_start.saturating_sub(1);
        if form.has.roman {
            form = Form {
                has: super::Flags {
                    roman: true,
                    fill: form.has.fill,
                    ..super::Flags::default()
                },
                ..Form::default()
            };
        }
        let sign_is_written = sign_is_elsewhere(&mut form, number.sign);
        let relevant = relevant(&form, number);
        let first = usize::from(!sign_is_written && number.spaces == 0);
        let last_place = form.before + form.behind + first;
        Self {
            form,
            number: number.text.as_bytes(),
            at: 0,
            place: 0,
            last_place,
            spaces: number.spaces,
            sign: number.sign,
            sign_is_written,
            relevant,
            is_inside: false,
            out: Vec::new(),
        }
    }

    /// Writes all parts of a format.
    pub(super) fn show(mut self, parts: &[Part]) -> Result<String, ValueError> {
        for part in parts {
            match part {
                Part::Text(text) => {
                    let mut bytes = [0; 4];
                    let text = text.encode_utf8(&mut bytes);
                    self.out.extend_from_slice(text.as_bytes());
                }
                Part::Key(key) => self.pattern(*key)?,
            }
        }
        if let Some(end) = self.out.iter().position(|byte| *byte == 0) {
            self.out.truncate(end);
        }
        String::from_utf8(self.out).map_err(|_| ValueError::Encoding)
    }

    fn pattern(&mut self, key: Key) -> Result<(), ValueError> {
        match key {
            Key::Nine | Key::Zero | Key::Point if !self.form.has.roman => self.digit(key),
            Key::Group if self.is_inside => self.out.push(b','),
            Key::Group => self.space(),
            Key::Roman | Key::SmallRoman => self.roman(key),
            Key::Ordinal | Key::SmallOrdinal => self.ordinal(key)?,
            Key::Minus if self.sign == b'-' => self.out.push(b'-'),
            Key::Plus if self.sign == b'+' => self.out.push(b'+'),
            Key::Minus | Key::Plus => self.space(),
            Key::Sign => self.out.push(self.sign),
            _ => {}
        }
        Ok(())
    }

    /// `FM` leaves spaces out.
    fn space(&mut self) {
        if !self.form.has.fill {
            self.out.push(b' ');
        }
    }

    /// The next byte of the number; 0 behind its end.
    fn next(&self) -> u8 {
        self.number.get(self.at).copied().unwrap_or(0)
    }

    /// Whether no digit is relevant, and the point is the last byte that is.
    fn ends_at_point(&self) -> bool {
        let last = self.relevant.and_then(|at| self.number.get(at));
        last == Some(&b'.')
    }

    /// Whether a zero before the point is left out: `9.9` shows 0.1 as `.1`.
    fn is_silent_zero(&self) -> bool {
        !self.form.has.zero && self.at == 0 && self.next() == b'0' && self.form.behind != 0
    }

    /// Writes what is in the place of a digit or of the point, and a sign that comes before it.
    fn digit(&mut self, key: Key) {
        self.is_inside = false;
        let zeros = self.form.has.zero && self.form.zero_start <= self.place;
        let begins =
            self.place >= self.spaces || self.form.has.zero && self.form.zero_start == self.place;
        if !self.sign_is_written && begins && (!self.is_silent_zero() || self.ends_at_point()) {
            self.sign_before();
        }
        match self.place < self.spaces {
            true if zeros => {
                self.out.push(b'0');
                self.is_inside = true;
            }
            true => self.space(),
            false => self.byte(key),
        }
        if self.is_last_place() {
            self.sign_behind();
        }
        self.place += 1;
    }

    /// Writes the next byte of the number.
    fn byte(&mut self, key: Key) {
        let byte = self.next();
        let is_beyond = self.relevant.is_some_and(|last| self.at > last) && key != Key::Zero;
        if byte == b'.' {
            self.out.push(b'.');
        } else if is_beyond {
        } else if self.is_silent_zero() {
            match self.form.has.fill {
                true if self.ends_at_point() => self.out.push(b'0'),
                _ => self.space(),
            }
        } else {
            self.out.push(byte);
            self.is_inside = true;
        }
        self.at += usize::from(byte != 0);
    }

    fn is_last_place(&self) -> bool {
        // With FM the relevant digits may end before.
        if self.relevant == Some(self.at) {
            return false;
        }
        let more = usize::from(self.spaces > 0) + usize::from(self.form.has.point);
        self.place + 2 == self.last_place + more
    }

    /// Writes a sign before the first digit.
    fn sign_before(&mut self) {
        let is_minus = self.sign == b'-';
        if self.form.has.anchored {
            if self.form.anchor != Anchor::Before {
                return;
            }
            self.out.push(if is_minus { b'-' } else { b'+' });
        } else if self.form.has.brackets {
            self.out.push(if is_minus { b'<' } else { b' ' });
        } else if is_minus {
            self.out.push(b'-');
        } else {
            self.space();
        }
        self.sign_is_written = true;
    }

    /// Writes a sign behind the last digit.
    fn sign_behind(&mut self) {
        let is_minus = self.sign == b'-';
        if self.sign_is_written && self.form.has.brackets {
            self.out.push(if is_minus { b'>' } else { b' ' });
        } else if self.form.has.anchored && self.form.anchor == Anchor::After {
            self.out.push(if is_minus { b'-' } else { b'+' });
        }
    }

    fn roman(&mut self, key: Key) {
        let mut numeral = self.number.to_vec();
        if key == Key::SmallRoman {
            numeral.make_ascii_lowercase();
        }
        if !self.form.has.fill {
            let spaces = 15_usize.saturating_sub(numeral.len());
            self.out.extend(std::iter::repeat_n(b' ', spaces));
        }
        self.out.append(&mut numeral);
    }

    /// Writes the ending of an ordinal number: `st`, `nd`, `rd`, `th`.
    fn ordinal(&mut self, key: Key) -> Result<(), ValueError> {
        let is_hidden = self.number.first() == Some(&b'#');
        if self.form.has.roman || is_hidden || self.sign == b'-' || self.form.has.point {
            return Ok(());
        }
        let (last, before) = self.number.split_last().ok_or(ValueError::Ordinal)?;
        if !last.is_ascii_digit() {
            return Err(ValueError::Ordinal);
        }
        let ending = match last {
            _ if before.last() == Some(&b'1') => "th",
            b'1' => "st",
            b'2' => "nd",
            b'3' => "rd",
            _ => "th",
        };
        let ending = match key {
            Key::Ordinal => ending.to_ascii_uppercase(),
            _ => ending.to_owned(),
        };
        self.out.extend_from_slice(ending.as_bytes());
        Ok(())
    }
}

/// Whether no sign is written beside the digits; and takes out of a format what does not count for
/// this number.
fn sign_is_elsewhere(form: &mut Form, sign: u8) -> bool {
    let (plus, minus) = (form.has.plus, form.has.minus);
    if plus || minus {
        return minus;
    }
    if sign != b'-' && form.has.fill {
        form.has.brackets = false;
    }
    if form.anchor == Anchor::Before && form.before == form.anchored_at {
        form.anchor = Anchor::After;
    }
    sign == b'+' && form.has.fill && !form.has.anchored
}

/// Returns the last byte of the number that `FM` leaves there: the point, a digit behind it that is
/// not zero, or one that a `0` of the format asks for.
fn relevant(form: &Form, number: &Digits) -> Option<usize> {
    if !form.has.fill || !form.has.point {
        return None;
    }
    let text = number.text.as_bytes();
    let point = text.iter().position(|byte| *byte == b'.')?;
    let last = text.iter().rposition(|byte| *byte != b'0');
    let last = last.map_or(point, |last| last.max(point));
    match form.zero_end.checked_sub(number.spaces) {
        Some(asked) if asked > 0 => Some(last.max(asked.min(text.len() - 1))),
        _ => Some(last),
    }
}
