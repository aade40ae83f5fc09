//! numeric_round, numeric_trunc, numeric_ceil and numeric_floor.

use super::number::DECIMALS;
use super::{Decimal, Number, MAX_SCALE, MAX_WEIGHT};
use crate::{Rounding, ValueError};

/// The digits that a number has before its point at most. What takes more away gives 0.
const MAX_DIGITS: i32 = (MAX_WEIGHT + 1) * DECIMALS;

impl Decimal {
    /// Returns the number with fewer decimals; what is not finite stays as it is.
    pub(crate) fn rounded(&self, rounding: Rounding) -> Result<Self, ValueError> {
        let Some(number) = self.finite() else {
            return Ok(self.duplicate());
        };
        let mut result = number.duplicate();
        let kept = |decimals: i32| decimals.clamp(-MAX_DIGITS - 1, MAX_SCALE);
        match rounding {
            Rounding::Round(decimals) => result.round(kept(decimals)),
            Rounding::Truncate(decimals) => result.truncate(kept(decimals)),
            Rounding::Ceil | Rounding::Floor => result.truncate(0),
        }
        let beyond = match rounding {
            Rounding::Ceil if number.compare(&result).is_gt() => 1,
            Rounding::Floor if number.compare(&result).is_lt() => -1,
            _ => 0,
        };
        if beyond != 0 {
            result = result.add(&Number::from_i128(beyond));
        }
        result.scale = result.scale.max(0);
        Self::new(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_those_of_postgresql() {
        for (text, rounding, expected) in [
            ("2.5", Rounding::Round(0), "3"),
            ("-2.5", Rounding::Round(0), "-3"),
            ("2.4", Rounding::Round(3), "2.400"),
            ("9999.996", Rounding::Round(2), "10000.00"),
            ("155", Rounding::Round(-1), "160"),
            ("155", Rounding::Round(-2), "200"),
            ("155", Rounding::Round(-4), "0"),
            ("5000", Rounding::Round(-4), "10000"),
            ("0.00005", Rounding::Round(4), "0.0001"),
            ("6e131071", Rounding::Round(i32::MIN), "0"),
            ("6e131071", Rounding::Truncate(i32::MIN), "0"),
            ("-1.999", Rounding::Truncate(2), "-1.99"),
            ("-0.009", Rounding::Truncate(2), "0.00"),
            ("155", Rounding::Truncate(-2), "100"),
            ("1", Rounding::Truncate(2), "1.00"),
            ("1.0001", Rounding::Ceil, "2"),
            ("-1.9", Rounding::Ceil, "-1"),
            ("-0.9", Rounding::Ceil, "0"),
            ("-1.0001", Rounding::Floor, "-2"),
            ("1.000", Rounding::Floor, "1"),
            ("9999.1", Rounding::Ceil, "10000"),
            ("NaN", Rounding::Ceil, "NaN"),
            ("-Infinity", Rounding::Round(2), "-Infinity"),
        ] {
            let value = Decimal::parse(text).expect("a number");
            let found = value.rounded(rounding).expect("it fits").to_text();
            assert_eq!(found, expected, "{rounding:?} {text}");
        }
    }
}
