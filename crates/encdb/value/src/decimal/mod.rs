//! numeric: exact decimals, NaN and the infinities: numeric.c.
//!
//! [`number::Number`] holds what is finite and computes; here are the rules for the rest, the
//! limits of the format, and PostgreSQL's bytes.

mod logarithm;
mod number;
mod power;
mod product;
mod rounding;
mod spread;
mod sum;
mod text;

use std::cmp::Ordering;

use crate::integer::is_space;
use crate::{Arithmetic, Type, ValueError};

use number::Digits;
pub(crate) use number::Number;
pub(crate) use spread::{spread, Squares};
pub(crate) use sum::Sum;

use power::ScaleOfPower;

/// Significant digits of a quotient or power, at least.
const SIGNIFICANT: i32 = 16;
const MAX_DISPLAY_SCALE: i32 = 1000;
const MAX_RESULT_SCALE: i32 = 2000;
/// The bounds of scale and weight of a number that is a value.
const MAX_SCALE: i32 = 0x3fff;
const MAX_WEIGHT: i32 = 0x7fff;
const MIN_WEIGHT: i32 = -0x8000;

const POSITIVE: u16 = 0;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const NEGATIVE_INFINITY: u16 = 0xf000;
/// numeric_send reads it out of the header of a stored infinity, where it means nothing.
const SCALE_OF_INFINITY: i32 = 0x20;

/// A numeric. Wiped when dropped.
pub struct Decimal(Repr);

enum Repr {
    Finite(Number),
    NaN,
    Infinite { negative: bool },
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Self(Repr::Finite(Number::from_i128(value.into())))
    }
}

impl Decimal {
    /// A second number like this one.
    pub fn duplicate(&self) -> Self {
        Self(match &self.0 {
            Repr::Finite(number) => Repr::Finite(number.duplicate()),
            Repr::NaN => Repr::NaN,
            Repr::Infinite { negative } => Repr::Infinite {
                negative: *negative,
            },
        })
    }

    /// Returns the number as a column of `numeric(precision, scale)` holds it: apply_typmod.
    pub fn limited(&self, precision: i32, scale: i32) -> Result<Self, ValueError> {
        let mut number = match &self.0 {
            Repr::Finite(number) => number.duplicate(),
            Repr::NaN => return Ok(Self::nan()),
            Repr::Infinite { .. } => return Err(ValueError::FieldOverflow),
        };
        number.round(scale);
        number.scale = number.scale.max(0);
        number.strip();
        match number.integer_digits() <= precision.saturating_sub(scale) {
            true => Self::new(number),
            false => Err(ValueError::FieldOverflow),
        }
    }

    /// Whether two equal numbers show as many decimals.
    pub(crate) fn is_written_as(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Finite(a), Repr::Finite(b)) => a.scale == b.scale && a.compare(b).is_eq(),
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    /// NaN.
    pub(crate) fn nan() -> Self {
        Self(Repr::NaN)
    }

    /// An infinity.
    pub(crate) fn infinity(negative: bool) -> Self {
        Self(Repr::Infinite { negative })
    }

    /// The end of a computation: make_result.
    pub(crate) fn new(mut number: Number) -> Result<Self, ValueError> {
        number.strip();
        let fits = (MIN_WEIGHT..=MAX_WEIGHT).contains(&number.weight)
            && (0..=MAX_SCALE).contains(&number.scale);
        if !fits {
            return Err(ValueError::NumericOverflow);
        }
        Ok(Self(Repr::Finite(number)))
    }

    /// The number, if it is finite.
    pub(crate) fn finite(&self) -> Option<&Number> {
        match &self.0 {
            Repr::Finite(number) => Some(number),
            _ => None,
        }
    }

    /// Is it NaN?
    pub(crate) fn is_nan(&self) -> bool {
        matches!(self.0, Repr::NaN)
    }

    /// -1, 0 or 1; NaN counts as 0, but no caller asks.
    pub(crate) fn sign(&self) -> i32 {
        match &self.0 {
            Repr::Finite(number) => number.sign(),
            Repr::NaN => 0,
            Repr::Infinite { negative: true } => -1,
            Repr::Infinite { negative: false } => 1,
        }
    }

