//! What a type of the server says of a column or parameter.

use pgseal_cell::Type;
use tokio_postgres::types::Type as PgType;

/// A type of encdb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encrypted {
    /// `enc_int4` …: cells of one type.
    Of(Type),
    /// `det_type`, `rnd_type`: cells of any type.
    Any,
}

const NAMES: [(&str, Type); 12] = [
    ("enc_int4", Type::Int4),
    ("enc_int8", Type::Int8),
    ("enc_float4", Type::Float4),
    ("enc_float8", Type::Float8),
    ("enc_decimal", Type::Decimal),
    ("enc_bool", Type::Bool),
    ("enc_date", Type::Date),
    ("enc_timestamp", Type::Timestamp),
    ("enc_timestamptz", Type::TimestampTz),
    ("enc_uuid", Type::Uuid),
    ("enc_bytea", Type::Bytea),
    ("enc_text", Type::Text),
];

impl Encrypted {
    /// The type of this name; none if it is no type of encdb.
    pub fn from_name(name: &str) -> Option<Self> {
        if matches!(name, "det_type" | "rnd_type") {
            return Some(Self::Any);
        }
        let mut known = NAMES.iter().filter(|(known, _)| *known == name);
        known.next().map(|(_, ty)| Self::Of(*ty))
    }
}

/// A type by any name that a DBA may give it: `enc_int4`, `int4`, `integer`, `numeric`.
pub fn type_by_name(name: &str) -> Option<Type> {
    match Encrypted::from_name(name) {
        Some(Encrypted::Of(ty)) => return Some(ty),
        Some(Encrypted::Any) => return None,
        None => {}
    }
    let short = NAMES
        .iter()
        .find(|(known, _)| &known["enc_".len()..] == name);
    let long = || Type::ALL.into_iter().find(|ty| ty.name() == name);
    match name {
        "int" => Some(Type::Int4),
        "numeric" => Some(Type::Decimal),
        _ => short.map(|(_, ty)| *ty).or_else(long),
    }
}

/// The plain twin of a type of encdb.
pub(crate) fn plain_type(ty: &PgType) -> Option<Type> {
    let known = [
        (PgType::INT4, Type::Int4),
        (PgType::INT8, Type::Int8),
        (PgType::FLOAT4, Type::Float4),
        (PgType::FLOAT8, Type::Float8),
        (PgType::NUMERIC, Type::Decimal),
        (PgType::BOOL, Type::Bool),
        (PgType::DATE, Type::Date),
        (PgType::TIMESTAMP, Type::Timestamp),
        (PgType::TIMESTAMPTZ, Type::TimestampTz),
        (PgType::UUID, Type::Uuid),
        (PgType::BYTEA, Type::Bytea),
        (PgType::TEXT, Type::Text),
        (PgType::VARCHAR, Type::Text),
        (PgType::BPCHAR, Type::Text),
        (PgType::NAME, Type::Text),
        (PgType::UNKNOWN, Type::Text),
    ];
    let mut known = known.into_iter().filter(|(known, _)| known == ty);
    known.next().map(|(_, ty)| ty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_types() {
        assert_eq!(
            Encrypted::from_name("enc_text"),
            Some(Encrypted::Of(Type::Text))
        );
        assert_eq!(Encrypted::from_name("rnd_type"), Some(Encrypted::Any));
        assert_eq!(Encrypted::from_name("text"), None);
        for ty in Type::ALL {
            assert!(NAMES.iter().any(|(_, known)| *known == ty));
            assert_eq!(type_by_name(ty.name()), Some(ty));
        }
        assert_eq!(type_by_name("enc_decimal"), Some(Type::Decimal));
        assert_eq!(type_by_name("decimal"), Some(Type::Decimal));
        assert_eq!(type_by_name("numeric"), Some(Type::Decimal));
        assert_eq!(type_by_name("det_type"), None);
        assert_eq!(type_by_name("json"), None);
    }
}
