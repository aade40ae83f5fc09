//! The kind of an expression's value, found before anything of it is changed.
//!
//! An expression that is not known is of the kind that is computed from its parts: cells in it make
//! it unknown, and a literal or parameter makes it derived. Neither may meet cells.

use pg_query::protobuf::{
    AExpr, AExprKind, FuncCall, Node, SubLink, SubLinkType, TypeCast, TypeName,
};
use pg_query::NodeEnum;
use pgseal_client::Type;

use super::calls::{builtin_name, is_own};
use super::constant::computed_type;
use super::fraction::has_one_fraction;
use super::literal::Cast;
use super::output::output_of;
use super::parts::{has_open, parts_of};
use super::scope::{last_name, name_of, Kind, Output, Scope};
use crate::catalog::Cells;

/// Operators that give a value of their operands' type.
pub(super) const COMPUTING: [&str; 6] = ["+", "-", "*", "/", "%", "||"];
/// Operators that give a truth value.
const COMPARING: [&str; 19] = [
    "=", "<>", "!=", "<", "<=", ">", ">=", "~~", "!~~", "~~*", "!~~*", "~", "!~", "~*", "!~*",
    "@@", "@>", "<@", "&&",
];
/// Variances and standard deviations.
const SPREADS: [&str; 6] = [
    "var_pop",
    "var_samp",
    "variance",
    "stddev_pop",
    "stddev_samp",
    "stddev",
];
/// Aggregates of two numbers that give a double.
const OF_PAIRS: [&str; 11] = [
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_slope",
    "regr_intercept",
    "regr_r2",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
];
/// Functions and aggregates that give cells of the type of their first argument.
const SAME_TYPE: [&str; 27] = [
    "like_escape",
    "similar_to_escape",
    "string_agg",
    "left",
    "right",
    "lower",
    "upper",
    "initcap",
    "reverse",
    "repeat",
    "lpad",
    "rpad",
    "substr",
    "substring",
    "btrim",
    "ltrim",
    "rtrim",
    "replace",
    "split_part",
    "min",
    "max",
    "abs",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

/// Returns the kind of an expression that may be missing.
pub(crate) fn kind_of(node: Option<&Node>, scope: &Scope<'_>) -> Kind {
    match node.and_then(|node| node.node.as_ref()) {
        Some(node) => kind(node, scope),
        None => Kind::Plain,
    }
}

/// Returns the kind of an expression.
fn kind(node: &NodeEnum, scope: &Scope<'_>) -> Kind {
    let of = |node: &Option<Box<Node>>| kind_of(node.as_deref(), scope);
    match node {
        NodeEnum::ParamRef(_) => Kind::Open,
        NodeEnum::AConst(literal) => match literal.isnull {
            true => Kind::Plain,
            false => Kind::Open,
        },
        NodeEnum::ColumnRef(column) => scope.column(&column.fields),
        NodeEnum::TypeCast(cast) => of_cast(cast, scope),
        NodeEnum::AExpr(operator) => of_operator(operator, scope),
        NodeEnum::FuncCall(call) => of_function(call, scope),
        NodeEnum::CollateClause(clause) => of(&clause.arg),
        NodeEnum::CaseExpr(case) => {
            let results = case.args.iter().map(|when| match &when.node {
                Some(NodeEnum::CaseWhen(when)) => of(&when.result),
                _ => Kind::Plain,
            });
            derived(Kind::common(results.chain([of(&case.defresult)])))
        }
        NodeEnum::CoalesceExpr(all) => derived(common_of(&all.args, scope)),
        NodeEnum::MinMaxExpr(all) => derived(common_of(&all.args, scope)),
        NodeEnum::AArrayExpr(array) => match derived(common_of(&array.elements, scope)) {
            Kind::Cell(cells) => Kind::Cell(cells.array()),
            kind => kind,
        },
        NodeEnum::List(list) => common_of(&list.items, scope),
        NodeEnum::AIndirection(part) => of_part(part, scope),
        NodeEnum::SubLink(link) => of_subquery(link, scope),
        NodeEnum::BoolExpr(_) | NodeEnum::NullTest(_) | NodeEnum::BooleanTest(_) => {
            truth(parts_of(node).unwrap_or_default(), scope)
        }
        NodeEnum::SetToDefault(_) | NodeEnum::SqlvalueFunction(_) => Kind::Plain,
        other => match parts_of(other) {
            Some(parts) => Kind::computed(parts.into_iter().map(|it| kind_of(Some(it), scope))),
            None => Kind::Mixed,
        },
    }
}

/// Returns the kind of a truth value that these decide.
fn truth<'n>(parts: impl IntoIterator<Item = &'n Node>, scope: &Scope<'_>) -> Kind {
    match parts.into_iter().any(|part| has_open(part, scope)) {
        true => Kind::Derived,
        false => Kind::Plain,
    }
}

