//! Values between the form that a driver knows and the cells that the server has.

use pgseal_client::{Array, Type};
use pgseal_value::Value;

use crate::catalog::Cells;
use crate::observer::Event;
use crate::refusal::Refusal;
use crate::sql::{hexadecimal, value_of_text, Cast, Conversion};
use crate::times::{SessionTimes, Times};

/// The formats of the protocol.
pub(crate) const TEXT: u16 = 0;
pub(crate) const BINARY: u16 = 1;

/// The conversion of a value that is assigned to a column, without a cast
pub(crate) const ASSIGNED: Conversion = Conversion {
    by: None,
    rounds: true,
};

/// The owner's keys.
pub trait Keys: crate::Seal {
    /// Opens a cell, which must be of this type if one is given.
    fn open(&self, ty: Option<Type>, cell: &[u8]) -> Result<Value, Refusal>;

    /// Takes an event of the connection whose keys these are.
    fn note(&self, _: Event) {}

    /// Takes the session's time zone and style of intervals, which [`crate::Seal::times`] returns
    /// from now on.
    fn set_times(&self, _: Times) {}
}

/// The types by which drivers declare a value, by their OIDs (`pg_type.dat`).
fn declared(oid: u32) -> Option<Cast> {
    Some(match oid {
        16 => Cast::To(Type::Bool),
        17 => Cast::To(Type::Bytea),
        20 => Cast::To(Type::Int8),
        21 => Cast::Int2,
        23 => Cast::To(Type::Int4),
        700 => Cast::To(Type::Float4),
        701 => Cast::To(Type::Float8),
        19 | 25 | 1042 | 1043 => Cast::To(Type::Text),
        1082 => Cast::To(Type::Date),
        1114 => Cast::To(Type::Timestamp),
        1184 => Cast::To(Type::TimestampTz),
        1186 => Cast::To(Type::Interval),
        1700 => Cast::To(Type::Decimal),
        2950 => Cast::To(Type::Uuid),
        _ => return None,
    })
}

/// Returns the OID of the type to which a statement casts a value for these cells.
pub(crate) fn oid_of_cast(by: Cast, cells: &Cells) -> Option<u32> {
    match (by, cells.is_array) {
        (Cast::Int2, false) => Some(21),
        (Cast::Int2, true) => Some(1005),
        (by, is_array) => plain_oid(&Cells {
            is_array,
            ..cells.of(by.ty())
        }),
    }
}

/// Returns the OID of the plain type of cells, as drivers are told.
pub(crate) fn plain_oid(cells: &Cells) -> Option<u32> {
    let (one, array) = match cells.ty? {
        Type::Bool => (16, 1000),
        Type::Bytea => (17, 1001),
        Type::Int8 => (20, 1016),
        Type::Int4 => (23, 1007),
        Type::Text => (25, 1009),
        Type::Float4 => (700, 1021),
        Type::Float8 => (701, 1022),
        Type::Date => (1082, 1182),
        Type::Timestamp => (1114, 1115),
        Type::TimestampTz => (1184, 1185),
        Type::Interval => (1186, 1187),
        Type::Decimal => (1700, 1231),
        Type::Uuid => (2950, 2951),
    };
    Some(if cells.is_array { array } else { one })
}

/// The OID of `varchar`
const VARCHAR: u32 = 1043;
/// The modifier of a type without a limit
const UNLIMITED: u32 = u32::MAX;

/// Returns the OID and the modifier of the plain type of a column of cells. The modifier of a limit
/// is that of the plain type with this limit: `enc_text(9)` is `varchar(9)`.
pub(crate) fn plain_type(cells: &Cells, modifier: u32) -> Option<(u32, u32)> {
    let plain = plain_oid(cells)?;
    Some(match cells.ty {
        Some(Type::Text) if modifier != UNLIMITED && !cells.is_array => (VARCHAR, modifier),
        Some(Type::Decimal) => (plain, modifier),
        _ => (plain, UNLIMITED),
    })
}

/// Returns the length of values of a type, as `RowDescription` says it: -1 is any.
pub(crate) fn plain_length(cells: &Cells) -> u16 {
    let length: i16 = match cells.ty {
        _ if cells.is_array => -1,
        Some(Type::Bool) => 1,
        Some(Type::Int4 | Type::Float4 | Type::Date) => 4,
        Some(Type::Int8 | Type::Float8 | Type::Timestamp | Type::TimestampTz) => 8,
        Some(Type::Uuid | Type::Interval) => 16,
        _ => -1,
    };
    u16::from_be_bytes(length.to_be_bytes())
}

/// A parameter as a driver sends it.
pub(crate) struct Given<'m> {
    pub(crate) bytes: &'m [u8],
    pub(crate) format: u16,
    /// The type that the driver declared; 0 none
    pub(crate) oid: u32,
}

/// Returns the value of a parameter in binary, if its driver declared a type of one value.
pub(crate) fn plain_value(given: &Given<'_>) -> Option<Value> {
    let read = value_of(
        given.bytes,
        BINARY,
        (Some(declared(given.oid)?), ASSIGNED),
        None,
        &Times::default,
    );
    read.ok()
}

