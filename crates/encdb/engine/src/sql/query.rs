//! Queries: what their columns are, and what their parts meet.

use pg_query::protobuf::{
    Node, RangeFunction, RangeVar, ReturningClause, SelectStmt, SetOperation, WindowDef, WithClause,
};
use pg_query::NodeEnum;

use super::expression::Met;
use super::kind::{kind_of, output_name, star};
use super::scope::{name_of, Kind, Output, Scope, Source};
use super::Rewriter;
use crate::refusal::Refusal;

/// Returns the columns that a query gives, or that a statement with `RETURNING` gives.
pub(crate) fn output_of(query: &Node, outer: &Scope<'_>) -> Output {
    let none = &[][..];
    match &query.node {
        Some(NodeEnum::SelectStmt(select)) => output_of_select(select, outer),
        Some(NodeEnum::InsertStmt(it)) => returned(
            it.relation.as_ref(),
            none,
            it.returning_clause.as_ref(),
            outer,
        ),
        Some(NodeEnum::UpdateStmt(it)) => {
            let clause = it.returning_clause.as_ref();
            returned(it.relation.as_ref(), &it.from_clause, clause, outer)
        }
        Some(NodeEnum::DeleteStmt(it)) => {
            let clause = it.returning_clause.as_ref();
            returned(it.relation.as_ref(), &it.using_clause, clause, outer)
        }
        Some(NodeEnum::MergeStmt(it)) => {
            let source = it
                .source_relation
                .as_deref()
                .map_or(none, std::slice::from_ref);
            returned(
                it.relation.as_ref(),
                source,
                it.returning_clause.as_ref(),
                outer,
            )
        }
        _ => Output {
            rest: Kind::Unknown,
            has_star: true,
            ..Output::default()
        },
    }
}

fn returned(
    relation: Option<&RangeVar>,
    sources: &[Node],
    clause: Option<&ReturningClause>,
    outer: &Scope<'_>,
) -> Output {
    let mut scope = outer.inner();
    if let Some(relation) = relation {
        add_changed(&mut scope, relation);
    }
    add_sources(&mut scope, sources);
    clause.map_or_else(Output::default, |clause| targets(&clause.exprs, &scope))
}

/// Adds a table that is changed, under its name and those of its rows before and after.
pub(super) fn add_changed(scope: &mut Scope<'_>, relation: &RangeVar) -> crate::catalog::Columns {
    let columns = scope.add_target(relation);
    for name in ["old", "new"] {
        scope.add(name, Source::of_table(&columns));
    }
    columns
}

fn output_of_select(select: &SelectStmt, outer: &Scope<'_>) -> Output {
    let mut scope = outer.inner();
    add_queries(&mut scope, select.with_clause.as_ref());
    if let (Some(left), Some(right)) = (&select.larg, &select.rarg) {
        let (left, right) = (
            output_of_select(left, &scope),
            output_of_select(right, &scope),
        );
        return both(left, right);
    }
    if !select.values_lists.is_empty() {
        return values(&select.values_lists, &scope);
    }
    add_sources(&mut scope, &select.from_clause);
    targets(&select.target_list, &scope)
}

/// Returns the columns of `VALUES`: each has the kind that its values have in common.
fn values(rows: &[Node], scope: &Scope<'_>) -> Output {
    let mut output = Output::default();
    for row in rows {
        let Some(NodeEnum::List(row)) = &row.node else {
            continue;
        };
        for (at, value) in row.items.iter().enumerate() {
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
            rest: Kind::computed([left.common(), right.common()]),
            has_star: true,
            columns: Vec::new(),
        };
    }
    let pairs = left.columns.into_iter().zip(right.columns);
    let columns = pairs.map(|((name, left), (_, right))| (name, Kind::common([left, right])));
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
        if let Some(table) = star(value) {
            let all = scope.all(table);
            output.columns.extend(all.columns);
            output.rest = Kind::common([output.rest, all.rest]);
            output.has_star = true;
            continue;
        }
        let name = output_name(&target.name, value).to_owned();
        output.columns.push((name, kind_of(value, scope)));
    }
    output
}

