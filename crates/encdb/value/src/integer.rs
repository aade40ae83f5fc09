//! integer and bigint: int.c, int8.c and numutils.c.

use crate::{Arithmetic, Type, ValueError};

/// Reads an integer, white space around it allowed.
pub(crate) fn parse_int4(text: &str) -> Result<i32, ValueError> {
    let digits = signed_digits(text, Type::Int4)?;
    digits
        .parse()
        .map_err(|_| ValueError::TextOutOfRange(Type::Int4))
}

/// Reads a bigint, white space around it allowed.
pub(crate) fn parse_int8(text: &str) -> Result<i64, ValueError> {
    let digits = signed_digits(text, Type::Int8)?;
    digits
        .parse()
        .map_err(|_| ValueError::TextOutOfRange(Type::Int8))
}

/// White space as C's `isspace` knows it.
pub(crate) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

/// The text without the space around it, if it is a sign and digits. PostgreSQL reads from the
/// left: a number that is too large is that, whatever follows.
fn signed_digits(text: &str, ty: Type) -> Result<&str, ValueError> {
    let start = text.trim_start_matches(is_space);
    let unsigned = start.strip_prefix(['-', '+']).unwrap_or(start);
    let rest = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == unsigned.len() {
        return Err(ValueError::Syntax(ty));
    }
    let number = &start[..start.len() - rest.len()];
    let fits = match ty {
        Type::Int4 => number.parse::<i32>().is_ok() || is_negated_minimum(number, i32::MIN.into()),
        _ => number.parse::<i64>().is_ok() || is_negated_minimum(number, i64::MIN),
    };
    if fits && !rest.trim_start_matches(is_space).is_empty() {
        return Err(ValueError::Syntax(ty));
    }
    Ok(number)
}

/// The one number too large that PostgreSQL notices only behind the trailing space.
fn is_negated_minimum(number: &str, minimum: i64) -> bool {
    number.parse() == Ok(-i128::from(minimum))
}

/// An operator on two integers, except `Power`, which integers do not have.
#[inline]
pub(crate) fn int4(op: Arithmetic, a: i32, b: i32) -> Result<i32, ValueError> {
    let none = Err(ValueError::Undefined(Type::Int4, Type::Int4));
    let result = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Sub => a.checked_sub(b),
        Arithmetic::Mul => a.checked_mul(b),
        Arithmetic::Div | Arithmetic::Mod if b == 0 => return Err(ValueError::DivisionByZero),
        Arithmetic::Div => a.checked_div(b),
        Arithmetic::Mod => Some(a.wrapping_rem(b)),
        Arithmetic::Power | Arithmetic::PowerSince16 | Arithmetic::Age => return none,
    };
    result.ok_or(ValueError::OutOfRange(Type::Int4))
}

/// An operator on two bigints, except `Power`.
#[inline]
pub(crate) fn int8(op: Arithmetic, a: i64, b: i64) -> Result<i64, ValueError> {
    let none = Err(ValueError::Undefined(Type::Int8, Type::Int8));
    let result = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Sub => a.checked_sub(b),
        Arithmetic::Mul => a.checked_mul(b),
        Arithmetic::Div | Arithmetic::Mod if b == 0 => return Err(ValueError::DivisionByZero),
        Arithmetic::Div => a.checked_div(b),
        Arithmetic::Mod => Some(a.wrapping_rem(b)),
        Arithmetic::Power | Arithmetic::PowerSince16 | Arithmetic::Age => return none,
    };
    result.ok_or(ValueError::OutOfRange(Type::Int8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_strtoint_does() {
        assert_eq!(parse_int4(" \t+7\n"), Ok(7));
        assert_eq!(parse_int4("-2147483648"), Ok(i32::MIN));
        assert_eq!(parse_int8("-9223372036854775808 "), Ok(i64::MIN));
        for text in [
            "",
            " ",
            "+",
            "1 2",
            "0x1",
            "1.0",
            "--1",
            "\u{a0}1",
            "2147483648x",
        ] {
            assert_eq!(
                parse_int4(text),
                Err(ValueError::Syntax(Type::Int4)),
                "{text}"
            );
        }
        for text in ["2147483648", "-2147483649", "99999999999999999999x"] {
            let error = ValueError::TextOutOfRange(Type::Int4);
            assert_eq!(parse_int4(text), Err(error), "{text}");
        }
    }

    #[test]
    fn limits_of_integers_are_errors() {
        let range = Err(ValueError::OutOfRange(Type::Int4));
        assert_eq!(int4(Arithmetic::Add, i32::MAX, 1), range);
        assert_eq!(int4(Arithmetic::Div, i32::MIN, -1), range);
        assert_eq!(int4(Arithmetic::Mod, i32::MIN, -1), Ok(0));
        assert_eq!(int4(Arithmetic::Mod, -7, 2), Ok(-1));
        assert_eq!(int4(Arithmetic::Div, 1, 0), Err(ValueError::DivisionByZero));
    }
}
