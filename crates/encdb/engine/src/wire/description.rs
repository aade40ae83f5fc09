//! Descriptions of parameters and rows, with the plain type in place of each encrypted one.

use crate::catalog::{Catalog, Cells};
use crate::values::{plain_length, plain_type};

use super::message::{format_of, MessageError, Reader, Writer};

/// `RowDescription`
pub(crate) struct Described {
    /// The message for the driver
    pub(crate) message: Vec<u8>,
    /// The cells of each column
    pub(crate) columns: Vec<Option<Cells>>,
    /// The format of each column
    pub(crate) formats: Vec<u16>,
}

/// Reads `RowDescription` and writes it with plain types, and with the formats `given` if the
/// driver gets others than the server sends. Without either it stays as it came, byte for byte.
pub(crate) fn describe_plain(
    message: &[u8],
    catalog: &Catalog,
    given: Option<&[u16]>,
) -> Result<Described, MessageError> {
    let mut reader = Reader::new(message);
    let mut writer = Writer::new(b'T');
    let count = reader.int16()?;
    writer.int16(count);
    let (mut columns, mut formats) = (Vec::new(), Vec::new());
    for at in 0..usize::from(count) {
        writer.string(reader.string()?);
        writer.bytes(reader.bytes(6)?); // the table and its column
        let (oid, length, modifier) = (reader.int32()?, reader.int16()?, reader.int32()?);
        let cells = catalog.type_of(oid);
        match cells.and_then(|cells| Some((cells, plain_type(cells, modifier)?))) {
            Some((cells, (plain, modifier))) => {
                writer
                    .int32(plain)
                    .int16(plain_length(cells))
                    .int32(modifier);
                columns.push(Some(cells.clone()));
            }
            None => {
                writer.int32(oid).int16(length).int32(modifier);
                columns.push(None);
            }
        }
        let format = reader.int16()?;
        formats.push(format);
        writer.int16(given.map_or(format, |given| format_of(given, at)));
    }
    let stays = given.is_none() && columns.iter().all(Option::is_none);
    Ok(Described {
        message: match stays {
            true => message.to_vec(),
            false => writer.end()?,
        },
        columns,
        formats,
    })
}
