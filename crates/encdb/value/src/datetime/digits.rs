//! Numbers within the fields of a date, as C's functions read them.

use super::decode::Fault;

/// An integer at the start, as strtoint reads it (nothing if it is out of range), and what follows.
pub(super) fn integer(text: &[u8]) -> (Option<i32>, &[u8]) {
    let unsigned = match text {
        [b'+' | b'-', rest @ ..] => rest,
        _ => text,
    };
    let len = unsigned.iter().take_while(|c| c.is_ascii_digit()).count();
    if len == 0 {
        return (Some(0), text);
    }
    let (digits, rest) = unsigned.split_at(len);
    let value = saturated(digits);
    let value = if text[0] == b'-' { -value } else { value };
    (i32::try_from(value).ok(), rest)
}

/// Reads digits as a number of 64 bits without a sign, and returns it with the text behind them.
/// None if the number does not fit.
pub(super) fn wide_integer(text: &[u8]) -> Option<(i64, &[u8])> {
    let len = text.iter().take_while(|c| c.is_ascii_digit()).count();
    let value = saturated(&text[..len]);
    (value < i64::MAX).then_some((value, &text[len..]))
}

pub(super) fn narrow(value: i64) -> Result<i32, Fault> {
    i32::try_from(value).map_err(|_| Fault::Range)
}

/// Digits as a number, at most the largest.
fn saturated(digits: &[u8]) -> i64 {
    digits.iter().fold(0i64, |value, digit| {
        let digit = i64::from(digit - b'0');
        value.saturating_mul(10).saturating_add(digit)
    })
}

/// Digits as atoi reads them: the low 32 bits.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn wrapped(digits: &[u8]) -> i32 {
    saturated(digits) as i32
}

/// `.` and decimals, as a part of one.
pub(super) fn decimals(text: &[u8]) -> Result<f64, Fault> {
    if text == b"." {
        return Ok(0.0);
    }
    if !text[1..].iter().all(u8::is_ascii_digit) {
        return Err(Fault::Format);
    }
    let text = std::str::from_utf8(text).map_err(|_| Fault::Format)?;
    text.parse().map_err(|_| Fault::Format)
}

/// `.` and decimals of a second, in microseconds.
pub(super) fn fraction(text: &[u8]) -> Result<i64, Fault> {
    #[allow(clippy::cast_possible_truncation)]
    Ok((decimals(text)? * 1e6).round_ties_even() as i64)
}

/// A zone's offset in seconds west: DecodeTimezone.
pub(super) fn zone(text: &[u8]) -> Result<i32, Fault> {
    let [sign @ (b'+' | b'-'), digits @ ..] = text else {
        return Err(Fault::Format);
    };
    let (hour, rest) = integer(digits);
    let hour = hour.ok_or(Fault::Zone)?;
    let (hour, minute, second, rest) = match rest {
        [b':', after @ ..] => {
            let (minute, rest) = integer(after);
            let (second, rest) = match rest {
                [b':', after @ ..] => integer(after),
                _ => (Some(0), rest),
            };
            (
                hour,
                minute.ok_or(Fault::Zone)?,
                second.ok_or(Fault::Zone)?,
                rest,
            )
        }
        [] if text.len() > 3 => (hour / 100, hour % 100, 0, rest),
        _ => (hour, 0, 0, rest),
    };
    let fits = (0..=15).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    if !fits {
        return Err(Fault::Zone);
    }
    if !rest.is_empty() {
        return Err(Fault::Format);
    }
    let seconds = (hour * 60 + minute) * 60 + second;
    Ok(if *sign == b'-' { seconds } else { -seconds })
}