/// Returns the kind of a value that may be one of several: none of them is alone any more.
fn derived(common: Kind) -> Kind {
    match common {
        Kind::Open => Kind::Derived,
        kind => kind,
    }
}

/// Returns the kind that all of these have in common.
pub(crate) fn common_of(nodes: &[Node], scope: &Scope<'_>) -> Kind {
    Kind::common(nodes.iter().map(|node| kind_of(Some(node), scope)))
}

/// Returns the cells to which a cast leads; none for a plain type.
pub(crate) fn cast_cells(cast: &TypeCast, scope: &Scope<'_>) -> Option<Cells> {
    type_cells(cast.type_name.as_ref()?, scope)
}

/// Returns the cells that a type has; none for a plain type.
pub(crate) fn type_cells(name: &TypeName, scope: &Scope<'_>) -> Option<Cells> {
    let cells = Cells::by_type(last_name(&name.names), scope.catalog().default_key())?;
    match name.array_bounds.is_empty() {
        true => Some(cells),
        false => Some(cells.array()),
    }
}

/// Whether a type holds cells, or has cells in it.
pub(crate) fn is_encrypted(name: &TypeName, scope: &Scope<'_>) -> bool {
    type_cells(name, scope).is_some() || scope.catalog().is_mixed(last_name(&name.names))
}

fn of_cast(cast: &TypeCast, scope: &Scope<'_>) -> Kind {
    if let Some(cells) = cast_cells(cast, scope) {
        return Kind::Cell(cells);
    }
    let name = cast
        .type_name
        .as_ref()
        .map_or("", |name| last_name(&name.names));
    if let Some(cells) = cast_of_cells(cast, scope) {
        return Kind::Cell(cells);
    }
    let kind = kind_of(cast.arg.as_deref(), scope);
    match scope.catalog().is_mixed(name) {
        true => Kind::computed([kind, Kind::Unknown]),
        false if kind == Kind::Open => Kind::Open,
        false => Kind::computed([kind]),
    }
}

/// Returns the cells that a cast of cells to a plain type gives: those of that type.
pub(crate) fn cast_of_cells(cast: &TypeCast, scope: &Scope<'_>) -> Option<Cells> {
    let name = cast.type_name.as_ref()?;
    let Kind::Cell(cells) = kind_of(cast.arg.as_deref(), scope) else {
        return None;
    };
    let is_array = !name.array_bounds.is_empty() || last_name(&name.names).starts_with('_');
    let is_followed = cells.ty.is_some() && is_array == cells.is_array;
    match Cast::read(name, cells.is_array) {
        Ok(Cast::To(ty)) if is_followed && !scope.catalog().is_mixed(last_name(&name.names)) => {
            Some(Cells {
                is_array,
                ..cells.of(ty)
            })
        }
        _ => None,
    }
}

/// Whether a cast to a plain type has a literal, a parameter or NULL in it.
pub(crate) fn is_cast_of_open(cast: &TypeCast, scope: &Scope<'_>) -> bool {
    let Some(arg) = cast.arg.as_deref() else {
        return false;
    };
    let is_null = matches!(&arg.node, Some(NodeEnum::AConst(it)) if it.isnull);
    let is_plain = cast_cells(cast, scope).is_none() && cast_of_cells(cast, scope).is_none();
    is_plain && (is_null || has_open(arg, scope))
}

fn of_part(part: &pg_query::protobuf::AIndirection, scope: &Scope<'_>) -> Kind {
    let names = || part.indirection.iter().filter_map(name_of);
    // `(x).f` may be f(x).
    let function = names().any(|name| scope.catalog().is_encrypted_name(name));
    match kind_of(part.arg.as_deref(), scope) {
        Kind::Cell(cells) if cells.is_array && names().next().is_none() => {
            Kind::Cell(cells.element())
        }
        kind => Kind::computed([kind].into_iter().chain(function.then_some(Kind::Unknown))),
    }
}

