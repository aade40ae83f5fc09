//! The digits that a value has in a format, before they come to their places.

use zeroize::Zeroizing;

use super::Form;
use crate::{arithmetic, cast, round, Arithmetic, Rounding, Type, Value, ValueError};

/// Digits that a float and a double have for certain.
const FLOAT_DIGITS: usize = 6;
const DOUBLE_DIGITS: usize = 15;
/// The longest Roman numeral has so many letters, and what has none so many `#`.
const ROMAN_LEN: usize = 15;

/// A number that is not in its places yet.
pub(super) struct Digits {
    /// Without a sign, unless it has an exponent
    pub text: Zeroizing<String>,
    /// The places before the first digit that the format has and the number does not
    pub spaces: usize,
    /// `-` or `+`; 0 for a Roman numeral
    pub sign: u8,
}

/// Returns the digits of a number. Those of a shifted one are more, and those of a float may be
/// fewer than the format says, which is changed then.
pub(super) fn of(value: &Value, form: &mut Form) -> Result<Digits, ValueError> {
    if !value.ty().is_number() {
        return Err(ValueError::NoFunction(value.ty()));
    }
    let alone = |text| Digits {
        text: Zeroizing::new(text),
        spaces: 0,
        sign: 0,
    };
    if form.has.roman {
        return Ok(alone(roman(value)?));
    }
    if form.has.exponent {
        return Ok(alone(with_exponent(value, form)));
    }
    let text = Zeroizing::new(match value {
        Value::Int4(value) => integer(shifted_int4(*value, form)?.to_string(), form),
        Value::Int8(value) => integer(shifted_int8(*value, form)?.to_string(), form),
        Value::Float4(value) => {
            let power = if form.has.shift {
                power_of_ten(form)
            } else {
                1.0
            };
            let value = match cast(&Value::Float8(power), Type::Float4) {
                Ok(Value::Float4(power)) => *value * power,
                // A power that is no float is infinite.
                _ => *value * f32::INFINITY,
            };
            float(f64::from(value), FLOAT_DIGITS, form)
        }
        Value::Float8(value) => {
            let power = if form.has.shift {
                power_of_ten(form)
            } else {
                1.0
            };
            float(*value * power, DOUBLE_DIGITS, form)
        }
        _ => decimal(value, form)?,
    });
    if form.has.shift {
        form.before += form.shifted;
    }
    Ok(in_form(&text, form))
}

/// Ten to the power of the digits behind `V`.
fn power_of_ten(form: &Form) -> f64 {
    i32::try_from(form.shifted).map_or(f64::INFINITY, |digits| 10_f64.powf(f64::from(digits)))
}

fn shifted_int4(value: i32, form: &Form) -> Result<i32, ValueError> {
    let shifted = shifted_int8(i64::from(value), form).ok();
    let is_power = !form.has.shift || form.shifted < 10;
    let shifted = shifted.filter(|_| is_power).map(i32::try_from);
    match shifted {
        Some(Ok(shifted)) => Ok(shifted),
        _ => Err(ValueError::OutOfRange(Type::Int4)),
    }
}

fn shifted_int8(value: i64, form: &Form) -> Result<i64, ValueError> {
    if !form.has.shift {
        return Ok(value);
    }
    let power = u32::try_from(form.shifted).ok();
    let power = power.and_then(|digits| 10_i64.checked_pow(digits));
    let product = power.and_then(|power| value.checked_mul(power));
    product.ok_or(ValueError::OutOfRange(Type::Int8))
}

/// Adds the zeros behind the point that the format has.
fn integer(mut text: String, form: &Form) -> String {
    if form.behind > 0 {
        text.push('.');
        text.extend(std::iter::repeat_n('0', form.behind));
    }
    text
}

/// Returns the digits of a float, and leaves the format no more places than it has for certain.
fn float(value: f64, certain: usize, form: &mut Form) -> String {
    let whole = Zeroizing::new(in_words(value.abs(), 0)).len();
    form.behind = match certain.checked_sub(whole) {
        None | Some(0) => 0,
        Some(left) => form.behind.min(left),
    };
    in_words(value, form.behind)
}

/// Returns a float with so many decimals, or PostgreSQL's word for it.
fn in_words(value: f64, decimals: usize) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => format!("{value:.decimals$}"),
    }
}

