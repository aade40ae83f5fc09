//! real and double precision: float.c and float.h.
//!
//! Both widths have the same rules; [`Float`] holds what differs. `^` exists in double precision
//! alone, and is the C library's `pow`, as in PostgreSQL.

use std::cmp::Ordering;

use crate::{Arithmetic, Type, ValueError};

/// The operations that the rules need of `f32` and `f64`.
pub(crate) trait Float: Copy + PartialOrd {
    /// The type in SQL.
    const TYPE: Type;
    /// Zero.
    const ZERO: Self;
    /// Is it NaN?
    fn is_nan(self) -> bool;
    /// Is it one of the infinities?
    fn is_infinite(self) -> bool;
    /// The IEEE operation, without PostgreSQL's errors; only `+ - * /`.
    fn ieee(op: Arithmetic, a: Self, b: Self) -> Self;
}

impl Float for f32 {
    const TYPE: Type = Type::Float4;
    const ZERO: Self = 0.0;

    fn is_nan(self) -> bool {
        self.is_nan()
    }

    fn is_infinite(self) -> bool {
        self.is_infinite()
    }

    #[inline]
    fn ieee(op: Arithmetic, a: Self, b: Self) -> Self {
        match op {
            Arithmetic::Add => a + b,
            Arithmetic::Sub => a - b,
            Arithmetic::Mul => a * b,
            _ => a / b,
        }
    }
}

impl Float for f64 {
    const TYPE: Type = Type::Float8;
    const ZERO: Self = 0.0;

    fn is_nan(self) -> bool {
        self.is_nan()
    }

    fn is_infinite(self) -> bool {
        self.is_infinite()
    }

    #[inline]
    fn ieee(op: Arithmetic, a: Self, b: Self) -> Self {
        match op {
            Arithmetic::Add => a + b,
            Arithmetic::Sub => a - b,
            Arithmetic::Mul => a * b,
            _ => a / b,
        }
    }
}

/// `+ - * /`; a result that lost everything is an error, an infinite operand is none.
#[inline]
pub(crate) fn arithmetic<F: Float>(op: Arithmetic, a: F, b: F) -> Result<F, ValueError> {
    let divides = match op {
        Arithmetic::Add | Arithmetic::Sub | Arithmetic::Mul => false,
        Arithmetic::Div => true,
        Arithmetic::Mod | Arithmetic::Power | Arithmetic::PowerSince16 | Arithmetic::Age => {
            return Err(ValueError::Undefined(F::TYPE, F::TYPE));
        }
    };
    if divides && b == F::ZERO && !a.is_nan() {
        return Err(ValueError::DivisionByZero);
    }
    let result = F::ieee(op, a, b);
    if result.is_infinite() && !a.is_infinite() && (divides || !b.is_infinite()) {
        return Err(ValueError::Overflow);
    }
    let scales = matches!(op, Arithmetic::Mul | Arithmetic::Div);
    if scales && result == F::ZERO && a != F::ZERO {
        let expected = if divides {
            b.is_infinite()
        } else {
            b == F::ZERO
        };
        if !expected {
            return Err(ValueError::Underflow);
        }
    }
    Ok(result)
}

/// The order: NaN is equal to itself and greater than all else.
#[inline]
pub(crate) fn compare<F: Float>(a: F, b: F) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// `a ^ b`: dpow.
pub(crate) fn power(a: f64, b: f64) -> Result<f64, ValueError> {
    if a.is_nan() || b.is_nan() {
        let one = a == 1.0 || b == 0.0;
        return Ok(if one { 1.0 } else { f64::NAN });
    }
    if a == 0.0 && b < 0.0 {
        return Err(ValueError::ZeroToNegative);
    }
    if a < 0.0 && b.floor() != b {
        return Err(ValueError::NegativeToFraction);
    }
    let result = a.powf(b);
    if a.is_infinite() || b.is_infinite() {
        return Ok(result);
    }
    if result.is_infinite() {
        return Err(ValueError::Overflow);
    }
    if result == 0.0 && a != 0.0 {
        return Err(ValueError::Underflow);
    }
    Ok(result)
}

/// double precision as real: dtof.
pub(crate) fn narrow(value: f64) -> Result<f32, ValueError> {
    #[allow(clippy::cast_possible_truncation)] // rounding is what is asked for
    let result = value as f32;
    if result.is_infinite() && !value.is_infinite() {
        return Err(ValueError::Overflow);
    }
    if result == 0.0 && value != 0.0 {
        return Err(ValueError::Underflow);
    }
    Ok(result)
}

/// As an integer: dtoi4, ftoi4. Halves go to the even neighbour.
pub(crate) fn to_int4(value: f64) -> Result<i32, ValueError> {
    let range = ValueError::OutOfRange(Type::Int4);
    to_int8(value)
        .ok()
        .and_then(|value| i32::try_from(value).ok())
        .ok_or(range)
}