/// Adds the queries of `WITH`. Those of `RECURSIVE` see each other, so they are gone through twice.
pub(super) fn add_queries(scope: &mut Scope<'_>, with: Option<&WithClause>) {
    let Some(with) = with else {
        return;
    };
    let times = if with.recursive { 2 } else { 1 };
    for _ in 0..times {
        with.ctes.iter().for_each(|query| add_query(scope, query));
    }
}

fn add_query(scope: &mut Scope<'_>, query: &Node) {
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
        Some(NodeEnum::RangeVar(relation)) => scope.add_relation(relation),
        Some(NodeEnum::RangeSubselect(select)) => {
            let Some(query) = select.subquery.as_deref() else {
                return;
            };
            let output = output_of(query, scope);
            let alias = select.alias.as_ref();
            let names = alias.map_or(&[][..], |alias| &alias.colnames);
            let name = alias.map_or("", |alias| &alias.aliasname);
            scope.add(name, output.source(names));
        }
        Some(NodeEnum::JoinExpr(join)) => {
            for side in [&join.larg, &join.rarg].into_iter().flatten() {
                add_source(scope, side);
            }
            for alias in [&join.alias, &join.join_using_alias].into_iter().flatten() {
                let all = scope.all(None);
                scope.add(&alias.aliasname, all.source(&alias.colnames));
            }
        }
        Some(NodeEnum::RangeFunction(function)) => add_function(scope, function),
        Some(NodeEnum::RangeTableSample(sample)) => {
            if let Some(relation) = sample.relation.as_deref() {
                add_source(scope, relation);
            }
        }
        _ => scope.add("", Source::of_any(Kind::Unknown)),
    }
}

/// Adds a function: its columns are computed from its arguments. Those of a definition may be
/// encrypted.
fn add_function(scope: &mut Scope<'_>, function: &RangeFunction) {
    let kinds = function.functions.iter().map(|item| match &item.node {
        Some(NodeEnum::List(list)) => kind_of(list.items.first(), scope),
        _ => kind_of(Some(item), scope),
    });
    let kind = match function.coldeflist.is_empty() {
        true => Kind::computed(kinds),
        false => Kind::Unknown,
    };
    let alias = function.alias.as_ref();
    scope.add(
        alias.map_or("", |alias| &alias.aliasname),
        Source::of_any(kind),
    );
}

