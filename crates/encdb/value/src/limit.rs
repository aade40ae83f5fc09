//! Limits of columns: `varchar(n)` and `numeric(precision, scale)`.

use crate::{Value, ValueError};

/// The limit of a column or of a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `varchar(n)`
    Characters {
        /// The number of characters
        most: i32,
        /// Whether a longer text is cut, as by an explicit cast. Assignments cut spaces only.
        cuts: bool,
    },
    /// `numeric(precision, scale)`
    Digits {
        /// The number of digits
        precision: i32,
        /// The number of them behind the point; negative before it
        scale: i32,
    },
}

/// Returns the value as a column with this limit holds it; none if it is within the limit as it is.
/// The rules are those of `varchar()` and `numeric()`, PostgreSQL's functions for assignments. A
/// value of another type has no such function.
pub fn limited(limit: Limit, value: &Value) -> Result<Option<Value>, ValueError> {
    match (limit, value) {
        (Limit::Characters { most, cuts }, Value::Text(text)) => {
            let kept = characters(text, most, cuts)?;
            Ok(kept.map(|kept| Value::Text(kept.to_owned())))
        }
        (Limit::Digits { precision, scale }, Value::Decimal(number)) => {
            let kept = number.limited(precision, scale)?;
            Ok((!kept.is_written_as(number)).then_some(Value::Decimal(kept)))
        }
        _ => Err(ValueError::NoFunction(value.ty())),
    }
}

/// Returns the begin of a text that is longer; none if it is not.
fn characters(text: &str, most: i32, cuts: bool) -> Result<Option<&str>, ValueError> {
    let most = usize::try_from(most).unwrap_or_default();
    let Some((end, _)) = text.char_indices().nth(most) else {
        return Ok(None);
    };
    let (kept, rest) = text.split_at(end);
    match cuts || rest.bytes().all(|byte| byte == b' ') {
        true => Ok(Some(kept)),
        false => Err(ValueError::Truncation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Type;

    fn of(limit: Limit, ty: Type, text: &str) -> Result<Option<String>, ValueError> {
        let value = Value::parse(ty, text)?;
        Ok(limited(limit, &value)?.map(|it| it.to_text()))
    }

    #[test]
    fn texts_are_cut_by_casts_and_lose_spaces_by_assignments() {
        let of = |most, cuts, text: &str| of(Limit::Characters { most, cuts }, Type::Text, text);
        for cuts in [false, true] {
            assert_eq!(of(3, cuts, "abc"), Ok(None));
            assert_eq!(of(3, cuts, ""), Ok(None));
            assert_eq!(of(3, cuts, "\u{e4}\u{1f600}c"), Ok(None));
            assert_eq!(of(3, cuts, "a    "), Ok(Some("a  ".to_owned())));
        }
        assert_eq!(of(3, true, "\u{e4}bcd"), Ok(Some("\u{e4}bc".to_owned())));
        for text in ["abcd", "abc d", "abc\t"] {
            assert_eq!(of(3, false, text), Err(ValueError::Truncation), "{text}");
        }
    }

    #[test]
    fn numbers_are_rounded_and_have_the_decimals_of_the_column() {
        let of = |precision, scale, text: &str| {
            of(Limit::Digits { precision, scale }, Type::Decimal, text)
        };
        for (precision, scale, text, expected) in [
            (4, 2, "1.50", None),
            (4, 2, "NaN", None),
            (4, 2, "1.5", Some("1.50")),
            (4, 2, "1.500", Some("1.50")),
            (4, 2, "99.994", Some("99.99")),
            (4, 2, "-0.005", Some("-0.01")),
            (2, -3, "12345", Some("12000")),
            (2, -3, "99499", Some("99000")),
            (3, 5, "0.001234", Some("0.00123")),
            (4, 0, "0.4", Some("0")),
        ] {
            let expected = Ok(expected.map(str::to_owned));
            assert_eq!(of(precision, scale, text), expected, "{text}");
        }
        for (precision, scale, text) in [
            (4, 2, "99.995"),
            (4, 2, "Infinity"),
            (4, 2, "-100"),
            (2, -3, "99500"),
            (3, 5, "0.01"),
        ] {
            assert_eq!(of(precision, scale, text), Err(ValueError::FieldOverflow));
        }
    }

    #[test]
    fn other_types_have_no_limits() {
        let limit = Limit::Digits {
            precision: 1,
            scale: 0,
        };
        let refused = Err(ValueError::NoFunction(Type::Int4));
        assert_eq!(of(limit, Type::Int4, "1"), refused);
    }
}
