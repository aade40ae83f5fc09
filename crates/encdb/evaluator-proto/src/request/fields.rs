//! Fields that requests of several families have.

use pgseal_cell::Type;

use super::Collation;
use crate::wire::{put_bytes, Malformed, Out, Reader};

/// Writes `length u32 | name`; the empty name is C.
pub(super) fn put_collation(into: &mut impl Out, collation: Collation<'_>) {
    let name = match collation {
        Collation::C => "",
        Collation::Libc(name) => name,
    };
    put_bytes(into, name.as_bytes());
}

#[inline]
pub(super) fn collation<'a>(reader: &mut Reader<'a>) -> Result<Collation<'a>, Malformed> {
    Ok(match reader.text()? {
        "" => Collation::C,
        name => Collation::Libc(name),
    })
}

/// Reads a value that is there or has the one spelling of its absence.
pub(super) fn optional<T: PartialEq>(
    there: bool,
    value: T,
    absent: T,
) -> Result<Option<T>, Malformed> {
    match there {
        true => Ok(Some(value)),
        false if value == absent => Ok(None),
        false => Err(Malformed),
    }
}

pub(super) fn ty(byte: u8) -> Result<Type, Malformed> {
    Type::from_byte(byte).ok_or(Malformed)
}

/// Finds the variant that has this number.
pub(super) fn numbered<T: Copy>(byte: u8, all: &[T], number: fn(T) -> u8) -> Result<T, Malformed> {
    let found = all.iter().copied().find(|each| number(*each) == byte);
    found.ok_or(Malformed)
}