fn of_operator(operator: &AExpr, scope: &Scope<'_>) -> Kind {
    let name = last_name(&operator.name);
    let operands = [&operator.lexpr, &operator.rexpr].map(|node| kind_of(node.as_deref(), scope));
    match AExprKind::try_from(operator.kind) {
        Ok(AExprKind::AexprNullif) => derived(Kind::common(operands)),
        Ok(AExprKind::AexprOp) if COMPUTING.contains(&name) => {
            let ty = computed_type(operator, &operands);
            match (derived(Kind::common(operands)), ty) {
                (Kind::Cell(cells), Some(ty)) => Kind::Cell(cells.of(ty)),
                (kind, _) => kind,
            }
        }
        Ok(AExprKind::AexprOp) if !compares(operator) => Kind::computed(operands),
        _ => truth(
            operator
                .lexpr
                .as_deref()
                .into_iter()
                .chain(operator.rexpr.as_deref()),
            scope,
        ),
    }
}

/// Whether an operator is one of PostgreSQL's that compare two values. Those of users may give
/// anything, and so may those before a value.
pub(super) fn compares(operator: &AExpr) -> bool {
    let is_builtin = match operator.name.as_slice() {
        [_] => true,
        [schema, ..] => matches!(name_of(schema), Some("pg_catalog" | "encdb")),
        [] => false,
    };
    is_builtin && operator.lexpr.is_some() && COMPARING.contains(&last_name(&operator.name))
}

/// Returns what a function gives that takes a time, or a number that is shown, and something plain
/// before it or behind it.
fn of_time(name: &str, time: &Cells) -> Option<Cells> {
    Some(time.of(match (name, time.ty?) {
        ("extract", _) => Type::Decimal,
        ("date_part", _) => Type::Float8,
        ("to_char", _) => Type::Text,
        (_, ty) if ty.is_number() => return None,
        ("date_trunc", Type::Timestamp) => Type::Timestamp,
        ("date_trunc", _) => Type::TimestampTz,
        ("timezone", Type::Timestamp) => Type::TimestampTz,
        ("timezone", _) => Type::Timestamp,
        _ => return None,
    }))
}

fn of_function(call: &FuncCall, scope: &Scope<'_>) -> Kind {
    let kinds: Vec<Kind> = call
        .args
        .iter()
        .map(|it| kind_of(Some(it), scope))
        .collect();
    let name = builtin_name(call);
    match (name, kinds.as_slice()) {
        ("count" | "regr_count", _) => return Kind::Plain,
        (_, [_, Kind::Cell(time)] | [Kind::Cell(time), _]) if of_time(name, time).is_some() => {
            return of_time(name, time).map_or(Kind::Unknown, Kind::Cell);
        }
        ("age", [_, _]) => {
            if let Kind::Cell(time) = common_of(&call.args, scope) {
                return Kind::Cell(time.of(Type::Interval));
            }
        }
        ("concat" | "concat_ws", all) => {
            let joined = common_of(&call.args, scope);
            if let (Kind::Cell(cells), true) = (joined, all.iter().all(may_be_text)) {
                return Kind::Cell(cells.of(Type::Text));
            }
        }
        // A column's name before PostgreSQL 16
        ("system_user", []) => return scope.bare(name),
        _ => {}
    }
    let order = common_of(&call.agg_order, scope);
    if let (Kind::Cell(cells), true) = (sorted(call, scope), has_one_fraction(call)) {
        return Kind::Cell(match name {
            "percentile_cont" => cells.of(Type::Float8),
            _ => cells,
        });
    }
    let within = call.agg_within_group && order != Kind::Plain;
    let unknown = || Kind::computed(kinds.iter().cloned().chain([Kind::Unknown, order]));
    if scope.catalog().is_mixed(last_name(&call.funcname)) || within {
        return unknown();
    }
    let first = match kinds.first() {
        Some(Kind::Cell(first)) => first,
        _ if is_own(call, scope) => {
            let encrypts = name.strip_suffix("_encrypt").unwrap_or(name);
            let given = Cells::by_type(encrypts, scope.catalog().default_key());
            return given.map_or_else(unknown, Kind::Cell);
        }
        _ => return Kind::computed(kinds),
    };
    of_cells(name, first, call, scope).unwrap_or_else(unknown)
}

