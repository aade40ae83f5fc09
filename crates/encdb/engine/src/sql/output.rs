//! The columns that queries give, and the sources of rows in `FROM`: what is known of them before
//! anything is changed.

use pg_query::protobuf::{ColumnDef, JoinExpr, Node, RangeFunction, SelectStmt, WithClause};
use pg_query::NodeEnum;

use super::kind::{is_encrypted, kind_of, star, Star};
use super::naming::output_name;
use super::parts::has_open;
use super::scope::{last_name, name_of, Kind, Output, Scope, Source};
use crate::catalog::Columns;

/// Returns the columns that a query gives, or that a statement with `RETURNING` gives.
pub(crate) fn output_of(query: &Node, outer: &Scope<'_>) -> Output {
    let (with, relation, sources, clause) = match &query.node {
        Some(NodeEnum::SelectStmt(select)) => return output_of_select(select, outer),
        Some(NodeEnum::InsertStmt(it)) => {
            (&it.with_clause, &it.relation, &[][..], &it.returning_clause)
        }
        Some(NodeEnum::UpdateStmt(it)) => (
            &it.with_clause,
            &it.relation,
            &it.from_clause[..],
            &it.returning_clause,
        ),
        Some(NodeEnum::DeleteStmt(it)) => (
            &it.with_clause,
            &it.relation,
            &it.using_clause[..],
            &it.returning_clause,
        ),
        Some(NodeEnum::MergeStmt(it)) => (
            &it.with_clause,
            &it.relation,
            it.source_relation
                .as_deref()
                .map_or(&[][..], std::slice::from_ref),
            &it.returning_clause,
        ),
        _ => {
            return Output {
                rest: Kind::Mixed,
                has_star: true,
                ..Output::default()
            }
        }
    };
    let mut queries = outer.inner();
    add_queries(&mut queries, with.as_ref());
    let mut scope = queries.inner();
    let columns = relation
        .as_ref()
        .map_or_else(Columns::new, |it| scope.add_target(it));
    add_sources(&mut scope, sources);
    add_versions(&mut scope, &columns);
    clause
        .as_ref()
        .map_or_else(Output::default, |clause| targets(&clause.exprs, &scope))
}

/// Adds the rows of a table before and after a change, for `RETURNING`. A source of one of these
/// names takes it.
pub(super) fn add_versions(scope: &mut Scope<'_>, columns: &Columns) {
    for name in ["old", "new"] {
        if !scope.knows(name) {
            scope.add(name, Source::of_table(columns));
        }
    }
}

pub(super) fn output_of_select(select: &SelectStmt, outer: &Scope<'_>) -> Output {
    let mut queries = outer.inner();
    add_queries(&mut queries, select.with_clause.as_ref());
    if let (Some(left), Some(right)) = (&select.larg, &select.rarg) {
        let (left, right) = (
            output_of_select(left, &queries),
            output_of_select(right, &queries),
        );
        return both(left, right);
    }
    let mut scope = queries.inner();
    if !select.values_lists.is_empty() {
        return values(&select.values_lists, &scope);
    }
    add_sources(&mut scope, &select.from_clause);
    targets(&select.target_list, &scope)
}

/// Returns the columns of `VALUES`: each has the kind that its values have in common.
pub(super) fn values(rows: &[Node], scope: &Scope<'_>) -> Output {
    let mut output = Output::default();
    for row in rows {
        let Some(NodeEnum::List(row)) = &row.node else {
            continue;
        };
        for (at, value) in row.items.iter().enumerate() {
            output.has_star |= star(Some(value)).is_some();
            let kind = kind_of(Some(value), scope);
            match output.columns.get_mut(at) {
                Some((_, known)) => *known = Kind::common([known.clone(), kind]),
                None => output.columns.push((format!("column{}", at + 1), kind)),
            }
        }
    }
    output
}

