//! Operands that are compared with cells and are none: plain values that the server has, and the
//! ends of the range of texts that begin as a pattern does.
//!
//! The bytes are `0 | type u8 | 0xf0 | the value in PostgreSQL's binary format`, in the place of a
//! cell's, or `0 | 0x39 | 0xf1 | the cell of a pattern` for the low end, and 0xf2 for the high one.
//! The third byte of a cell has its version in the upper half, and none has version 15. So what
//! takes cells alone refuses these as cells of an unknown version.

use pgseal_cell::Type;
use pgseal_value::{PrefixEnd, Value};

use crate::Refusal;

/// The bytes before the value.
const HEADER: usize = 3;
/// The third byte.
const FORM: u8 = 0xf0;

/// A plain operand. Its bytes are as the server gave them, and may be no value of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    ty: u8,
    value: &'a [u8],
}

impl<'a> Plain<'a> {
    /// Reads an operand; none if it is to be a cell.
    #[inline]
    pub fn parse(operand: &'a [u8]) -> Option<Self> {
        match operand {
            [0, ty, FORM, value @ ..] => Some(Self { ty: *ty, value }),
            _ => None,
        }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// [`Refusal::WrongType`] of an unknown type; the value's own refusal if the bytes are none.
    pub fn value(self) -> Result<Value, Refusal> {
        let ty = Type::from_byte(self.ty).ok_or(Refusal::WrongType)?;
        Ok(Value::decode(ty, self.value)?)
    }

    /// Returns the operand that a value is.
    pub fn of(value: &Value) -> Vec<u8> {
        let mut operand = Vec::with_capacity(HEADER + 16);
        operand.extend([0, value.ty() as u8, FORM]);
        value.encode(&mut operand);
        operand
    }
}

/// The third byte of either end of a prefix.
const LOW_FORM: u8 = 0xf1;
const HIGH_FORM: u8 = 0xf2;

/// An end of the range of texts that begin as a pattern of LIKE does: what a search in an index
/// looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix<'a> {
    /// The end.
    pub end: PrefixEnd,
    /// The cell of the pattern.
    pub pattern: &'a [u8],
}

impl<'a> Prefix<'a> {
    const TYPE: u8 = Type::Text as u8;

    /// Reads an operand; none if it is to be a cell.
    #[inline]
    pub fn parse(operand: &'a [u8]) -> Option<Self> {
        let (end, pattern) = match operand {
            [0, Self::TYPE, LOW_FORM, pattern @ ..] => (PrefixEnd::Low, pattern),
            [0, Self::TYPE, HIGH_FORM, pattern @ ..] => (PrefixEnd::High, pattern),
            _ => return None,
        };
        Some(Self { end, pattern })
    }

    /// Returns the operand of a pattern.
    pub fn of(pattern: &[u8], end: PrefixEnd) -> Vec<u8> {
        let form = match end {
            PrefixEnd::Low => LOW_FORM,
            PrefixEnd::High => HIGH_FORM,
        };
        [&[0, Self::TYPE, form], pattern].concat()
    }
}

#[cfg(test)]
mod tests {
    use pgseal_cell::{CellError, CellRef};

    use super::*;

    #[test]
    fn a_plain_operand_is_read_and_is_no_cell() {
        for value in [
            Value::Int4(7),
            Value::Text("ada".into()),
            Value::Bool(true),
            Value::Text("x".repeat(5000)),
        ] {
            let operand = Plain::of(&value);
            let read = Plain::parse(&operand).map(Plain::value);
            assert!(read.is_some_and(|read| read.is_ok_and(|it| it.ty() == value.ty())));
            assert_eq!(CellRef::parse(&operand), Err(CellError::UnknownVersion));
        }
        for cell in [&[][..], &[0, 9], &[1, 9, FORM, 0], &[0, 9, 0x11, 0]] {
            assert_eq!(Plain::parse(cell), None, "{cell:?}");
        }
    }

    #[test]
    fn the_end_of_a_prefix_is_neither_a_cell_nor_a_plain_value() {
        for end in [PrefixEnd::Low, PrefixEnd::High] {
            let (operand, pattern) = (Prefix::of(b"cell", end), b"cell");
            assert_eq!(Prefix::parse(&operand), Some(Prefix { end, pattern }));
            assert_eq!(CellRef::parse(&operand), Err(CellError::UnknownVersion));
            assert_eq!(Plain::parse(&operand), None);
        }
        let plain = Plain::of(&Value::Text("cell".into()));
        assert_eq!(Prefix::parse(&plain), None);
    }

    #[test]
    fn bytes_that_are_no_value_are_refused() {
        let unknown = Plain::parse(&[0, 0, FORM]).map(Plain::value);
        assert!(matches!(unknown, Some(Err(Refusal::WrongType))));
        for ty in Type::ALL {
            let operand = [0, ty as u8, FORM, 0xff, 0xfe, 0xff];
            let read = Plain::parse(&operand).map(Plain::value);
            assert!(
                ty == Type::Bytea || read.is_some_and(|read| read.is_err()),
                "{ty:?}"
            );
        }
    }
}
