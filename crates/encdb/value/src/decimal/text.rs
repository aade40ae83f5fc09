//! Numbers as text: set_var_from_str and get_str_from_var.

use zeroize::Zeroizing;

use super::number::{count, Number, BASE, DECIMALS};
use crate::integer::is_space;
use crate::{Type, ValueError};

const SYNTAX: ValueError = ValueError::Syntax(Type::Decimal);

impl Number {
    /// Reads a finite number, space behind it allowed; whether it fits the format is not asked yet.
    pub(super) fn parse(text: &str) -> Result<Self, ValueError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_digit = |c: char| c.is_ascii_digit();
        let behind_point = unsigned.strip_prefix('.').unwrap_or(unsigned);
        if !behind_point.starts_with(is_digit) {
            return Err(SYNTAX);
        }
        let rest = unsigned.trim_start_matches(is_digit);
        let whole = &unsigned[..unsigned.len() - rest.len()];
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(start) => {
                let rest = start.trim_start_matches(is_digit);
                (&start[..start.len() - rest.len()], rest)
            }
            None => ("", rest),
        };
        let (exponent, rest) = match rest.strip_prefix(['e', 'E']) {
            Some(start) => parse_exponent(start)?,
            None => (0, rest),
        };
        if rest.starts_with('.') || !rest.trim_start_matches(is_space).is_empty() {
            return Err(SYNTAX);
        }
        let mut number = Self::from_decimals(whole, fraction, exponent);
        number.negative = text.starts_with('-');
        number.strip();
        Ok(number)
    }

    fn from_decimals(whole: &str, fraction: &str, exponent: i32) -> Self {
        let decimals: Zeroizing<Vec<u8>> =
            Zeroizing::new(whole.bytes().chain(fraction.bytes()).collect());
        let places = count(whole.len()) + exponent;
        // So many zeros stand before the decimals in the first digit.
        let missing = (-places).rem_euclid(DECIMALS);
        let at = |index: i32| {
            let index = usize::try_from(index).ok();
            let byte = index.and_then(|index| decimals.get(index));
            byte.map_or(0, |byte| u16::from(byte - b'0'))
        };
        let len = (count(decimals.len()) + missing + DECIMALS - 1) / DECIMALS;
        let digit = |index: i32| {
            let start = index * DECIMALS - missing;
            (start..start + DECIMALS).fold(0, |digit, index| digit * 10 + at(index))
        };
        Self {
            negative: false,
            weight: (places + missing) / DECIMALS - 1,
            scale: (count(fraction.len()) - exponent).max(0),
            digits: (0..len).map(digit).collect(),
        }
    }

    /// Returns the text that PostgreSQL prints.
    pub(crate) fn to_text(&self) -> String {
        let scale = usize::try_from(self.scale).unwrap_or(0);
        let whole = usize::try_from(self.weight + 1).unwrap_or(0) * 4;
        let mut text = String::with_capacity(whole + scale + 8);
        if self.negative {
            text.push('-');
        }
        let start = text.len();
        for index in 0..=self.weight {
            push_digit(&mut text, self.digit(index));
        }
        let zeros = text[start..].bytes().take_while(|byte| *byte == b'0');
        let zeros = zeros.count().min(3);
        text.drain(start..start + zeros);
        if self.weight < 0 {
            text.push('0');
        }
        if scale > 0 {
            text.push('.');
            let end = text.len() + scale;
            let mut index = self.weight + 1;
            while text.len() < end {
                push_digit(&mut text, self.digit(index));
                index += 1;
            }
            text.truncate(end);
        }
        text
    }

    fn digit(&self, index: i32) -> u16 {
        let index = usize::try_from(index).ok();
        let digit = index.and_then(|index| self.digits.get(index));
        digit.copied().unwrap_or(0)
    }
}

/// Reads an exponent as strtol does, space before it included, and returns what follows it.
fn parse_exponent(text: &str) -> Result<(i32, &str), ValueError> {
    let start = text.trim_start_matches(is_space);
    let unsigned = start.strip_prefix(['+', '-']).unwrap_or(start);
    let rest = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &unsigned[..unsigned.len() - rest.len()];
    if digits.is_empty() {
        return Err(SYNTAX);
    }
    let value: i32 = digits.parse().unwrap_or(i32::MAX);
    if value >= i32::MAX / 2 {
        return Err(ValueError::NumericOverflow);
    }
    let value = if start.starts_with('-') {
        -value
    } else {
        value
    };
    Ok((value, rest))
}

fn push_digit(text: &mut String, digit: u16) {
    debug_assert!(digit < BASE);
    for power in [1000, 100, 10, 1] {
        let decimal = u8::try_from(digit / power % 10).unwrap_or(0);
        text.push(char::from(b'0' + decimal));
    }
}
