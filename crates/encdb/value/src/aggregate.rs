//! Aggregates: a state that takes values one by one and is combined with others of its kind.
//!
//! States are PostgreSQL's transition values, so that overflow, rounding and scale are its own;
//! that of integers takes a value without an allocation. NULLs are left out by the caller.

mod kind;
mod moments;
mod pairs;

use std::cmp::Ordering;

use crate::decimal::{spread, Decimal, Number, Squares, Sum};
use crate::{
    compare, datetime, float, to_double, Arithmetic, Collate, Interval, Type, Value, ValueError,
};

use moments::Moments;
use pairs::Pairs;

pub use kind::AggregateKind;
pub(crate) use kind::Spread;

/// The state of one aggregate over values of one type.
pub struct Aggregate {
    kind: AggregateKind,
    ty: Type,
    state: State,
}

enum State {
    Count(i64),
    Int4 {
        count: i64,
        sum: i64,
    },
    Int8 {
        count: i64,
        sum: i128,
    },
    Decimal(Sum),
    Interval {
        count: i64,
        sum: Interval,
    },
    Float4(Option<f32>),
    Float8(Option<f64>),
    Moments(Moments),
    /// The spread of values of int4.
    Spread {
        count: i64,
        sum: i64,
        squares: i128,
    },
    Squares(Squares),
    /// Two numbers of each row
    Pairs(Pairs),
    Truth(Option<bool>),
    Extreme(Option<Value>),
}

impl Aggregate {
    /// The empty state, if PostgreSQL has this aggregate of this type.
    pub fn new(kind: AggregateKind, ty: Type) -> Result<Self, ValueError> {
        kind.result_type(ty).ok_or(ValueError::NoFunction(ty))?;
        if kind.takes_pairs() {
            let (ty, state) = (Type::Float8, State::Pairs(Pairs::default()));
            return Ok(Self { kind, ty, state });
        }
        let state = match (kind, ty) {
            (AggregateKind::Count, _) => State::Count(0),
            (AggregateKind::Min | AggregateKind::Max, _) => State::Extreme(None),
            (AggregateKind::BoolAnd | AggregateKind::BoolOr, _) => State::Truth(None),
            (_, Type::Float4 | Type::Float8) if kind.spread().is_some() => {
                State::Moments(Moments::default())
            }
            (_, Type::Int4) if kind.spread().is_some() => State::Spread {
                count: 0,
                sum: 0,
                squares: 0,
            },
            _ if kind.spread().is_some() => State::Squares(Squares::new()),
            (_, Type::Int4) => State::Int4 { count: 0, sum: 0 },
            (_, Type::Int8) => State::Int8 { count: 0, sum: 0 },
            (_, Type::Decimal) => State::Decimal(Sum::new()),
            (_, Type::Interval) => State::Interval {
                count: 0,
                sum: Interval::ZERO,
            },
            (AggregateKind::Avg, _) => State::Moments(Moments::default()),
            (_, Type::Float4) => State::Float4(None),
            _ => State::Float8(None),
        };
        Ok(Self { kind, ty, state })
    }

    /// Bytes that it takes beside itself, which grow with what it has taken. An extreme is counted
    /// by who keeps it.
    pub fn bytes(&self) -> usize {
        match &self.state {
            State::Decimal(sum) => sum.bytes(),
            State::Squares(squares) => squares.bytes(),
            _ => 0,
        }
    }

    /// The kind of the aggregate.
    pub fn kind(&self) -> AggregateKind {
        self.kind
    }

