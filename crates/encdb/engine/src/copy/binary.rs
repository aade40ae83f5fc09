//! Rows of COPY in binary format.

use super::{Converter, CopyColumn, Direction};
use crate::refusal::Refusal;
use crate::values::{self, Given, ASSIGNED, BINARY};

/// The first bytes of rows in binary format.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// The signature, flags, and the length of what extends the header.
const HEADER: usize = SIGNATURE.len() + 4 + 4;
/// Flags that change how rows are read. One of them once announced OIDs.
const CRITICAL: u32 = 0xffff_0000;

/// Splits bytes, which come in pieces of any size, into rows.
#[derive(Debug, Default)]
pub(super) struct Tuples {
    buffer: Vec<u8>,
    /// The bytes of the buffer that were given
    given: usize,
    part: Part,
}

/// The part of the stream that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Header,
    Tuple,
    /// The trailer was given.
    Nothing,
}

/// The values of a row.
type Values<'b> = Vec<Option<&'b [u8]>>;

/// A whole piece of the stream.
pub(super) enum Piece<'b> {
    /// The header or the trailer, which stays as it is
    Around(&'b [u8]),
    /// A row
    Row(Values<'b>),
}

impl Tuples {
    /// Adds bytes as they came.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.given);
        self.given = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns what is whole next; none if more bytes must come, or nothing follows.
    pub(super) fn next(&mut self, is_end: bool) -> Result<Option<Piece<'_>>, Refusal> {
        let bytes = &self.buffer[self.given..];
        let around = |length| (length, Piece::Around(&bytes[..length]));
        let next = match self.part {
            Part::Header => header(bytes)?.map(|length| (around(length), Part::Tuple)),
            Part::Tuple => tuple(bytes).map(|(values, length)| match values {
                Some(values) => ((length, Piece::Row(values)), Part::Tuple),
                None => (around(length), Part::Nothing),
            }),
            Part::Nothing if bytes.is_empty() => None,
            Part::Nothing => return Err(Refusal::Copied("bytes follow the last row")),
        };
        match next {
            Some(((length, piece), part)) => {
                self.given += length;
                self.part = part;
                Ok(Some(piece))
            }
            None if is_end && !bytes.is_empty() => Err(Refusal::Copied("the rows end within one")),
            None => Ok(None),
        }
    }
}

/// Returns the length of the header; none while it is not whole.
fn header(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let here = bytes.len().min(SIGNATURE.len());
    if bytes[..here] != SIGNATURE[..here] {
        return Err(Refusal::Copied("the rows are not in binary format"));
    }
    let mut rest = bytes.get(SIGNATURE.len()..).unwrap_or_default();
    let (Some(flags), Some(extension)) = (int32(&mut rest), int32(&mut rest)) else {
        return Ok(None);
    };
    if flags & CRITICAL != 0 {
        return Err(Refusal::Copied("the header has flags that are not known"));
    }
    let length = usize::try_from(extension).unwrap_or(usize::MAX);
    let length = length.saturating_add(HEADER);
    Ok((bytes.len() >= length).then_some(length))
}

/// Returns the values of the row at the front, or none for the trailer, and the length of either;
/// nothing while it is not whole.
fn tuple(bytes: &[u8]) -> Option<(Option<Values<'_>>, usize)> {
    let (count, mut rest) = bytes.split_first_chunk()?;
    let count = u16::from_be_bytes(*count);
    if count == u16::MAX {
        return Some((None, 2));
    }
    let mut values = Vec::with_capacity(usize::from(count).min(rest.len()));
    for _ in 0..count {
        values.push(match int32(&mut rest)? {
            u32::MAX => None,
            length => {
                let length = usize::try_from(length).ok()?;
                let (value, behind) = rest.split_at_checked(length)?;
                rest = behind;
                Some(value)
            }
        });
    }
    Some((Some(values), bytes.len() - rest.len()))
}

fn int32(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_be_bytes(*bytes))
}

/// Appends a row with its cells sealed or opened.
pub(super) fn convert(
    values: &Values<'_>,
    columns: &[CopyColumn],
    by: &Converter,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let count = u16::try_from(values.len()).ok();
    let count = count.filter(|_| values.len() == columns.len());
    let count = count.ok_or(Refusal::Copied("a row has not as many fields as columns"))?;
    out.extend_from_slice(&count.to_be_bytes());
    for (value, column) in values.iter().zip(columns) {
        match value {
            None => out.extend_from_slice(&u32::MAX.to_be_bytes()),
            Some(value) => {
                let value = converted(value, column, by)?;
                let length = u32::try_from(value.len());
                let length = length.map_err(|_| Refusal::Copied("a value is too long"))?;
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(&value);
            }
        }
    }
    Ok(())
}

fn converted(value: &[u8], column: &CopyColumn, by: &Converter) -> Result<Vec<u8>, Refusal> {
    let Some(cells) = column.cells.as_ref().filter(|cells| !cells.is_mixed) else {
        return Ok(value.to_vec());
    };
    match by.direction {
        Direction::ToDriver => values::opened(value, (BINARY, BINARY), cells, &*by.keys),
        Direction::ToServer => {
            let given = Given {
                bytes: value,
                format: BINARY,
                oid: 0,
            };
            let element = by.catalog.oid_of(&cells.element());
            let seal = |value: &_| by.keys.seal(&cells.keyname, value);
            let by_times = || by.keys.times();
            values::sealed(&given, cells, ASSIGNED, element, (&by_times, seal))
        }
    }
}
