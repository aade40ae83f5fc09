//! The state of aggregates of two numbers: sums by the method of Youngs and Cramer, as PostgreSQL
//! keeps them, and what it makes of them.

use super::AggregateKind;
use crate::{float, Arithmetic, ValueError};

/// PostgreSQL's state of `corr`, `covar_pop`, `covar_samp` and the `regr` aggregates.
#[derive(Clone, Copy, Default)]
pub(super) struct Pairs {
    n: f64,
    x: Side,
    y: Side,
    sxy: f64,
}

/// The sum of one side, and that of its squared distances from the average.
#[derive(Clone, Copy, Default)]
struct Side {
    sum: f64,
    squares: f64,
}

impl Side {
    /// Returns the side with one value more, and the value's distance from the average of `n`.
    fn with(self, value: f64, n: f64) -> (Self, f64) {
        let sum = self.sum + value;
        let squares = self.squares;
        (Self { sum, squares }, value * n - sum)
    }

    /// Whether finite values have led beyond all numbers. `before` is the side without the value.
    fn overflows(self, before: Self, value: f64) -> bool {
        (self.sum.is_infinite() || self.squares.is_infinite()) && is_bounded(before, value)
    }

    /// Returns both sides in one, and the distance of their averages.
    fn combined(self, n: f64, other: Self, others: f64) -> Result<(Self, f64), ValueError> {
        let sum = float::arithmetic(Arithmetic::Add, self.sum, other.sum)?;
        let distance = self.sum / n - other.sum / others;
        let between = n * others * distance * distance / (n + others);
        let squares = added(self.squares, other.squares, between)?;
        Ok((Self { sum, squares }, distance))
    }
}

/// Whether neither the sum of a side nor the next value of it is infinite.
fn is_bounded(before: Side, value: f64) -> bool {
    !before.sum.is_infinite() && !value.is_infinite()
}

/// Adds two sums and what is between them; finite ones must not become infinite.
fn added(ours: f64, theirs: f64, between: f64) -> Result<f64, ValueError> {
    let sum = ours + theirs + between;
    match sum.is_infinite() && !ours.is_infinite() && !theirs.is_infinite() {
        true => Err(ValueError::Overflow),
        false => Ok(sum),
    }
}

/// Puts NaN in the place of an infinite sum.
fn never_infinite(sum: &mut f64) {
    if sum.is_infinite() {
        *sum = f64::NAN;
    }
}

impl Pairs {
    /// The number of bytes of a state.
    pub(super) const BYTES: usize = 6 * size_of::<f64>();

    /// Takes a pair in, as float8_regr_accum does.
    pub(super) fn add(&mut self, y: f64, x: f64) -> Result<(), ValueError> {
        let n = self.n + 1.0;
        let ((mut to_x, far_x), (mut to_y, far_y)) = (self.x.with(x, n), self.y.with(y, n));
        let mut sxy = self.sxy;
        if self.n > 0.0 {
            let scale = 1.0 / (n * self.n);
            to_x.squares += far_x * far_x * scale;
            to_y.squares += far_y * far_y * scale;
            sxy += far_x * far_y * scale;
            let product = sxy.is_infinite() && is_bounded(self.x, x) && is_bounded(self.y, y);
            if product || to_x.overflows(self.x, x) || to_y.overflows(self.y, y) {
                return Err(ValueError::Overflow);
            }
            let sums = [&mut to_x.squares, &mut to_y.squares, &mut sxy];
            sums.into_iter().for_each(never_infinite);
        } else {
            // The distance of a first value that is not finite is none, and so are all later ones.
            for (value, squares) in [(x, &mut to_x.squares), (y, &mut to_y.squares)] {
                if !value.is_finite() {
                    (*squares, sxy) = (f64::NAN, f64::NAN);
                }
            }
        }
        let (x, y) = (to_x, to_y);
        *self = Self { n, x, y, sxy };
        Ok(())
    }

    /// Takes another state in, as float8_regr_combine does.
    pub(super) fn combine(&mut self, other: &Self) -> Result<(), ValueError> {
        if other.n == 0.0 {
            return Ok(());
        }
        if self.n == 0.0 {
            *self = *other;
            return Ok(());
        }
        let (x, far_x) = self.x.combined(self.n, other.x, other.n)?;
        let (y, far_y) = self.y.combined(self.n, other.y, other.n)?;
        let n = self.n + other.n;
        let between = self.n * other.n * far_x * far_y / n;
        let sxy = added(self.sxy, other.sxy, between)?;
        *self = Self { n, x, y, sxy };
        Ok(())
    }

    /// Returns the result of an aggregate; none of too few rows, and of a line that has none.
    pub(super) fn result(&self, kind: AggregateKind) -> Option<f64> {
        let Self { n, x, y, sxy } = *self;
        let is_vertical = x.squares == 0.0;
        let result = match kind {
            AggregateKind::RegrAvgX => x.sum / n,
            AggregateKind::RegrAvgY => y.sum / n,
            AggregateKind::RegrSxx => x.squares,
            AggregateKind::RegrSyy => y.squares,
            AggregateKind::RegrSxy => sxy,
            AggregateKind::CovarPop => sxy / n,
            AggregateKind::CovarSamp if n >= 2.0 => sxy / (n - 1.0),
            AggregateKind::Corr if !is_vertical && y.squares != 0.0 => {
                sxy / (x.squares * y.squares).sqrt()
            }
            AggregateKind::RegrR2 if !is_vertical && y.squares == 0.0 => 1.0,
            AggregateKind::RegrR2 if !is_vertical => (sxy * sxy) / (x.squares * y.squares),
            AggregateKind::RegrSlope if !is_vertical => sxy / x.squares,
            AggregateKind::RegrIntercept if !is_vertical => (y.sum - x.sum * sxy / x.squares) / n,
            _ => return None,
        };
        (n >= 1.0).then_some(result)
    }

    /// Returns the state as bytes.
    pub(super) fn to_bytes(self) -> impl Iterator<Item = u8> {
        let Self { n, x, y, sxy } = self;
        let parts = [n, x.sum, x.squares, y.sum, y.squares, sxy];
        parts.into_iter().flat_map(f64::to_le_bytes)
    }

    /// Returns the state of bytes that [`Pairs::to_bytes`] gave.
    pub(super) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (parts, _) = bytes.as_chunks::<8>();
        let part = |place: usize| f64::from_le_bytes(parts[place]);
        let side = |place| Side {
            sum: part(place),
            squares: part(place + 1),
        };
        Self {
            n: part(0),
            x: side(1),
            y: side(3),
            sxy: part(5),
        }
    }
}
