//! Products, quotients and remainders: mul_var, div_var, div_var_fast, mod_var.
//!
//! Products and fast quotients are cut, as in numeric.c, behind a few guard digits: what follows
//! from them (logarithms, powers) depends on it to the last digit.

use smallvec::{smallvec, SmallVec};
use zeroize::{Zeroize, Zeroizing};

use super::number::{carried, count, digit, Digits, Number, BASE, DECIMALS};
use crate::ValueError;

const MUL_GUARD: i32 = 2;
const DIV_GUARD: i32 = 4;
const LIMIT: i32 = i32::MAX - i32::MAX / 10_000;

/// Should what is behind the scale be rounded, or cut?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Halves away from zero
    Round,
    /// Towards zero
    Cut,
}

impl Number {
    /// `self * other` to this scale.
    pub(crate) fn mul(&self, other: &Self, scale: i32) -> Self {
        let (short, long) = if self.digits.len() > other.digits.len() {
            (other, self)
        } else {
            (self, other)
        };
        let weight = short.weight + long.weight + 2;
        let exact = count(short.digits.len() + long.digits.len() + 1);
        let wanted = weight + 1 + (scale + DECIMALS - 1) / DECIMALS + MUL_GUARD;
        let len = exact.min(wanted);
        if short.digits.is_empty() || len < 3 {
            return Self::zero(scale);
        }
        let mut places = products(short, long, usize::try_from(len).unwrap_or(0));
        let mut result = Self {
            negative: self.negative != other.negative,
            weight,
            scale,
            digits: carried_wide(&places),
        };
        places.as_mut_slice().zeroize();
        result.round(scale);
        result.strip();
        result
    }

    /// `self / other` to this scale, exactly.
    pub(super) fn div(&self, other: &Self, scale: i32, rest: Rest) -> Result<Self, ValueError> {
        if other.digits.is_empty() {
            return Err(ValueError::DivisionByZero);
        }
        if self.digits.is_empty() {
            return Ok(Self::zero(scale));
        }
        let weight = self.weight - other.weight;
        let wanted = weight + 1 + (scale + DECIMALS - 1) / DECIMALS;
        let len = wanted.max(1) + i32::from(rest == Rest::Round);
        let len = usize::try_from(len).unwrap_or(0);
        let result = Self {
            negative: self.negative != other.negative,
            weight,
            scale,
            digits: match &*other.digits {
                [one] => short_division(&self.digits, u64::from(*one), len),
                divisor => long_division(&self.digits, divisor, len),
            },
        };
        Ok(result.finish_quotient(scale, rest))
    }

    fn finish_quotient(mut self, scale: i32, rest: Rest) -> Self {
        match rest {
            Rest::Round => self.round(scale),
            Rest::Cut => self.truncate(scale),
        }
        self.strip();
        self
    }

    /// `self / divisor`, rounded to this scale.
    pub(super) fn div_small(&self, divisor: u32, scale: i32) -> Self {
        let divisor = Self::from_i128(i128::from(divisor));
        self.div(&divisor, scale, Rest::Round)
            .unwrap_or_else(|_| Self::zero(scale))
    }

    /// `self / other`, rounded to this scale, from estimated digits: not always the nearest.
    pub(super) fn div_fast(&self, other: &Self, scale: i32) -> Result<Self, ValueError> {
        if other.digits.len() <= 2 || self.digits.is_empty() {
            return self.div(other, scale, Rest::Round);
        }
        let weight = self.weight - other.weight + 1;
        let wanted = weight + 1 + (scale + DECIMALS - 1) / DECIMALS + DIV_GUARD;
        let len = usize::try_from(wanted.max(DIV_GUARD)).unwrap_or(0);
        let mut places = estimated_quotient(&self.digits, &other.digits, len);
        let result = Self {
            negative: self.negative != other.negative,
            weight,
            scale,
            digits: carried(&places),
        };
        places.zeroize();
        Ok(result.finish_quotient(scale, Rest::Round))
    }

    /// `self % other`, with our sign.
    pub(crate) fn rem(&self, other: &Self) -> Result<Self, ValueError> {
        let quotient = self.div(other, 0, Rest::Cut)?;
        Ok(self.sub(&other.mul(&quotient, other.scale)))
    }

    /// The scale that a quotient is given: 16 significant digits, and no less than the operands'.
    pub(crate) fn quotient_scale(&self, other: &Self) -> i32 {
        let first = |number: &Self| number.digits.first().copied().unwrap_or(0);
        let mut weight = self.weight - other.weight;
        if first(self) <= first(other) {
            weight -= 1;
        }
        let scale = super::SIGNIFICANT - weight * DECIMALS;
        scale
            .max(self.scale)
            .max(other.scale)
            .clamp(0, super::MAX_DISPLAY_SCALE)
    }

    /// `self / other` as the operator gives it.
    pub(crate) fn quotient(&self, other: &Self) -> Result<Self, ValueError> {
        self.div(other, self.quotient_scale(other), Rest::Round)
    }
}

/// The sums of products of digits, from the highest place, `len` of them.
fn products(short: &Number, long: &Number, len: usize) -> SmallVec<[u64; 16]> {
    let mut places = smallvec![0u64; len];
    for (index, factor) in short.digits.iter().enumerate() {
        let start = (index + 2).min(len);
        for (place, other) in places[start..].iter_mut().zip(&long.digits) {
            *place += u64::from(*factor) * u64::from(*other);
        }
    }
    places
}