/// Returns the columns of `UNION` and the like: named by the left side, each of the kind that both
/// sides have in common.
fn both(left: Output, right: Output) -> Output {
    let known = !left.has_star && !right.has_star && left.columns.len() == right.columns.len();
    if !known {
        return Output {
            rest: Kind::computed([left.any(), right.any()]),
            has_star: true,
            columns: Vec::new(),
        };
    }
    let pairs = left.columns.into_iter().zip(right.columns);
    let columns = pairs.map(|((name, left), (_, right))| {
        // A literal that is sealed has its type, and the server names the column by that.
        let name = match left.is_open() && right.is_encrypted() {
            true => String::new(),
            false => name,
        };
        (name, Kind::common([left, right]))
    });
    Output {
        columns: columns.collect(),
        ..Output::default()
    }
}

/// Returns the columns of a list of results.
fn targets(list: &[Node], scope: &Scope<'_>) -> Output {
    let mut output = Output::default();
    for target in list {
        let Some(NodeEnum::ResTarget(target)) = &target.node else {
            continue;
        };
        let value = target.val.as_deref();
        if let Some(all) = star(value).map(|star| all_of(star, scope)) {
            output.columns.extend(all.columns);
            output.rest = Kind::either([output.rest, all.rest]);
            output.has_star = true;
            continue;
        }
        let name = output_name(&target.name, value, scope);
        let name = name.unwrap_or_default();
        output.columns.push((name, kind_of(value, scope)));
    }
    output
}

/// Returns the columns that a star gives.
pub(super) fn all_of(star: Star<'_>, scope: &Scope<'_>) -> Output {
    match star {
        Star::All => scope.all(None),
        Star::Table(table) => scope.all(Some(table)),
        // The fields of a composite
        Star::Fields(of) => Output {
            rest: match has_open(of, scope) {
                true => Kind::Mixed,
                false => Kind::Unknown,
            },
            has_star: true,
            columns: Vec::new(),
        },
    }
}

/// The most times that queries of `WITH RECURSIVE` are gone through.
const MAX_PASSES: usize = 64;

/// Adds the queries of `WITH`. Those of `RECURSIVE` see each other, so they are gone through until
/// nothing changes.
pub(super) fn add_queries(scope: &mut Scope<'_>, with: Option<&WithClause>) {
    let Some(with) = with else {
        return;
    };
    let names = || with.ctes.iter().filter_map(query_name);
    if !with.recursive {
        with.ctes.iter().for_each(|query| add_query(scope, query));
        return;
    }
    let all = |rest: Kind| Output {
        rest,
        has_star: true,
        ..Output::default()
    };
    names().for_each(|name| scope.add_query(name, all(Kind::Plain)));
    for _ in 0..MAX_PASSES {
        let known = |scope: &Scope<'_>| -> Vec<_> {
            names().map(|name| scope.own_query(name).cloned()).collect()
        };
        let before = known(scope);
        with.ctes.iter().for_each(|query| add_query(scope, query));
        if known(scope) == before {
            return;
        }
    }
    names().for_each(|name| scope.add_query(name, all(Kind::Mixed)));
}

fn query_name(query: &Node) -> Option<&str> {
    match &query.node {
        Some(NodeEnum::CommonTableExpr(query)) => Some(&query.ctename),
        _ => None,
    }
}

pub(super) fn add_query(scope: &mut Scope<'_>, query: &Node) {
    let Some(NodeEnum::CommonTableExpr(query)) = &query.node else {
        return;
    };
    let Some(inner) = query.ctequery.as_deref() else {
        return;
    };
    let output = output_of(inner, scope).renamed(&query.aliascolnames);
    scope.add_query(&query.ctename, output);
}

/// Adds the tables, subqueries and functions of `FROM`.
pub(super) fn add_sources(scope: &mut Scope<'_>, sources: &[Node]) {
    for source in sources {
        add_source(scope, source);
    }
}

pub(super) fn add_source(scope: &mut Scope<'_>, source: &Node) {
    match &source.node {
        Some(NodeEnum::JoinExpr(join)) => {
            let first = scope.len();
            for side in [&join.larg, &join.rarg].into_iter().flatten() {
                add_source(scope, side);
            }
            end_join(scope, join, first);
        }
        Some(NodeEnum::RangeTableSample(sample)) => {
            if let Some(relation) = sample.relation.as_deref() {
                add_source(scope, relation);
            }
        }
        Some(NodeEnum::RangeVar(relation)) => scope.add_relation(relation),
        _ => {
            let (name, source) = source_of(source, scope);
            scope.add(&name, source);
        }
    }
}

