//! Fields that requests of several families have.

use pgseal_cell::Type;

use super::{Collation, Matching, Parts};
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

/// Writes `kind u8`, and the collation, which is C where no letters are asked for.
pub(super) fn put_matching(into: &mut impl Out, matching: Matching<'_>) {
    let (kind, collation) = match matching {
        Matching::Like => (0, Collation::C),
        Matching::Ilike(collation) => (1, collation),
        Matching::Prefix => (2, Collation::C),
        Matching::Regex(collation) => (3, collation),
        Matching::RegexInsensitive(collation) => (4, collation),
        Matching::Similar(collation) => (5, collation),
        Matching::Words(collation) => (6, collation),
    };
    into.push(kind);
    put_collation(into, collation);
}

pub(super) fn matching<'a>(reader: &mut Reader<'a>) -> Result<Matching<'a>, Malformed> {
    match (reader.u8()?, collation(reader)?) {
        (0, Collation::C) => Ok(Matching::Like),
        (1, collation) => Ok(Matching::Ilike(collation)),
        (2, Collation::C) => Ok(Matching::Prefix),
        (3, collation) => Ok(Matching::Regex(collation)),
        (4, collation) => Ok(Matching::RegexInsensitive(collation)),
        (5, collation) => Ok(Matching::Similar(collation)),
        (6, collation) => Ok(Matching::Words(collation)),
        _ => Err(Malformed),
    }
}

/// Writes `kind u8`, and the collation.
pub(super) fn put_parts(into: &mut impl Out, parts: Parts<'_>) {
    let (kind, collation) = match parts {
        Parts::Words(collation) => (0, collation),
        Parts::Trigrams(collation) => (1, collation),
        Parts::PatternTrigrams(collation) => (2, collation),
    };
    into.push(kind);
    put_collation(into, collation);
}

pub(super) fn parts<'a>(reader: &mut Reader<'a>) -> Result<Parts<'a>, Malformed> {
    match (reader.u8()?, collation(reader)?) {
        (0, collation) => Ok(Parts::Words(collation)),
        (1, collation) => Ok(Parts::Trigrams(collation)),
        (2, collation) => Ok(Parts::PatternTrigrams(collation)),
        _ => Err(Malformed),
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
