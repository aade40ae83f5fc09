//! The types that the server gives columns and parameters, and which of them are encrypted.

use pgseal_cell::Type;
use tokio_postgres::types::{Kind, Type as PgType};

/// A type of encdb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encrypted {
    /// `enc_int4` …: cells of one type.
    Of(Type),
    /// `det_type`, `rnd_type`: cells of any type.
    Any,
}

pub(crate) const NAMES: [(&str, Type); 13] = [
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
    ("enc_interval", Type::Interval),
    ("enc_text", Type::Text),
];

impl Encrypted {
    /// Returns the type of this name; none if it is no type of encdb.
    pub fn from_name(name: &str) -> Option<Self> {
        if matches!(name, "det_type" | "rnd_type") {
            return Some(Self::Any);
        }
        let mut known = NAMES.iter().filter(|(known, _)| *known == name);
        known.next().map(|(_, ty)| Self::Of(*ty))
    }
}

/// The form of the values of a type of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A cell
    Cell(Encrypted),
    /// An array of cells, whose elements the server calls by this type
    Cells(Encrypted, u32),
    /// Nothing that is encrypted
    Plain,
    /// Cells in a composite, a range, or something that is not understood
    Mixed,
}

impl Shape {
    /// Returns the form of a type's values. A domain has that of its base type, whatever its name.
    pub(crate) fn of(ty: &PgType) -> Self {
        if let Some(encrypted) = Encrypted::from_name(ty.name()) {
            return Self::Cell(encrypted);
        }
        let whole = |mut parts: &mut dyn Iterator<Item = Self>| {
            let is_plain = Iterator::all(&mut parts, |part| part == Self::Plain);
            if is_plain {
                Self::Plain
            } else {
                Self::Mixed
            }
        };
        match ty.kind() {
            Kind::Domain(base) => Self::of(base),
            Kind::Array(element) => match Self::of(element) {
                Self::Cell(encrypted) => Self::Cells(encrypted, element.oid()),
                Self::Plain => Self::Plain,
                Self::Cells(..) | Self::Mixed => Self::Mixed,
            },
            Kind::Composite(fields) => {
                whole(&mut fields.iter().map(|field| Self::of(field.type_())))
            }
            Kind::Range(part) | Kind::Multirange(part) => {
                whole(&mut std::iter::once(Self::of(part)))
            }
            Kind::Simple | Kind::Enum(_) => Self::Plain,
            // A record's fields, above all, are not told.
            _ if *ty == PgType::VOID || *ty == PgType::UNKNOWN => Self::Plain,
            _ => Self::Mixed,
        }
    }
}

/// Returns the base type of a domain; any other type is returned as it is.
pub(crate) fn base(ty: &PgType) -> &PgType {
    match ty.kind() {
        Kind::Domain(of) => base(of),
        _ => ty,
    }
}

/// Returns the type of any name that a DBA may give it: `enc_int4`, `int4`, `integer`, `numeric`.
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

/// Returns the name of the type whose cells hold values of this type.
pub fn encrypted_name(ty: Type) -> &'static str {
    let mut known = NAMES.iter().filter(|(_, known)| *known == ty);
    known.next().map_or("", |(name, _)| name)
}

/// Returns the cell type of the values of a plain type of the server; none if there is none.
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
        (PgType::INTERVAL, Type::Interval),
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

    fn made(name: &str, kind: Kind) -> PgType {
        PgType::new(name.to_owned(), 70000, kind, "public".to_owned())
    }

    #[test]
    fn types_of_types_are_seen_through() {
        let text = made("enc_text", Kind::Simple);
        let (cell, is) = (Shape::Cell(Encrypted::Of(Type::Text)), Shape::of);
        let domain = made("mail", Kind::Domain(text.clone()));
        assert_eq!((is(&text), is(&domain)), (cell, cell));
        let cells = Shape::Cells(Encrypted::Of(Type::Text), 70000);
        for element in [&text, &domain] {
            let array = made("_", Kind::Array(element.clone()));
            assert_eq!(is(&array), cells);
            assert_eq!(is(&made("list", Kind::Domain(array.clone()))), cells);
            assert_eq!(is(&made("_list", Kind::Array(array))), Shape::Mixed);
        }
        for mixed in [Kind::Range(domain.clone()), Kind::Multirange(text.clone())] {
            assert_eq!(is(&made("m", mixed)), Shape::Mixed);
        }
        assert_eq!(is(&PgType::RECORD), Shape::Mixed);
        for plain in [
            PgType::INT4,
            PgType::TEXT_ARRAY,
            PgType::INT4_RANGE,
            PgType::VOID,
        ] {
            assert_eq!(is(&plain), Shape::Plain);
        }
        // A name that says encrypted is believed, whatever it is a domain of: that sends cells.
        assert_eq!(is(&made("enc_text", Kind::Domain(PgType::TEXT))), cell);
        assert_eq!(base(&made("d", Kind::Domain(PgType::INT4))), &PgType::INT4);
    }

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
            assert_eq!(type_by_name(encrypted_name(ty)), Some(ty));
        }
        assert_eq!(type_by_name("enc_decimal"), Some(Type::Decimal));
        assert_eq!(type_by_name("decimal"), Some(Type::Decimal));
        assert_eq!(type_by_name("numeric"), Some(Type::Decimal));
        assert_eq!(type_by_name("det_type"), None);
        assert_eq!(type_by_name("json"), None);
    }
}