    /// Reads text: numeric_in.
    pub(crate) fn parse(text: &str) -> Result<Self, ValueError> {
        let text = text.trim_start_matches(is_space);
        let names = [
            ("nan", Repr::NaN),
            ("infinity", Repr::Infinite { negative: false }),
            ("+infinity", Repr::Infinite { negative: false }),
            ("-infinity", Repr::Infinite { negative: true }),
            ("inf", Repr::Infinite { negative: false }),
            ("+inf", Repr::Infinite { negative: false }),
            ("-inf", Repr::Infinite { negative: true }),
        ];
        for (name, value) in names {
            let start = text.as_bytes().get(..name.len());
            if start.is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes())) {
                return match text[name.len()..].trim_start_matches(is_space) {
                    "" => Ok(Self(value)),
                    _ => Err(ValueError::Syntax(Type::Decimal)),
                };
            }
        }
        Self::new(Number::parse(text)?)
    }

    /// Returns the text that PostgreSQL prints.
    pub(crate) fn to_text(&self) -> String {
        match &self.0 {
            Repr::Finite(number) => number.to_text(),
            Repr::NaN => "NaN".to_owned(),
            Repr::Infinite { negative: false } => "Infinity".to_owned(),
            Repr::Infinite { negative: true } => "-Infinity".to_owned(),
        }
    }

    /// Reads PostgreSQL's bytes: numeric_recv.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ValueError> {
        let malformed = ValueError::Binary(Type::Decimal);
        let mut words = bytes
            .chunks_exact(2)
            .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let mut next = || words.next().ok_or(malformed);
        let (len, weight, sign, scale) = (next()?, next()?, next()?, next()?);
        let digits: Digits = words.collect();
        let well_formed = bytes.len() == 8 + 2 * usize::from(len)
            && i32::from(scale) <= MAX_SCALE
            && digits.iter().all(|digit| *digit < number::BASE);
        if !well_formed {
            return Err(malformed);
        }
        Ok(Self(match sign {
            NAN => Repr::NaN,
            INFINITY => Repr::Infinite { negative: false },
            NEGATIVE_INFINITY => Repr::Infinite { negative: true },
            POSITIVE | NEGATIVE => {
                let mut number = Number {
                    negative: sign == NEGATIVE,
                    weight: i32::from(i16::from_be_bytes(weight.to_be_bytes())),
                    scale: 0,
                    digits,
                };
                number.truncate(i32::from(scale));
                return Self::new(number);
            }
            _ => return Err(malformed),
        }))
    }

    /// Appends PostgreSQL's bytes: numeric_send.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        let mut head = |len: i32, weight: i32, sign: u16, scale: i32| {
            let low = |value: i32| value.to_be_bytes();
            into.extend_from_slice(&low(len)[2..]);
            into.extend_from_slice(&low(weight)[2..]);
            into.extend_from_slice(&sign.to_be_bytes());
            into.extend_from_slice(&low(scale)[2..]);
        };
        match &self.0 {
            Repr::NaN => head(0, 0, NAN, 0),
            Repr::Infinite { negative: false } => head(0, 0, INFINITY, SCALE_OF_INFINITY),
            Repr::Infinite { negative: true } => head(0, 0, NEGATIVE_INFINITY, SCALE_OF_INFINITY),
            Repr::Finite(number) => {
                let sign = if number.negative { NEGATIVE } else { POSITIVE };
                let len = number::count(number.digits.len());
                head(len, number.weight, sign, number.scale);
                into.extend(number.digits.iter().flat_map(|digit| digit.to_be_bytes()));
            }
        }
    }

    /// The order: -Infinity, numbers, Infinity, NaN.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Finite(ours), Repr::Finite(theirs)) => ours.compare(theirs),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self.0 {
            Repr::Infinite { negative: true } => 0,
            Repr::Finite(_) => 1,
            Repr::Infinite { negative: false } => 2,
            Repr::NaN => 3,
        }
    }

    /// `-self`
    pub(crate) fn negated(&self) -> Self {
        let mut result = self.duplicate();
        match &mut result.0 {
            Repr::Finite(number) => number.negative = !number.negative && number.sign() != 0,
            Repr::Infinite { negative } => *negative = !*negative,
            Repr::NaN => {}
        }
        result
    }

    /// The magnitude.
    pub(crate) fn absolute(&self) -> Self {
        if self.sign() < 0 {
            self.negated()
        } else {
            self.duplicate()
        }
    }

    /// Bytes that are equal for equal numbers: without the scale.
    pub(crate) fn hash_bytes(&self, into: &mut Vec<u8>) {
        match &self.0 {
            Repr::Finite(number) => {
                into.push(u8::from(number.negative));
                into.extend_from_slice(&number.weight.to_be_bytes());
                for digit in &number.digits {
                    into.extend_from_slice(&digit.to_be_bytes());
                }
            }
            _ => into.push(0x80 | self.rank()),
        }
    }

    /// A number that grows with this one: sign, weight, three digits.
    pub(crate) fn order_prefix(&self) -> u64 {
        let number = match &self.0 {
            Repr::Infinite { negative: true } => return 0,
            Repr::Infinite { negative: false } => return u64::MAX - 1,
            Repr::NaN => return u64::MAX,
            Repr::Finite(number) => number,
        };
        const ZERO: u64 = 1 << 63;
        if number.digits.is_empty() {
            return ZERO;
        }
        let weight = u64::from((number.weight - MIN_WEIGHT).unsigned_abs());
        let digits = (0..3).fold(0, |sum, index| {
            let digit = number.digits.get(index).copied().unwrap_or(0);
            sum * u64::from(number::BASE) + u64::from(digit)
        });
        let magnitude = (weight << 40 | digits) + 1;
        if number.negative {
            ZERO - magnitude
        } else {
            ZERO + magnitude
        }
    }
}

