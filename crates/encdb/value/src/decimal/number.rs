//! A finite decimal number while it is computed with: numeric.c's variable.
//!
//! Digits are base 10000, most significant first; the first one counts 10000^weight. The scale is
//! the number of decimals that are shown; it may be negative only inside of a computation.
//! Operations strip zeros at both ends, as numeric.c does, because it chooses scales by weights.

use std::cmp::Ordering;

use smallvec::{smallvec, SmallVec};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The base of the digits.
pub(super) const BASE: u16 = 10_000;
/// Decimals in a digit.
pub(super) const DECIMALS: i32 = 4;

/// The digits of a number. Up to eight, which are 32 decimal digits, are in the number itself, so
/// that nearly every number costs no allocation.
pub(super) type Digits = SmallVec<[u16; 8]>;

/// A finite number. Wiped when dropped.
pub(crate) struct Number {
    pub(super) negative: bool,
    pub(super) weight: i32,
    pub(super) scale: i32,
    pub(super) digits: Digits,
}

impl Drop for Number {
    fn drop(&mut self) {
        wipe(&mut self.digits);
    }
}

/// Wipes digits, and those that were cut off behind them.
fn wipe(digits: &mut Digits) {
    digits.resize(digits.capacity(), 0);
    digits.as_mut_slice().zeroize();
}

impl ZeroizeOnDrop for Number {}

impl Number {
    /// 0, shown with this many decimals.
    pub(crate) fn zero(scale: i32) -> Self {
        Self::from_digit(0, scale)
    }

    /// A number below 10000.
    pub(super) fn from_digit(digit: u16, scale: i32) -> Self {
        Self {
            negative: false,
            weight: 0,
            scale,
            digits: if digit == 0 {
                smallvec![]
            } else {
                smallvec![digit]
            },
        }
    }

    /// Some tenths.
    pub(super) fn tenths(tenths: u16) -> Self {
        let mut number = Self {
            negative: false,
            weight: 0,
            scale: 1,
            digits: smallvec![tenths / 10, tenths % 10 * 1000],
        };
        number.strip();
        number
    }

    /// An integer.
    pub(crate) fn from_i128(value: i128) -> Self {
        let mut rest = value.unsigned_abs();
        let mut digits = Digits::new();
        while rest > 0 {
            digits.push(digit(rest % u128::from(BASE)));
            rest /= u128::from(BASE);
        }
        digits.reverse();
        let mut number = Self {
            negative: value < 0,
            weight: count(digits.len()) - 1,
            scale: 0,
            digits,
        };
        number.strip();
        number
    }

    /// `value / 10^decimals`, for at most 6 decimals.
    pub(crate) fn from_scaled(value: i64, decimals: u8) -> Self {
        let fill = [1, 1000, 100, 10][usize::from(decimals % 4)];
        let mut number = Self::from_i128(i128::from(value) * fill);
        if !number.digits.is_empty() {
            number.weight -= i32::from(decimals.div_ceil(4));
        }
        number.scale = i32::from(decimals);
        number
    }

    /// Returns the number as an `i64`, rounded; None if it is out of range.
    pub(crate) fn to_i64(&self) -> Option<i64> {
        let mut rounded = self.duplicate();
        rounded.round(0);
        rounded.strip();
        if rounded.weight > 5 {
            return None;
        }
        let mut value: i128 = 0;
        for index in 0..=rounded.weight {
            value = value * i128::from(BASE) + i128::from(rounded.digit_at(index));
        }
        let value = if rounded.negative { -value } else { value };
        i64::try_from(value).ok()
    }

    /// A second number like this one.
    pub(crate) fn duplicate(&self) -> Self {
        Self {
            digits: self.digits.clone(),
            ..*self
        }
    }

    /// Returns the same digits without the sign.
    pub(super) fn absolute(&self) -> Self {
        let mut result = self.duplicate();
        result.negative = false;
        result
    }

