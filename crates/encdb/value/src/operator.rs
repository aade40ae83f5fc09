//! The binary operators, by name. What each does with a type is in that type's file.

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
    /// `^`; numerics with integer exponents get the scale that PostgreSQL 15 gives them
    Power,
    /// `^`, with the scale that it has since PostgreSQL 16
    PowerSince16,
    /// `age(a, b)`: the years, months, days and time between two instants
    Age,
}

impl Arithmetic {
    /// Every operator.
    pub const ALL: [Self; 8] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Mod,
        Self::Power,
        Self::PowerSince16,
        Self::Age,
    ];

    pub(crate) fn is_power(self) -> bool {
        matches!(self, Self::Power | Self::PowerSince16)
    }
}
