//! How an argument goes to the wire: sealed or plain, by what the server says of its parameter.
//!
//! The server's word decides what a parameter is, and a server may lie. So whoever knows that a
//! value must be sealed says so ([`Argument::Sealed`]): it is refused for a parameter that is
//! called plain. [`Argument::Described`] believes the server.

use std::collections::HashMap;
use std::error::Error;

use pgseal_cell::Type;
use pgseal_value::Value;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type as PgType};
use zeroize::Zeroizing;

use crate::column::{plain_type, Encrypted};
use crate::{ClientError, KeyRing};

/// One argument of a statement.
#[derive(Clone, Copy)]
pub enum Argument<'a> {
    /// NULL is never encrypted.
    Null,
    /// Sealed, or not sent at all.
    Sealed(&'a Value),
    /// Sealed if the parameter is of a type of encdb, else in clear.
    Described(&'a Value),
    /// As [`Argument::Sealed`], read from text as the parameter's type is.
    SealedText(&'a str),
    /// As [`Argument::Described`], read from text as the parameter's type is.
    DescribedText(&'a str),
}

/// Which data key seals for which column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    default: String,
    columns: HashMap<String, String>,
}

impl Resolver {
    /// What no column is named for is sealed under this key.
    pub fn new(default: &str) -> Self {
        Self {
            default: default.to_owned(),
            columns: HashMap::new(),
        }
    }

    /// Values for this column, by whatever name its user gives it, are sealed under this key.
    #[must_use]
    pub fn column(mut self, column: &str, keyname: &str) -> Self {
        self.columns.insert(column.to_owned(), keyname.to_owned());
        self
    }

    /// The key for a column.
    pub fn keyname(&self, column: &str) -> &str {
        self.columns.get(column).unwrap_or(&self.default)
    }
}

/// A parameter: its place from 1 on, its type, and the key that seals for it.
pub(crate) struct Parameter<'a> {
    pub(crate) place: usize,
    pub(crate) ty: &'a PgType,
    pub(crate) keyname: &'a str,
}

/// What is sent for an argument.
pub(crate) enum Wire {
    Null,
    Binary(Zeroizing<Vec<u8>>),
    Text(Zeroizing<String>),
}

impl Parameter<'_> {
    /// The argument as this parameter takes it.
    pub(crate) fn wire(&self, argument: Argument<'_>, keys: &KeyRing) -> Result<Wire, ClientError> {
        let encrypted = Encrypted::from_name(self.ty.name());
        match (argument, encrypted) {
            (Argument::Null, _) => Ok(Wire::Null),
            (Argument::Sealed(_) | Argument::SealedText(_), None) => {
                Err(ClientError::NotEncrypted(self.place))
            }
            (Argument::Sealed(value) | Argument::Described(value), Some(ty)) => {
                self.sealed(ty, value, keys)
            }
            (Argument::SealedText(text) | Argument::DescribedText(text), Some(ty)) => {
                let Encrypted::Of(plain) = ty else {
                    return Err(self.wrong_type());
                };
                self.sealed(ty, &Value::parse(plain, text)?, keys)
            }
            (Argument::Described(value), None) => self.plain(value),
            (Argument::DescribedText(text), None) => {
                Ok(Wire::Text(Zeroizing::new(text.to_owned())))
            }
        }
    }

    fn sealed(&self, ty: Encrypted, value: &Value, keys: &KeyRing) -> Result<Wire, ClientError> {
        if !matches!(ty, Encrypted::Any) && ty != Encrypted::Of(value.ty()) {
            return Err(self.wrong_type());
        }
        let mut cell = Zeroizing::new(Vec::with_capacity(64));
        keys.seal(self.keyname, value, &mut cell)?;
        Ok(Wire::Binary(cell))
    }

    fn plain(&self, value: &Value) -> Result<Wire, ClientError> {
        match plain_type(self.ty) {
            Some(ty) if ty == value.ty() => {
                let mut bytes = Zeroizing::new(Vec::with_capacity(64));
                value.encode(&mut bytes);
                Ok(Wire::Binary(bytes))
            }
            // What the server reads by itself, such as a number for a smallint.
            None => Ok(Wire::Text(Zeroizing::new(value.to_text()))),
            Some(_) => Err(self.wrong_type()),
        }
    }

    fn wrong_type(&self) -> ClientError {
        ClientError::ParameterType {
            place: self.place,
            expected: self.ty.name().to_owned(),
        }
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wire")
    }
}

impl ToSql for Wire {
    fn to_sql(
        &self,
        _: &PgType,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => return Ok(IsNull::Yes),
            Self::Binary(bytes) => out.extend_from_slice(bytes),
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &PgType) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        ty: &PgType,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(ty, out)
    }

    fn encode_format(&self, _: &PgType) -> Format {
        match self {
            Self::Text(_) => Format::Text,
            Self::Null | Self::Binary(_) => Format::Binary,
        }
    }
}

