//! Constant expressions of literals, such as `.06 - 0.01` and `date '1994-01-01' + interval '1'
//! year`: their values.
//!
//! A literal has the type that PostgreSQL gives it, and the result is PostgreSQL's to the last
//! digit ([`pgseal_value`]). What is not certainly computed alike, such as text without a type, is
//! no constant here.

use pg_query::protobuf::{a_const, AConst, AExpr, AExprKind, Node, TypeCast};
use pg_query::NodeEnum;
use pgseal_client::Type;
use pgseal_value::{add_interval, arithmetic, cast_in, negate, Arithmetic, Interval, Value};

use super::interval::{interval, is_interval};
use super::literal::{value_of_text, Cast};
use super::parts::is_open;
use super::scope::{last_name, name_of, Kind};
use crate::refusal::Refusal;
use crate::times::{SessionTimes, Times};

/// Returns the type of cells that an operator gives beside cells of another type; none if it is
/// that of the cells.
pub(super) fn computed_type(operator: &AExpr, operands: &[Kind; 2]) -> Option<Type> {
    let sides = [&operator.lexpr, &operator.rexpr].map(|side| side.as_deref());
    let types = [0, 1].map(|at| match (&operands[at], sides[at]) {
        (Kind::Cell(cells), _) if !cells.is_array => cells.ty,
        (_, Some(side)) => constant_type(side),
        _ => None,
    });
    let is_float = |ty| matches!(ty, Type::Float4 | Type::Float8);
    let is_whole = |ty| matches!(ty, Type::Int4 | Type::Int8);
    if let Some(ty) = type_of_times(last_name(&operator.name), types, sides) {
        return Some(ty);
    }
    match types {
        // A number of days
        [Some(Type::Date), Some(Type::Date)] => Some(Type::Int4),
        [Some(a), Some(b)] if a == b => None,
        [Some(a), Some(b)] if is_float(a) && is_float(b) => Some(Type::Float8),
        [Some(Type::Decimal), Some(other)] | [Some(other), Some(Type::Decimal)] => {
            is_whole(other).then_some(Type::Decimal)
        }
        [Some(a), Some(b)] if is_whole(a) && is_whole(b) => Some(Type::Int8),
        _ => None,
    }
}

/// Returns the type that an operator gives of times and intervals; none: as all operators do.
fn type_of_times(
    operator: &str,
    types: [Option<Type>; 2],
    sides: [Option<&Node>; 2],
) -> Option<Type> {
    let has = |ty| types.contains(&Some(ty));
    let has_instant = has(Type::Timestamp) || has(Type::TimestampTz);
    let has_interval = has(Type::Interval) || sides.into_iter().flatten().any(is_interval);
    let mut known = types.into_iter().flatten();
    match known.find(|ty| is_time(*ty)) {
        // The time is moved.
        Some(Type::Date) if has_interval => Some(Type::Timestamp),
        Some(time) if has_interval => Some(time),
        Some(time) if operator == "-" && has_instant => {
            // Nothing plain that the server has is subtracted from a time, but intervals.
            let is_other =
                types.iter().all(Option::is_some) || sides.into_iter().flatten().any(is_open);
            Some(if is_other { Type::Interval } else { time })
        }
        None if has(Type::Interval) => Some(Type::Interval),
        _ => None,
    }
}

/// Whether intervals move values of a type.
pub(super) fn is_time(ty: Type) -> bool {
    matches!(ty, Type::Date | Type::Timestamp | Type::TimestampTz)
}

/// Returns the type of a constant expression's value.
pub(super) fn constant_type(node: &Node) -> Option<Type> {
    let value = constant(node, &Times::default, &mut Vec::new());
    value.ok().flatten().map(|value| value.ty())
}

/// Returns the value of a constant expression, and adds its literals; none if it has anything else,
/// or its type is not certain.
pub(super) fn constant(
    node: &Node,
    times: SessionTimes<'_>,
    literals: &mut Vec<Value>,
) -> Result<Option<Value>, Refusal> {
    let literal = match &node.node {
        Some(NodeEnum::AConst(literal)) => number(literal)?,
        Some(NodeEnum::TypeCast(cast)) => return of_cast(cast, times, literals),
        Some(NodeEnum::AExpr(operator)) => return of_operator(operator, times, literals),
        _ => None,
    };
    literals.extend(literal.as_ref().map(Value::duplicate));
    Ok(literal)
}

/// Returns the value of a number without quotes, in the type that PostgreSQL gives it.
fn number(literal: &AConst) -> Result<Option<Value>, Refusal> {
    let text = match &literal.val {
        Some(a_const::Val::Ival(number)) => return Ok(Some(Value::Int4(number.ival))),
        Some(a_const::Val::Fval(number)) => &number.fval,
        _ => return Ok(None),
    };
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    if !text.chars().all(is_part) {
        return Ok(None);
    }
    match Value::parse(Type::Int8, text) {
        Ok(number) => Ok(Some(number)),
        Err(_) => Ok(Some(Value::parse(Type::Decimal, text)?)),
    }
}