    /// The type of the values.
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// Takes one value, of the aggregate's type.
    #[inline]
    pub fn step(&mut self, value: &Value, collation: &dyn Collate) -> Result<(), ValueError> {
        if value.ty() != self.ty {
            return Err(ValueError::Undefined(self.ty, value.ty()));
        }
        match (&mut self.state, value) {
            (State::Count(count), _) => *count += 1,
            (State::Int4 { count, sum }, Value::Int4(value)) => {
                *count += 1;
                *sum = sum.wrapping_add(i64::from(*value));
            }
            (State::Int8 { count, sum }, Value::Int8(value)) => {
                *count += 1;
                *sum += i128::from(*value);
            }
            (State::Decimal(sum), Value::Decimal(value)) => sum.add(value),
            (State::Interval { count, sum }, Value::Interval(value)) => {
                *count += 1;
                *sum = datetime::sum(*sum, *value)?;
            }
            (State::Float4(sum), Value::Float4(value)) => *sum = Some(added(*sum, *value)?),
            (State::Float8(sum), Value::Float8(value)) => *sum = Some(added(*sum, *value)?),
            (State::Moments(moments), Value::Float4(value)) => moments.add(f64::from(*value))?,
            (State::Moments(moments), Value::Float8(value)) => moments.add(*value)?,
            (
                State::Spread {
                    count,
                    sum,
                    squares,
                },
                Value::Int4(value),
            ) => {
                *count += 1;
                *sum = sum.wrapping_add(i64::from(*value));
                *squares += i128::from(i64::from(*value) * i64::from(*value));
            }
            (State::Squares(squares), Value::Int8(value)) => squares.add(&Decimal::from(*value)),
            (State::Squares(squares), Value::Decimal(value)) => squares.add(value),
            (State::Truth(truth), Value::Bool(value)) => take_truth(self.kind, truth, *value),
            (State::Extreme(extreme), _) => take_better(self.kind, extreme, value, collation)?,
            _ => return Err(ValueError::Undefined(self.ty, value.ty())),
        }
        Ok(())
    }

    /// Takes the two numbers of one row, which have any types of numbers.
    pub fn step_pair(&mut self, y: &Value, x: &Value) -> Result<(), ValueError> {
        match &mut self.state {
            State::Pairs(pairs) => pairs.add(to_double(y)?, to_double(x)?),
            _ => Err(ValueError::Undefined(y.ty(), x.ty())),
        }
    }

    /// Takes what another state of the same kind and type has taken.
    pub fn combine(&mut self, other: &Self, collation: &dyn Collate) -> Result<(), ValueError> {
        if (self.kind, self.ty) != (other.kind, other.ty) {
            return Err(ValueError::Undefined(self.ty, other.ty));
        }
        let range = ValueError::OutOfRange(Type::Int8);
        match (&mut self.state, &other.state) {
            (State::Count(ours), State::Count(theirs)) => *ours += theirs,
            (State::Int4 { count, sum }, State::Int4 { count: n, sum: s }) => {
                *count += n;
                *sum = sum.checked_add(*s).ok_or(range)?;
            }
            (State::Int8 { count, sum }, State::Int8 { count: n, sum: s }) => {
                *count += n;
                *sum = sum.checked_add(*s).ok_or(range)?;
            }
            (State::Decimal(ours), State::Decimal(theirs)) => ours.combine(theirs),
            (State::Interval { count, sum }, State::Interval { count: n, sum: s }) => {
                *count += n;
                *sum = datetime::sum(*sum, *s)?;
            }
            (State::Float4(ours), State::Float4(Some(value))) => {
                *ours = Some(added(*ours, *value)?);
            }
            (State::Float8(ours), State::Float8(Some(value))) => {
                *ours = Some(added(*ours, *value)?);
            }
            (State::Moments(ours), State::Moments(theirs)) => ours.combine(theirs)?,
            (
                State::Spread {
                    count,
                    sum,
                    squares,
                },
                State::Spread {
                    count: n,
                    sum: s,
                    squares: q,
                },
            ) => {
                *count += n;
                *sum = sum.checked_add(*s).ok_or(range)?;
                *squares = squares.checked_add(*q).ok_or(range)?;
            }
            (State::Squares(ours), State::Squares(theirs)) => ours.combine(theirs),
            (State::Pairs(ours), State::Pairs(theirs)) => ours.combine(theirs)?,
            (State::Truth(ours), State::Truth(Some(value))) => take_truth(self.kind, ours, *value),
            (State::Extreme(ours), State::Extreme(Some(value))) => {
                take_better(self.kind, ours, value, collation)?;
            }
            // What is left: the other has taken nothing.
            _ => {}
        }
        Ok(())
    }