/// As a bigint: dtoi8, ftoi8.
pub(crate) fn to_int8(value: f64) -> Result<i64, ValueError> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let value = value.round_ties_even();
    if (-LIMIT..LIMIT).contains(&value) {
        #[allow(clippy::cast_possible_truncation)] // it is whole, and in range
        return Ok(value as i64);
    }
    Err(ValueError::OutOfRange(Type::Int8))
}

/// A bigint as double precision, rounded to the nearest.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn from_int8(value: i64) -> f64 {
    value as f64
}

/// A bigint as real, rounded once.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn real_from_int8(value: i64) -> f32 {
    value as f32
}

/// A number that grows with the float, in the order of [`compare`].
pub(crate) fn order_prefix(value: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    if value.is_nan() {
        return u64::MAX;
    }
    let bits = (value + 0.0).to_bits();
    if bits & SIGN == 0 {
        bits | SIGN
    } else {
        !bits
    }
}

/// Bytes that are equal for equal floats: one NaN, one zero.
pub(crate) fn canonical(value: f64) -> [u8; 8] {
    let value = if value.is_nan() {
        f64::NAN
    } else {
        value + 0.0
    };
    value.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_results_are_errors() {
        use Arithmetic::{Add, Div, Mod, Mul, Sub};
        assert_eq!(
            arithmetic(Add, f64::MAX, f64::MAX),
            Err(ValueError::Overflow)
        );
        assert_eq!(arithmetic(Add, f64::INFINITY, 1.0), Ok(f64::INFINITY));
        assert_eq!(
            arithmetic(Sub, f32::MIN, f32::MAX),
            Err(ValueError::Overflow)
        );
        assert_eq!(arithmetic(Mul, 1e-200, 1e-200), Err(ValueError::Underflow));
        assert_eq!(arithmetic(Mul, 0.0, 1e-200), Ok(0.0));
        assert_eq!(arithmetic(Div, 1.0, 0.0), Err(ValueError::DivisionByZero));
        assert_eq!(
            arithmetic(Div, f64::INFINITY, 0.0),
            Err(ValueError::DivisionByZero)
        );
        assert!(arithmetic(Div, f64::NAN, 0.0).is_ok_and(f64::is_nan));
        assert_eq!(arithmetic(Div, 1.0, f64::INFINITY), Ok(0.0));
        assert_eq!(arithmetic(Div, 1e-300, 1e300), Err(ValueError::Underflow));
        let none = ValueError::Undefined(Type::Float4, Type::Float4);
        assert_eq!(arithmetic(Mod, 1f32, 1f32), Err(none));
    }

    #[test]
    fn powers_have_postgresqls_special_cases() {
        assert_eq!(power(f64::NAN, 0.0), Ok(1.0));
        assert_eq!(power(1.0, f64::NAN), Ok(1.0));
        assert!(power(2.0, f64::NAN).is_ok_and(f64::is_nan));
        assert_eq!(power(0.0, -1.0), Err(ValueError::ZeroToNegative));
        assert_eq!(
            power(0.0, f64::NEG_INFINITY),
            Err(ValueError::ZeroToNegative)
        );
        assert_eq!(power(-1.0, 0.5), Err(ValueError::NegativeToFraction));
        assert_eq!(power(-1.0, f64::INFINITY), Ok(1.0));
        assert_eq!(power(f64::NEG_INFINITY, 3.0), Ok(f64::NEG_INFINITY));
        assert_eq!(power(10.0, 400.0), Err(ValueError::Overflow));
        assert_eq!(power(10.0, -400.0), Err(ValueError::Underflow));
    }

    #[test]
    fn integers_come_from_floats_by_the_even_neighbour() {
        assert_eq!(to_int4(2.5), Ok(2));
        assert_eq!(to_int4(-3.5), Ok(-4));
        assert_eq!(
            to_int4(2_147_483_647.5),
            Err(ValueError::OutOfRange(Type::Int4))
        );
        assert_eq!(to_int4(f64::NAN), Err(ValueError::OutOfRange(Type::Int4)));
        assert_eq!(to_int8(-9_223_372_036_854_775_808.0), Ok(i64::MIN));
        assert_eq!(to_int8(1e19), Err(ValueError::OutOfRange(Type::Int8)));
    }

    #[test]
    fn prefixes_follow_the_order() {
        let ordered = [
            f64::NEG_INFINITY,
            -1.0,
            -1e-300,
            0.0,
            1e-300,
            1.0,
            f64::INFINITY,
            f64::NAN,
        ];
        for pair in ordered.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Ordering::Less);
            assert!(order_prefix(pair[0]) < order_prefix(pair[1]));
        }
        assert_eq!(order_prefix(-0.0), order_prefix(0.0));
        assert_eq!(canonical(-0.0), canonical(0.0));
        assert_eq!(canonical(-f64::NAN), canonical(f64::NAN));
        assert_eq!(compare(-f32::NAN, f32::NAN), Ordering::Equal);
    }
}
