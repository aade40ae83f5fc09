//! Values that the server has: its clock, its names, and plain columns.
//!
//! The server compares them with encrypted values under the grant `compare-plain`, and nothing that
//! is of the application is in them: an interval that a time is moved by is plain everywhere.

use pg_query::protobuf::{a_const, AExpr, AExprKind, Node};
use pg_query::NodeEnum;

use super::calls::builtin_name;
use super::constant::is_time;
use super::expression::Met;
use super::function::is_plain_of_time;
use super::interval::is_interval;
use super::kind::{cast_cells, compares, kind_of};
use super::parts::has_open;
use super::scope::{last_name, Kind, Scope};
use super::Rewriter;
use crate::refusal::Refusal;

/// Operators by which the server compares encrypted values with plain ones.
const ORDERING: [&str; 7] = ["=", "<>", "!=", "<", "<=", ">", ">="];

/// Whether an operator compares encrypted values with plain ones, too.
pub(super) fn orders(operator: &AExpr) -> bool {
    compares(operator) && ORDERING.contains(&last_name(&operator.name))
}

/// Whether an expression is a value that the server has. It holds no literal and no parameter,
/// except those that say how far a time is moved, to which field it is cut, or in which zone it is.
pub(super) fn is_of_server(node: &Node, scope: &Scope<'_>) -> bool {
    match &node.node {
        Some(NodeEnum::TypeCast(cast)) => {
            let name = cast.type_name.as_ref();
            let is_mixed = name.is_some_and(|it| scope.catalog().is_mixed(last_name(&it.names)));
            let is_value = |arg: &Node| is_of_server(arg, scope);
            !is_mixed
                && cast_cells(cast, scope).is_none()
                && cast.arg.as_deref().is_some_and(is_value)
        }
        Some(NodeEnum::AExpr(operator)) if has_open(node, scope) => is_moved(operator, scope),
        Some(NodeEnum::FuncCall(call))
            if matches!(builtin_name(call), "date_trunc" | "timezone") =>
        {
            match call.args.as_slice() {
                [plain, time] => {
                    is_plain_of_time(builtin_name(call), Some(plain)) && is_of_server(time, scope)
                }
                _ => false,
            }
        }
        _ => kind_of(Some(node), scope) == Kind::Plain && !has_open(node, scope),
    }
}

/// Whether an operator moves a time of the server by an interval, or a date by a number of days.
fn is_moved(operator: &AExpr, scope: &Scope<'_>) -> bool {
    let (Some(left), Some(right)) = (operator.lexpr.as_deref(), operator.rexpr.as_deref()) else {
        return false;
    };
    let by_days = || is_date(left) && is_whole(right);
    let is_builtin = operator.kind == AExprKind::AexprOp as i32 && operator.name.len() == 1;
    is_builtin
        && match last_name(&operator.name) {
            "+" if is_interval(left) => is_of_server(right, scope),
            "+" | "-" => is_of_server(left, scope) && (is_interval(right) || by_days()),
            _ => false,
        }
}

/// Whether an expression is certainly a date: `CURRENT_DATE`, or a cast to it.
fn is_date(node: &Node) -> bool {
    use pg_query::protobuf::SqlValueFunctionOp;
    match &node.node {
        Some(NodeEnum::SqlvalueFunction(value)) => {
            value.op == SqlValueFunctionOp::SvfopCurrentDate as i32
        }
        Some(NodeEnum::TypeCast(cast)) => {
            let name = cast.type_name.as_ref();
            name.is_some_and(|it| last_name(&it.names) == "date" && it.array_bounds.is_empty())
        }
        _ => false,
    }
}

/// Whether a node is a whole number without quotes.
fn is_whole(node: &Node) -> bool {
    let Some(NodeEnum::AConst(literal)) = &node.node else {
        return false;
    };
    matches!(literal.val, Some(a_const::Val::Ival(_)))
}

impl Rewriter<'_> {
    /// Goes through a value of the server, if a node is one that cells are compared with. Returns
    /// whether it is.
    pub(super) fn of_server(
        &mut self,
        node: &mut Node,
        met: &Met,
        scope: &Scope<'_>,
    ) -> Result<bool, Refusal> {
        let is_it = match met {
            // Beside cells that are no times, what a time is moved by may be a value of theirs.
            Met::Cells(cells) => {
                is_of_server(node, scope)
                    && (cells.ty.is_some_and(is_time) || !has_open(node, scope))
            }
            _ => false,
        };
        if is_it {
            self.loosely(|this| this.walk(node, scope))?;
        }
        Ok(is_it)
    }

    /// Goes through both sides of a comparison, if one is cells and the other one a value of the
    /// server. Returns whether they are.
    pub(super) fn beside_server(
        &mut self,
        left: &mut Node,
        right: &mut Node,
        kinds: &[Kind; 2],
        scope: &Scope<'_>,
    ) -> Result<bool, Refusal> {
        let (cells, other, met) = match kinds {
            [Kind::Cell(_), Kind::Cell(_)] => return Ok(false),
            [Kind::Cell(cells), _] => (left, right, cells),
            [_, Kind::Cell(cells)] => (right, left, cells),
            _ => return Ok(false),
        };
        let is_it = self.of_server(other, &Met::Cells(met.clone()), scope)?;
        if is_it {
            self.walk(cells, scope)?;
        }
        Ok(is_it)
    }
}