    /// The result; nothing if there were no values (a count is 0 then).
    pub fn finish(&self) -> Result<Option<Value>, ValueError> {
        Ok(match &self.state {
            State::Count(count) => Some(Value::Int8(*count)),
            State::Int4 { count: 0, .. } | State::Int8 { count: 0, .. } => None,
            State::Int4 { sum, .. } if self.kind == AggregateKind::Sum => Some(Value::Int8(*sum)),
            State::Int4 { count, sum } => Some(self.total(i128::from(*sum), *count)?),
            State::Int8 { count, sum } => Some(self.total(*sum, *count)?),
            State::Decimal(sum) => self.decimal(sum)?,
            State::Interval { count: 0, .. } => None,
            State::Interval { count, sum } => Some(Value::Interval(match self.kind {
                AggregateKind::Avg => datetime::quotient(*sum, float::from_int8(*count))?,
                _ => *sum,
            })),
            State::Float4(sum) => sum.map(Value::Float4),
            State::Float8(sum) => sum.map(Value::Float8),
            State::Moments(moments) => match self.kind.spread() {
                Some(of) => moments.spread(of).map(Value::Float8),
                None => moments.average().map(Value::Float8),
            },
            State::Spread {
                count,
                sum,
                squares,
            } => self.spread(*count, *sum, *squares)?,
            State::Squares(squares) => match self.kind.spread() {
                Some(of) => squares.result(of)?.map(Value::Decimal),
                None => None,
            },
            State::Pairs(pairs) => pairs.result(self.kind).map(Value::Float8),
            State::Truth(truth) => truth.map(Value::Bool),
            State::Extreme(extreme) => extreme.as_ref().map(Value::duplicate),
        })
    }

    fn spread(&self, count: i64, sum: i64, squares: i128) -> Result<Option<Value>, ValueError> {
        match self.kind.spread() {
            Some(of) if of.has_enough(count) => {
                let sum = Number::from_i128(i128::from(sum));
                let result = spread(count, &sum, &Number::from_i128(squares), of)?;
                Ok(Some(Value::Decimal(result)))
            }
            _ => Ok(None),
        }
    }

    /// A sum of integers, or their average.
    fn total(&self, sum: i128, count: i64) -> Result<Value, ValueError> {
        let sum = Number::from_i128(sum);
        let result = match self.kind {
            AggregateKind::Sum => sum,
            _ => sum.quotient(&Number::from_i128(i128::from(count)))?,
        };
        Decimal::new(result).map(Value::Decimal)
    }

    fn decimal(&self, sum: &Sum) -> Result<Option<Value>, ValueError> {
        if sum.values() == 0 {
            return Ok(None);
        }
        let total = sum.total()?;
        let result = match (self.kind, total.finite()) {
            (AggregateKind::Avg, Some(number)) => {
                let count = Number::from_i128(i128::from(sum.values()));
                Decimal::new(number.quotient(&count)?)?
            }
            _ => total,
        };
        Ok(Some(Value::Decimal(result)))
    }

    /// Appends the state as bytes, for another process: secret, as the values are.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&[self.kind as u8, self.ty as u8]);
        match &self.state {
            State::Count(count) => into.extend_from_slice(&count.to_le_bytes()),
            State::Int4 { count, sum } => {
                into.extend_from_slice(&count.to_le_bytes());
                into.extend_from_slice(&sum.to_le_bytes());
            }
            State::Int8 { count, sum } => {
                into.extend_from_slice(&count.to_le_bytes());
                into.extend_from_slice(&sum.to_le_bytes());
            }
            State::Decimal(sum) => sum.encode(into),
            State::Interval { count, sum } => {
                into.extend_from_slice(&count.to_le_bytes());
                into.extend_from_slice(&sum.encode());
            }
            State::Float4(sum) => {
                into.extend(sum.iter().flat_map(|sum| sum.to_le_bytes()));
            }
            State::Float8(sum) => {
                into.extend(sum.iter().flat_map(|sum| sum.to_le_bytes()));
            }
            State::Moments(Moments { n, sx, sxx }) => {
                into.extend([n, sx, sxx].into_iter().flat_map(|x| x.to_le_bytes()));
            }
            State::Spread {
                count,
                sum,
                squares,
            } => {
                into.extend_from_slice(&count.to_le_bytes());
                into.extend_from_slice(&sum.to_le_bytes());
                into.extend_from_slice(&squares.to_le_bytes());
            }
            State::Squares(squares) => squares.encode(into),
            State::Pairs(pairs) => into.extend(pairs.to_bytes()),
            State::Truth(truth) => into.extend(truth.iter().map(|truth| u8::from(*truth))),
            State::Extreme(extreme) => {
                into.push(u8::from(extreme.is_some()));
                if let Some(value) = extreme {
                    value.encode(into);
                }
            }
        }
    }

    /// Reads a state.
    pub fn decode(bytes: &[u8]) -> Result<Self, ValueError> {
        let ([kind, ty], rest) = bytes.split_first_chunk().ok_or(ValueError::State)?;
        let kind = AggregateKind::from_byte(*kind).ok_or(ValueError::State)?;
        let ty = Type::from_byte(*ty).ok_or(ValueError::State)?;
        let mut aggregate = Self::new(kind, ty).map_err(|_| ValueError::State)?;
        let read = aggregate.state.read(ty, rest);
        read.ok_or(ValueError::State)?;
        Ok(aggregate)
    }
}

