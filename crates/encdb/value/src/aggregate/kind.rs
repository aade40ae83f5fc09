//! The kinds of aggregates: their numbers, and the types that they take and give.

use crate::Type;

/// The kind of an aggregate. The numbers stand in encoded states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AggregateKind {
    /// `count(x)`
    Count = 1,
    /// `sum(x)`
    Sum = 2,
    /// `avg(x)`
    Avg = 3,
    /// `min(x)`
    Min = 4,
    /// `max(x)`
    Max = 5,
    /// `var_pop(x)`
    VarPop = 6,
    /// `var_samp(x)`, `variance(x)`
    VarSamp = 7,
    /// `stddev_pop(x)`
    StddevPop = 8,
    /// `stddev_samp(x)`, `stddev(x)`
    StddevSamp = 9,
    /// `bool_and(x)`, `every(x)`
    BoolAnd = 10,
    /// `bool_or(x)`
    BoolOr = 11,
    /// `corr(y, x)`
    Corr = 12,
    /// `covar_pop(y, x)`
    CovarPop = 13,
    /// `covar_samp(y, x)`
    CovarSamp = 14,
    /// `regr_slope(y, x)`
    RegrSlope = 15,
    /// `regr_intercept(y, x)`
    RegrIntercept = 16,
    /// `regr_r2(y, x)`
    RegrR2 = 17,
    /// `regr_avgx(y, x)`
    RegrAvgX = 18,
    /// `regr_avgy(y, x)`
    RegrAvgY = 19,
    /// `regr_sxx(y, x)`
    RegrSxx = 20,
    /// `regr_syy(y, x)`
    RegrSyy = 21,
    /// `regr_sxy(y, x)`
    RegrSxy = 22,
}

/// The distance of values from their average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
}

impl Spread {
    /// Whether values are a part of all.
    pub(crate) fn is_of_sample(self) -> bool {
        matches!(self, Self::VarSamp | Self::StddevSamp)
    }

    /// Whether it is the root of the other.
    pub(crate) fn is_root(self) -> bool {
        matches!(self, Self::StddevPop | Self::StddevSamp)
    }

    /// Whether so many values have one.
    pub(crate) fn has_enough(self, count: i64) -> bool {
        count > i64::from(self.is_of_sample())
    }
}

impl AggregateKind {
    /// Every kind, in the order of the numbers.
    pub const ALL: [Self; 22] = [
        Self::Count,
        Self::Sum,
        Self::Avg,
        Self::Min,
        Self::Max,
        Self::VarPop,
        Self::VarSamp,
        Self::StddevPop,
        Self::StddevSamp,
        Self::BoolAnd,
        Self::BoolOr,
        Self::Corr,
        Self::CovarPop,
        Self::CovarSamp,
        Self::RegrSlope,
        Self::RegrIntercept,
        Self::RegrR2,
        Self::RegrAvgX,
        Self::RegrAvgY,
        Self::RegrSxx,
        Self::RegrSyy,
        Self::RegrSxy,
    ];

    /// The kind of this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Whether it takes two numbers of each row.
    pub fn takes_pairs(self) -> bool {
        self as u8 >= Self::Corr as u8
    }

    pub(super) fn spread(self) -> Option<Spread> {
        Some(match self {
            Self::VarPop => Spread::VarPop,
            Self::VarSamp => Spread::VarSamp,
            Self::StddevPop => Spread::StddevPop,
            Self::StddevSamp => Spread::StddevSamp,
            _ => return None,
        })
    }

    /// The type of the result over values of a type, if PostgreSQL has the aggregate. Each of a
    /// pair may have any type of numbers.
    pub fn result_type(self, ty: Type) -> Option<Type> {
        if self.takes_pairs() {
            return ty.is_number().then_some(Type::Float8);
        }
        match (self, ty) {
            (Self::Count, _) => Some(Type::Int8),
            (Self::Sum, Type::Int4) => Some(Type::Int8),
            (Self::Sum, Type::Int8) => Some(Type::Decimal),
            (Self::Sum, Type::Float4 | Type::Float8 | Type::Decimal) => Some(ty),
            (Self::Avg, Type::Int4 | Type::Int8 | Type::Decimal) => Some(Type::Decimal),
            (Self::Avg, Type::Float4 | Type::Float8) => Some(Type::Float8),
            (Self::Sum | Self::Avg, Type::Interval) => Some(ty),
            (Self::Sum | Self::Avg, _) => None,
            (Self::BoolAnd | Self::BoolOr, Type::Bool) => Some(ty),
            (Self::BoolAnd | Self::BoolOr, _) => None,
            (_, Type::Interval) if self.spread().is_some() => None,
            (Self::VarPop | Self::VarSamp | Self::StddevPop | Self::StddevSamp, _) => {
                Self::Avg.result_type(ty)
            }
            // PostgreSQL has them of bytea since version 18.
            (Self::Min | Self::Max, Type::Bool | Type::Uuid) => None,
            (Self::Min | Self::Max, _) => Some(ty),
            _ => None,
        }
    }
}
