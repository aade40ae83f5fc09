//! Plain values of the encrypted types, and what PostgreSQL does with them: comparison, arithmetic,
//! text, dates, casts and aggregates, with its results, scales and errors.
//!
//! Pure: values in, values out. No keys, no cells, no clock, no locale: a collation other than C is
//! a [`Collate`] of the caller, and so is a time zone other than UTC ([`Zone`]).
//!
//! Invariants:
//! 1. An operation gives PostgreSQL's result, to the last digit of the scale, or its error
//!    ([`ValueError::sqlstate`]); what PostgreSQL does not have is [`ValueError::Undefined`] or
//!    [`ValueError::NoCast`], never something near.
//! 2. No error holds a value. [`Value`] has no `Debug` and no `Clone`; what it holds on the heap is
//!    wiped when it is dropped.
//! 3. Any bytes and any text may come in: nothing panics, and recursion does not grow with them.

#![forbid(unsafe_code)]

mod aggregate;
mod arithmetic;
mod binary;
mod cast;
mod collate;
mod compare;
mod datetime;
mod decimal;
mod error;
mod float;
mod float_hex;
mod float_text;
mod integer;
mod like;
mod limit;
mod number_format;
mod operator;
#[cfg(feature = "regex")]
mod regex;
mod regex_error;
mod rounding;
mod search;
mod text;
mod times;
mod tokens;
mod types;
mod value;

pub use aggregate::{Aggregate, AggregateKind};
pub use arithmetic::{absolute, arithmetic, between, negate};
use cast::to_double;
pub use cast::{cast, cast_in};
pub use collate::{Class, Collate, C};
pub use compare::{compare, hash_bytes, order_prefix};
#[cfg(feature = "zones")]
pub use datetime::NamedZone;
pub use datetime::{
    add_interval, date_trunc, extract, East, Field, Format, Interval, IntervalStyle, Utc, Zone,
};
pub use decimal::Decimal;
pub use error::ValueError;
pub use like::{has_prefix, like, like_escape, order_beside_prefix, order_of_prefixes, PrefixEnd};
pub use limit::{limited, Limit};
pub use number_format::NumberFormat;
pub use operator::Arithmetic;
#[cfg(feature = "regex")]
pub use regex::{similar_to_escape, Reading, Regex};
pub use regex_error::{RegexError, Untranslated};
pub use rounding::{round, Rounding};
pub use search::{position, replace, replaced_len, split_part, starts_with, trim, Ends};
pub use text::{
    concat, initcap, left, length, lower, pad, padded_len, repeat, repeated_len, reverse, right,
    substring, text_of, upper,
};
pub use times::{at_time_zone, date_part, to_char};
pub use tokens::{each_trigram, each_trigram_of_pattern, each_word, has_words};
pub use types::Type;
pub use value::Value;