/// An operator on two numerics.
pub(crate) fn arithmetic(op: Arithmetic, a: &Decimal, b: &Decimal) -> Result<Decimal, ValueError> {
    let (Repr::Finite(x), Repr::Finite(y)) = (&a.0, &b.0) else {
        return special(op, a, b);
    };
    Decimal::new(match op {
        Arithmetic::Add => x.add(y),
        Arithmetic::Sub => x.sub(y),
        Arithmetic::Mul => {
            let mut product = x.mul(y, x.scale + y.scale);
            if product.scale > MAX_SCALE {
                product.round(MAX_SCALE);
            }
            product
        }
        Arithmetic::Div => x.quotient(y)?,
        Arithmetic::Mod => x.rem(y)?,
        Arithmetic::Power => x.power(y, ScaleOfPower::Fixed)?,
        Arithmetic::PowerSince16 => x.power(y, ScaleOfPower::ByWeight)?,
        Arithmetic::Age => return Err(ValueError::Undefined(Type::Decimal, Type::Decimal)),
    })
}

/// The rules when one operand is not finite.
fn special(op: Arithmetic, a: &Decimal, b: &Decimal) -> Result<Decimal, ValueError> {
    if matches!(op, Arithmetic::Power | Arithmetic::PowerSince16) {
        return special_power(a, b);
    }
    if op == Arithmetic::Age {
        return Err(ValueError::Undefined(Type::Decimal, Type::Decimal));
    }
    if a.is_nan() || b.is_nan() {
        return Ok(Decimal::nan());
    }
    let b_finite = b.finite().is_some();
    if a.finite().is_none() && b_finite && b.sign() == 0 {
        match op {
            Arithmetic::Div | Arithmetic::Mod => return Err(ValueError::DivisionByZero),
            _ => {}
        }
    }
    let b_sign = if op == Arithmetic::Sub {
        -b.sign()
    } else {
        b.sign()
    };
    Ok(match (op, a.finite().is_some(), b_finite) {
        (Arithmetic::Add | Arithmetic::Sub, true, _) => Decimal::infinity(b_sign < 0),
        (Arithmetic::Add | Arithmetic::Sub, _, false) if a.sign() != b_sign => Decimal::nan(),
        (Arithmetic::Add | Arithmetic::Sub, ..) => a.duplicate(),
        (Arithmetic::Mul, ..) if a.sign() * b.sign() == 0 => Decimal::nan(),
        (Arithmetic::Mul, ..) => Decimal::infinity(a.sign() * b.sign() < 0),
        (Arithmetic::Div, true, _) => Decimal::from(0),
        (Arithmetic::Div, _, false) => Decimal::nan(),
        (Arithmetic::Div, ..) => Decimal::infinity(a.sign() * b.sign() < 0),
        (_, true, _) => a.duplicate(),
        _ => Decimal::nan(),
    })
}