/// The value of a column that was sent in binary.
pub(crate) fn read(
    ty: &PgType,
    column: &str,
    bytes: &[u8],
    keys: &KeyRing,
) -> Result<Value, ClientError> {
    match Encrypted::from_name(ty.name()) {
        Some(Encrypted::Of(ty)) => return keys.open_as(ty, bytes),
        Some(Encrypted::Any) => return keys.open(bytes),
        None => {}
    }
    if let Some(ty) = plain_type(ty) {
        return Ok(Value::decode(ty, bytes)?);
    }
    let value = match (ty, bytes) {
        (&PgType::INT2, &[a, b]) => Some(Value::Int4(i16::from_be_bytes([a, b]).into())),
        (&PgType::OID, &[a, b, c, d]) => Some(Value::Int8(u32::from_be_bytes([a, b, c, d]).into())),
        (&PgType::JSON, text) => Some(Value::decode(Type::Text, text)?),
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
    use tokio_postgres::types::Kind;

    use super::*;
    use crate::{Identity, NewKey};

    fn keys() -> KeyRing {
        let identity = Identity::for_tests(1);
        let key = NewKey {
            name: "k",
            group: 0,
            deterministic: false,
        };
        let wrapped = key.generate(&identity).expect("random bytes");
        let mut keys = KeyRing::new();
        assert!(keys.take(&identity, "k", &wrapped));
        keys
    }

    fn enc(name: &str) -> PgType {
        PgType::new(name.to_owned(), 70000, Kind::Simple, "public".to_owned())
    }

    fn wire(ty: &PgType, argument: Argument<'_>, keys: &KeyRing) -> Result<Wire, ClientError> {
        let parameter = Parameter {
            place: 1,
            ty,
            keyname: "k",
        };
        parameter.wire(argument, keys)
    }

    fn bytes(wire: &Wire) -> &[u8] {
        match wire {
            Wire::Null => b"",
            Wire::Binary(bytes) => bytes,
            Wire::Text(text) => text.as_bytes(),
        }
    }

    #[test]
    fn a_value_is_sealed_by_the_type_of_its_parameter() {
        let (keys, int) = (keys(), enc("enc_int4"));
        let value = Value::Int4(41);
        for argument in [
            Argument::Sealed(&value),
            Argument::Described(&value),
            Argument::SealedText("41"),
            Argument::DescribedText("41"),
        ] {
            let wire = wire(&int, argument, &keys).expect("it fits");
            assert_eq!(bytes(&wire).len(), 39);
            let back = read(&int, "k", bytes(&wire), &keys).expect("it was sealed so");
            assert_eq!(back.to_text(), "41");
        }
        let any = wire(&enc("rnd_type"), Argument::Sealed(&value), &keys).expect("any fits");
        let back = read(&enc("rnd_type"), "k", bytes(&any), &keys).expect("it was sealed so");
        assert_eq!(back.to_text(), "41");
    }

    #[test]
    fn what_must_be_sealed_is_not_sent_in_clear() {
        let keys = keys();
        let value = Value::Int4(41);
        for argument in [Argument::Sealed(&value), Argument::SealedText("41")] {
            let refused = wire(&PgType::INT4, argument, &keys).err();
            assert!(matches!(refused, Some(ClientError::NotEncrypted(1))));
        }
        let plain = wire(&PgType::INT4, Argument::Described(&value), &keys).expect("it is plain");
        assert_eq!(bytes(&plain), [0, 0, 0, 41]);
        let text = wire(&PgType::INTERVAL, Argument::DescribedText("1 day"), &keys);
        assert_eq!(bytes(&text.expect("the server reads it")), b"1 day");
    }

    #[test]
    fn other_types_are_refused() {
        let (keys, int) = (keys(), enc("enc_int4"));
        let text = Value::Text("x".to_owned());
        let refused = wire(&int, Argument::Sealed(&text), &keys).err();
        assert!(matches!(
            refused,
            Some(ClientError::ParameterType { place: 1, .. })
        ));
        let refused = wire(&int, Argument::SealedText("x"), &keys).err();
        assert!(matches!(refused, Some(ClientError::Value(_))));
        let refused = wire(&PgType::INT4, Argument::Described(&text), &keys).err();
        assert!(matches!(refused, Some(ClientError::ParameterType { .. })));
        let cell = wire(&int, Argument::SealedText("1"), &keys).expect("it fits");
        let moved = read(&enc("enc_int8"), "c", bytes(&cell), &keys).err();
        assert!(matches!(moved, Some(ClientError::Cell(_))));
        let point = read(&PgType::POINT, "p", &[0; 16], &keys).err();
        let expected = "column \"p\" is of type point, which is not read here: cast it to text";
        assert_eq!(
            point.map(|error| error.to_string()).as_deref(),
            Some(expected)
        );
    }

    #[test]
    fn columns_have_keys_and_the_rest_the_default() {
        let resolver = Resolver::new("|u|d|").column("t.k", "special");
        assert_eq!(
            (resolver.keyname("t.k"), resolver.keyname("t.c")),
            ("special", "|u|d|")
        );
    }
}
