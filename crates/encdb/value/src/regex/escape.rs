//! Escapes of PostgreSQL's regular expressions, behind the backslash.

use super::class::set_of;
use super::translate::Translator;
use super::Error;
use crate::RegexError;

/// The largest character of a pattern; it need not be one of Unicode.
const MAX_CODE: u32 = 0x7fff_fffe;

/// Returns the meaning of a backslash and the characters behind it.
pub(super) enum Escape {
    Single(u32),
    Class(Vec<(u32, u32)>),
    Begin,
    End,
    WordBegin,
    WordEnd,
    WordBoundary,
    NoWordBoundary,
    BackReference(u32),
}

impl Translator<'_> {
    /// Reads an escape.
    pub(super) fn escape(&mut self) -> Result<Escape, Error> {
        let letter = self.rest.next().ok_or(RegexError::Escape)?;
        Ok(match letter {
            'a' => Escape::Single(7),
            'b' => Escape::Single(8),
            'B' => Escape::Single(u32::from('\\')),
            'c' => Escape::Single(u32::from(self.rest.next().ok_or(RegexError::Escape)?) & 0x1f),
            'e' => Escape::Single(0x1b),
            'f' => Escape::Single(0x0c),
            'n' => Escape::Single(0x0a),
            'r' => Escape::Single(0x0d),
            't' => Escape::Single(9),
            'v' => Escape::Single(0x0b),
            'u' => Escape::Single(self.hexadecimal(4, 4)?),
            'U' => Escape::Single(self.hexadecimal(8, 8)?),
            'x' => Escape::Single(self.hexadecimal(1, 255)?),
            'd' => Escape::Class(self.letters.named("digit")?),
            's' => Escape::Class(self.letters.named("space")?),
            'w' => Escape::Class(self.letters.named("word")?),
            'D' => self.complement("digit")?,
            'S' => self.complement("space")?,
            'W' => self.complement("word")?,
            'A' => Escape::Begin,
            'Z' => Escape::End,
            'm' => Escape::WordBegin,
            'M' => Escape::WordEnd,
            'y' => Escape::WordBoundary,
            'Y' => Escape::NoWordBoundary,
            '0' => Escape::Single(self.octal('0')),
            '1'..='9' => self.number(letter),
            _ if letter.is_ascii_alphanumeric() => return Err(RegexError::Escape.into()),
            _ => Escape::Single(u32::from(letter)),
        })
    }

    fn complement(&self, class: &str) -> Result<Escape, Error> {
        let set = set_of(self.letters.named(class)?, true, false);
        Ok(Escape::Class(set.ranges().to_vec()))
    }

    fn hexadecimal(&mut self, least: usize, most: usize) -> Result<u32, Error> {
        let mut code = 0_u32;
        for count in 0..most {
            match self
                .rest
                .clone()
                .next()
                .and_then(|digit| digit.to_digit(16))
            {
                Some(digit) => code = code.wrapping_mul(16).wrapping_add(digit),
                None if count < least => return Err(RegexError::Escape.into()),
                None => break,
            }
            self.rest.next();
        }
        match code <= MAX_CODE {
            true => Ok(code),
            false => Err(RegexError::Escape.into()),
        }
    }

    /// Reads a number that begins with this digit: a back reference, unless it has several digits
    /// and there are not so many groups.
    fn number(&mut self, first: char) -> Escape {
        let digits = self.rest.as_str();
        let end = digits.find(|digit: char| !digit.is_ascii_digit());
        let behind = end.unwrap_or(digits.len()).min(254);
        let value = digits[..behind]
            .bytes()
            .fold(digit_of(first), |value, digit| {
                value.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'))
            });
        if behind == 0 || (value > 0 && value <= self.captures) {
            self.rest = digits[behind..].chars();
            return Escape::BackReference(value);
        }
        Escape::Single(self.octal(first))
    }

    /// Reads up to three octal digits with the first one, of a code up to 255.
    fn octal(&mut self, first: char) -> u32 {
        let mut code = first.to_digit(8).unwrap_or(0);
        for _ in 0..2 {
            match self.rest.clone().next().and_then(|digit| digit.to_digit(8)) {
                Some(digit) if code * 8 + digit <= 0xff => code = code * 8 + digit,
                _ => break,
            }
            self.rest.next();
        }
        code
    }
}

fn digit_of(digit: char) -> u32 {
    digit.to_digit(10).unwrap_or(0)
}