    /// -1, 0 or 1.
    pub(super) fn sign(&self) -> i32 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (_, true) => -1,
            _ => 1,
        }
    }

    /// Is there nothing behind the point?
    pub(super) fn is_integral(&self) -> bool {
        self.digits.is_empty() || count(self.digits.len()) <= self.weight + 1
    }

    /// The number of decimal digits before the point, without leading zeros; less than 1 if there
    /// are only fractions. Zeros are stripped already.
    pub(super) fn integer_digits(&self) -> i32 {
        match self.digits.first() {
            None => i32::MIN,
            Some(first) => {
                let leading = 1 + i32::try_from(first.max(&1).ilog10()).unwrap_or_default();
                self.weight * DECIMALS + leading
            }
        }
    }

    /// Is it an odd integer?
    pub(super) fn is_odd(&self) -> bool {
        let last = self.digits.last().copied().unwrap_or(0);
        count(self.digits.len()) == self.weight + 1 && last % 2 == 1
    }

    fn digit_at(&self, index: i32) -> u16 {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        self.digits.get(index).copied().unwrap_or(0)
    }

    /// Takes zeros away at both ends; zero has the weight 0 and no sign.
    pub(super) fn strip(&mut self) {
        let leading = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..leading);
        self.weight -= count(leading);
        let trailing = self.digits.iter().rev().take_while(|digit| **digit == 0);
        let len = self.digits.len() - trailing.count();
        self.digits.truncate(len);
        if self.digits.is_empty() {
            self.negative = false;
            self.weight = 0;
        }
    }

    /// Rounds to this many decimals, halves away from zero.
    pub(crate) fn round(&mut self, scale: i32) {
        let (keep, odd) = match self.cut(scale) {
            Some(cut) => cut,
            None => return,
        };
        let mut carry = if odd == 0 {
            let up = self.digits[keep] >= BASE / 2;
            self.digits.truncate(keep);
            u16::from(up)
        } else {
            self.digits.truncate(keep);
            let power = power_behind(odd);
            let last = &mut self.digits[keep - 1];
            let extra = *last % power;
            *last -= extra;
            if extra >= power / 2 {
                *last += power;
            }
            let carry = *last / BASE;
            *last %= BASE;
            carry
        };
        let end = if odd == 0 { keep } else { keep - 1 };
        for place in self.digits[..end].iter_mut().rev() {
            *place += carry;
            carry = *place / BASE;
            *place %= BASE;
        }
        if carry > 0 {
            // Not by insert, which may leave the digits in memory that it gives back.
            let mut digits = Digits::with_capacity(self.digits.len() + 1);
            digits.push(carry);
            digits.extend_from_slice(&self.digits);
            wipe(&mut self.digits);
            self.digits = digits;
            self.weight += 1;
        }
    }

    /// Cuts to this many decimals.
    pub(super) fn truncate(&mut self, scale: i32) {
        if let Some((keep, odd)) = self.cut(scale) {
            self.digits.truncate(keep);
            if odd > 0 {
                let last = &mut self.digits[keep - 1];
                *last -= *last % power_behind(odd);
            }
        }
    }

    /// Sets the scale, and returns how many digits to keep and how many decimals of the last one
    /// (0: all); nothing if nothing is lost, or all.
    fn cut(&mut self, scale: i32) -> Option<(usize, i32)> {
        self.scale = scale;
        let decimals = (self.weight + 1) * DECIMALS + scale;
        if decimals < 0 {
            self.digits.clear();
            self.weight = 0;
            self.negative = false;
            return None;
        }
        let keep = usize::try_from((decimals + DECIMALS - 1) / DECIMALS).unwrap_or(usize::MAX);
        let odd = decimals % DECIMALS;
        let len = self.digits.len();
        (keep < len || keep == len && odd > 0).then_some((keep, odd))
    }

    /// `self + other`; the scale is the greater one.
    pub(crate) fn add(&self, other: &Self) -> Self {
        self.combine(other, other.negative)
    }

    /// `self - other`
    pub(crate) fn sub(&self, other: &Self) -> Self {
        self.combine(other, !other.negative)
    }

    fn combine(&self, other: &Self, other_negative: bool) -> Self {
        let scale = self.scale.max(other.scale);
        let mut result = if self.negative == other_negative {
            self.add_absolute(other)
        } else {
            match self.compare_absolute(other) {
                Ordering::Equal => return Self::zero(scale),
                Ordering::Greater => self.sub_absolute(other),
                Ordering::Less => other.sub_absolute(self),
            }
        };
        let ours = self.negative == other_negative || self.compare_absolute(other).is_gt();
        result.negative = if ours { self.negative } else { other_negative };
        result.scale = scale;
        result.strip();
        result
    }

    fn add_absolute(&self, other: &Self) -> Self {
        self.aligned(other, |ours, theirs| ours + theirs)
    }

    fn sub_absolute(&self, other: &Self) -> Self {
        self.aligned(other, |ours, theirs| ours - theirs)
    }

    /// Our digits with the other's joined at each place, and carries done; never below zero.
    fn aligned(&self, other: &Self, join: impl Fn(i32, i32) -> i32) -> Self {
        let base = i32::from(BASE);
        let weight = self.weight.max(other.weight) + 1;
        let low = self.low().min(other.low());
        let mut digits: Digits = smallvec![0; usize::try_from(weight - low + 1).unwrap_or(0)];
        let mut carry = 0;
        for (place, power) in digits.iter_mut().rev().zip(low..) {
            let ours = i32::from(self.digit_at(self.weight - power));
            let theirs = i32::from(other.digit_at(other.weight - power));
            let value = join(ours, theirs) + carry;
            carry = i32::from(value >= base) - i32::from(value < 0);
            *place = digit(value - carry * base);
        }
        let mut number = Self {
            negative: false,
            weight,
            scale: 0,
            digits,
        };
        number.strip();
        number
    }

    /// The power of the base that the last digit counts.
    fn low(&self) -> i32 {
        self.weight - count(self.digits.len()) + 1
    }

    /// The order of the numbers.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        match self.sign().cmp(&other.sign()) {
            Ordering::Equal if self.negative => other.compare_absolute(self),
            Ordering::Equal => self.compare_absolute(other),
            unequal => unequal,
        }
    }

    fn compare_absolute(&self, other: &Self) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (false, false) => {}
            (ours, theirs) => return theirs.cmp(&ours),
        }
        // Both are stripped: the first digit is not 0, and no digit follows that is.
        let weights = self.weight.cmp(&other.weight);
        weights.then_with(|| self.digits.cmp(&other.digits))
    }
}

/// Places of any sign as digits; the first takes what is carried.
pub(super) fn carried(places: &[i32]) -> Digits {
    let base = i32::from(BASE);
    let mut digits: Digits = smallvec![0; places.len()];
    let mut carry = 0;
    for (place, result) in places.iter().zip(&mut digits).rev() {
        let value = place + carry;
        carry = value.div_euclid(base);
        *result = digit(value.rem_euclid(base).unsigned_abs());
    }
    debug_assert_eq!(carry, 0);
    digits
}

/// A number below the base.
pub(super) fn digit(value: impl TryInto<u16>) -> u16 {
    value.try_into().unwrap_or(0)
}

/// A count of digits.
pub(super) fn count(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}

/// Returns the exclusive upper bound of what is behind so many decimals of a digit.
fn power_behind(decimals: i32) -> u16 {
    match decimals {
        1 => 1000,
        2 => 100,
        _ => 10,
    }
}
