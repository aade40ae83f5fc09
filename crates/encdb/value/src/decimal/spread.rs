//! Variances and standard deviations of numerics: the sums that PostgreSQL keeps, and what it makes
//! of them.

use super::{Decimal, Number, Sum};
use crate::aggregate::Spread;
use crate::ValueError;

/// The sum of values and that of their squares.
pub(crate) struct Squares {
    sum: Sum,
    squares: Sum,
}

impl Squares {
    /// Returns the sums of no values.
    pub(crate) fn new() -> Self {
        Self {
            sum: Sum::new(),
            squares: Sum::new(),
        }
    }

    /// Bytes of their places.
    pub(crate) fn bytes(&self) -> usize {
        self.sum.bytes() + self.squares.bytes()
    }

    /// Adds a value. What is not finite is counted with the values alone.
    pub(crate) fn add(&mut self, value: &Decimal) {
        self.sum.add(value);
        if let Some(number) = value.finite() {
            self.squares
                .add_number(&number.mul(number, 2 * number.scale));
        }
    }

    /// Adds what others have.
    pub(crate) fn combine(&mut self, other: &Self) {
        self.sum.combine(&other.sum);
        self.squares.combine(&other.squares);
    }

    /// Returns the result; nothing of too few values.
    pub(crate) fn result(&self, of: Spread) -> Result<Option<Decimal>, ValueError> {
        let count = i64::try_from(self.sum.values()).map_err(|_| ValueError::NumericOverflow)?;
        match self.sum.total() {
            _ if !of.has_enough(count) => Ok(None),
            Ok(total) if total.finite().is_none() => Ok(Some(Decimal::nan())),
            _ => spread(count, &self.sum.number(), &self.squares.number(), of).map(Some),
        }
    }

    /// Appends both, the first behind its length.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(&[0; 4]);
        self.sum.encode(into);
        let len = u32::try_from(into.len() - start - 4).unwrap_or(u32::MAX);
        into[start..start + 4].copy_from_slice(&len.to_le_bytes());
        self.squares.encode(into);
    }

    /// Reads both; nothing if they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (len, rest) = bytes.split_first_chunk()?;
        let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
        let (sum, squares) = rest.split_at_checked(len)?;
        Some(Self {
            sum: Sum::decode(sum)?,
            squares: Sum::decode(squares)?,
        })
    }
}

/// Returns the result of so many values, by their sum and that of their squares.
pub(crate) fn spread(
    count: i64,
    sum: &Number,
    squares: &Number,
    of: Spread,
) -> Result<Decimal, ValueError> {
    let number = |count: i64| Number::from_i128(i128::from(count));
    let scale = 2 * sum.scale;
    let all = number(count).mul(squares, scale);
    let above = all.sub(&sum.mul(sum, scale));
    if above.sign() <= 0 {
        return Decimal::new(Number::zero(0));
    }
    let others = if of.is_of_sample() { count - 1 } else { count };
    let below = number(count).mul(&number(others), 0);
    let variance = above.quotient(&below)?;
    if !of.is_root() {
        return Decimal::new(variance);
    }
    let scale = above.quotient_scale(&below);
    Decimal::new(match variance.sign() {
        0 => Number::zero(scale),
        _ => variance.sqrt(scale),
    })
}