impl State {
    /// Reads what [`Aggregate::encode`] wrote into an empty state of the right form.
    fn read(&mut self, ty: Type, bytes: &[u8]) -> Option<()> {
        match self {
            Self::Count(count) => *count = i64::from_le_bytes(bytes.try_into().ok()?),
            Self::Int4 { count, sum } => {
                let (first, rest) = bytes.split_first_chunk()?;
                *count = i64::from_le_bytes(*first);
                *sum = i64::from_le_bytes(rest.try_into().ok()?);
            }
            Self::Int8 { count, sum } => {
                let (first, rest) = bytes.split_first_chunk()?;
                *count = i64::from_le_bytes(*first);
                *sum = i128::from_le_bytes(rest.try_into().ok()?);
            }
            Self::Decimal(sum) => *sum = Sum::decode(bytes)?,
            Self::Interval { count, sum } => {
                let (first, rest) = bytes.split_first_chunk()?;
                *count = i64::from_le_bytes(*first);
                *sum = Interval::decode(rest.try_into().ok()?).ok()?;
            }
            Self::Float4(_) | Self::Float8(_) if bytes.is_empty() => {}
            Self::Float4(sum) => *sum = Some(f32::from_le_bytes(bytes.try_into().ok()?)),
            Self::Float8(sum) => *sum = Some(f64::from_le_bytes(bytes.try_into().ok()?)),
            Self::Moments(Moments { n, sx, sxx }) => {
                let (first, rest) = bytes.split_first_chunk()?;
                let (second, rest) = rest.split_first_chunk()?;
                *n = f64::from_le_bytes(*first);
                *sx = f64::from_le_bytes(*second);
                *sxx = f64::from_le_bytes(rest.try_into().ok()?);
            }
            Self::Spread {
                count,
                sum,
                squares,
            } => {
                let (first, rest) = bytes.split_first_chunk()?;
                let (second, rest) = rest.split_first_chunk()?;
                *count = i64::from_le_bytes(*first);
                *sum = i64::from_le_bytes(*second);
                *squares = i128::from_le_bytes(rest.try_into().ok()?);
            }
            Self::Squares(squares) => *squares = Squares::decode(bytes)?,
            Self::Pairs(pairs) => *pairs = Pairs::from_bytes(bytes.try_into().ok()?),
            Self::Truth(truth) => {
                *truth = match bytes {
                    [] => None,
                    [0] => Some(false),
                    [1] => Some(true),
                    _ => return None,
                };
            }
            Self::Extreme(extreme) => {
                *extreme = match bytes {
                    [0] => None,
                    [1, value @ ..] => Some(Value::decode(ty, value).ok()?),
                    _ => return None,
                };
            }
        }
        Some(())
    }
}

fn added<F: float::Float>(sum: Option<F>, value: F) -> Result<F, ValueError> {
    match sum {
        Some(sum) => float::arithmetic(Arithmetic::Add, sum, value),
        None => Ok(value),
    }
}

/// Joins a truth to those before.
fn take_truth(kind: AggregateKind, truth: &mut Option<bool>, value: bool) {
    let before = truth.unwrap_or(value);
    *truth = Some(match kind {
        AggregateKind::BoolAnd => before && value,
        _ => before || value,
    });
}

/// Keeps the better of two values; of equal ones the later, where its scale or sign may differ.
#[inline]
fn take_better(
    kind: AggregateKind,
    extreme: &mut Option<Value>,
    value: &Value,
    collation: &dyn Collate,
) -> Result<(), ValueError> {
    let better = match extreme.as_ref() {
        None => true,
        Some(old) => match compare(value, old, collation)? {
            Ordering::Less => kind == AggregateKind::Min,
            Ordering::Greater => kind != AggregateKind::Min,
            Ordering::Equal => {
                matches!(
                    value,
                    Value::Float4(_) | Value::Float8(_) | Value::Decimal(_) | Value::Interval(_)
                )
            }
        },
    };
    if better {
        *extreme = Some(value.duplicate());
    }
    Ok(())
}