/// pow(3)'s rules for NaN and infinities.
fn special_power(a: &Decimal, b: &Decimal) -> Result<Decimal, ValueError> {
    let one = Decimal::from(1);
    let is_one = a.compare(&one).is_eq();
    if a.is_nan() || b.is_nan() {
        let certain = is_one || b.finite().is_some() && b.sign() == 0;
        return Ok(if certain { one } else { Decimal::nan() });
    }
    let (a_sign, b_sign) = (a.sign(), b.sign());
    if a_sign == 0 && b_sign < 0 {
        return Err(ValueError::ZeroToNegative);
    }
    if a_sign < 0 && !b.finite().is_none_or(Number::is_integral) {
        return Err(ValueError::NegativeToFraction);
    }
    if is_one || b_sign == 0 {
        return Ok(one);
    }
    if a_sign == 0 {
        return Ok(Decimal::from(0));
    }
    if matches!(b.0, Repr::Infinite { .. }) {
        let magnitude = a.absolute().compare(&one);
        return Ok(match magnitude {
            Ordering::Equal => one,
            _ if magnitude.is_gt() == (b_sign > 0) => Decimal::infinity(false),
            _ => Decimal::from(0),
        });
    }
    if b_sign < 0 {
        return Ok(Decimal::from(0));
    }
    let odd = b.finite().is_some_and(Number::is_odd);
    Ok(Decimal::infinity(a_sign < 0 && odd))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str) -> Vec<u16> {
        let mut bytes = Vec::new();
        Decimal::parse(text).expect("a number").encode(&mut bytes);
        let pairs = bytes.chunks_exact(2);
        pairs
            .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
            .collect()
    }

    #[test]
    fn bytes_are_those_of_numeric_send() {
        assert_eq!(encoded("12.50"), [2, 0, 0, 2, 12, 5000]);
        assert_eq!(encoded("-0.0001"), [1, 0xffff, NEGATIVE, 4, 1]);
        assert_eq!(encoded("10000"), [1, 1, 0, 0, 1]);
        assert_eq!(encoded("0.000"), [0, 0, 0, 3]);
        assert_eq!(encoded("NaN"), [0, 0, NAN, 0]);
        assert_eq!(encoded("Infinity"), [0, 0, INFINITY, 0x20]);
        assert_eq!(encoded("-inf"), [0, 0, NEGATIVE_INFINITY, 0x20]);
    }

    #[test]
    fn a_column_limits_digits() {
        let limited = |text: &str, precision, scale| {
            let number = Decimal::parse(text).expect("a number");
            number.limited(precision, scale).map(|it| it.to_text())
        };
        for (text, precision, scale, expected) in [
            ("1.255", 4, 2, "1.26"),
            ("-0.005", 3, 2, "-0.01"),
            ("0", 2, 2, "0.00"),
            ("0.99", 2, 2, "0.99"),
            ("0.004", 2, 2, "0.00"),
            ("7", 5, 3, "7.000"),
            ("123456789", 9, 0, "123456789"),
            ("99994.4", 5, 0, "99994"),
            ("NaN", 1, 0, "NaN"),
        ] {
            assert_eq!(
                limited(text, precision, scale).as_deref(),
                Ok(expected),
                "{text}"
            );
        }
        for (text, precision, scale) in [
            ("99.995", 4, 2),
            ("0.999", 2, 2),
            ("9999.5", 4, 0),
            ("10000", 4, 0),
            ("-inf", 9, 0),
        ] {
            let refused = limited(text, precision, scale).expect_err(text);
            assert_eq!(refused.sqlstate(), "22003", "{text}");
        }
    }

    #[test]
    fn foreign_bytes_are_made_a_number_or_refused() {
        let decode = |words: &[u16]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            Decimal::decode(&bytes).map(|number| number.to_text())
        };
        // What the scale hides is cut, zeros at the ends go, an infinity's scale means nothing.
        assert_eq!(decode(&[2, 0, 0, 1, 12, 5678]), Ok("12.5".to_owned()));
        assert_eq!(
            decode(&[4, 2, NEGATIVE, 2, 0, 0, 7, 0]),
            Ok("-7.00".to_owned())
        );
        assert_eq!(decode(&[1, 0, INFINITY, 0, 1]), Ok("Infinity".to_owned()));
        let malformed: [&[u16]; 6] = [
            &[],
            &[0, 0, 0],
            &[1, 0, 0, 0],
            &[0, 0, 0, 0, 1],
            &[1, 0, 0, 0, 10_000],
            &[0, 0, 0x8000, 0],
        ];
        for words in malformed {
            assert_eq!(
                decode(words),
                Err(ValueError::Binary(Type::Decimal)),
                "{words:?}"
            );
        }
        assert_eq!(
            decode(&[0, 0, 0, 0x4000]),
            Err(ValueError::Binary(Type::Decimal))
        );
        assert_eq!(
            decode(&[1, 0x7fff, 0, 0, 1]).map(|text| text.len()),
            Ok(131_069)
        );
    }

    #[test]
    fn limits_of_the_format_are_errors() {
        let overflow = Err(ValueError::NumericOverflow);
        let parse = |text: &str| Decimal::parse(text).map(|number| number.to_text().len());
        assert_eq!(parse("1e131071"), Ok(131_072));
        assert_eq!(parse("1e131072"), overflow);
        assert_eq!(parse("1e-16383"), Ok(16_385));
        assert_eq!(parse("1e-16384"), overflow);
        let large = Decimal::parse("1e131071").expect("it fits");
        let product = arithmetic(Arithmetic::Mul, &large, &large);
        assert_eq!(product.map(|number| number.to_text().len()), overflow);
    }
}
