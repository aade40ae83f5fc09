//! Constant expressions beside encrypted columns: the client computes them and seals the result.

use std::cmp::Ordering;
use std::collections::HashMap;

use pg_query::protobuf::Node;
use pgseal_client::Type;
use pgseal_value::{cast, cast_in, compare, Value, C};

use super::constant::constant;
use super::interval::interval;
use super::parts::is_open;
use super::{cell_literal, hexadecimal, Rewriter, Seal};
use crate::catalog::Cells;
use crate::refusal::Refusal;

/// The use of a constant beside cells: it decides the type that its value may get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It is compared with them.
    Compared,
    /// It is computed with them.
    Computed,
    /// Anything else
    Other,
}

impl Rewriter<'_> {
    /// Whether equal literals get the same cell.
    pub(super) fn reuses(&self) -> bool {
        self.groups && !self.assigns
    }

    /// Goes through a part of a statement in which expressions may have to be the same.
    pub(super) fn grouping<T>(&mut self, groups: bool, go: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.groups, groups);
        let result = go(self);
        self.groups = before;
        result
    }

    /// Puts the sealed value of a constant in place of its expression, if the cells take the value
    /// as PostgreSQL's plain type does. Returns whether it has.
    pub(super) fn fold(
        &mut self,
        node: &mut Node,
        cells: &Cells,
        used: Use,
    ) -> Result<bool, Refusal> {
        let Some(ty) = cells.ty.filter(|_| !cells.is_array) else {
            return Ok(false);
        };
        let times = || self.seal.times();
        let mut literals = Vec::new();
        let unit = interval(node).filter(|_| ty == Type::Interval);
        let value = match unit {
            Some(interval) => Some(Value::Interval(interval)),
            None => constant(node, &times, &mut literals)?,
        };
        let Some(value) = value else {
            return Ok(false);
        };
        // A literal by itself is sealed as it is; one of an interval may have a unit behind it.
        let is_itself =
            unit.is_none() && is_open(node) && (value.ty() == ty || is_wider(ty, value.ty()));
        let Some(to) = taken_as(&value, ty, used).filter(|_| !is_itself) else {
            return Ok(false);
        };
        let value = match (value.ty(), to) {
            (from, to) if from == to => value,
            (_, Type::TimestampTz) => cast_in(&value, to, &times())?,
            _ => cast(&value, to)?,
        };
        let cells = cells.of(to);
        let sealed = match self.reuses() {
            true => self.same.of(self.seal, &cells.keyname, &value),
            false => self.seal.seal(&cells.keyname, &value),
        };
        let sealed = hexadecimal(&sealed?);
        for value in literals.iter().chain([&value]) {
            self.loose.literals.seal(value);
        }
        self.is_changed = true;
        node.node = Some(cell_literal(sealed, &cells));
        Ok(true)
    }
}

/// Returns the type of cells as which a value is sealed beside cells of type `ty`, so that the
/// server's result is that of the plain types; none if there is no such type.
fn taken_as(value: &Value, ty: Type, used: Use) -> Option<Type> {
    let from = value.ty();
    let is_narrow = matches!(
        (ty, from),
        (Type::Int4 | Type::Int8, Type::Decimal) | (Type::Date, Type::Timestamp)
    );
    // An equal value of the column's own type is found by its index.
    let is_equal = || {
        let narrow = cast(value, ty).and_then(|narrow| cast(&narrow, from));
        narrow.is_ok_and(|it| compare(value, &it, &C).is_ok_and(Ordering::is_eq))
    };
    match used {
        _ if from == ty || is_wider(ty, from) => Some(ty),
        Use::Compared if is_narrow && is_equal() => Some(ty),
        Use::Compared | Use::Computed if is_narrow => Some(from),
        _ => None,
    }
}

/// Whether PostgreSQL makes values of type `from` ones of type `ty` where the two meet.
fn is_wider(ty: Type, from: Type) -> bool {
    let of_whole = matches!(from, Type::Int4 | Type::Int8);
    match ty {
        Type::Int8 => from == Type::Int4,
        Type::Decimal => of_whole,
        Type::Float8 => of_whole || matches!(from, Type::Decimal | Type::Float4),
        Type::Timestamp => from == Type::Date,
        Type::TimestampTz => matches!(from, Type::Date | Type::Timestamp),
        _ => false,
    }
}

/// The cells of the literals of queries that group or sort.
///
/// Equal literals have the same cell there: the server takes `c || 'x'` in a list of results and in
/// GROUP BY to be one expression only if both are written alike. A value that may be stored has a
/// cell of its own, so that equal rows are not seen.
#[derive(Debug, Default)]
pub(super) struct SameCells(HashMap<(String, u8, Vec<u8>), Vec<u8>>);

impl SameCells {
    /// Returns the cell of a value that is compared or computed with.
    pub(super) fn of(
        &mut self,
        seal: &dyn Seal,
        keyname: &str,
        value: &Value,
    ) -> Result<Vec<u8>, Refusal> {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        let literal = (keyname.to_owned(), value.ty() as u8, bytes);
        if let Some(cell) = self.0.get(&literal) {
            return Ok(cell.clone());
        }
        let cell = seal.seal(keyname, value)?;
        self.0.insert(literal, cell.clone());
        Ok(cell)
    }
}
