//! Aggregates: a state that takes values one by one and is combined with others of its kind.
//!
//! States are PostgreSQL's transition values, so that overflow, rounding and scale are its own;
//! that of integers takes a value without an allocation. NULLs are left out by the caller.

use std::cmp::Ordering;

use crate::decimal::{spread, Decimal, Number, Squares, Sum};
use crate::{compare, float, Arithmetic, Collate, Type, Value, ValueError};

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
    pub const ALL: [Self; 11] = [
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
    ];

    /// The kind of this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    fn spread(self) -> Option<Spread> {
        Some(match self {
            Self::VarPop => Spread::VarPop,
            Self::VarSamp => Spread::VarSamp,
            Self::StddevPop => Spread::StddevPop,
            Self::StddevSamp => Spread::StddevSamp,
            _ => return None,
        })
    }

    /// The type of the result over values of a type, if PostgreSQL has the aggregate.
    pub fn result_type(self, ty: Type) -> Option<Type> {
        match (self, ty) {
            (Self::Count, _) => Some(Type::Int8),
            (Self::Sum, Type::Int4) => Some(Type::Int8),
            (Self::Sum, Type::Int8) => Some(Type::Decimal),
            (Self::Sum, Type::Float4 | Type::Float8 | Type::Decimal) => Some(ty),
            (Self::Avg, Type::Int4 | Type::Int8 | Type::Decimal) => Some(Type::Decimal),
            (Self::Avg, Type::Float4 | Type::Float8) => Some(Type::Float8),
            (Self::Sum | Self::Avg, _) => None,
            (Self::BoolAnd | Self::BoolOr, Type::Bool) => Some(ty),
            (Self::BoolAnd | Self::BoolOr, _) => None,
            (Self::VarPop | Self::VarSamp | Self::StddevPop | Self::StddevSamp, _) => {
                Self::Avg.result_type(ty)
            }
            // PostgreSQL has them of bytea since version 18.
            (Self::Min | Self::Max, Type::Bool | Type::Uuid) => None,
            (Self::Min | Self::Max, _) => Some(ty),
        }
    }
}

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
    Truth(Option<bool>),
    Extreme(Option<Value>),
}

impl Aggregate {
    /// The empty state, if PostgreSQL has this aggregate of this type.
    pub fn new(kind: AggregateKind, ty: Type) -> Result<Self, ValueError> {
        kind.result_type(ty).ok_or(ValueError::NoFunction(ty))?;
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
                    Value::Float4(_) | Value::Float8(_) | Value::Decimal(_)
                )
            }
        },
    };
    if better {
        *extreme = Some(value.duplicate());
    }
    Ok(())
}

/// PostgreSQL's state of averages and variances of floats. Of an average the sum of squares decides
/// about overflow alone.
#[derive(Default)]
struct Moments {
    n: f64,
    sx: f64,
    sxx: f64,
}

impl Moments {
    /// float8_accum
    fn add(&mut self, value: f64) -> Result<(), ValueError> {
        let (n, sx) = (self.n + 1.0, self.sx + value);
        if self.n > 0.0 {
            let deviation = value * n - sx;
            self.sxx += deviation * deviation / (n * self.n);
            if sx.is_infinite() || self.sxx.is_infinite() {
                if !self.sx.is_infinite() && !value.is_infinite() {
                    return Err(ValueError::Overflow);
                }
                self.sxx = f64::NAN;
            }
        } else if !value.is_finite() {
            self.sxx = f64::NAN;
        }
        (self.n, self.sx) = (n, sx);
        Ok(())
    }

    /// float8_combine
    fn combine(&mut self, other: &Self) -> Result<(), ValueError> {
        if other.n == 0.0 {
            return Ok(());
        }
        if self.n == 0.0 {
            (self.n, self.sx, self.sxx) = (other.n, other.sx, other.sxx);
            return Ok(());
        }
        let n = self.n + other.n;
        let sx = float::arithmetic(Arithmetic::Add, self.sx, other.sx)?;
        let distance = self.sx / self.n - other.sx / other.n;
        let sxx = self.sxx + other.sxx + self.n * other.n * distance * distance / n;
        if sxx.is_infinite() && !self.sxx.is_infinite() && !other.sxx.is_infinite() {
            return Err(ValueError::Overflow);
        }
        (self.n, self.sx, self.sxx) = (n, sx, sxx);
        Ok(())
    }

    fn spread(&self, of: Spread) -> Option<f64> {
        let others = self.n - f64::from(u8::from(of.is_of_sample()));
        let variance = (others > 0.0).then(|| self.sxx / others)?;
        Some(match of.is_root() {
            true => variance.sqrt(),
            false => variance,
        })
    }

    fn average(&self) -> Option<f64> {
        (self.n != 0.0).then(|| self.sx / self.n)
    }
}