fn of_cast(
    cast: &TypeCast,
    times: SessionTimes<'_>,
    literals: &mut Vec<Value>,
) -> Result<Option<Value>, Refusal> {
    let (Some(name), Some(arg)) = (&cast.type_name, cast.arg.as_deref()) else {
        return Ok(None);
    };
    let by = Cast::read(name, false).ok().filter(|by| {
        let ty = by.ty();
        let is_number = matches!(ty, Type::Int8 | Type::Decimal | Type::Float4 | Type::Float8);
        // PostgreSQL computes int2 as such.
        let is_int = *by == Cast::To(Type::Int4);
        (is_number || is_time(ty) || is_int) && !last_name(&name.names).starts_with("enc_")
    });
    let Some(by) = by else {
        return Ok(None);
    };
    let text = match &arg.node {
        Some(NodeEnum::AConst(literal)) => match &literal.val {
            Some(a_const::Val::Sval(text)) => Some(&text.sval),
            _ => None,
        },
        _ => None,
    };
    let value = match text {
        Some(text) => value_of_text(text, Some(by), by.ty(), times)?,
        None => match constant(arg, times, literals)? {
            Some(value) => by.convert(value, times)?,
            None => return Ok(None),
        },
    };
    literals.push(value.duplicate());
    Ok(Some(value))
}

fn of_operator(
    operator: &AExpr,
    times: SessionTimes<'_>,
    literals: &mut Vec<Value>,
) -> Result<Option<Value>, Refusal> {
    let is_builtin = match operator.name.as_slice() {
        [_] => true,
        [schema, _] => name_of(schema) == Some("pg_catalog"),
        _ => false,
    };
    let Some(right) = operator.rexpr.as_deref() else {
        return Ok(None);
    };
    if !is_builtin || operator.kind != AExprKind::AexprOp as i32 {
        return Ok(None);
    }
    let name = last_name(&operator.name);
    let Some(left) = operator.lexpr.as_deref() else {
        let value = match name {
            "-" => constant(right, times, literals)?,
            _ => None,
        };
        return Ok(value.map(|value| negate(&value)).transpose()?);
    };
    let (moved, by) = match (name, interval(left), interval(right)) {
        ("+", None, Some(by)) => (left, by),
        ("-", None, Some(by)) => (left, by.negated()),
        ("+", Some(by), None) => (right, by),
        _ => return computed(name, (left, right), times, literals),
    };
    match constant(moved, times, literals)? {
        Some(value) => after(value, by, times),
        None => Ok(None),
    }
}

fn computed(
    name: &str,
    (left, right): (&Node, &Node),
    times: SessionTimes<'_>,
    literals: &mut Vec<Value>,
) -> Result<Option<Value>, Refusal> {
    let operator = match name {
        "+" => Arithmetic::Add,
        "-" => Arithmetic::Sub,
        "*" => Arithmetic::Mul,
        "/" => Arithmetic::Div,
        "%" => Arithmetic::Mod,
        _ => return Ok(None),
    };
    let left = constant(left, times, literals)?;
    let right = constant(right, times, literals)?;
    match (operator, left.zip(right)) {
        (_, None) => Ok(None),
        (Arithmetic::Add, Some((Value::Interval(by), time) | (time, Value::Interval(by))))
            if is_time(time.ty()) =>
        {
            after(time, by, times)
        }
        (Arithmetic::Sub, Some((time, Value::Interval(by)))) if is_time(time.ty()) => {
            after(time, by.negated(), times)
        }
        (operator, Some((left, right))) => Ok(Some(arithmetic(operator, &left, &right)?)),
    }
}

/// Returns a time moved by an interval. Months and days of an instant are counted on a clock of the
/// session's zone, one after the other.
fn after(value: Value, by: Interval, times: SessionTimes<'_>) -> Result<Option<Value>, Refusal> {
    if value.ty() != Type::TimestampTz {
        return Ok(Some(add_interval(&value, by)?));
    }
    let (none, mut instant) = (
        Interval {
            months: 0,
            days: 0,
            microseconds: 0,
        },
        value,
    );
    let steps = [
        Interval {
            months: by.months,
            ..none
        },
        Interval {
            days: by.days,
            ..none
        },
    ];
    for step in steps.into_iter().filter(|step| *step != none) {
        let times = times();
        let local = cast_in(&instant, Type::Timestamp, &times)?;
        instant = cast_in(&add_interval(&local, step)?, Type::TimestampTz, &times)?;
    }
    let time = Interval {
        microseconds: by.microseconds,
        ..none
    };
    Ok(Some(add_interval(&instant, time)?))
}