impl Rewriter<'_> {
    /// Goes through a query. `wanted` has the cells that its columns meet, by position.
    pub(super) fn query(
        &mut self,
        query: &mut Node,
        wanted: &[Met],
        outer: &Scope<'_>,
    ) -> Result<(), Refusal> {
        match &mut query.node {
            Some(NodeEnum::SelectStmt(select)) => self.select(select, wanted, outer),
            Some(NodeEnum::InsertStmt(insert)) => self.insert(insert, outer),
            Some(NodeEnum::UpdateStmt(update)) => self.update(update, outer),
            Some(NodeEnum::DeleteStmt(delete)) => self.delete(delete, outer),
            Some(NodeEnum::MergeStmt(merge)) => self.merge(merge, outer),
            Some(_) => Err(Refusal::Undecided("a query of another kind")),
            None => Ok(()),
        }
    }

    fn select(
        &mut self,
        select: &mut SelectStmt,
        wanted: &[Met],
        outer: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let mut scope = outer.inner();
        self.with(select.with_clause.as_mut(), &mut scope)?;
        if select.op() != SetOperation::SetopNone {
            return self.union(select, wanted, &scope);
        }
        add_sources(&mut scope, &select.from_clause);
        self.sources(&mut select.from_clause, &scope)?;
        self.values(&mut select.values_lists, wanted, &scope)?;
        self.targets(&mut select.target_list, wanted, &scope)?;
        self.optional_condition(&mut select.where_clause, &scope)?;
        self.walk_all(&mut select.group_clause, &scope)?;
        self.optional_condition(&mut select.having_clause, &scope)?;
        self.walk_all(&mut select.distinct_clause, &scope)?;
        for window in &mut select.window_clause {
            if let Some(NodeEnum::WindowDef(window)) = &mut window.node {
                self.window(window, &scope)?;
            }
        }
        self.tail(select, &scope)
    }

    /// Goes through what follows a query, a union too.
    fn tail(&mut self, select: &mut SelectStmt, scope: &Scope<'_>) -> Result<(), Refusal> {
        self.walk_all(&mut select.sort_clause, scope)?;
        self.walk_all(select.limit_count.as_deref_mut(), scope)?;
        self.walk_all(select.limit_offset.as_deref_mut(), scope)
    }

    fn union(
        &mut self,
        select: &mut SelectStmt,
        wanted: &[Met],
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let output = output_of_select(select, scope);
        let met: Vec<Met> = match output.kinds() {
            // Where the columns are is the server's knowledge.
            None => match output.common() {
                Kind::Plain | Kind::Open | Kind::Derived if all_plain(wanted) => Vec::new(),
                _ => vec![Met::Unknown; MAX_COLUMNS],
            },
            Some(kinds) => {
                let met = |(at, kind)| match wanted.get(at) {
                    Some(Met::Plain) | None => Met::of(kind),
                    Some(met) => met.clone(),
                };
                kinds.iter().enumerate().map(met).collect()
            }
        };
        for side in [&mut select.larg, &mut select.rarg].into_iter().flatten() {
            self.select(side, &met, scope)?;
        }
        self.tail(select, scope)
    }

    /// Goes through the rows of `VALUES`, column by column: values of one column meet each other.
    fn values(
        &mut self,
        rows: &mut [Node],
        wanted: &[Met],
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let output = values(rows, scope);
        let met = |(at, (_, kind)): (usize, &(String, Kind))| match wanted.get(at) {
            Some(Met::Plain) | None => Met::of(kind),
            Some(met) => met.clone(),
        };
        let met: Vec<Met> = output.columns.iter().enumerate().map(met).collect();
        for row in rows {
            if let Some(NodeEnum::List(row)) = &mut row.node {
                self.columns(row.items.iter_mut(), &met, scope)?;
            }
        }
        Ok(())
    }

    /// Goes through a list of results. Behind a `*`, only the server knows which column is which.
    fn targets(
        &mut self,
        list: &mut [Node],
        wanted: &[Met],
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let is_star = |target: &Node| match &target.node {
            Some(NodeEnum::ResTarget(target)) => star(target.val.as_deref()).is_some(),
            _ => false,
        };
        let first = list.iter().position(is_star).unwrap_or(list.len());
        let (known, behind) = list.split_at_mut(first);
        self.columns(known.iter_mut().filter_map(value_of), wanted, scope)?;
        let met = match all_plain(wanted) {
            true => Met::Plain,
            false => Met::Unknown,
        };
        for value in behind.iter_mut().filter_map(value_of) {
            match star(Some(value)).map(|table| scope.all(table).common()) {
                None => self.meet(value, &met, scope)?,
                Some(Kind::Cell(_) | Kind::Plain) => {}
                Some(_) if all_plain(wanted) => {}
                Some(_) => return Err(Refusal::Expression),
            }
        }
        Ok(())
    }

    /// Goes through the columns of one row.
    pub(super) fn columns<'n>(
        &mut self,
        values: impl Iterator<Item = &'n mut Node>,
        wanted: &[Met],
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let values: Vec<&mut Node> = values.collect();
        let shifts = values.iter().any(|value| star(Some(value)).is_some());
        for (at, value) in values.into_iter().enumerate() {
            let met = match shifts && !all_plain(wanted) {
                true => &Met::Unknown,
                false => wanted.get(at).unwrap_or(&Met::Plain),
            };
            self.meet(value, met, scope)?;
        }
        Ok(())
    }

    /// Goes through the queries of `WITH` and adds them to the scope.
    pub(super) fn with(
        &mut self,
        with: Option<&mut WithClause>,
        scope: &mut Scope<'_>,
    ) -> Result<(), Refusal> {
        let Some(with) = with else {
            return Ok(());
        };
        if with.recursive {
            add_queries(scope, Some(with));
        }
        for query in &mut with.ctes {
            if let Some(NodeEnum::CommonTableExpr(query)) = &mut query.node {
                if query.search_clause.is_some() || query.cycle_clause.is_some() {
                    return Err(Refusal::Undecided("SEARCH or CYCLE"));
                }
                if let Some(inner) = query.ctequery.as_deref_mut() {
                    self.query(inner, &[], scope)?;
                }
            }
            // Only now: a query that is not recursive does not see itself.
            add_query(scope, query);
        }
        Ok(())
    }

    /// Goes through the subqueries, functions and conditions of `FROM`.
    pub(super) fn sources(
        &mut self,
        sources: &mut [Node],
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        sources
            .iter_mut()
            .try_for_each(|source| self.source(source, scope))
    }

    pub(super) fn source(&mut self, source: &mut Node, scope: &Scope<'_>) -> Result<(), Refusal> {
        match &mut source.node {
            None | Some(NodeEnum::RangeVar(_)) => Ok(()),
            Some(NodeEnum::RangeSubselect(select)) => match select.subquery.as_deref_mut() {
                Some(query) => self.query(query, &[], scope),
                None => Ok(()),
            },
            Some(NodeEnum::JoinExpr(join)) => {
                for side in [&mut join.larg, &mut join.rarg].into_iter().flatten() {
                    self.source(side, scope)?;
                }
                let names = join.using_clause.iter().filter_map(name_of);
                match names
                    .map(Some)
                    .chain(join.is_natural.then_some(None))
                    .any(|it| scope.mixes(it))
                {
                    true => Err(Refusal::Expression),
                    false => self.optional_condition(&mut join.quals, scope),
                }
            }
            Some(NodeEnum::RangeFunction(function)) => {
                for item in &mut function.functions {
                    // A function, then the definition of its columns
                    match &mut item.node {
                        Some(NodeEnum::List(list)) => {
                            self.walk_all(list.items.first_mut(), scope)?;
                        }
                        _ => self.walk(item, scope)?,
                    }
                }
                Ok(())
            }
            Some(NodeEnum::RangeTableSample(sample)) => {
                if let Some(relation) = sample.relation.as_deref_mut() {
                    self.source(relation, scope)?;
                }
                self.walk_all(&mut sample.args, scope)?;
                self.walk_all(sample.repeatable.as_deref_mut(), scope)
            }
            Some(_) => Err(Refusal::Undecided("a source of rows of another kind")),
        }
    }

    /// Goes through a window.
    pub(super) fn window(
        &mut self,
        window: &mut WindowDef,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        self.walk_all(&mut window.partition_clause, scope)?;
        self.walk_all(&mut window.order_clause, scope)?;
        self.walk_all(window.start_offset.as_deref_mut(), scope)?;
        self.walk_all(window.end_offset.as_deref_mut(), scope)
    }
}

/// Returns the expression of a result or of an assignment.
pub(super) fn value_of(target: &mut Node) -> Option<&mut Node> {
    match &mut target.node {
        Some(NodeEnum::ResTarget(target)) => target.val.as_deref_mut(),
        _ => None,
    }
}

/// The most columns that a query has in PostgreSQL.
const MAX_COLUMNS: usize = 1664;

fn all_plain(wanted: &[Met]) -> bool {
    wanted.iter().all(|met| matches!(met, Met::Plain))
}
