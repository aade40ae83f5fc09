//! How an argument goes to the wire: sealed, or in clear because its caller says that it is plain.
//!
//! The server says the type of a parameter, and that may be false. So its word never decides that
//! something is sent in clear: an argument is sealed or refused, except for [`Argument::Plain`]
//! and [`Argument::PlainText`].

use std::collections::HashMap;
use std::error::Error;

use pgseal_value::Value;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type as PgType};
use zeroize::Zeroizing;

use crate::array::Array;
use crate::column::{plain_type, Encrypted, Shape};
use crate::{ClientError, KeyRing};

/// One argument of a statement.
#[derive(Clone, Copy)]
pub enum Argument<'a> {
    /// NULL is never encrypted.
    Null,
    /// A value that is sealed, or not sent at all.
    Sealed(&'a Value),
    /// An array of which each element is sealed, or nothing is sent.
    SealedArray(&'a Array<Value>),
    /// A text that is read as the parameter's type, a value or an array, and sealed or not sent.
    SealedText(&'a str),
    /// A value that is sent in clear: the caller says that it is no secret.
    Plain(&'a Value),
    /// A text that is sent in clear, and read by the server.
    PlainText(&'a str),
}

impl Argument<'_> {
    /// Whether its caller says that it is no secret.
    pub(crate) fn is_plain(self) -> bool {
        matches!(self, Self::Plain(_) | Self::PlainText(_))
    }
}

/// The data keys that seal for columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    default: String,
    columns: HashMap<String, String>,
}

impl Resolver {
    /// Makes a resolver with this key for all columns for which no key is named.
    pub fn new(default: &str) -> Self {
        Self {
            default: default.to_owned(),
            columns: HashMap::new(),
        }
    }

    /// Names the key that seals values for this column, by whatever name its user gives the
    /// column.
    #[must_use]
    pub fn column(mut self, column: &str, keyname: &str) -> Self {
        self.columns.insert(column.to_owned(), keyname.to_owned());
        self
    }

    /// Whether a key was named for this column.
    pub(crate) fn knows(&self, column: &str) -> bool {
        self.columns.contains_key(column)
    }

    /// Returns the name of the key for a column.
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

/// The form in which an argument is sent.
pub(crate) enum Wire {
    Null,
    Binary(Zeroizing<Vec<u8>>),
    Text(Zeroizing<String>),
}

impl Parameter<'_> {
    /// Returns the argument as this parameter takes it.
    pub(crate) fn wire(&self, argument: Argument<'_>, keys: &KeyRing) -> Result<Wire, ClientError> {
        let shape = Shape::of(self.ty);
        match (argument, shape) {
            (Argument::Null, _) => Ok(Wire::Null),
            (_, Shape::Mixed) => Err(ClientError::ParameterMixed(self.place)),
            (Argument::Plain(value), Shape::Plain) => self.plain(value),
            (Argument::PlainText(text), Shape::Plain) => {
                Ok(Wire::Text(Zeroizing::new(text.to_owned())))
            }
            (Argument::Plain(_) | Argument::PlainText(_), _) => {
                Err(ClientError::NotPlain(self.place))
            }
            (_, Shape::Plain) => Err(ClientError::NotEncrypted(self.place)),
            (Argument::Sealed(value), Shape::Cell(ty)) => {
                Ok(Wire::Binary(self.sealed(ty, value, keys)?))
            }
            (Argument::SealedText(text), Shape::Cell(ty)) => {
                let value = self.parsed(ty, text)?;
                Ok(Wire::Binary(self.sealed(ty, &value, keys)?))
            }
            (Argument::SealedArray(array), Shape::Cells(ty, oid)) => {
                self.cells(array, (ty, oid), keys)
            }
            (Argument::SealedText(text), Shape::Cells(ty, oid)) => {
                let array = Array::parse(text)?.map(|item| self.parsed(ty, item))?;
                self.cells(&array, (ty, oid), keys)
            }
            (Argument::Sealed(_), Shape::Cells(..))
            | (Argument::SealedArray(_), Shape::Cell(_)) => Err(self.wrong_type()),
        }
    }

    fn parsed(&self, ty: Encrypted, text: &str) -> Result<Value, ClientError> {
        match ty {
            Encrypted::Of(plain) => Ok(Value::parse(plain, text)?),
            Encrypted::Any => Err(ClientError::WhichType(self.place)),
        }
    }

    fn sealed(
        &self,
        ty: Encrypted,
        value: &Value,
        keys: &KeyRing,
    ) -> Result<Zeroizing<Vec<u8>>, ClientError> {
        if !matches!(ty, Encrypted::Any) && ty != Encrypted::Of(value.ty()) {
            return Err(self.wrong_type());
        }
        let mut cell = Zeroizing::new(Vec::with_capacity(64));
        keys.seal(self.keyname, value, &mut cell)?;
        Ok(cell)
    }

    fn cells(
        &self,
        array: &Array<Value>,
        (ty, oid): (Encrypted, u32),
        keys: &KeyRing,
    ) -> Result<Wire, ClientError> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(64));
        let cells = array.map(|value| self.sealed(ty, value, keys))?;
        cells
            .map(|cell| Ok::<_, ClientError>(cell.as_slice().to_vec()))?
            .encode(oid, &mut bytes)?;
        Ok(Wire::Binary(bytes))
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

#[cfg(test)]
mod tests {
    use tokio_postgres::types::{Field as PgField, Kind};

    use super::*;
    use crate::{Field, Identity, NewKey};

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

    fn made(name: &str, kind: Kind) -> PgType {
        PgType::new(name.to_owned(), 70001, kind, "public".to_owned())
    }

    /// Returns what comes back, as text.
    fn read(ty: &PgType, wire: &Wire, keys: &KeyRing) -> String {
        let field = Field::read(ty, "c", bytes(wire), keys).expect("it was sealed so");
        field.to_text().to_string()
    }

    #[test]
    fn a_value_is_sealed_by_the_type_of_its_parameter() {
        let (keys, int) = (keys(), enc("enc_int4"));
        let value = Value::Int4(41);
        let domain = made("age", Kind::Domain(int.clone()));
        for ty in [&int, &domain] {
            for argument in [Argument::Sealed(&value), Argument::SealedText("41")] {
                let wire = wire(ty, argument, &keys).expect("it fits");
                assert_eq!(bytes(&wire).len(), 39);
                assert_eq!(read(ty, &wire, &keys), "41");
            }
        }
        let any = enc("rnd_type");
        let wired = wire(&any, Argument::Sealed(&value), &keys).expect("any fits");
        assert_eq!(read(&any, &wired, &keys), "41");
        let refused = wire(&any, Argument::SealedText("41"), &keys).err();
        assert!(matches!(refused, Some(ClientError::WhichType(1))));
    }

    #[test]
    fn arrays_are_sealed_element_by_element() {
        let keys = keys();
        let ty = made("_enc_text", Kind::Array(enc("enc_text")));
        for text in ["{secret,NULL,\"b c\"}", "{{secret,b},{c,NULL}}", "{}"] {
            let wire = wire(&ty, Argument::SealedText(text), &keys).expect("it fits");
            let sent = bytes(&wire);
            assert!(!sent.windows(6).any(|part| part == b"secret"));
            assert_eq!(read(&ty, &wire, &keys), text);
        }
        let list = Array::new(vec![Some(Value::Text("secret".to_owned())), None]);
        let sealed = wire(&ty, Argument::SealedArray(&list), &keys).expect("it fits");
        assert_eq!(read(&ty, &sealed, &keys), "{secret,NULL}");
        let not_one = wire(&ty, Argument::SealedText("secret"), &keys).err();
        assert!(matches!(not_one, Some(ClientError::Array)));
        let one = Value::Text("secret".to_owned());
        let refused = wire(&ty, Argument::Sealed(&one), &keys).err();
        assert!(matches!(refused, Some(ClientError::ParameterType { .. })));
    }

    #[test]
    fn nothing_leaves_in_clear_unless_its_caller_says_so() {
        let keys = keys();
        let value = Value::Int4(41);
        let fields = vec![PgField::new("a".to_owned(), enc("enc_int4"))];
        let row = made("pair", Kind::Composite(fields));
        let list = Array::new(vec![Some(Value::Int4(41))]);
        for argument in [
            Argument::Sealed(&value),
            Argument::SealedText("41"),
            Argument::SealedArray(&list),
        ] {
            for ty in [
                PgType::INT4,
                PgType::TEXT,
                PgType::INT4_ARRAY,
                PgType::INTERVAL,
            ] {
                let refused = wire(&ty, argument, &keys).err();
                assert!(matches!(refused, Some(ClientError::NotEncrypted(1))));
            }
            let refused = wire(&row, argument, &keys).err();
            assert!(matches!(refused, Some(ClientError::ParameterMixed(1))));
        }
        for argument in [Argument::Plain(&value), Argument::PlainText("41")] {
            let refused = wire(&enc("enc_int4"), argument, &keys).err();
            assert!(matches!(refused, Some(ClientError::NotPlain(1))));
            assert!(wire(&row, argument, &keys).is_err());
        }
        let plain = wire(&PgType::INT4, Argument::Plain(&value), &keys).expect("it is plain");
        assert_eq!(bytes(&plain), [0, 0, 0, 41]);
        let text = wire(&PgType::INTERVAL, Argument::PlainText("1 day"), &keys);
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
        let refused = wire(&PgType::INT4, Argument::Plain(&text), &keys).err();
        assert!(matches!(refused, Some(ClientError::ParameterType { .. })));
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
