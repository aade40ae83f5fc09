//! A literal or parameter as a value of the type that its column's cells have.

use pg_query::protobuf::{a_const, AConst, Node, TypeName};
use pg_query::NodeEnum;
use pgseal_client::{type_by_name, Type};
use pgseal_value::{cast, cast_in, compare, substring, Value, ValueError, C};

use super::scope::last_name;
use crate::refusal::Refusal;
use crate::times::SessionTimes;

/// The plain type to which a statement casts a literal or a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// A type that cells have
    To(Type),
    /// `int2`
    Int2,
    /// `varchar(n)`, which cuts
    Varchar(u16),
    /// `numeric(precision, scale)`, which rounds
    Numeric(u16, u16),
}

/// How the value of a parameter becomes one of its column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The type to which the statement casts it
    pub by: Option<Cast>,
    /// Whether the value may be rounded, as PostgreSQL rounds one that is assigned to a column. A
    /// value that is compared with a column is not: PostgreSQL compares the two in the wider type.
    pub rounds: bool,
}

impl Conversion {
    /// Returns the conversion of a parameter that is used in both ways, if they agree.
    pub(crate) fn and(self, other: Self) -> Option<Self> {
        let rounds = self.rounds && other.rounds;
        (self.by == other.by).then_some(Self { rounds, ..self })
    }

    /// Makes a value one of the column's type.
    pub(crate) fn convert(
        self,
        value: Value,
        ty: Type,
        times: SessionTimes<'_>,
    ) -> Result<Value, Refusal> {
        let value = match self.by {
            Some(by) => by.convert(value, times)?,
            None => value,
        };
        match self.rounds || has_equal(&value, ty, times)? {
            true => converted(value, ty, times),
            false => Err(Refusal::Inexact(value.ty().name(), ty.name())),
        }
    }
}

/// Whether a value has an equal one of this type. A value for `float4` is rounded in any case, as a
/// literal beside such a column is, and text is read.
fn has_equal(value: &Value, ty: Type, times: SessionTimes<'_>) -> Result<bool, Refusal> {
    let from = value.ty();
    if from == ty || from == Type::Text || ty == Type::Float4 {
        return Ok(true);
    }
    let narrow = converted(value.duplicate(), ty, times)?;
    let back = converted(narrow, from, times)?;
    Ok(compare(value, &back, &C)?.is_eq())
}

/// The digits behind the point of a second in `timestamp` without a number.
const MICROSECONDS: u16 = 6;

impl Cast {
    /// Reads a cast to a plain type; of arrays, that to the type of their elements.
    pub(crate) fn read(name: &TypeName, of_array: bool) -> Result<Self, Refusal> {
        let known = last_name(&name.names);
        let known = if of_array {
            known.strip_prefix('_').unwrap_or(known)
        } else {
            known
        };
        let numbers: Option<Vec<u16>> = name.typmods.iter().map(whole_number).collect();
        let is_one = of_array || name.array_bounds.is_empty();
        let found = match (known, numbers.as_deref().filter(|_| is_one)) {
            ("int2" | "smallint", Some([])) => Some(Self::Int2),
            ("varchar" | "name" | "unknown", Some([])) => Some(Self::To(Type::Text)),
            ("varchar" | "enc_text", Some([length])) if *length > 0 => Some(Self::Varchar(*length)),
            // `char` is char(1), `bpchar` without a length is not.
            ("bpchar", Some([])) => Some(Self::To(Type::Text)),
            ("numeric" | "enc_decimal", Some([precision])) if *precision > 0 => {
                Some(Self::Numeric(*precision, 0))
            }
            ("numeric" | "enc_decimal", Some([precision, scale])) if *precision > 0 => {
                Some(Self::Numeric(*precision, *scale))
            }
            ("timestamp" | "timestamptz", Some([MICROSECONDS])) | (_, Some([])) => {
                type_by_name(known).map(Self::To)
            }
            _ => None,
        };
        found.ok_or_else(|| Refusal::Cast(known.to_owned()))
    }

    /// Returns the type that the value has before it is one of its column.
    pub(crate) fn ty(self) -> Type {
        match self {
            Self::To(ty) => ty,
            Self::Int2 => Type::Int4,
            Self::Varchar(_) => Type::Text,
            Self::Numeric(..) => Type::Decimal,
        }
    }

    /// Makes a value one of this type.
    pub(crate) fn convert(self, value: Value, times: SessionTimes<'_>) -> Result<Value, Refusal> {
        let value = converted(value, self.ty(), times)?;
        match (self, &value) {
            (Self::Int2, Value::Int4(number)) if i16::try_from(*number).is_err() => {
                Err(ValueError::TextOutOfRange(Type::Int4).into())
            }
            (Self::Varchar(length), Value::Text(_)) => {
                Ok(substring(&value, 1, Some(length.into()))?)
            }
            (Self::Numeric(precision, scale), Value::Decimal(number)) => Ok(Value::Decimal(
                number.limited(precision.into(), scale.into())?,
            )),
            _ => Ok(value),
        }
    }
}

/// Returns the number that a type is given in parentheses.
pub(crate) fn whole_number(node: &Node) -> Option<u16> {
    match &node.node {
        Some(NodeEnum::AConst(AConst {
            val: Some(a_const::Val::Ival(number)),
            ..
        })) => number.ival.try_into().ok(),
        _ => None,
    }
}

/// Reads a text as a value for cells of this type: by way of the cast, if there is one.
pub fn value_of_text(
    text: &str,
    by: Option<Cast>,
    ty: Type,
    times: SessionTimes<'_>,
) -> Result<Value, Refusal> {
    let parsed = |ty| match ty {
        Type::TimestampTz | Type::Interval => times().read(text, ty),
        _ => Ok(Value::parse(ty, text)?),
    };
    match by {
        None => parsed(ty),
        Some(by) => converted(by.convert(parsed(by.ty())?, times)?, ty, times),
    }
}

/// Makes a value one of the column's type. Ranges are checked.
pub fn converted(value: Value, ty: Type, times: SessionTimes<'_>) -> Result<Value, Refusal> {
    match (value.ty(), ty) {
        (from, to) if from == to => Ok(value),
        (Type::TimestampTz, _) | (_, Type::TimestampTz) => Ok(cast_in(&value, ty, &times())?),
        _ => Ok(cast(&value, ty)?),
    }
}

/// Returns the text of a literal if a column of this type takes it.
pub(crate) fn text_of(literal: &AConst, ty: Type) -> Result<String, Refusal> {
    let is_number = matches!(
        ty,
        Type::Int4 | Type::Int8 | Type::Float4 | Type::Float8 | Type::Decimal
    );
    match &literal.val {
        Some(a_const::Val::Sval(text)) => Ok(text.sval.clone()),
        Some(a_const::Val::Ival(number)) if is_number => Ok(number.ival.to_string()),
        Some(a_const::Val::Fval(number)) if is_number => Ok(number.fval.clone()),
        Some(a_const::Val::Boolval(truth)) if ty == Type::Bool => {
            Ok(if truth.boolval { "t" } else { "f" }.to_owned())
        }
        _ => Err(Refusal::literal(ty)),
    }
}