/// Returns what a function gives whose first argument is cells; none if it is not known.
fn of_cells(name: &str, first: &Cells, call: &FuncCall, scope: &Scope<'_>) -> Option<Kind> {
    let to = |ty| Kind::Cell(first.of(ty));
    Some(match (name, first.ty) {
        (name, _) if SAME_TYPE.contains(&name) => Kind::Cell(first.clone()),
        ("array_agg", _) => Kind::Cell(first.array()),
        ("length" | "char_length" | "position" | "strpos", _) => to(Type::Int4),
        ("starts_with", _) => truth(&call.args, scope),
        ("sum", Some(Type::Int4)) => to(Type::Int8),
        ("round" | "trunc" | "ceil" | "ceiling" | "floor", Some(Type::Decimal)) => {
            to(Type::Decimal)
        }
        ("round" | "trunc" | "ceil" | "ceiling" | "floor", _) => to(Type::Float8),
        ("bool_and" | "bool_or" | "every", Some(Type::Bool)) => to(Type::Bool),
        (name, Some(ty)) if OF_PAIRS.contains(&name) && ty.is_number() => to(Type::Float8),
        (name, Some(ty)) if SPREADS.contains(&name) => to(match ty {
            Type::Float4 | Type::Float8 => Type::Float8,
            _ => Type::Decimal,
        }),
        ("sum" | "avg", Some(Type::Int4 | Type::Int8 | Type::Decimal)) => to(Type::Decimal),
        ("avg", Some(Type::Float4)) => to(Type::Float8),
        ("sum" | "avg", Some(ty)) => to(ty),
        _ => return None,
    })
}

/// Returns the kind of what an aggregate sorts, if it is one expression.
fn sorted(call: &FuncCall, scope: &Scope<'_>) -> Kind {
    match call.agg_order.as_slice() {
        [Node {
            node: Some(NodeEnum::SortBy(sort)),
        }] => kind_of(sort.node.as_deref(), scope),
        _ => Kind::Unknown,
    }
}

/// Whether an argument is encrypted text, or a literal that may become one.
fn may_be_text(kind: &Kind) -> bool {
    match kind {
        Kind::Cell(cells) => cells.ty == Some(Type::Text),
        _ => true,
    }
}

fn of_subquery(link: &SubLink, scope: &Scope<'_>) -> Kind {
    match link.sub_link_type() {
        SubLinkType::ExprSublink => derived(subquery_kind(link, scope)),
        SubLinkType::ArraySublink => match derived(subquery_kind(link, scope)) {
            Kind::Cell(cells) => Kind::Cell(cells.array()),
            kind => kind,
        },
        // A truth value
        _ => Kind::Derived,
    }
}

/// Returns the columns of a subquery.
pub(crate) fn subquery_output(link: &SubLink, scope: &Scope<'_>) -> Output {
    let query = link.subselect.as_deref();
    query.map_or_else(Output::default, |query| output_of(query, scope))
}

/// Returns what the only column of a subquery gives; several are one row.
pub(crate) fn subquery_kind(link: &SubLink, scope: &Scope<'_>) -> Kind {
    let output = subquery_output(link, scope);
    match (output.has_star, output.columns.as_slice()) {
        (false, [(_, kind)]) => kind.clone(),
        _ => Kind::computed([output.any()]),
    }
}

/// A star in a list of results.
pub(crate) enum Star<'n> {
    /// `*`
    All,
    /// `t.*`
    Table(&'n str),
    /// `(c).*`, the fields of a composite
    Fields(&'n Node),
}

/// Returns the star that a node is.
pub(crate) fn star(value: Option<&Node>) -> Option<Star<'_>> {
    let column = match value.and_then(|value| value.node.as_ref())? {
        NodeEnum::ColumnRef(column) => column,
        NodeEnum::AIndirection(part) if part.indirection.last().is_some_and(is_star) => {
            return part.arg.as_deref().map(Star::Fields);
        }
        _ => return None,
    };
    match column.fields.as_slice() {
        [one] if is_star(one) => Some(Star::All),
        [.., table, last] if is_star(last) => name_of(table).map(Star::Table),
        _ => None,
    }
}

fn is_star(node: &Node) -> bool {
    matches!(node.node, Some(NodeEnum::AStar(_)))
}
