//! Queries: what their parts meet.

use pg_query::protobuf::{
    a_const, JoinExpr, Node, RangeFunction, SelectStmt, SetOperation, WindowDef, WithClause,
};
use pg_query::NodeEnum;
use pgseal_value::Type;

use super::expression::Met;
use super::interval::is_interval;
use super::kind::{is_encrypted, kind_of, star};
use super::output::{
    add_queries, add_query, all_of, definitions, end_join, output_of_select, seen_by, source_of,
    values,
};
use super::parts::{has_open, is_open};
use super::scope::{name_of, Kind, Scope};
use super::Rewriter;
use crate::refusal::Refusal;

impl Rewriter<'_> {
    /// Goes through a query. `wanted` has the cells that its columns meet, by position.
    pub(super) fn query(
        &mut self,
        query: &mut Node,
        wanted: &[Met],
        outer: &Scope<'_>,
    ) -> Result<(), Refusal> {
        self.loosely(|this| this.query_alone(query, wanted, outer))
    }

    fn query_alone(
        &mut self,
        query: &mut Node,
        wanted: &[Met],
        outer: &Scope<'_>,
    ) -> Result<(), Refusal> {
        match &mut query.node {
            Some(NodeEnum::SelectStmt(select)) => {
                let lists = [
                    &select.group_clause,
                    &select.sort_clause,
                    &select.distinct_clause,
                ];
                let groups = lists.iter().any(|list| !list.is_empty());
                self.grouping(groups, |this| this.select(select, wanted, outer))
            }
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
        let mut queries = outer.inner();
        self.with(select.with_clause.as_mut(), &mut queries)?;
        if select.op() != SetOperation::SetopNone {
            return self.union(select, wanted, &queries);
        }
        let mut scope = queries.inner();
        self.sources(&mut select.from_clause, &mut scope)?;
        self.values(&mut select.values_lists, wanted, &scope)?;
        // The only result may ask whether there is a row.
        match select.target_list.len() {
            1 => self.as_mark(|this| this.targets(&mut select.target_list, wanted, &scope))?,
            _ => self.targets(&mut select.target_list, wanted, &scope)?,
        }
        self.optional_condition(&mut select.where_clause, &scope)?;
        self.ordered(&mut select.group_clause, &scope)?;
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
        self.ordered(&mut select.sort_clause, scope)?;
        let counts = [&mut select.limit_count, &mut select.limit_offset];
        let counts = counts.into_iter().flatten().map(Box::as_mut);
        self.anchored(|this| this.walk_all(counts, scope))
    }

    /// Goes through what rows are ordered or grouped by. A number is the place of a column.
    fn ordered(&mut self, nodes: &mut [Node], scope: &Scope<'_>) -> Result<(), Refusal> {
        let is_place = |node: &Node| match &node.node {
            Some(NodeEnum::SortBy(by)) => by.node.as_deref().is_some_and(is_open),
            _ => is_open(node),
        };
        for node in nodes {
            match is_place(node) {
                true => self.anchored(|this| this.walk(node, scope))?,
                false => self.walk(node, scope)?,
            }
        }
        Ok(())
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
            None => match output.any() {
                Kind::Plain | Kind::Open | Kind::Derived if all_plain(wanted) => Vec::new(),
                _ => vec![Met::Unknown; MAX_COLUMNS],
            },
            Some(kinds) => {
                let met = |(at, kind)| met_by(wanted.get(at), kind);
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
        if output.has_star {
            return Err(Refusal::Undecided("a star in VALUES"));
        }
        let met = |(at, (_, kind)): (usize, &(String, Kind))| met_by(wanted.get(at), kind);
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
            true => Met::Nothing,
            false => Met::Unknown,
        };
        for value in behind.iter_mut().filter_map(value_of) {
            match star(Some(value)).map(|star| all_of(star, scope).any()) {
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
                false => wanted.get(at).unwrap_or(&Met::Nothing),
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

    /// Goes through the subqueries, functions and conditions of `FROM`, and adds each to the scope
    /// behind those before it.
    pub(super) fn sources(
        &mut self,
        sources: &mut [Node],
        scope: &mut Scope<'_>,
    ) -> Result<(), Refusal> {
        sources
            .iter_mut()
            .try_for_each(|source| self.source(source, scope))
    }

    pub(super) fn source(
        &mut self,
        source: &mut Node,
        scope: &mut Scope<'_>,
    ) -> Result<(), Refusal> {
        let (name, known) = match &mut source.node {
            None => return Ok(()),
            Some(NodeEnum::RangeVar(relation)) => {
                scope.add_relation(relation);
                return Ok(());
            }
            Some(NodeEnum::JoinExpr(join)) => return self.join(join, scope),
            Some(NodeEnum::RangeTableSample(sample)) => {
                if let Some(relation) = sample.relation.as_deref_mut() {
                    self.source(relation, scope)?;
                }
                let counts = sample
                    .args
                    .iter_mut()
                    .chain(sample.repeatable.as_deref_mut());
                return self.anchored(|this| this.walk_all(counts, scope));
            }
            Some(_) => source_of(source, scope),
        };
        match &mut source.node {
            Some(NodeEnum::RangeSubselect(select)) => {
                if let Some(query) = select.subquery.as_deref_mut() {
                    self.query(query, &[], seen_by(select.lateral, scope))?;
                }
            }
            Some(NodeEnum::RangeFunction(function)) => self.called(function, scope)?,
            _ => return Err(Refusal::Undecided("a source of rows of another kind")),
        }
        scope.add(&name, known);
        Ok(())
    }

    /// Goes through a join, whose condition sees its own two sides.
    fn join(&mut self, join: &mut JoinExpr, scope: &mut Scope<'_>) -> Result<(), Refusal> {
        let first = scope.len();
        for side in [&mut join.larg, &mut join.rarg].into_iter().flatten() {
            self.source(side, scope)?;
        }
        let both = scope.joined(first);
        let names = join.using_clause.iter().filter_map(name_of);
        let mut names = names.map(Some).chain(join.is_natural.then_some(None));
        if names.any(|name| both.mixes(name)) {
            return Err(Refusal::Expression);
        }
        self.optional_condition(&mut join.quals, &both)?;
        end_join(scope, join, first);
        Ok(())
    }

    /// Goes through the functions of `FROM`. Their arguments may be what columns of a definition
    /// get.
    fn called(&mut self, function: &mut RangeFunction, scope: &Scope<'_>) -> Result<(), Refusal> {
        let gives_cells = definitions(function).into_iter().any(|column| {
            let ty = column.type_name.as_ref();
            ty.is_none_or(|ty| is_encrypted(ty, scope))
        });
        for item in &mut function.functions {
            // A function, then the definition of its columns
            let call = match &mut item.node {
                Some(NodeEnum::List(list)) => list.items.get_mut(..1).unwrap_or_default(),
                _ => std::slice::from_mut(item),
            };
            match gives_cells {
                true => self.nothing_open(call, "an argument of a function", scope)?,
                false => self.walk_all(call, scope)?,
            }
        }
        Ok(())
    }

    /// Goes through a window.
    pub(super) fn window(
        &mut self,
        window: &mut WindowDef,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        // What orders the rows is looked at as it came: literals in it are sealed then.
        let offsets = [&window.start_offset, &window.end_offset];
        let mets = offsets.map(|offset| met_by_distance(window, offset.as_deref(), scope));
        self.walk_all(&mut window.partition_clause, scope)?;
        self.walk_all(&mut window.order_clause, scope)?;
        let offsets = [&mut window.start_offset, &mut window.end_offset];
        for (offset, met) in offsets.into_iter().zip(&mets) {
            if let Some(offset) = offset {
                self.meet(offset, met, scope)?;
            }
        }
        Ok(())
    }
}

/// `FRAMEOPTION_RANGE` of PostgreSQL's parsenodes.h.
const RANGE: i32 = 0x2;

/// Returns what a distance of a window's frame meets. One of RANGE is added to the value that
/// orders the rows, and an interval is plain beside a time. All others count rows or groups.
fn met_by_distance(window: &WindowDef, distance: Option<&Node>, scope: &Scope<'_>) -> Met {
    let Some(distance) = distance.filter(|_| window.frame_options & RANGE != 0) else {
        return Met::Plain;
    };
    let [order] = &window.order_clause[..] else {
        // The window that it names has the order; of several PostgreSQL takes equal ones for one.
        let is_plain = window.refname.is_empty()
            && !window
                .order_clause
                .iter()
                .any(|order| kind_of_order(order, scope).is_encrypted());
        return if is_plain { Met::Plain } else { Met::Unknown };
    };
    let mut cells = match kind_of_order(order, scope) {
        Kind::Cell(cells) if !has_open(order, scope) => cells,
        kind if kind.is_encrypted() => return Met::Unknown,
        _ => return Met::Plain,
    };
    match cells.ty {
        Some(Type::Date | Type::Timestamp | Type::TimestampTz) => match may_be_interval(distance) {
            true => Met::Plain,
            false => Met::Unknown,
        },
        Some(Type::Int4 | Type::Int8 | Type::Float8 | Type::Decimal) => Met::Cells(cells),
        Some(Type::Float4) => {
            cells.ty = Some(Type::Float8);
            Met::Cells(cells)
        }
        _ => Met::Unknown,
    }
}

fn kind_of_order(order: &Node, scope: &Scope<'_>) -> Kind {
    match &order.node {
        Some(NodeEnum::SortBy(order)) => kind_of(order.node.as_deref(), scope),
        _ => Kind::Unknown,
    }
}

/// Whether the server may take an expression for an interval: it is one, or a text in quotes or a
/// parameter, whose type is what it meets.
fn may_be_interval(node: &Node) -> bool {
    match &node.node {
        Some(NodeEnum::ParamRef(_)) => true,
        Some(NodeEnum::AConst(literal)) => {
            matches!(literal.val, None | Some(a_const::Val::Sval(_)))
        }
        _ => is_interval(node),
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
pub(super) const MAX_COLUMNS: usize = 1664;

fn all_plain(wanted: &[Met]) -> bool {
    wanted.iter().all(Met::is_plain)
}

/// Returns what a column's values meet: what is wanted of them, or each other.
fn met_by(wanted: Option<&Met>, kind: &Kind) -> Met {
    match wanted {
        Some(met) if !met.is_plain() => met.clone(),
        Some(Met::Plain) if !kind.is_encrypted() => Met::Plain,
        _ => Met::of(kind),
    }
}
