//! Hexadecimal floats, `0x1.8p3`, which strtod reads and therefore PostgreSQL. Rounded once, halves
//! to the even neighbour.

/// A number `mantissa * 2^exponent`; `more` if something above zero was left out below it.
pub(crate) struct Hex {
    mantissa: u64,
    exponent: i64,
    more: bool,
    /// Bytes of text that it took
    pub(crate) len: usize,
}

/// The bits of a float's type: of a mantissa, and the exponent of the smallest one.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    pub(crate) precision: i64,
    pub(crate) least: i64,
}

/// Reads an unsigned number at the start; nothing if there is none.
pub(crate) fn parse(text: &str) -> Option<Hex> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"))?;
    let mut hex = Hex {
        mantissa: 0,
        exponent: 0,
        more: false,
        len: 2,
    };
    let (mut point, mut any) = (false, false);
    for c in digits.chars() {
        match (c.to_digit(16), c) {
            (Some(digit), _) => {
                any = true;
                hex.push(u64::from(digit), point);
            }
            (None, '.') if !point => point = true,
            _ => break,
        }
        hex.len += 1;
    }
    if let Some((exponent, len)) = text[hex.len..].strip_prefix(['p', 'P']).and_then(power) {
        hex.exponent = hex.exponent.saturating_add(exponent);
        hex.len += 1 + len;
    }
    any.then_some(hex)
}

/// The exponent behind a `p`, and its length.
fn power(text: &str) -> Option<(i64, usize)> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let rest = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &unsigned[..unsigned.len() - rest.len()];
    if digits.is_empty() {
        return None;
    }
    // Larger ones are out of every range too.
    let value = digits
        .parse()
        .map_or(1 << 40, |value: i64| value.min(1 << 40));
    let value = if text.starts_with('-') { -value } else { value };
    Some((value, text.len() - rest.len()))
}

impl Hex {
    fn push(&mut self, digit: u64, behind_point: bool) {
        if self.mantissa >> 60 == 0 {
            self.mantissa = self.mantissa << 4 | digit;
            self.exponent -= i64::from(behind_point) * 4;
        } else {
            self.more |= digit != 0;
            self.exponent += i64::from(!behind_point) * 4;
        }
    }

    /// Is it above zero?
    pub(crate) fn is_nonzero(&self) -> bool {
        self.mantissa != 0
    }

    /// The nearest float of a format: infinite if there is none, zero if that is nearer.
    pub(crate) fn round(&self, format: Format) -> f64 {
        let bits = 64 - i64::from(self.mantissa.leading_zeros());
        let least = (self.exponent + bits - format.precision).max(format.least);
        let cut = least - self.exponent;
        let (mut mantissa, mut exponent) = match u32::try_from(cut.clamp(-1, 65)) {
            // Fewer bits than the format has: then none was left out either.
            Err(_) => (self.mantissa, self.exponent),
            Ok(65) => (0, least),
            Ok(cut) => (rounded(self.mantissa, cut, self.more), least),
        };
        while mantissa > 1 && mantissa % 2 == 0 {
            mantissa /= 2;
            exponent += 1;
        }
        #[allow(clippy::cast_precision_loss)] // no more bits than the format has
        let mantissa = mantissa as f64;
        match i32::try_from(exponent) {
            Ok(exponent @ -1074..=1023) => {
                let half = exponent / 2;
                mantissa * 2f64.powi(half) * 2f64.powi(exponent - half)
            }
            _ if mantissa == 0.0 => 0.0,
            _ => f64::INFINITY,
        }
    }
}

/// `mantissa / 2^cut`
fn rounded(mantissa: u64, cut: u32, more: bool) -> u64 {
    let wide = u128::from(mantissa);
    let whole = wide >> cut;
    let rest = wide - (whole << cut);
    let half = (1u128 << cut) / 2;
    let up = rest > half || rest == half && cut > 0 && (more || whole % 2 == 1);
    u64::try_from(whole).unwrap_or(u64::MAX) + u64::from(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOUBLE: Format = Format {
        precision: 53,
        least: -1074,
    };

    #[test]
    fn numbers_are_rounded_once() {
        let cases = [
            ("0x10", 16.0),
            ("0X1.8p3", 12.0),
            ("0x.8p-1", 0.25),
            ("0x1p-1074", 5e-324),
            ("0x1p-1075", 0.0),
            ("0x1.8p-1075", 5e-324),
            ("0x1.00000000000008p0", 1.0),
            (
                "0x1.000000000000080000000000000000001p0",
                1.000_000_000_000_000_2,
            ),
            ("0x1.fffffffffffff8p1023", f64::INFINITY),
            ("0x1p99999999999999999999", f64::INFINITY),
            ("0x0p99999999999999999999", 0.0),
            ("0x1p-99999999999999999999", 0.0),
        ];
        for (text, value) in cases {
            let hex = parse(text).map(|hex| (hex.round(DOUBLE), hex.len));
            assert_eq!(hex, Some((value, text.len())), "{text}");
        }
        assert!(parse("0x").is_none() && parse("0x.p1").is_none());
        assert_eq!(parse("0x1p").map(|hex| hex.len), Some(3));
    }
}
