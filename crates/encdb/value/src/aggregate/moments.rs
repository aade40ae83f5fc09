//! The state of averages and variances of floats.

use super::kind::Spread;
use crate::{float, Arithmetic, ValueError};

/// PostgreSQL's state of averages and variances of floats. Of an average the sum of squares decides
/// about overflow alone.
#[derive(Default)]
pub(super) struct Moments {
    pub(super) n: f64,
    pub(super) sx: f64,
    pub(super) sxx: f64,
}

impl Moments {
    /// float8_accum
    pub(super) fn add(&mut self, value: f64) -> Result<(), ValueError> {
        let (n, sx) = (self.n + 1.0, self.sx + value);
        if self.n > 0.0 {
            let deviation = value * n - sx;
            self.sxx += deviation * deviation / (n * self.n);
            if sx.is_infinite() || self.sxx.is_infinite() {
                if !self.sx.is_infinite() && !value.is_infinite() {
                    return Err(ValueError::Overflow);
                }
                self.sxx = f64::NAN;
            }
        } else if !value.is_finite() {
            self.sxx = f64::NAN;
        }
        (self.n, self.sx) = (n, sx);
        Ok(())
    }

    /// float8_combine
    pub(super) fn combine(&mut self, other: &Self) -> Result<(), ValueError> {
        if other.n == 0.0 {
            return Ok(());
        }
        if self.n == 0.0 {
            (self.n, self.sx, self.sxx) = (other.n, other.sx, other.sxx);
            return Ok(());
        }
        let n = self.n + other.n;
        let sx = float::arithmetic(Arithmetic::Add, self.sx, other.sx)?;
        let distance = self.sx / self.n - other.sx / other.n;
        let sxx = self.sxx + other.sxx + self.n * other.n * distance * distance / n;
        if sxx.is_infinite() && !self.sxx.is_infinite() && !other.sxx.is_infinite() {
            return Err(ValueError::Overflow);
        }
        (self.n, self.sx, self.sxx) = (n, sx, sxx);
        Ok(())
    }

    pub(super) fn spread(&self, of: Spread) -> Option<f64> {
        let others = self.n - f64::from(u8::from(of.is_of_sample()));
        let variance = (others > 0.0).then(|| self.sxx / others)?;
        Some(match of.is_root() {
            true => variance.sqrt(),
            false => variance,
        })
    }

    pub(super) fn average(&self) -> Option<f64> {
        (self.n != 0.0).then(|| self.sx / self.n)
    }
}
