//! Floats as text: strtod's grammar, and the shortest digits that lead back to the float.
//!
//! PostgreSQL's shortest digits lie strictly between the midpoints to the neighbours; Rust's may
//! lie on one. [`Shortest`] asks Rust and looks.

use std::str::FromStr;

use zeroize::Zeroizing;

use crate::float_hex::{self, Format, Hex};
use crate::integer::is_space;
use crate::{Type, ValueError};

/// Reads a real.
pub(crate) fn parse_float4(text: &str) -> Result<f32, ValueError> {
    let format = Format {
        precision: 24,
        least: -149,
    };
    let parsed = parse(text, Type::Float4, |hex| {
        #[allow(clippy::cast_possible_truncation)] // it is a real already, or above all
        let value = hex.round(format) as f32;
        value
    })?;
    in_range(parsed, f32::is_infinite, Type::Float4)
}

/// Reads a double precision.
pub(crate) fn parse_float8(text: &str) -> Result<f64, ValueError> {
    let format = Format {
        precision: 53,
        least: -1074,
    };
    let parsed = parse(text, Type::Float8, |hex| hex.round(format))?;
    in_range(parsed, f64::is_infinite, Type::Float8)
}

/// The result of reading a text: a name, or digits. For digits `nonzero` says whether one of them
/// is not 0.
struct Parsed<F> {
    value: F,
    nonzero: Option<bool>,
    junk: bool,
}

fn in_range<F: PartialEq + Default + Copy>(
    parsed: Parsed<F>,
    is_infinite: fn(F) -> bool,
    ty: Type,
) -> Result<F, ValueError> {
    if let Some(nonzero) = parsed.nonzero {
        if is_infinite(parsed.value) || nonzero && parsed.value == F::default() {
            return Err(ValueError::TextOutOfRange(ty));
        }
    }
    if parsed.junk {
        return Err(ValueError::Syntax(ty));
    }
    Ok(parsed.value)
}

fn parse<F>(text: &str, ty: Type, round: impl Fn(&Hex) -> F) -> Result<Parsed<F>, ValueError>
where
    F: FromStr + std::ops::Neg<Output = F>,
{
    let syntax = ValueError::Syntax(ty);
    let text = text.trim_start_matches(is_space);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (value, nonzero, len) = if let Some(len) = name_len(unsigned) {
        // What is in parentheses behind NaN means nothing.
        let word = &unsigned[..len];
        let word = word.split('(').next().unwrap_or(word);
        (word.parse().map_err(|_| syntax)?, None, len)
    } else if let Some(hex) = float_hex::parse(unsigned) {
        (round(&hex), Some(hex.is_nonzero()), hex.len)
    } else {
        let len = number_len(unsigned).ok_or(syntax)?;
        let word = &unsigned[..len];
        let mantissa = word.split(['e', 'E']).next().unwrap_or_default();
        let nonzero = mantissa.contains(|c: char| matches!(c, '1'..='9'));
        (word.parse().map_err(|_| syntax)?, Some(nonzero), len)
    };
    Ok(Parsed {
        value: if text.starts_with('-') { -value } else { value },
        nonzero,
        junk: !unsigned[len..].trim_start_matches(is_space).is_empty(),
    })
}

/// The length of `nan`, `nan(…)`, `inf` or `infinity` at the start.
fn name_len(text: &str) -> Option<usize> {
    let begins = |name: &str| {
        let start = text.as_bytes().get(..name.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
    };
    if begins("nan") {
        let inner = text[3..].strip_prefix('(');
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let rest = inner.map(|inner| inner.trim_start_matches(is_word));
        let payload = rest.and_then(|rest| rest.strip_prefix(')'));
        return Some(payload.map_or(3, |rest| text.len() - rest.len()));
    }
    let names = ["infinity", "inf"];
    names.into_iter().find(|name| begins(name)).map(str::len)
}

/// The length of a decimal number at the start; an `e` without digits does not belong to it.
fn number_len(text: &str) -> Option<usize> {
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let whole = digits(text);
    let fraction = text[whole..].strip_prefix('.').map(digits);
    if whole + fraction.unwrap_or(0) == 0 {
        return None;
    }
    let len = whole + fraction.map_or(0, |len| len + 1);
    let Some(exponent) = text[len..].strip_prefix(['e', 'E']) else {
        return Some(len);
    };
    let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    Some(match digits(unsigned) {
        0 => len,
        count => len + 1 + (exponent.len() - unsigned.len()) + count,
    })
}

/// A real as PostgreSQL prints it.
pub(crate) fn print_float4(value: f32) -> String {
    print(value, value.is_nan(), f32::INFINITY, 6, 8_388_608.0)
}

/// A double precision as PostgreSQL prints it.
pub(crate) fn print_float8(value: f64) -> String {
    print(
        value,
        value.is_nan(),
        f64::INFINITY,
        15,
        2_251_799_813_685_248.0,
    )
}

/// A float that can be printed.
pub(crate) trait Shortest:
    Copy + PartialOrd + FromStr + std::fmt::LowerExp + Default
{
}

impl Shortest for f32 {}
impl Shortest for f64 {}

/// `places`: from this exponent on, as `d.ddde+XX`; `whole`: below it a midpoint between neighbours
/// has more digits than are ever printed.
fn print<F>(value: F, nan: bool, infinity: F, places: i32, whole: F) -> String
where
    F: Shortest + std::ops::Neg<Output = F>,
{
    if nan {
        return "NaN".to_owned();
    }
    let text = Zeroizing::new(format!("{value:e}"));
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.as_str()),
    };
    let magnitude = if value < F::default() { -value } else { value };
    if magnitude == infinity {
        return format!("{sign}Infinity");
    }
    let (mut number, mut scale) = split(text);
    if magnitude >= whole && !is_inside(magnitude, number, scale) {
        (number, scale) = nearest_inside(magnitude, text);
    }
    if is_tie(magnitude, number, scale) && is_inside(magnitude, number - 1, scale) {
        number -= 1;
    }
    let digits = Zeroizing::new(number.to_string());
    let places_left = i32::try_from(digits.len()).unwrap_or(0) - 1;
    layout(sign, &digits, scale + places_left, places)
}