/// Returns the cell, or the array of cells, of a parameter, in binary. `element` is the OID of the
/// type of the cells.
pub(crate) fn sealed(
    given: &Given<'_>,
    cells: &Cells,
    conversion: Conversion,
    element: u32,
    (times, mut seal): (
        SessionTimes<'_>,
        impl FnMut(&Value) -> Result<Vec<u8>, Refusal>,
    ),
) -> Result<Vec<u8>, Refusal> {
    let mut value = |bytes: &[u8]| {
        let types = (declared(given.oid), conversion);
        let value = value_of(bytes, given.format, types, cells.ty, times)?;
        seal(&value)
    };
    if !cells.is_array {
        return value(given.bytes);
    }
    let sealed = match given.format {
        BINARY => Array::decode(given.bytes)?.map(|item| value(item))?,
        _ => Array::parse(text(given.bytes)?)?.map(|item| value(item.as_bytes()))?,
    };
    let mut bytes = Vec::new();
    sealed.encode(element, &mut bytes)?;
    Ok(bytes)
}

/// Returns the cell, or the array of cells, of a text, as the server reads it in text format.
pub(crate) fn sealed_text(
    text: &str,
    cells: &Cells,
    by: Option<Cast>,
    (times, mut seal): (
        SessionTimes<'_>,
        impl FnMut(&Value) -> Result<Vec<u8>, Refusal>,
    ),
) -> Result<String, Refusal> {
    let ty = cells.ty.ok_or(Refusal::AnyType)?;
    let mut cell = |text: &str| {
        let value = value_of_text(text, by, ty, times)?;
        Ok::<_, Refusal>(hexadecimal(&seal(&value)?))
    };
    match cells.is_array {
        false => cell(text),
        true => {
            let array = Array::parse(text)?.map(|item| cell(item))?;
            Ok(array.to_text(|cell| cell.clone().into()).to_string())
        }
    }
}

/// Reads a value of the type that the driver declared, and makes it one of the column's type, by
/// way of the statement's cast.
fn value_of(
    bytes: &[u8],
    format: u16,
    (declared, conversion): (Option<Cast>, Conversion),
    ty: Option<Type>,
    times: SessionTimes<'_>,
) -> Result<Value, Refusal> {
    let source = declared.or(conversion.by);
    let to = ty.or(source.map(Cast::ty)).ok_or(Refusal::AnyType)?;
    let value = match (format, source, bytes) {
        (BINARY, Some(Cast::Int2), &[a, b]) => Value::Int4(i16::from_be_bytes([a, b]).into()),
        (BINARY, source, bytes) => Value::decode(source.map_or(to, Cast::ty), bytes)?,
        (_, None, bytes) => value_of_text(text(bytes)?, None, to, times)?,
        (_, Some(source), bytes) => value_of_text(text(bytes)?, Some(source), source.ty(), times)?,
    };
    conversion.convert(value, to, times)
}

/// Returns what a driver gets, in format `to`, of a cell or of an array of cells in format `from`.
pub(crate) fn opened(
    bytes: &[u8],
    (from, to): (u16, u16),
    cells: &Cells,
    keys: &dyn Keys,
) -> Result<Vec<u8>, Refusal> {
    let open = |cell: &[u8]| keys.open(cells.ty, cell);
    let open_text = |text: &str| {
        let digits = text.strip_prefix("\\x").ok_or(Refusal::NoCell)?;
        open(&pgseal_client::from_hex(digits).ok_or(Refusal::NoCell)?)
    };
    if cells.is_array {
        let plain = match from {
            BINARY => Array::decode(bytes)?.map(|cell| open(cell))?,
            _ => Array::parse(text(bytes)?)?.map(|cell| open_text(cell))?,
        };
        return shown_array(&plain, to, cells, keys);
    }
    let plain = match from {
        BINARY => open(bytes)?,
        _ => open_text(text(bytes)?)?,
    };
    Ok(match to {
        BINARY => encoded(&plain),
        _ => shown(&plain, keys).into_bytes(),
    })
}

/// Returns the text of a value, in the session's time zone and style of intervals.
fn shown(value: &Value, keys: &dyn Keys) -> String {
    match value.ty() {
        Type::TimestampTz | Type::Interval => keys.times().shown(value),
        _ => value.to_text(),
    }
}

fn shown_array(
    plain: &Array<Value>,
    to: u16,
    cells: &Cells,
    keys: &dyn Keys,
) -> Result<Vec<u8>, Refusal> {
    if to != BINARY {
        let shown = plain.to_text(|value| shown(value, keys).into());
        return Ok(shown.as_bytes().to_vec());
    }
    let items = plain.map(|value| Ok::<_, Refusal>(encoded(value)))?;
    let mut out = Vec::new();
    items.encode(plain_oid(&cells.element()).unwrap_or(25), &mut out)?;
    Ok(out)
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

pub(crate) fn text(bytes: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(bytes).map_err(|_| Refusal::Encoding)
}
