//! The parts of expressions: one list of the kinds of expression that are known.

use pg_query::protobuf::Node;
use pg_query::NodeEnum;

use super::scope::Scope;

/// Makes the list for shared and for exclusive references.
macro_rules! parts {
    ($(#[$doc:meta])* $name:ident, $iter:ident, $as_deref:ident $(, $mutable:tt)?) => {
        $(#[$doc])*
        pub(super) fn $name(node: &$($mutable)? NodeEnum) -> Option<Vec<&$($mutable)? Node>> {
            let all: Vec<&$($mutable)? Node> = match node {
                NodeEnum::AStar(_)
                | NodeEnum::SqlvalueFunction(_)
                | NodeEnum::CurrentOfExpr(_)
                | NodeEnum::AConst(_)
                | NodeEnum::ParamRef(_)
                | NodeEnum::ColumnRef(_)
                | NodeEnum::SetToDefault(_)
                | NodeEnum::String(_) => Vec::new(),
                NodeEnum::AExpr(it) => {
                    it.lexpr.$as_deref().into_iter().chain(it.rexpr.$as_deref()).collect()
                }
                NodeEnum::BoolExpr(it) => it.args.$iter().collect(),
                NodeEnum::NullTest(it) => it.arg.$as_deref().into_iter().collect(),
                NodeEnum::BooleanTest(it) => it.arg.$as_deref().into_iter().collect(),
                NodeEnum::TypeCast(it) => it.arg.$as_deref().into_iter().collect(),
                NodeEnum::CollateClause(it) => it.arg.$as_deref().into_iter().collect(),
                NodeEnum::CoalesceExpr(it) => it.args.$iter().collect(),
                NodeEnum::MinMaxExpr(it) => it.args.$iter().collect(),
                NodeEnum::RowExpr(it) => it.args.$iter().collect(),
                NodeEnum::AArrayExpr(it) => it.elements.$iter().collect(),
                NodeEnum::List(it) => it.items.$iter().collect(),
                NodeEnum::NamedArgExpr(it) => it.arg.$as_deref().into_iter().collect(),
                NodeEnum::SortBy(it) => it.node.$as_deref().into_iter().collect(),
                NodeEnum::GroupingSet(it) => it.content.$iter().collect(),
                NodeEnum::GroupingFunc(it) => it.args.$iter().collect(),
                NodeEnum::AIndirection(it) => {
                    it.arg.$as_deref().into_iter().chain(it.indirection.$iter()).collect()
                }
                NodeEnum::AIndices(it) => {
                    it.lidx.$as_deref().into_iter().chain(it.uidx.$as_deref()).collect()
                }
                NodeEnum::CaseExpr(it) => {
                    let ends = it.arg.$as_deref().into_iter().chain(it.defresult.$as_deref());
                    ends.chain(it.args.$iter()).collect()
                }
                NodeEnum::CaseWhen(it) => {
                    it.expr.$as_deref().into_iter().chain(it.result.$as_deref()).collect()
                }
                NodeEnum::FuncCall(it) => {
                    let filter = it.agg_filter.$as_deref();
                    it.args.$iter().chain(it.agg_order.$iter()).chain(filter).collect()
                }
                _ => return None,
            };
            Some(all)
        }
    };
}

parts!(
    /// Returns the parts of an expression; none for a kind of expression that is not known.
    parts_of, iter, as_deref
);
parts!(
    /// Returns the parts of an expression to be changed; none for one that is not known.
    parts_mut, iter_mut, as_deref_mut, mut
);

/// Whether a node is a literal or a parameter, cast or not.
pub(super) fn is_open(node: &Node) -> bool {
    match &node.node {
        Some(NodeEnum::ParamRef(_)) => true,
        Some(NodeEnum::AConst(literal)) => !literal.isnull,
        Some(NodeEnum::TypeCast(cast)) => cast.arg.as_deref().is_some_and(is_open),
        _ => false,
    }
}

/// Whether a literal or a parameter is anywhere in an expression, or a column that is computed from
/// one. What is not known has one.
pub(super) fn has_open(node: &Node, scope: &Scope<'_>) -> bool {
    match &node.node {
        None => false,
        Some(_) if is_open(node) => true,
        Some(NodeEnum::ColumnRef(column)) => scope.column(&column.fields).is_open(),
        Some(inner) => match parts_of(inner) {
            Some(parts) => parts.into_iter().any(|part| has_open(part, scope)),
            None => true,
        },
    }
}

/// Whether an expression has a plain value that is no literal's: that of a column, a subquery, or
/// of the server.
pub(super) fn has_plain(node: &Node, scope: &Scope<'_>) -> bool {
    match &node.node {
        None => false,
        Some(NodeEnum::ColumnRef(column)) => !scope.column(&column.fields).is_open(),
        Some(NodeEnum::SubLink(_) | NodeEnum::SqlvalueFunction(_)) => true,
        Some(NodeEnum::FuncCall(call)) if call.args.is_empty() => true,
        Some(inner) => {
            let parts = parts_of(inner).unwrap_or_default();
            parts.into_iter().any(|part| has_plain(part, scope))
        }
    }
}

/// Returns the literals and parameters that an expression is made of; none if it has anything else.
pub(super) fn leaves(node: &Node) -> Option<Vec<&Node>> {
    match node.node.as_ref()? {
        NodeEnum::AConst(_) | NodeEnum::ParamRef(_) => Some(vec![node]),
        NodeEnum::ColumnRef(_) | NodeEnum::SqlvalueFunction(_) | NodeEnum::SetToDefault(_) => None,
        NodeEnum::FuncCall(call) if call.args.is_empty() => None,
        inner => {
            let parts: Option<Vec<_>> = parts_of(inner)?.into_iter().map(leaves).collect();
            parts.map(|parts| parts.concat())
        }
    }
}
