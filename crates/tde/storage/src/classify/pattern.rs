//! Path patterns of the table: segments between slashes, each a literal, one `*` between a literal
//! prefix and suffix, or a placeholder:
//!
//! - `<oid>` a decimal number as PostgreSQL prints it (no leading zero); the last one in the path
//!   is the database;
//! - `<dbdir>` such a number, alone or followed by `_old_catalogs`;
//! - `<rel>` a relation file: number, `_fsm` `_vm` `_init`, `.segment`;
//! - `<temp>` the same after `t<backend>_`;
//! - `<catver>` a tablespace's version directory, `PG_15_202209061`;
//! - `<wal>` 24 upper-case hex digits, alone or before `.partial`;
//! - `<hex>` 4 to 16 upper-case hex digits;
//! - `**` the rest of the path, at least one segment.

use crate::wal::{WalName, NAME_LEN};
use pgseal_crypto::Fork;

/// A relation's file name, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationName {
    /// relfilenode.
    pub number: u32,
    /// Its fork.
    pub fork: Fork,
    /// Segment, counted from 0.
    pub segment: u32,
}

/// The values that the placeholders of a pattern have in a path.
#[derive(Debug, Default)]
pub(super) struct Capture {
    pub database: u32,
    pub rel: Option<RelationName>,
    pub backend: Option<u32>,
    pub wal: Option<WalName>,
}

/// Matches a whole path; none if the path does not fit the pattern.
pub(super) fn matches(pattern: &str, path: &[u8]) -> Option<Capture> {
    if differs_at_once(pattern.as_bytes(), path) {
        return None;
    }
    let mut capture = Capture::default();
    let mut segments = path.split(|&byte| byte == b'/');
    for part in pattern.as_bytes().split(|&byte| byte == b'/') {
        let segment = segments.next()?;
        if part == b"**" {
            return Some(capture);
        }
        segment_matches(part, segment, &mut capture)?;
    }
    segments.next().is_none().then_some(capture)
}

/// Does a byte before the first placeholder differ? It does for nearly every row, at every open.
fn differs_at_once(pattern: &[u8], path: &[u8]) -> bool {
    let literal = |byte: &&u8| !matches!(byte, b'<' | b'*');
    let literals = pattern.iter().take_while(literal);
    literals.zip(path).any(|(pattern, path)| pattern != path)
}

fn segment_matches(part: &[u8], segment: &[u8], capture: &mut Capture) -> Option<()> {
    match part {
        b"<oid>" => capture.database = decimal(segment)?,
        b"<dbdir>" => {
            capture.database = decimal(segment.strip_suffix(b"_old_catalogs").unwrap_or(segment))?;
        }
        b"<rel>" => capture.rel = Some(relation_name(segment)?),
        b"<temp>" => {
            let (backend, rel) = split_once(segment.strip_prefix(b"t")?, b'_')?;
            capture.backend = Some(decimal(backend)?);
            capture.rel = Some(relation_name(rel)?);
        }
        b"<catver>" => version_directory(segment)?,
        b"<wal>" => capture.wal = Some(WalName::parse(segment)?),
        b"<wal>.partial" => {
            (segment.get(NAME_LEN..)? == b".partial").then_some(())?;
            capture.wal = Some(WalName::parse(&segment[..NAME_LEN])?);
        }
        b"<hex>" => {
            let hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
            ((4..=16).contains(&segment.len()) && segment.iter().all(hex)).then_some(())?;
        }
        _ => glob(part, segment)?,
    }
    Some(())
}

/// Matches a literal, or a prefix and a suffix around one `*`, which may stand for nothing.
fn glob(part: &[u8], segment: &[u8]) -> Option<()> {
    match split_once(part, b'*') {
        None => (part == segment).then_some(()),
        Some((prefix, suffix)) => {
            let rest = segment.strip_prefix(prefix)?;
            rest.ends_with(suffix).then_some(())
        }
    }
}

/// Is this the name of a tablespace's version directory (`PG_15_202209061`)?
pub fn version_directory(segment: &[u8]) -> Option<()> {
    let (major, catalog) = split_once(segment.strip_prefix(b"PG_")?, b'_')?;
    decimal(major)?;
    decimal(catalog)?;
    Some(())
}

/// Takes `16384_vm.2` apart.
fn relation_name(segment: &[u8]) -> Option<RelationName> {
    let (stem, segment_number) = match split_once(segment, b'.') {
        // The first segment has no suffix: `16384.0` is another file.
        Some((stem, digits)) => (stem, decimal(digits).filter(|&number| number > 0)?),
        None => (segment, 0),
    };
    let (digits, fork) = match split_once(stem, b'_') {
        None => (stem, Fork::Main),
        Some((digits, b"fsm")) => (digits, Fork::Fsm),
        Some((digits, b"vm")) => (digits, Fork::Vm),
        Some((digits, b"init")) => (digits, Fork::Init),
        Some(_) => return None,
    };
    Some(RelationName {
        number: decimal(digits)?,
        fork,
        segment: segment_number,
    })
}

fn split_once(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|&byte| byte == separator)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// A number in the one spelling that PostgreSQL writes.
fn decimal(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || (digits[0] == b'0' && digits.len() > 1) {
        return None;
    }
    digits.iter().try_fold(0u32, |value, &digit| {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 10)?;
        value.checked_mul(10)?.checked_add(u32::from(digit))
    })
}