/// Adds the names of a join. Its alias hides those of its sources.
pub(super) fn end_join(scope: &mut Scope<'_>, join: &JoinExpr, first: usize) {
    let all = scope.joined(first).all(None);
    if let Some(alias) = &join.alias {
        scope.hide(first, &alias.aliasname, all.source(&alias.colnames));
    } else if let Some(alias) = &join.join_using_alias {
        scope.add(&alias.aliasname, all.source(&alias.colnames));
    }
}

/// Returns the source that a subquery or a function is, with its name.
pub(super) fn source_of(node: &Node, scope: &Scope<'_>) -> (String, Source) {
    match &node.node {
        Some(NodeEnum::RangeSubselect(select)) => {
            let output = select
                .subquery
                .as_deref()
                .map_or_else(Output::default, |it| {
                    output_of(it, seen_by(select.lateral, scope))
                });
            let alias = select.alias.as_ref();
            let names = alias.map_or(&[][..], |alias| &alias.colnames);
            let name = alias.map_or("", |alias| &alias.aliasname);
            (name.to_owned(), output.source(names))
        }
        Some(NodeEnum::RangeFunction(function)) => function_source(function, scope),
        _ => (String::new(), Source::of_any(Kind::Mixed)),
    }
}

/// Returns the scope that a subquery of `FROM` sees: with `LATERAL`, what is before it, too.
pub(super) fn seen_by<'s, 'p>(lateral: bool, scope: &'s Scope<'p>) -> &'s Scope<'p> {
    match lateral {
        true => scope,
        false => scope.outside(),
    }
}

/// Returns the source that functions are. Their columns are computed from their arguments, and
/// those of a definition have the type that it gives.
fn function_source(function: &RangeFunction, scope: &Scope<'_>) -> (String, Source) {
    let called = function.functions.iter().map(|item| match &item.node {
        Some(NodeEnum::List(list)) => kind_of(list.items.first(), scope),
        _ => kind_of(Some(item), scope),
    });
    let kind = Kind::computed(called).of_column();
    let mut source = Source::of_any(kind.clone());
    for column in definitions(function) {
        let kind = match column.type_name.as_ref().map(|ty| is_encrypted(ty, scope)) {
            Some(false) => kind.clone(),
            _ => Kind::either([kind.clone(), Kind::Unknown]),
        };
        source.add(&column.colname, kind);
    }
    if let Some(alias) = &function.alias {
        // Other names for columns of a definition are in its order.
        let any = source.columns.values().cloned().chain([kind]);
        let kind = Kind::either(any);
        for name in alias.colnames.iter().filter_map(name_of) {
            source.add(name, kind.clone());
        }
        return (alias.aliasname.clone(), source);
    }
    let name = function.functions.first().and_then(called_name);
    (name.unwrap_or_default().to_owned(), source)
}

/// Returns the name of a function of `FROM`.
fn called_name(item: &Node) -> Option<&str> {
    match &item.node {
        Some(NodeEnum::List(list)) => list.items.first().and_then(called_name),
        Some(NodeEnum::FuncCall(call)) => Some(last_name(&call.funcname)),
        _ => None,
    }
}

/// Returns the definitions of columns that functions of `FROM` have, all together or each its own.
pub(super) fn definitions(function: &RangeFunction) -> Vec<&ColumnDef> {
    let mut all: Vec<&Node> = function.coldeflist.iter().collect();
    for item in &function.functions {
        let Some(NodeEnum::List(item)) = &item.node else {
            continue;
        };
        match item.items.get(1).and_then(|it| it.node.as_ref()) {
            Some(NodeEnum::List(own)) => all.extend(&own.items),
            _ => all.extend(item.items.get(1)),
        }
    }
    let columns = all.into_iter().filter_map(|node| match &node.node {
        Some(NodeEnum::ColumnDef(column)) => Some(column.as_ref()),
        _ => None,
    });
    columns.collect()
}
