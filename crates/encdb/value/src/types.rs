//! The types that a value can have. Their numbers stand in cells and never change.

/// A type of values; its number is the type byte of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Type {
    /// integer
    Int4 = 0x09,
    /// bigint
    Int8 = 0x0a,
    /// real
    Float4 = 0x0b,
    /// double precision
    Float8 = 0x0c,
    /// numeric, without a limit of precision or scale
    Decimal = 0x0d,
    /// boolean
    Bool = 0x0e,
    /// date
    Date = 0x0f,
    /// timestamp without time zone
    Timestamp = 0x10,
    /// timestamp with time zone
    TimestampTz = 0x11,
    /// uuid
    Uuid = 0x12,
    /// bytea
    Bytea = 0x13,
    /// interval
    Interval = 0x14,
    /// text
    Text = 0x39,
}

impl Type {
    /// Every type, in the order of the numbers.
    pub const ALL: [Self; 13] = [
        Self::Int4,
        Self::Int8,
        Self::Float4,
        Self::Float8,
        Self::Decimal,
        Self::Bool,
        Self::Date,
        Self::Timestamp,
        Self::TimestampTz,
        Self::Uuid,
        Self::Bytea,
        Self::Interval,
        Self::Text,
    ];

    /// The type of this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| *ty as u8 == byte)
    }

    /// Whether its values are numbers.
    pub fn is_number(self) -> bool {
        matches!(
            self,
            Self::Int4 | Self::Int8 | Self::Float4 | Self::Float8 | Self::Decimal
        )
    }

    /// Returns PostgreSQL's name of the type: `double precision`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Float4 => "real",
            Self::Float8 => "double precision",
            Self::Decimal => "numeric",
            Self::Bool => "boolean",
            Self::Date => "date",
            Self::Timestamp => "timestamp without time zone",
            Self::TimestampTz => "timestamp with time zone",
            Self::Uuid => "uuid",
            Self::Bytea => "bytea",
            Self::Interval => "interval",
            Self::Text => "text",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_types() {
        for ty in Type::ALL {
            assert_eq!(Type::from_byte(ty as u8), Some(ty));
        }
        assert_eq!(Type::from_byte(0), None);
        assert_eq!(Type::Int4 as u8, 0x09);
        assert_eq!(Type::Text as u8, 0x39);
    }
}
