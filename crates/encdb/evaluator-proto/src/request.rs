//! Requests of a backend to its evaluator: `opcode u8`, then the fields in their order.
//!
//! The upper four bits of an opcode name the family of the request; each family has a type, and
//! reads and writes its own requests. A connection is one session: who asks is known from where the
//! request came.

mod aggregate;
mod comparison;
mod conversion;
mod each;
mod fields;
mod opcode;
mod operation;
mod session;

pub use aggregate::{AggregateRequest, Batch, Input, Inputs};
pub use comparison::{ComparisonRequest, Page, MAX_CELLS};
pub use conversion::ConversionRequest;
pub use each::{counts_of, EachRequest};
pub use operation::{OperationRequest, Unary};
pub use session::{AttachAs, SessionRequest};

use crate::wire::{Length, Malformed, Out, Reader};

/// The order of texts: `C`, or a locale of libc by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collation<'a> {
    /// Texts are ordered by code point: C, POSIX, C.UTF-8. This is also the order of all that is
    /// not text.
    C,
    /// Texts are ordered by `strcoll_l` of this locale.
    Libc(&'a str),
}

/// How a text is compared with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching<'a> {
    /// `LIKE`
    Like,
    /// `ILIKE`, with the collation of its folding.
    Ilike(Collation<'a>),
    /// `starts_with`: the pattern is a prefix.
    Prefix,
    /// `~`: the pattern is a regular expression, with the collation of its letters.
    Regex(Collation<'a>),
    /// `~*`
    RegexInsensitive(Collation<'a>),
    /// `SIMILAR TO`, with the backslash as the escape.
    Similar(Collation<'a>),
    /// `@@`: the pattern's words are among the text's, with the collation of their folding.
    Words(Collation<'a>),
}

/// The parts of a text, in lower case by the letters of a collation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts<'a> {
    /// Its words.
    Words(Collation<'a>),
    /// Its trigrams.
    Trigrams(Collation<'a>),
    /// The trigrams of all texts that match it as a pattern of `LIKE` or `ILIKE`.
    PatternTrigrams(Collation<'a>),
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// A request about the session itself.
    Session(SessionRequest<'a>),
    /// A question about the order or the equality of cells.
    Comparison(ComparisonRequest<'a>),
    /// An operator or function of cells.
    Operation(OperationRequest<'a>),
    /// A call about the state of an aggregate.
    Aggregate(AggregateRequest<'a>),
    /// A conversion between plaintext and cells, or a new key.
    Conversion(ConversionRequest<'a>),
    /// A question about many cells at once.
    Each(EachRequest<'a>),
}

impl<'a> Request<'a> {
    /// Reads a request.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let opcode = reader.u8()?;
        let request = match opcode >> 4 {
            0 => Self::Session(SessionRequest::parse(opcode, &mut reader)?),
            1 => Self::Comparison(ComparisonRequest::parse(opcode, &mut reader)?),
            2 => Self::Operation(OperationRequest::parse(opcode, &mut reader)?),
            3 => Self::Aggregate(AggregateRequest::parse(opcode, &mut reader)?),
            4 => Self::Conversion(ConversionRequest::parse(opcode, &mut reader)?),
            5 => Self::Each(EachRequest::parse(opcode, &mut reader)?),
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(request)
    }

    /// How many bytes it has.
    pub fn encoded_len(&self) -> usize {
        let mut length = Length(0);
        self.put(&mut length);
        length.0
    }

    /// Appends the bytes of the request.
    pub fn encode(&self, into: &mut Vec<u8>) {
        self.put(into);
    }

    fn put(&self, into: &mut impl Out) {
        match self {
            Self::Session(request) => request.put(into),
            Self::Comparison(request) => request.put(into),
            Self::Operation(request) => request.put(into),
            Self::Aggregate(request) => request.put(into),
            Self::Conversion(request) => request.put(into),
            Self::Each(request) => request.put(into),
        }
    }
}
