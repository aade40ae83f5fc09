//! The sum of many numerics, without an allocation for each: numeric.c's accumulator.

use zeroize::Zeroize;

use super::number::{count, Digits, Number, BASE};
use super::{Decimal, Repr, MAX_SCALE, MAX_WEIGHT, MIN_WEIGHT};
use crate::ValueError;

/// A sum of values; its places hold up to 2^49 values before they would overflow.
pub(crate) struct Sum {
    values: u64,
    nan: bool,
    infinity: bool,
    negative_infinity: bool,
    scale: i32,
    /// The power of the base that the first place counts.
    weight: i32,
    places: Vec<i64>,
}

impl Drop for Sum {
    fn drop(&mut self) {
        self.places.zeroize();
    }
}

impl Sum {
    /// Returns a sum of no values.
    pub(crate) fn new() -> Self {
        Self {
            values: 0,
            nan: false,
            infinity: false,
            negative_infinity: false,
            scale: 0,
            weight: 0,
            places: Vec::new(),
        }
    }

    /// How many values were added.
    pub(crate) fn values(&self) -> u64 {
        self.values
    }

    /// Bytes of its places: one of 8 for every four digits between the highest and the lowest.
    pub(crate) fn bytes(&self) -> usize {
        self.places.len() * size_of::<i64>()
    }

    /// Adds a value.
    pub(crate) fn add(&mut self, value: &Decimal) {
        self.values += 1;
        match &value.0 {
            Repr::NaN => self.nan = true,
            Repr::Infinite { negative: false } => self.infinity = true,
            Repr::Infinite { negative: true } => self.negative_infinity = true,
            Repr::Finite(number) => self.add_number(number),
        }
    }

    /// Adds a number that is counted as no value.
    pub(super) fn add_number(&mut self, number: &Number) {
        self.scale = self.scale.max(number.scale);
        if number.digits.is_empty() {
            return;
        }
        self.widen(number);
        let start = usize::try_from(self.weight - number.weight).unwrap_or(0);
        for (place, digit) in self.places[start..].iter_mut().zip(&number.digits) {
            let digit = i64::from(*digit);
            *place += if number.negative { -digit } else { digit };
        }
    }

    /// Makes room for the places of a number.
    fn widen(&mut self, number: &Number) {
        if self.places.is_empty() {
            self.weight = number.weight;
        }
        let above = usize::try_from(number.weight - self.weight).unwrap_or(0);
        let low = self.weight - count(self.places.len()) + 1;
        let wanted = number.weight - count(number.digits.len()) + 1;
        let below = usize::try_from(low - wanted).unwrap_or(0);
        if above + below > 0 {
            let mut places = vec![0; above + self.places.len() + below];
            places[above..above + self.places.len()].copy_from_slice(&self.places);
            self.places.zeroize();
            self.places = places;
            self.weight = self.weight.max(number.weight);
        }
    }

    /// Adds what another sum has.
    pub(crate) fn combine(&mut self, other: &Self) {
        self.values += other.values;
        self.nan |= other.nan;
        self.infinity |= other.infinity;
        self.negative_infinity |= other.negative_infinity;
        self.add_number(&other.number());
    }

    /// The sum of the finite values.
    pub(super) fn number(&self) -> Number {
        // Carried twice, above zero: a number and what is to be subtracted from it.
        let positive = self.carried(1);
        let negative = self.carried(-1);
        let mut result = positive.sub(&negative);
        result.scale = self.scale;
        result
    }

    /// The places of one sign.
    fn carried(&self, sign: i64) -> Number {
        let base = i64::from(BASE);
        let mut digits = Digits::with_capacity(self.places.len() + 5);
        let mut carry = 0;
        for place in self.places.iter().rev() {
            let value = (place * sign).max(0) + carry;
            digits.push(super::number::digit(value % base));
            carry = value / base;
        }
        let mut weight = self.weight;
        while carry > 0 {
            digits.push(super::number::digit(carry % base));
            carry /= base;
            weight += 1;
        }
        digits.reverse();
        let mut number = Number {
            negative: false,
            weight,
            scale: self.scale,
            digits,
        };
        number.strip();
        number
    }

    /// The sum.
    pub(crate) fn total(&self) -> Result<Decimal, ValueError> {
        if self.nan || self.infinity && self.negative_infinity {
            return Ok(Decimal::nan());
        }
        if self.infinity || self.negative_infinity {
            return Ok(Decimal::infinity(self.negative_infinity));
        }
        Decimal::new(self.number())
    }

    /// Appends the sum as bytes: values, flags, scale, sign, weight, digits.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        let number = self.number();
        let flags = u8::from(self.nan)
            | u8::from(self.infinity) << 1
            | u8::from(self.negative_infinity) << 2
            | u8::from(number.negative) << 3;
        into.extend_from_slice(&self.values.to_le_bytes());
        into.push(flags);
        into.extend_from_slice(&number.scale.to_le_bytes());
        into.extend_from_slice(&number.weight.to_le_bytes());
        for digit in &number.digits {
            into.extend_from_slice(&digit.to_le_bytes());
        }
    }

    /// Reads a sum; nothing if it is none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (values, rest) = bytes.split_first_chunk()?;
        let ([flags], rest) = rest.split_first_chunk()?;
        let (scale, rest) = rest.split_first_chunk()?;
        let (weight, rest) = rest.split_first_chunk()?;
        let pairs = rest.chunks_exact(2);
        let (scale, weight) = (i32::from_le_bytes(*scale), i32::from_le_bytes(*weight));
        let well_formed = pairs.remainder().is_empty()
            && *flags < 16
            && (0..=2 * MAX_SCALE).contains(&scale)
            && (2 * MIN_WEIGHT..=3 * MAX_WEIGHT).contains(&weight);
        let mut number = Number {
            negative: flags & 8 != 0,
            weight,
            scale,
            digits: pairs
                .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
                .collect(),
        };
        if !well_formed || number.digits.iter().any(|digit| *digit >= BASE) {
            return None;
        }
        number.strip();
        let mut sum = Self::new();
        sum.values = u64::from_le_bytes(*values);
        sum.nan = flags & 1 != 0;
        sum.infinity = flags & 2 != 0;
        sum.negative_infinity = flags & 4 != 0;
        sum.add_number(&number);
        Some(sum)
    }
}