fn decimal(value: &Value, form: &Form) -> Result<String, ValueError> {
    let decimals = Rounding::Round(i32::try_from(form.behind).unwrap_or(i32::MAX));
    let rounded = match form.has.shift {
        true => {
            let power = format!("1{}", "0".repeat(form.shifted));
            let power = Value::parse(Type::Decimal, &power)?;
            round(decimals, &arithmetic(Arithmetic::Mul, value, &power)?)?
        }
        false => round(decimals, value)?,
    };
    Ok(rounded.to_text())
}

/// Takes the sign off. A number with more digits before the point than the format becomes a row of
/// `#`.
fn in_form(text: &str, form: &Form) -> Digits {
    let (text, sign) = match text.strip_prefix('-') {
        Some(text) => (text, b'-'),
        None => (text, b'+'),
    };
    let whole = text.find('.').unwrap_or(text.len());
    Digits {
        text: Zeroizing::new(match whole > form.before {
            true => format!("{}.{}", "#".repeat(form.before), "#".repeat(form.behind)),
            false => text.to_owned(),
        }),
        spaces: form.before.saturating_sub(whole),
        sign,
    }
}

/// Returns a number with an exponent, behind a space or a minus.
fn with_exponent(value: &Value, form: &Form) -> String {
    let text = match value {
        Value::Int4(value) => scientific(f64::from(*value), form),
        Value::Float4(value) => scientific(f64::from(*value), form),
        Value::Float8(value) => scientific(*value, form),
        _ => scientific_decimal(&Zeroizing::new(value.to_text()), form),
    };
    let text = text.unwrap_or_else(|| {
        let (before, behind) = ("#".repeat(form.before), "#".repeat(form.behind + 4));
        format!(" {before}.{behind}")
    });
    match text.starts_with(['-', ' ']) {
        true => text,
        false => format!(" {text}"),
    }
}

/// None for what is not finite.
fn scientific(value: f64, form: &Form) -> Option<String> {
    let decimals = form.behind;
    let text = value.is_finite().then(|| format!("{value:.decimals$e}"))?;
    let (digits, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    Some(format!("{digits}e{exponent:+03}"))
}

/// Returns a numeric with an exponent, by its text. A first digit that is rounded up to ten stays
/// ten, as in PostgreSQL.
fn scientific_decimal(text: &str, form: &Form) -> Option<String> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => ("-", text),
        None => ("", text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = Zeroizing::new([whole.as_bytes(), fraction.as_bytes()].concat());
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let first = digits.iter().position(|digit| *digit != b'0');
    let exponent = match first {
        Some(first) => i64::try_from(whole.len()).ok()? - i64::try_from(first).ok()? - 1,
        None => 0,
    };
    let mut shown: Vec<u8> = digits[first.unwrap_or(digits.len())..].to_vec();
    let rounds_up = shown.get(form.behind + 1).is_some_and(|next| *next >= b'5');
    shown.resize(form.behind + 1, b'0');
    if rounds_up {
        round_up(&mut shown);
    }
    let shown = Zeroizing::new(String::from_utf8(shown).ok()?);
    let (whole, fraction) = shown.split_at(shown.len() - form.behind);
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}e{exponent:+03}"))
}

/// Adds one to the last digit.
fn round_up(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit != b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

/// Returns the Roman numeral of a number that is rounded to an integer.
fn roman(value: &Value) -> Result<String, ValueError> {
    let number = match value {
        Value::Int4(_) | Value::Int8(_) => cast(value, Type::Int4)?,
        Value::Decimal(_) => cast(&round(Rounding::Round(0), value)?, Type::Int4)?,
        // What is no integer has no numeral.
        _ => {
            let rounded = round(Rounding::Round(0), value)?;
            cast(&rounded, Type::Int4).unwrap_or(Value::Int4(i32::MIN))
        }
    };
    let Value::Int4(number @ 1..=3999) = number else {
        return Ok("#".repeat(ROMAN_LEN));
    };
    let (mut left, mut numeral) = (number, String::new());
    for (worth, letters) in ROMAN {
        while left >= worth {
            numeral.push_str(letters);
            left -= worth;
        }
    }
    Ok(numeral)
}

const ROMAN: [(i32, &str); 13] = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
];