/// `d.ddde5` as a number and the power of ten that it is multiplied with.
fn split(text: &str) -> (u64, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let fraction = mantissa.split_once('.').map_or(0, |(_, rest)| rest.len());
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let number = mantissa.replace('.', "").parse().unwrap_or(0);
    (number, exponent - i32::try_from(fraction).unwrap_or(0))
}

/// Do these digits, and what is next to them, lead back to the float? On a midpoint one side does
/// not.
fn is_inside<F: Shortest>(value: F, number: u64, scale: i32) -> bool {
    let above = format!("{number}{:0>60}e{}", 1, scale - 60);
    let below = format!("{}{:9>60}e{}", number.saturating_sub(1), 9, scale - 60);
    let leads_back = |text: &str| text.parse::<F>().is_ok_and(|read| read == value);
    leads_back(&above) && leads_back(&below)
}

/// Is the float in the middle between an odd number and the even one below it?
fn is_tie<F: Shortest>(value: F, number: u64, scale: i32) -> bool {
    if number % 2 == 0 {
        return false;
    }
    let digits = format!("{}5", number - 1);
    let near = format!("{digits}e{}", scale - 1).parse::<F>();
    if near.is_ok_and(|read| read != value) {
        return false;
    }
    // No float has more digits than this.
    let exact = format!("{value:.800e}").replace('.', "");
    let exact = exact.split('e').next().unwrap_or_default();
    exact.trim_end_matches('0') == digits
}

/// The shortest digits strictly inside, and of those the nearest, by trial; `text` is as short as
/// those on the edge are.
fn nearest_inside<F: Shortest>(value: F, text: &str) -> (u64, i32) {
    let fraction = |text: &str| text.split_once('.').map_or(0, |(_, rest)| rest.len());
    let shortest = fraction(text.split('e').next().unwrap_or(text));
    for len in shortest..16 {
        let (number, scale) = split(&format!("{value:.len$e}"));
        // The nearest; then its neighbours, of which at most one is inside if the nearest is not.
        for candidate in [number, number + 1, number.saturating_sub(1)] {
            if is_inside(value, candidate, scale) {
                return (candidate, scale);
            }
        }
    }
    split(&format!("{value:.16e}"))
}

/// Digits and exponent in fixed or scientific form.
fn layout(sign: &str, digits: &str, exponent: i32, places: i32) -> String {
    let len = digits.len();
    if !(-4..places).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let direction = if exponent < 0 { '-' } else { '+' };
        return format!(
            "{sign}{first}{point}{rest}e{direction}{:02}",
            exponent.abs()
        );
    }
    let Ok(whole @ 1..) = usize::try_from(exponent + 1) else {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        return format!("{sign}0.{:0<zeros$}{digits}", "");
    };
    if whole >= len {
        format!("{sign}{digits:0<whole$}")
    } else {
        format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_printed_as_postgresql_does() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            // On a midpoint to a neighbour, where others print 1e+23.
            (1e23, "9.999999999999999e+22"),
            // As near to 1443630503476278.3, which others print.
            (1_443_630_503_476_278.2, "1.4436305034762782e+15"),
            (9_007_199_254_740_992.0, "9.007199254740992e+15"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (value, text) in cases {
            assert_eq!(print_float8(value), text);
        }
        assert_eq!(print_float4(1e6), "1e+06");
        assert_eq!(print_float4(123_456.0), "123456");
        assert_eq!(print_float4(0.1), "0.1");
        assert_eq!(print_float4(f32::MAX), "3.4028235e+38");
    }

    #[test]
    fn texts_are_read_as_strtod_does() {
        let good = [
            (" 1.5\n", 1.5),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("-1E3", -1000.0),
            ("0e-999", 0.0),
            ("iNf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("4e-324", 5e-324),
        ];
        for (text, value) in good {
            assert_eq!(parse_float8(text), Ok(value), "{text}");
        }
        assert!(parse_float8("nan(x1)").is_ok_and(f64::is_nan));
        for text in [
            "", " ", ".", "e5", "1e", "1 1", "infinit", "nan(", "+-1", "1_0",
        ] {
            assert_eq!(
                parse_float8(text),
                Err(ValueError::Syntax(Type::Float8)),
                "{text}"
            );
        }
        for text in ["1e309", "-1e-400", "1e400x"] {
            let error = Err(ValueError::TextOutOfRange(Type::Float8));
            assert_eq!(parse_float8(text), error, "{text}");
        }
        assert_eq!(
            parse_float4("1e39"),
            Err(ValueError::TextOutOfRange(Type::Float4))
        );
    }
}
