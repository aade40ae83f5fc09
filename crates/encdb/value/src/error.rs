//! The errors of values: PostgreSQL's own, by their SQLSTATE.
//!
//! The texts are PostgreSQL's without the value that it would quote: they reach logs.

use crate::{RegexError, Type, Untranslated};

/// Why an operation on values has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The result does not fit the type.
    #[error("{} out of range", .0.name())]
    OutOfRange(Type),
    /// A float became infinite.
    #[error("value out of range: overflow")]
    Overflow,
    /// A float became zero.
    #[error("value out of range: underflow")]
    Underflow,
    /// A numeric has too many digits.
    #[error("value overflows numeric format")]
    NumericOverflow,
    /// A numeric has more digits than its column.
    #[error("numeric field overflow")]
    FieldOverflow,
    /// A text has more characters than its column.
    #[error("value too long for the column's limit of characters")]
    Truncation,
    /// Text that is a number, but too large a one.
    #[error("value is out of range for type {}", .0.name())]
    TextOutOfRange(Type),
    /// A date or time that does not exist, or is out of range.
    #[error("date/time value out of range for type {}", .0.name())]
    DatetimeRange(Type),
    /// A time zone's offset out of range.
    #[error("time zone displacement out of range")]
    ZoneRange,
    /// A time zone by name, other than UTC's.
    #[error("time zone not recognized")]
    ZoneName,
    /// Infinite dates have no distance.
    #[error("cannot subtract infinite dates")]
    InfiniteDates,
    /// Infinite timestamps have no distance.
    #[error("cannot subtract infinite timestamps")]
    InfiniteTimes,
    /// An interval with a field that does not fit.
    #[error("interval field value out of range")]
    IntervalField,
    /// Division, or a remainder, by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A power that is infinite.
    #[error("zero raised to a negative power is undefined")]
    ZeroToNegative,
    /// A power that is no real number.
    #[error("a negative number raised to a non-integer power yields a complex result")]
    NegativeToFraction,
    /// NaN has no integer.
    #[error("cannot convert NaN to {}", .0.name())]
    FromNaN(Type),
    /// Infinity has no integer.
    #[error("cannot convert infinity to {}", .0.name())]
    FromInfinity(Type),
    /// Text that is no value of the type.
    #[error("invalid input syntax for type {}", .0.name())]
    Syntax(Type),
    /// Text that is no date.
    #[error("invalid input syntax for type {}", .0.name())]
    DatetimeSyntax(Type),
    /// `\x` and then no pairs of hexadecimal digits.
    #[error("invalid hexadecimal data")]
    Hexadecimal,
    /// Bytes that are no value of the type in PostgreSQL's send format.
    #[error("incorrect binary data format of type {}", .0.name())]
    Binary(Type),
    /// Bytes that are no UTF-8, or hold a zero.
    #[error("invalid byte sequence for encoding \"UTF8\"")]
    Encoding,
    /// A pattern ends with the character that takes the meaning of the next.
    #[error("LIKE pattern must not end with escape character")]
    TrailingEscape,
    /// A pattern that is compared with a text for hours.
    #[error("the pattern takes too long to be compared with the value")]
    TooComplex,
    /// A pattern that is no regular expression.
    #[error("invalid regular expression: {0}")]
    Regex(RegexError),
    /// Names of months and days in the server's language.
    #[error("to_char of encrypted times has no names in other languages")]
    Translation,
    /// Patterns of a format that PostgreSQL refuses together.
    #[error("{0}")]
    NumberFormat(&'static str),
    /// The sign of a currency, which is the server's locale's.
    #[error("to_char of encrypted numbers has no currency sign: write it as a text in quotes")]
    Currency,
    /// NaN or infinity cannot be written with an ordinal suffix.
    #[error("the value is not a number, and has no ordinal ending")]
    Ordinal,
    /// A regular expression that only PostgreSQL has.
    #[error("regular expressions of encrypted text have no {}", .0.name())]
    Untranslated(Untranslated),
    /// A third `\"` in a pattern of `SIMILAR TO`.
    #[error("SQL regular expression may not contain more than two escape-double-quote separators")]
    SimilarQuotes,
    /// An escape that is no single character of the type.
    #[error("invalid escape string")]
    InvalidEscape,
    /// A substring's length is negative.
    #[error("negative substring length not allowed")]
    NegativeSubstring,
    /// Parts of a text have no number 0.
    #[error("field position must not be zero")]
    FieldZero,
    /// PostgreSQL knows the field, but not of this type.
    #[error("the unit is not supported for type {}", .0.name())]
    FieldUnsupported(Type),
    /// Longer than a value may be.
    #[error("the value is longer than 1 GB")]
    TooLong,
    /// PostgreSQL has no such operator for these types.
    #[error("operator does not exist for {} and {}", .0.name(), .1.name())]
    Undefined(Type, Type),
    /// PostgreSQL has no such function for this type.
    #[error("function does not exist for {}", .0.name())]
    NoFunction(Type),
    /// PostgreSQL has no such cast.
    #[error("cannot cast type {} to {}", .0.name(), .1.name())]
    NoCast(Type, Type),
    /// The state of an aggregate, as bytes, is none.
    #[error("the state of an aggregate is malformed")]
    State,
}

impl ValueError {
    /// The code that PostgreSQL gives the error.
    pub fn sqlstate(self) -> &'static str {
        match self {
            Self::OutOfRange(Type::Date | Type::Timestamp | Type::TimestampTz | Type::Interval) => {
                "22008"
            }
            Self::OutOfRange(_) | Self::TextOutOfRange(_) => "22003",
            Self::Overflow | Self::Underflow | Self::NumericOverflow => "22003",
            Self::FieldOverflow => "22003",
            Self::Truncation => "22001",
            Self::DatetimeRange(_) | Self::InfiniteDates | Self::InfiniteTimes => "22008",
            Self::IntervalField => "22015",
            Self::ZoneRange => "22009",
            Self::DivisionByZero => "22012",
            Self::ZeroToNegative | Self::NegativeToFraction => "2201F",
            Self::Syntax(_) | Self::Ordinal => "22P02",
            Self::NumberFormat(_) => "42601",
            Self::DatetimeSyntax(_) => "22007",
            Self::Hexadecimal | Self::ZoneName | Self::FieldZero => "22023",
            Self::Binary(_) | Self::State => "22P03",
            Self::Encoding => "22021",
            Self::TrailingEscape | Self::InvalidEscape => "22025",
            Self::NegativeSubstring => "22011",
            Self::Regex(_) => "2201B",
            Self::SimilarQuotes => "2200C",
            Self::Untranslated(_) | Self::Translation | Self::Currency => "0A000",
            Self::FromNaN(_) | Self::FromInfinity(_) | Self::FieldUnsupported(_) => "0A000",
            Self::TooLong => "54000",
            Self::TooComplex => "54001",
            Self::Undefined(..) | Self::NoFunction(_) => "42883",
            Self::NoCast(..) => "42846",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_sentences_are_postgresqls() {
        let cases = [
            (
                ValueError::OutOfRange(Type::Int4),
                "22003",
                "integer out of range",
            ),
            (
                ValueError::OutOfRange(Type::Date),
                "22008",
                "date out of range",
            ),
            (ValueError::DivisionByZero, "22012", "division by zero"),
            (
                ValueError::NoCast(Type::Bool, Type::Date),
                "42846",
                "cannot cast type boolean to date",
            ),
        ];
        for (error, state, text) in cases {
            assert_eq!(
                (error.sqlstate(), error.to_string()),
                (state, text.to_owned())
            );
        }
    }
}
