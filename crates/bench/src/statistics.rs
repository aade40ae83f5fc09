//! Concludes from few independent values: medians with exact intervals, and differences
//! of means; pure. `figures` and `compare` decide which values those are.
//!
//! An interval of a median goes from one value to another of those measured: it misses the median
//! if too few values lie on one side of it, which is a matter of coins, whatever the values scatter
//! like. (A bootstrap of the median says 95 % and holds 87 % with seven values.) A difference is
//! Welch's, which takes it that two reports may scatter unequally, as on a machine with neighbours
//! they do; ranks alone would call noise a change there.

use std::f64::consts::FRAC_PI_2;

/// How often an interval is to include the truth; with less than six values it cannot.
pub const LEVEL: f64 = 0.95;
/// Slices of Student's distribution.
const SLICES: u32 = 2000;

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Where the interval begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
    /// How often such an interval includes the truth: [`LEVEL`] or more, if values are enough.
    pub level: f64,
}

impl Estimate {
    /// How far the interval goes from the median, to the side where it goes further.
    pub fn half_width(&self) -> f64 {
        (self.high - self.median).max(self.median - self.low)
    }

    /// Are there values enough for an interval that decides anything?
    pub fn decides(&self) -> bool {
        self.level >= LEVEL
    }

    /// Returns the excess of a ratio over 1.
    pub fn over_one(self) -> Self {
        Self {
            median: self.median - 1.0,
            low: self.low - 1.0,
            high: self.high - 1.0,
            ..self
        }
    }
}

/// A difference of two means with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The second mean less the first.
    pub mean: f64,
    /// Where the interval begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

/// The middle of the values; NaN if there are none.
pub fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// The median of independent values and its interval; none without values.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let sorted = sorted(values);
    let (left_out, level) = left_out(sorted.len());
    Some(Estimate {
        median: median(values),
        low: *sorted.get(left_out)?,
        high: sorted[sorted.len() - 1 - left_out],
        level,
    })
}

/// How many values at either end the interval of a median leaves out, and what level that reaches.
fn left_out(values: usize) -> (usize, f64) {
    let count = values as f64;
    // Of exactly so many values below the median: its logarithm, because the first are minute.
    let mut exactly = -count * 2.0_f64.ln();
    let mut missed = 2.0 * exactly.exp();
    for below in 1..values {
        exactly += ((count + 1.0 - below as f64) / below as f64).ln();
        let more = missed + 2.0 * exactly.exp();
        if more > 1.0 - LEVEL {
            return (below - 1, 1.0 - missed);
        }
        missed = more;
    }
    (0, 1.0 - missed)
}

/// Returns how much the mean of `b` exceeds that of `a`, with an interval that misses the truth
/// that often. Both have two values or more.
pub fn difference(a: &[f64], b: &[f64], misses: f64) -> Difference {
    let ((mean_a, square_a), (mean_b, square_b)) = (mean(a), mean(b));
    let square = square_a + square_b;
    let own = |square: f64, values: &[f64]| square.powi(2) / (values.len() as f64 - 1.0);
    let freedom = square.powi(2) / (own(square_a, a) + own(square_b, b));
    let reach = match square > 0.0 {
        true => square.sqrt() * student(freedom, misses),
        false => 0.0,
    };
    let mean = mean_b - mean_a;
    Difference {
        mean,
        low: mean - reach,
        high: mean + reach,
    }
}

/// The mean, and the square of its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (count - 1.0) / count)
}

/// Returns the value that Student's t is beyond, to either side, that often. It uses the angle
/// whose tangent is t over the root of the degrees of freedom, since its density is a power of the
/// cosine.
fn student(freedom: f64, misses: f64) -> f64 {
    let width = FRAC_PI_2 / f64::from(SLICES);
    let slice = |at: u32| ((f64::from(at) + 0.5) * width).cos().powf(freedom - 1.0);
    let wanted = misses * (0..SLICES).map(slice).sum::<f64>();
    let mut beyond = 0.0;
    for at in (1..SLICES).rev() {
        beyond += slice(at);
        if beyond >= wanted {
            return freedom.sqrt() * (f64::from(at + 1) * width).tan();
        }
    }
    0.0
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, by: f64) -> bool {
        (value - expected).abs() < by
    }

    #[test]
    fn an_interval_is_of_values_and_says_its_level() {
        let of = |count: u32| {
            let values: Vec<f64> = (1..=count).map(f64::from).collect();
            let all = estimate(&values).expect("there are values");
            assert_eq!(all.decides(), count >= 6, "{all:?}");
            (all.median, all.low, all.high, (all.level * 1e4).round())
        };
        assert_eq!(of(1), (1.0, 1.0, 1.0, 0.0));
        assert_eq!(of(2), (1.5, 1.0, 2.0, 5000.0));
        assert_eq!(of(5), (3.0, 1.0, 5.0, 9375.0));
        assert_eq!(of(6), (3.5, 1.0, 6.0, 9688.0));
        assert_eq!(of(7), (4.0, 1.0, 7.0, 9844.0));
        assert_eq!(of(9), (5.0, 2.0, 8.0, 9609.0));
        assert_eq!(of(19), (10.0, 5.0, 15.0, 9808.0));
        let (_, low, high, level) = of(5000);
        assert_eq!((low + high, level), (5001.0, 9507.0));
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn a_difference_is_welchs() {
        // Tables of Student's t: 2.228 for 10 degrees of freedom, 4.032 and 1 per cent for 5.
        assert!(near(student(10.0, 0.05), 2.228, 0.005));
        assert!(near(student(5.0, 0.01), 4.032, 0.02));
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [4.0; 6]);
        let one_scatters = difference(&a, &b, 0.05);
        let reach = (3.5_f64 / 6.0).sqrt() * 2.571;
        assert!(near(one_scatters.mean, 0.5, 1e-12), "{one_scatters:?}");
        assert!(near(one_scatters.high, 0.5 + reach, 0.01));
        assert!(near(one_scatters.low, 0.5 - reach, 0.01));
        let none = difference(&b, &b, 0.05);
        assert_eq!((none.mean, none.low, none.high), (0.0, 0.0, 0.0));
    }
}
