//! Square roots, exponentials and logarithms: sqrt_var, exp_var, ln_var.
//!
//! Scales inside the computations are numeric.c's, so that the last digits are.

use std::cmp::Ordering;

use super::number::{count, Digits, Number, BASE, DECIMALS};
use super::product::Rest;
use super::MAX_RESULT_SCALE;
use crate::ValueError;

// numeric.c's constants, of 15 digits: the nearest floats would be others.
#[allow(clippy::approx_constant)]
const LOG10_2: f64 = 0.301_029_995_663_981;
/// The decimal logarithm of e.
#[allow(clippy::approx_constant)]
pub(super) const LOG10_E: f64 = 0.434_294_481_903_252;

/// Towards zero; what is out of range is never used.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn whole(value: f64) -> i32 {
    value as i32
}

impl Number {
    /// Returns the number as a float, infinite if it is out of range.
    pub(super) fn to_f64(&self) -> f64 {
        self.to_text().parse().unwrap_or(f64::NAN)
    }

    /// The square root of a number above zero, to this scale, which may be negative.
    pub(super) fn sqrt(&self, scale: i32) -> Self {
        let weight = self.weight.div_euclid(2);
        let len = if scale + 1 >= 0 {
            weight + 1 + (scale + DECIMALS) / DECIMALS
        } else {
            weight + 1 - (-scale - 1) / DECIMALS
        };
        let len = len.max(1);
        let source = (self.weight + 1 + (len - weight - 1) * 2).max(1);
        let padded = self.digits.iter().copied().chain(std::iter::repeat(0));
        let source = padded.take(usize::try_from(source).unwrap_or(1)).collect();
        let (mut root, _) = integer_sqrt(&integer(source));
        root.weight = weight;
        root.round(scale);
        root.strip();
        root
    }

    /// e to the power of this, to this scale.
    pub(super) fn exp(&self, scale: i32) -> Result<Self, ValueError> {
        let mut value = self.to_f64();
        if value.abs() >= f64::from(MAX_RESULT_SCALE * 3) {
            if value > 0.0 {
                return Err(ValueError::NumericOverflow);
            }
            return Ok(Self::zero(scale));
        }
        let weight = whole(value * LOG10_E);
        let mut halvings = 0;
        while value.abs() > 0.01 {
            halvings += 1;
            value /= 2.0;
        }
        let x = if halvings > 0 {
            self.div_small(1 << halvings, self.scale + halvings)
        } else {
            self.duplicate()
        };
        let digits = 1 + weight + scale + whole(f64::from(halvings) * LOG10_2);
        let digits = digits.max(0) + 8;
        let mut result = x.exp_series(digits - 1);
        for _ in 0..halvings {
            let local = (digits - result.weight * 2 * DECIMALS).max(0);
            result = result.mul(&result, local);
        }
        result.round(scale);
        Ok(result)
    }

    /// 1 + x + x^2/2! + …
    fn exp_series(&self, scale: i32) -> Self {
        let mut result = Self::from_digit(1, 0).add(self);
        let mut term = self.mul(self, scale).div_small(2, scale);
        let mut index = 2;
        while !term.digits.is_empty() {
            result = result.add(&term);
            index += 1;
            term = term.mul(self, scale).div_small(index, scale);
        }
        result
    }

    /// The natural logarithm of a number above zero, to this scale.
    pub(super) fn ln(&self, scale: i32) -> Result<Self, ValueError> {
        let mut x = self.duplicate();
        let mut factor = Self::from_digit(2, 0);
        let mut roots = 0;
        while x.compare(&Self::tenths(9)).is_le() || x.compare(&Self::tenths(11)).is_ge() {
            x = x.sqrt(scale - x.weight * DECIMALS / 2 + 8);
            factor = factor.mul(&Self::from_digit(2, 0), 0);
            roots += 1;
        }
        let local = scale + whole(f64::from(roots + 1) * LOG10_2) + 8;
        let one = Self::from_digit(1, 0);
        let z = x.sub(&one).div_fast(&x.add(&one), local)?;
        Ok(z.ln_series(local).mul(&factor, scale))
    }

