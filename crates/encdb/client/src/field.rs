//! A field of a row, as it was sent in binary: cells are opened, arrays element by element.

use pgseal_cell::Type;
use pgseal_value::Value;
use tokio_postgres::types::{Kind, Type as PgType};
use zeroize::Zeroizing;

use crate::array::Array;
use crate::column::{base, plain_type, Encrypted, Shape};
use crate::{ClientError, KeyRing};

/// The content of a field that is not NULL.
pub enum Field {
    /// One value
    Value(Value),
    /// An array of them
    Array(Array<Value>),
}

impl Field {
    /// Returns the text that PostgreSQL shows.
    pub fn to_text(&self) -> Zeroizing<String> {
        match self {
            Self::Value(value) => Zeroizing::new(value.to_text()),
            Self::Array(array) => array.to_text(|value| Zeroizing::new(value.to_text())),
        }
    }

    /// Reads a field of a column of this name and type.
    pub(crate) fn read(
        ty: &PgType,
        column: &str,
        bytes: &[u8],
        keys: &KeyRing,
    ) -> Result<Self, ClientError> {
        let opened = |cells: Array<&[u8]>, of| cells.map(|cell| open(of, cell, keys));
        match Shape::of(ty) {
            Shape::Cell(of) => Ok(Self::Value(open(of, bytes, keys)?)),
            Shape::Cells(of, _) => Ok(Self::Array(opened(Array::decode(bytes)?, of)?)),
            Shape::Mixed => Err(ClientError::ColumnMixed {
                column: column.to_owned(),
                ty: ty.name().to_owned(),
            }),
            Shape::Plain => match base(ty).kind() {
                Kind::Array(element) => {
                    let items = Array::decode(bytes)?;
                    Ok(Self::Array(items.map(|item| plain(element, column, item))?))
                }
                _ => Ok(Self::Value(plain(ty, column, bytes)?)),
            },
        }
    }
}

fn open(of: Encrypted, cell: &[u8], keys: &KeyRing) -> Result<Value, ClientError> {
    match of {
        Encrypted::Of(ty) => keys.open_as(ty, cell),
        Encrypted::Any => keys.open(cell),
    }
}

fn plain(ty: &PgType, column: &str, bytes: &[u8]) -> Result<Value, ClientError> {
    let ty = base(ty);
    if let Some(ty) = plain_type(ty) {
        return Ok(Value::decode(ty, bytes)?);
    }
    let value = match (ty, bytes) {
        (&PgType::INT2, &[a, b]) => Some(Value::Int4(i16::from_be_bytes([a, b]).into())),
        (&PgType::OID, &[a, b, c, d]) => Some(Value::Int8(u32::from_be_bytes([a, b, c, d]).into())),
        (&PgType::JSON, text) | (&PgType::JSONB, [1, text @ ..]) => {
            Some(Value::decode(Type::Text, text)?)
        }
        (&PgType::VOID, _) => Some(Value::Text(String::new())),
        _ => None,
    };
    value.ok_or_else(|| ClientError::ColumnType {
        column: column.to_owned(),
        ty: ty.name().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, NewKey};

    fn shown(ty: &PgType, bytes: &[u8]) -> Result<String, String> {
        let field = Field::read(ty, "p", bytes, &KeyRing::new());
        let text = field.map(|field| field.to_text().to_string());
        text.map_err(|error| error.to_string())
    }

    #[test]
    fn plain_types_are_read_or_said_not_to_be() {
        assert_eq!(shown(&PgType::JSONB, b"\x01{}").as_deref(), Ok("{}"));
        let mut ints = Vec::new();
        let array = Array::new(vec![Some([0, 0, 0, 7]), None]);
        array.encode(23, &mut ints).expect("it is short");
        assert_eq!(shown(&PgType::INT4_ARRAY, &ints).as_deref(), Ok("{7,NULL}"));
        let refused = "column \"p\" is of type point, which is not read here: cast it to text";
        assert_eq!(shown(&PgType::POINT, &[0; 16]), Err(refused.to_owned()));
        let refused = shown(&PgType::RECORD, &[]).expect_err("its fields are not known");
        assert!(refused.contains("one by one"), "{refused}");
    }

    #[test]
    fn a_cell_is_opened_as_what_its_column_is() {
        let identity = Identity::for_tests(1);
        let key = NewKey {
            name: "k",
            group: 0,
            deterministic: false,
        };
        let wrapped = key.generate(&identity).expect("random bytes");
        let mut keys = KeyRing::new();
        assert!(keys.take(&identity, "k", &wrapped));
        let mut cell = Vec::new();
        keys.seal("k", &Value::Int4(1), &mut cell)
            .expect("it has the key");
        let of = |name: &str| {
            let ty = PgType::new(name.to_owned(), 70000, Kind::Simple, "public".to_owned());
            Field::read(&ty, "c", &cell, &keys)
        };
        assert!(of("enc_int4").is_ok() && of("rnd_type").is_ok());
        assert!(matches!(of("enc_int8"), Err(ClientError::Cell(_))));
    }
}