fn carried_wide(places: &[u64]) -> Digits {
    let base = u64::from(BASE);
    let mut digits: Digits = smallvec![0; places.len()];
    let mut carry = 0;
    for (place, result) in places.iter().zip(&mut digits).rev() {
        let value = place + carry;
        carry = value / base;
        *result = digit(value % base);
    }
    digits
}

/// The first `len` digits of the quotient by one digit.
fn short_division(dividend: &[u16], divisor: u64, len: usize) -> Digits {
    let padded = dividend.iter().copied().chain(std::iter::repeat(0));
    let mut rest = 0;
    let mut step = |next: u16| {
        rest = rest * u64::from(BASE) + u64::from(next);
        let quotient = digit(rest / divisor);
        rest %= divisor;
        quotient
    };
    padded.take(len).map(&mut step).collect()
}

/// The first `len` digits of the quotient by two digits and more: Knuth's algorithm D.
fn long_division(dividend: &[u16], divisor: &[u16], len: usize) -> Digits {
    let base = i64::from(BASE);
    let n = divisor.len();
    let spread = base / (i64::from(divisor[0]) + 1);
    let divisor = Zeroizing::new(scaled(divisor.iter().copied(), n, spread));
    let padded = dividend.iter().copied().chain(std::iter::repeat(0));
    let mut rest = Zeroizing::new(scaled(padded, len + n - 1, spread));
    let divisor = &divisor[1..];
    let mut quotient = Digits::with_capacity(len);
    for at in 0..len {
        let top = rest[at] * base + rest[at + 1];
        let mut guess = (top / divisor[0]).min(base - 1);
        let next = rest[at + 2];
        while guess * divisor[1] > (top - guess * divisor[0]) * base + next {
            guess -= 1;
        }
        if subtract(&mut rest[at..=at + n], divisor, guess) {
            guess -= 1;
            subtract(&mut rest[at..=at + n], divisor, -1);
        }
        quotient.push(digit(guess));
    }
    quotient
}

/// The first `len` digits times a factor, with a place before them for what is carried.
fn scaled(digits: impl Iterator<Item = u16>, len: usize, factor: i64) -> Vec<i64> {
    let mut places = Vec::with_capacity(len + 1);
    places.push(0);
    places.extend(digits.take(len).map(|digit| i64::from(digit) * factor));
    let mut carry = 0;
    for place in places.iter_mut().rev() {
        let value = *place + carry;
        carry = value / i64::from(BASE);
        *place = value % i64::from(BASE);
    }
    places
}

/// Subtracts `factor * divisor`; true if the result is negative (and then complemented). The factor
/// -1 takes that back.
fn subtract(rest: &mut [i64], divisor: &[i64], factor: i64) -> bool {
    let base = i64::from(BASE);
    let mut carry = 0;
    for (place, other) in rest[1..].iter_mut().zip(divisor).rev() {
        let value = *place - factor * other + carry;
        carry = value.div_euclid(base);
        *place = value.rem_euclid(base);
    }
    rest[0] += carry;
    rest[0] < 0
}

/// The digits of a quotient as div_var_fast estimates them, not carried yet: `len`, and one more.
fn estimated_quotient(dividend: &[u16], divisor: &[u16], len: usize) -> Vec<i32> {
    let base = i32::from(BASE);
    let mut places = vec![0i32; len + 1];
    for (place, digit) in places[1..].iter_mut().zip(dividend) {
        *place = i32::from(*digit);
    }
    let mut first = [0; 4];
    for (place, digit) in first.iter_mut().zip(divisor) {
        *place = i32::from(*digit);
    }
    let inverse = 1.0 / leading(&first, 0);
    let mut greatest = 1;
    for at in 0..len {
        let mut guess = estimate(&places, at, inverse);
        if guess != 0 {
            greatest += guess.abs();
            if greatest > (LIMIT - 1) / (base - 1) {
                normalise(&mut places, at, (at + divisor.len() - 2).min(len));
                guess = estimate(&places, at, inverse);
                greatest = 1 + guess.abs();
            }
            for (place, other) in places[at..].iter_mut().zip(divisor) {
                *place = place.wrapping_sub(guess.wrapping_mul(i32::from(*other)));
            }
        }
        // May overflow, and is made right by the sum's overflow.
        let folded = places[at].wrapping_mul(base);
        places[at + 1] = places[at + 1].wrapping_add(folded);
        places[at] = guess;
    }
    places[len] = estimate(&places, len, inverse);
    places
}

/// Four places as one number; what is behind the end is zero.
fn leading(places: &[i32], at: usize) -> f64 {
    let place = |index: usize| places.get(at + index).copied().unwrap_or(0);
    let mut value = f64::from(place(0));
    for index in 1..4 {
        value = value * f64::from(BASE) + f64::from(place(index));
    }
    value
}

fn estimate(places: &[i32], at: usize, inverse: f64) -> i32 {
    let quotient = leading(places, at) * inverse;
    #[allow(clippy::cast_possible_truncation)] // towards zero, then towards minus infinity
    let whole = quotient as i32;
    if quotient >= 0.0 {
        whole
    } else {
        whole - 1
    }
}

/// Carries what is in the places up to `end` into the place `at`.
fn normalise(places: &mut [i32], at: usize, end: usize) {
    let base = i32::from(BASE);
    let mut carry = 0;
    for place in places[at + 1..=end].iter_mut().rev() {
        let value = *place + carry;
        carry = value.div_euclid(base);
        *place = value.rem_euclid(base);
    }
    places[at] += carry;
}