    /// z + z^3/3 + z^5/5 + …
    fn ln_series(self, scale: i32) -> Self {
        let square = self.mul(&self, scale);
        let mut power = self.duplicate();
        let mut result = self;
        let mut index = 1;
        loop {
            index += 2;
            power = power.mul(&square, scale);
            let term = power.div_small(index, scale);
            if term.digits.is_empty() {
                return result;
            }
            result = result.add(&term);
            if term.weight < result.weight - scale * 2 / DECIMALS {
                return result;
            }
        }
    }

    /// About log10(|ln(self)|): estimate_ln_dweight.
    pub(super) fn ln_weight(&self) -> i32 {
        if self.negative || self.digits.is_empty() {
            return 0;
        }
        let near_one = self.compare(&Self::tenths(9)) != Ordering::Less
            && self.compare(&Self::tenths(11)) != Ordering::Greater;
        if near_one {
            let x = self.sub(&Self::from_digit(1, 0));
            let Some(first) = x.digits.first() else {
                return 0;
            };
            return x.weight * DECIMALS + whole(f64::from(*first).log10());
        }
        let mut digits = f64::from(self.digits[0]);
        let mut weight = self.weight * DECIMALS;
        if let Some(second) = self.digits.get(1) {
            digits = digits * f64::from(BASE) + f64::from(*second);
            weight -= DECIMALS;
        }
        let ln = digits.ln() + f64::from(weight) * std::f64::consts::LN_10;
        whole(ln.abs().log10())
    }
}

/// These digits as an integer.
fn integer(digits: Digits) -> Number {
    Number {
        negative: false,
        weight: count(digits.len()) - 1,
        scale: 0,
        digits,
    }
}

/// The square root of an integer and what is left: Zimmermann's recursion, which halves the digits.
/// The first digit is not 0; the last ones may be.
fn integer_sqrt(n: &Number) -> (Number, Number) {
    let len = usize::try_from(n.weight + 1).unwrap_or(0);
    if len <= 4 {
        return small_sqrt(n);
    }
    let mut block = len / 4;
    if block * 4 == len && n.digits[0] < BASE / 4 {
        block -= 1;
    }
    let shift = count(block);
    let part = |from: usize, to: usize| {
        let mut part = integer(Digits::from_slice(&n.digits[from..to]));
        part.strip();
        part
    };
    let (mut s, mut r) = integer_sqrt(&integer(Digits::from_slice(&n.digits[..len - 2 * block])));
    s.strip();
    let low = part(len - block, len);
    let middle = part(len - 2 * block, len - block);
    let dividend = r.shifted(shift).add(&middle);
    let divisor = s.add(&s);
    let q = dividend
        .div(&divisor, 0, Rest::Cut)
        .unwrap_or_else(|_| Number::zero(0));
    let u = dividend.sub(&divisor.mul(&q, 0));
    s = s.shifted(shift).add(&q);
    r = u.shifted(shift).add(&low).sub(&q.mul(&q, 0));
    if r.negative {
        r = r.add(&s);
        s = s.sub(&Number::from_digit(1, 0));
        r = r.add(&s);
    }
    (s, r)
}

fn small_sqrt(n: &Number) -> (Number, Number) {
    let n = n
        .digits
        .iter()
        .fold(0u64, |n, digit| n * u64::from(BASE) + u64::from(*digit));
    let root = n.isqrt();
    (
        Number::from_i128(i128::from(root)),
        Number::from_i128(i128::from(n - root * root)),
    )
}

impl Number {
    /// Times 10000^digits.
    fn shifted(mut self, digits: i32) -> Self {
        if !self.digits.is_empty() {
            self.weight += digits;
        }
        self
    }
}
