//! The names that PostgreSQL gives to the columns of a result (`FigureColname` in its source).

use pg_query::protobuf::{a_const, AExprKind, Node, SubLink, SubLinkType};
use pg_query::NodeEnum;

use super::kind::{cast_of_cells, subquery_output};
use super::scope::{last_name, name_of, Scope};

/// The name of a column that nothing names.
const NAMELESS: &str = "?column?";

/// Returns the name under which a column of a result is known; none if it is not certain.
pub(crate) fn output_name(name: &str, value: Option<&Node>, scope: &Scope<'_>) -> Option<String> {
    if !name.is_empty() {
        return Some(name.to_owned());
    }
    match figured(value, scope)? {
        Figured::Name(name) | Figured::Weak(name) => Some(name),
        Figured::Nothing => Some(NAMELESS.to_owned()),
    }
}

/// The name that an expression suggests for its column.
enum Figured {
    /// A name
    Name(String),
    /// The name of a type or of CASE, which gives way to that of an argument
    Weak(String),
    /// None
    Nothing,
}

/// Returns the name that an expression suggests; none if that is not certain.
fn figured(value: Option<&Node>, scope: &Scope<'_>) -> Option<Figured> {
    let is = |name: &str| Some(Figured::Name(name.to_owned()));
    let Some(node) = value.and_then(|value| value.node.as_ref()) else {
        return Some(Figured::Nothing);
    };
    match node {
        NodeEnum::ColumnRef(column) => name_of(column.fields.last()?).and_then(is),
        NodeEnum::FuncCall(call) => is(last_name(&call.funcname)),
        NodeEnum::AIndirection(part) => match part.indirection.iter().rev().find_map(name_of) {
            Some(field) => is(field),
            None => figured(part.arg.as_deref(), scope),
        },
        NodeEnum::AExpr(it) if it.kind == AExprKind::AexprNullif as i32 => is("nullif"),
        // The type of cells is in place of it.
        NodeEnum::TypeCast(cast) if cast_of_cells(cast, scope).is_some() => {
            match figured(cast.arg.as_deref(), scope)? {
                Figured::Name(name) => Some(Figured::Name(name)),
                _ => None,
            }
        }
        NodeEnum::TypeCast(cast) => {
            let name = cast.type_name.as_ref().map(|ty| last_name(&ty.names));
            weak(figured(cast.arg.as_deref(), scope)?, name?)
        }
        NodeEnum::CaseExpr(case) => weak(figured(case.defresult.as_deref(), scope)?, "case"),
        NodeEnum::CollateClause(clause) => figured(clause.arg.as_deref(), scope),
        NodeEnum::SubLink(link) => of_subquery(link, scope),
        NodeEnum::CoalesceExpr(_) => is("coalesce"),
        NodeEnum::MinMaxExpr(it) => is(match it.op() {
            pg_query::protobuf::MinMaxOp::IsLeast => "least",
            _ => "greatest",
        }),
        NodeEnum::AArrayExpr(_) => is("array"),
        NodeEnum::RowExpr(_) => is("row"),
        NodeEnum::GroupingFunc(_) => is("grouping"),
        // A truth value has a cast in some versions.
        NodeEnum::AConst(it) if matches!(it.val, Some(a_const::Val::Boolval(_))) => None,
        NodeEnum::AConst(_) | NodeEnum::ParamRef(_) | NodeEnum::AExpr(_) => Some(Figured::Nothing),
        NodeEnum::BoolExpr(_) | NodeEnum::NullTest(_) | NodeEnum::BooleanTest(_) => {
            Some(Figured::Nothing)
        }
        _ => None,
    }
}

/// Returns a name that gives way to that of an argument.
fn weak(argument: Figured, name: &str) -> Option<Figured> {
    Some(match argument {
        Figured::Name(name) => Figured::Name(name),
        _ => Figured::Weak(name.to_owned()),
    })
}

fn of_subquery(link: &SubLink, scope: &Scope<'_>) -> Option<Figured> {
    match link.sub_link_type() {
        SubLinkType::ExistsSublink => Some(Figured::Name("exists".to_owned())),
        SubLinkType::ArraySublink => Some(Figured::Name("array".to_owned())),
        SubLinkType::ExprSublink => {
            let output = subquery_output(link, scope);
            let first = output
                .columns
                .into_iter()
                .next()
                .filter(|_| !output.has_star);
            let name = first.map(|(name, _)| name).filter(|name| !name.is_empty());
            name.map(Figured::Name)
        }
        _ => Some(Figured::Nothing),
    }
}
